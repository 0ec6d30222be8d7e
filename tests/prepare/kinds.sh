#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# fs-prepare pack --codec auto: what it makes of each kind of data, within --decode-budget; the bytes do not depend on
# --jobs; everything can be read and restored.
. "$(dirname "$0")/../functions.sh"

ok() { echo "ok - $*"; }
"$python" "$root/bench/kinds.py" "$work/kinds" 1 json csv notes text source level32 count16 field32 int32 hdf5
"$python" "$root/bench/kinds.py" "$work/kinds" 0.1 png jpeg
of() { "$bin/fs-prepare" info --json "$1" | "$python" -c "import json, sys; print(json.load(sys.stdin)['$2'])"; }
size() { # KIND OPTION...: packs it. $stored: its stored bytes
  local kind=$1
  shift
  pack "$work/kinds/$kind" "$work/$kind.fs" --force --partitions 1 "$@"
  table "$kind" "$@"
  stored=$(of "$work/$kind.fs" stored_bytes)
}
table() { # KIND OPTION...: what the last table says of it is what is in SOURCE and on the disk. The words of its last column: table.next
  "$bin/fs-prepare" info --json "$work/$1.fs" >"$work/info.json"
  "$python" - "$work/pack.log" "$work/kinds/$1" "$work/$1.fs" "$work/info.json" "${@:2}" >"$work/table.next" <<'PY' || fail "table: $(cat "$work/pack.log")"
import json, os, re, sys
of_most = {s["suffix"]: s["codec"] for s in json.load(open(sys.argv[4]))["suffixes"]}
unit = {"B": 1, "KiB": 1 << 10, "MiB": 1 << 20}
row = re.compile(r"  (?P<kind>\S+).* +(?P<files>\d+) +(?P<plain>[\d.]+ [KM]?i?B) +(?P<stored>[\d.]+ [KM]?i?B) +(?P<times>[\d.]+)x"
                 r"  (?P<codec>\S+) +(?P<rate>-|[\d.]+ [GM]B/s)(?:  (?P<next>.*))?\n")
rows = [m.groupdict() for m in map(row.fullmatch, open(sys.argv[1])) if m]
auto = "  too slow\n" in open(sys.argv[1]).read()
files = {open(os.path.join(d, n), "rb").read() for d, _, names in os.walk(sys.argv[2]) for n in names}  # equal ones are stored once
plain = sum(map(len, files))
# The partition begins with a header of a page and ends with a page. Raw files of 16 KiB begin with a page, too.
disk = os.path.getsize(sys.argv[3] + "/part-00000") - 4096
pages = 4096 * (1 + sum(int(m["files"]) for m in rows if m["codec"] == "raw"))


def size(text):
    return float(text.split()[0]) * unit[text.split()[1]]


def near(what, a, b, slack=0.0):
    assert b - slack - 0.06 * b <= a <= 1.06 * b, (what, a, b)


assert sum(int(m["files"]) for m in rows) == len(files), "files"
near("plain", sum(size(m["plain"]) for m in rows), plain)
near("stored", sum(size(m["stored"]) for m in rows), disk, pages)
for m in rows:
    near("times", float(m["times"]), size(m["plain"]) / size(m["stored"]))
    # Whether the codec is that of most bytes, as info says, which looks at the dataset only: lz4hc:5+dict4K is lz4+dict there.
    codec = re.sub(r"dict\d+K", "dict", re.sub(r"^(lz4|zstd)(hc)?(:\d+)?", r"\1", m["codec"]))
    assert codec == of_most.get(m["kind"][2:], codec), ("codec", m, of_most)
    assert m["rate"] != "-" or m["codec"] == "raw" or not auto or "2600MB/s" in sys.argv, ("rate", m)
    print(m["next"] or "")
PY
}
# next_better KIND BUDGET: says what the budget forbids, how much smaller that is, and a rate that is less than the budget. By as
# much is what a budget for everything stores smaller.
next_better() {
  local bound really
  size "$1" --decode-budget "$2"
  bound=$stored
  grep -E '^(lz4hc|zstd):[0-9]+(\+[a-zA-Z0-9]+)*: [0-9]+% smaller, ([0-9]+ MB/s|[0-9]+\.[0-9]{2} GB/s)$' "$work/table.next" \
    >"$work/says" || fail "$1 with $2: what is too slow? $(cat "$work/pack.log")"
  size "$1" --decode-budget 1000%
  equal "$1: too slow for 1000%" '' "$(tr -d '\n' <"$work/table.next")"
  really=$((100 - 100 * stored / bound))
  "$python" - "$2" $really "$work/says" <<'PY' || fail "$1 with $2: really $really% smaller: $(cat "$work/says")"
import re, sys
budget = {"2GB/s": 2, "10%": 3.125}[sys.argv[1]]
for line in open(sys.argv[3]):
    percent, rate, unit = re.search(r"(\d+)% smaller, ([\d.]+) ([GM])B/s$", line).groups()
    assert abs(int(percent) - int(sys.argv[2])) <= 15 and float(rate) / (1000 if unit == "M" else 1) < budget, line
PY
  ok "$1, what $2 forbids: $(head -n 1 "$work/says"); really $really%"
}
# smaller WHAT TENTHS: $large is so many tenths of $stored at least
smaller() {
  [ $(($2 * stored)) -le $((10 * large)) ] || fail "$1: $stored bytes are not $2 tenths smaller than $large"
  ok "$1: $large to $stored bytes"
}
while read -r kind tenths than; do
  [ -d "$work/kinds/$kind" ] || continue # hdf5 without h5py
  size "$kind" --codec "$than"
  large=$stored
  size "$kind"
  smaller "$kind, to $than" "$tenths"
