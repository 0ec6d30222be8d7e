#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# fs-prepare pack --codec auto: what it makes of each kind of data, within --decode-budget; the bytes do not depend on
# --jobs; everything can be read and restored.
. "$(dirname "$0")/../functions.sh"

ok() { echo "ok - $*"; }
"$python" "$root/bench/kinds.py" "$work/kinds" 1 json csv notes text source level32 count16 field32
"$python" "$root/bench/kinds.py" "$work/kinds" 0.1 png jpeg
of() { "$bin/fs-prepare" info --json "$1" | "$python" -c "import json, sys; print(json.load(sys.stdin)['$2'])"; }
size() { # KIND OPTION...: its stored bytes
  local kind=$1
  shift
  pack "$work/kinds/$kind" "$work/$kind.fs" --force "$@"
  of "$work/$kind.fs" stored_bytes
}
smaller() { # WHAT TENTHS LARGE SMALL: so many tenths of SMALL are at most LARGE
  [ $(($2 * $4)) -le $((10 * $3)) ] || fail "$1: $4 bytes are not $2 tenths smaller than $3"
  ok "$1: $3 to $4 bytes"
}
for kind in json csv notes; do
  smaller "$kind, to lz4hc:9" 15 "$(size $kind --codec lz4hc:9)" "$(size $kind)"
  [ $kind != notes ] || continue # lz4 with a dictionary comes near to zstd
  [ "$(of "$work/$kind.fs" zstd_files)" -gt 0 ] || fail "$kind is not in zstd"
  all=$(size $kind) bound=$(size $kind --decode-budget 2GB/s)
  equal "$kind: zstd decodes 2 GB/s" 0 "$(of "$work/$kind.fs" zstd_files)"
  [ "$bound" -gt "$all" ] || fail "$kind: the bound changes nothing"
  says=$(sed -nE 's/.*\*\.(json|csv) .* lz4hc.* zstd:.*: ([0-9]+)% smaller, [01]\.[0-9]+ GB\/s$/\2/p' "$work/pack.log")
  really=$((100 - 100 * all / bound))
  if [ -z "$says" ] || [ $((says - really)) -gt 10 ] || [ $((really - says)) -gt 10 ]; then
    fail "$kind: zstd is $really% smaller: $(cat "$work/pack.log")"
  fi
done
while read -r kind tenths; do
  plain=$(of "$work/$kind.fs" plain_bytes 2>/dev/null || size "$kind" --codec raw)
  smaller "$kind" "$tenths" "$plain" "$(size "$kind")"
done <<'KINDS'
json 50
csv 40
notes 25
text 30
source 25
level32 35
count16 17
field32 16
KINDS
for kind in png jpeg; do
  equal "$kind: stored bytes" "$(size $kind --codec raw)" "$(size $kind)"
done
mkdir "$work/noise"
head -c 100000 /dev/urandom >"$work/noise/some.bin"
printf x >"$work/noise/one.txt"
for option in --codec=lz4 --codec=auto --codec=zstd; do
  pack "$work/noise" "$work/noise.fs" --force "$option"
  equal "$option: what is raw" 2 "$(grep -cE '^  (\*\.bin|others) .* 1\.00x  raw  *-$' "$work/pack.log")"
done
ok "what does not become smaller is shown as raw"

for jobs in 1 4; do pack "$work/kinds" "$work/ds-$jobs" --jobs $jobs; done
cat "$work/pack.log"
diff -r "$work/ds-1" "$work/ds-4" || fail "the output depends on --jobs"
expect_status 0 "$bin/fs-prepare" verify "$work/ds-1"
expect_status 0 "$bin/fs-prepare" unpack "$work/ds-1" "$work/restored"
diff -r "$work/kinds" "$work/restored" || fail "unpack"
plain "$work/ds-1" "$mnt" diff -r "$work/kinds" "$mnt" || fail "read by the library"
ok "same bytes for 1 and 4 jobs; restored; read"

# A file of one kind is stored once if another kind, which is stored in another way, has it too.
mkdir "$work/twice"
cp -r "$work/kinds/json" "$work/twice/a"
cp -r "$work/kinds/csv" "$work/twice/b"
first=$work/twice/a/00/record00007.json
cp "$first" "$work/twice/b/copy.csv"
pack "$work/twice" "$work/twice.fs"
grep -q 'stored once: 1 duplicate ' "$work/pack.log" || fail "stored twice: $(cat "$work/pack.log")"
plain "$work/twice.fs" "$mnt" cmp "$first" "$mnt/b/copy.csv" || fail "the copy"
ok "stored once"

# The members of archives that come as a stream are sampled too.
tar -C "$work/kinds" -czf "$work/members.tgz" json level32 text jpeg
(cd "$work/kinds" && "$python" -m zipfile -c "$work/members.zip" json level32 text jpeg)
mkdir "$work/some"
cp -r "$work/kinds"/{json,level32,text,jpeg} "$work/some"
pack "$work/some" "$work/some.fs"
most=$(($(of "$work/some.fs" stored_bytes) * 21 / 20))
for name in members.tgz members.zip; do
  for jobs in 1 4; do pack "$work/$name" "$work/$name-$jobs" --mount "$work/some" --jobs $jobs; done
  diff -r "$work/$name-1" "$work/$name-4" || fail "$name: the output depends on --jobs"
  [ "$(of "$work/$name-1" stored_bytes)" -le $most ] || fail "$name: more than $most bytes: $(cat "$work/pack.log")"
  grep -qE '\*\.json .* zstd:6\+dict' "$work/pack.log" || fail "$name: $(cat "$work/pack.log")"
done
expect_status 0 "$bin/fs-prepare" unpack "$work/members.tgz-1" "$work/members"
diff -r "$work/some" "$work/members" || fail "unpack of members"
ok "members of archives"

while IFS=: read -r options words; do
  # shellcheck disable=SC2086
  expect_status 2 "$bin/fs-prepare" pack $options "$work/kinds" "$work/bad.fs"
  one_line "$work/err" "$words"
done <<'BAD'
--decode-budget 2GB:give a rate as 2GB/s
--decode-budget -1%:give a rate as 2GB/s
--decode-budget 0%:give a rate as 2GB/s
--decode-budget nan%:give a rate as 2GB/s
--decode-budget 2GB/s --codec lz4:for --codec auto only
BAD
ok "wrong budgets"