done <<'KINDS'
json 15 lz4hc:9
csv 15 lz4hc:9
notes 15 lz4hc:9
int32 15 zstd:6
hdf5 14 zstd:6
json 50 raw
csv 40 raw
notes 25 raw
text 30 raw
source 25 raw
level32 35 raw
count16 17 raw
field32 16 raw
int32 40 raw
hdf5 35 raw
KINDS
for kind in json csv notes text source level32 count16 int32; do next_better $kind 2GB/s; done
for kind in field32 level32 count16 int32; do next_better $kind 10%; done
for kind in json csv; do
  size $kind --decode-budget 2GB/s
  equal "$kind: zstd decodes 2 GB/s" 0 "$(of "$work/$kind.fs" zstd_files)"
done
size json --codec lz4hc:9
large=$stored
size json --decode-budget 2GB/s
grep -qE '  lz4hc:5\+dict[0-9]+K ' "$work/pack.log" || fail "json, 2 GB/s: $(cat "$work/pack.log")"
smaller 'json, lz4 with a dictionary to lz4hc:9' 13
# A small file whose decoding with a dictionary would be over the budget gets lz4 without one, and the others keep theirs.
equal 'json, 2 GB/s: raw files' 0 "$(of "$work/json.fs" raw_files)"
size csv --codec lz4hc:9
large=$stored
size csv --decode-budget 2GB/s
grep -qE '  lz4hc:5\+dict[0-9]+K ' "$work/pack.log" || fail "csv, 2 GB/s: $(cat "$work/pack.log")"
equal 'csv, 2 GB/s: raw files' 0 "$(of "$work/csv.fs" raw_files)"
mkdir "$work/kinds/large" # its samples decide, and zstd would be over the budget
cp -r "$work/kinds/json" "$work/kinds/large/"
for i in {1..8}; do find "$work/kinds/json" -type f | sort | sed "$i,+99d" | xargs cat; done >"$work/kinds/large/all.json"
pack "$work/kinds/large" "$work/large.fs" --decode-budget 2GB/s
equal 'large json, 2 GB/s: raw files' 0 "$(of "$work/large.fs" raw_files)"
json <("$bin/fs-prepare" info --json "$work/csv.fs") '{c["codec"]: c["files"] for c in r["codecs"]}' >"$work/codecs"
"$python" -c 'import ast, sys; c = ast.literal_eval(sys.stdin.read()); sys.exit(not (c["lz4"] and c["lz4+dict"]))' <"$work/codecs" ||
  fail "csv, 2 GB/s: $(cat "$work/codecs")"
smaller 'csv, lz4 with a dictionary for most to lz4hc:9' 10 # level 5 against level 9
# Here most files have no dictionary, so the table shows no rate for it.
size notes --decode-budget 2600MB/s
# The size of the numbers is found in files of nothing but numbers, and in HDF5's chunks of two types.
for kind in int32 hdf5; do
  [ -d "$work/kinds/$kind" ] || continue
  size $kind
  grep -qE '  zstd:6(\+delta2?)?\+shuffle4 ' "$work/pack.log" || fail "$kind: no shuffle: $(cat "$work/pack.log")"
done
for kind in png jpeg; do
  size $kind --codec raw
  large=$stored
  size $kind
  equal "$kind: stored bytes" "$large" "$stored"
  equal "$kind: too slow" '' "$(tr -d '\n' <"$work/table.next")"
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
