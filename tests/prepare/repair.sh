#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# fs-prepare verify --repair-from: damaged, truncated and missing partitions are made again from SOURCE or from a copy, to the byte.
# What cannot be repaired is named, and left as it is.
. "$(dirname "$0")/../functions.sh"

prepare=$bin/fs-prepare
ok() { echo "ok - $*"; }
cd "$work"
mkdir -p source/dir
for i in {1..30}; do seq $((i * 500)) >"source/text$i"; done
head -c 300000 /dev/urandom >source/dir/random
cp source/dir/random source/dir/twin
head -c 70000 /dev/zero >source/zeros
ln source/text30 source/dir/link
seq 400000 >source/dir/large

poke() { printf '\377\376\375' | dd of="$1" bs=1 seek="$2" conv=notrunc status=none; }
# Damages a copy of the dataset $1 in all ways.
damage() {
  rm -rf bad
  cp -r "$1" bad
  poke bad/part-00000 6000
  poke bad/part-00000 50000
  truncate -s 20000 bad/part-00001
  rm bad/part-00002
  poke bad/part-00003 8 # the header
}
same() { # DATASET
  diff -r "$1" bad || fail 'not the same bytes'
}

for codec in auto lz4 lz4hc:12 raw zstd zstd:19; do
  "$prepare" pack --codec $codec --partitions 4 --block-size 64K source ds >/dev/null
  for from in source copy; do
    [ $from = source ] || cp -r ds copy
    damage ds
    exec 8<bad/part-00000
    expect_status 0 "$prepare" verify --repair-from $from bad
    equal 'partitions that were repaired' 4 "$(grep -c '^repaired: part-0000' out)"
    grep -q '^bad: good: 35 files' out || fail 'not good at the end'
    same ds
    cmp -s /dev/fd/8 ds/part-00000 && fail 'the partition was changed in its place'
    exec 8<&-
  done
  rm -rf ds copy
done
ok 'partitions are repaired from SOURCE and from a copy, whatever the codec'

"$prepare" pack --codec lz4 --partitions 4 --block-size 64K source ds >/dev/null
damage ds
cp -r bad damaged
cp -r source changed
for f in text7 text20 dir/random dir/twin; do echo other >changed/$f; done
expect_status 1 "$prepare" verify bad
grep -q 'damaged; give verify --repair-from PLACE, or pack again' err || fail 'it does not say how to repair'
expect_status 1 "$prepare" verify --repair-from changed bad
! grep -q 'repair-from' err || fail 'it says how to repair what it cannot repair'
equal 'each partition is told once' "$(sort -u err)" "$(sort err)"
grep -qE '^fs-prepare: bad/part-0000[0-3]: not repaired: changed does not have [0-9]+ of its blocks, the first one of ' err ||
  fail 'what is not repaired is not told'
grep -q '^damaged: ' out || fail 'no file is named'
good=0
for p in bad/part-*; do
  if cmp -s "$p" "ds/${p#bad/}"; then good=$((good + 1)); else cmp "$p" "damaged/${p#bad/}"; fi
done
case $good in [123]) ;; *) fail "$good partitions are good" ;; esac
[ -z "$(find bad -name '*.repair-*')" ] || fail 'a temporary file is left'
expect_status 0 "$prepare" verify --repair-from source bad
same ds
ok 'what SOURCE does not have is named, and the partition stays as it was'

mkdir index-only
cp ds/index ds/manifest index-only
expect_status 1 "$prepare" verify index-only
one_line err '^fs-prepare: index-only: its partitions are on the nodes only'
expect_status 0 "$prepare" verify --repair-from source index-only
diff -r ds index-only
ok 'a dataset without partitions'

damage ds
mkdir empty
expect_status 1 "$prepare" verify --repair-from empty bad
"$prepare" pack --codec lz4hc --partitions 4 --block-size 64K source other >/dev/null
expect_status 1 "$prepare" verify --repair-from other bad
grep -q "repair-from 'other': is another dataset" err || fail 'another dataset is taken'
expect_status 1 "$prepare" verify --repair-from nosuch bad
grep -q "repair-from 'nosuch': cannot be opened" err || fail 'a PLACE that is not there'
expect_status 1 "$prepare" verify --repair-from nosuch ds # before hours of reading
one_line err "repair-from 'nosuch': cannot be opened"
expect_status 1 "$prepare" verify --repair-from damaged/index bad
one_line err "damaged/index: neither a directory nor an archive that can be read"
expect_status 1 "$prepare" verify --repair-from ds --repair-from ds bad
one_line err "repair-from 'ds': is a second copy"
for options in '--shards nest' '--repair-from source --shards all'; do
  # shellcheck disable=SC2086 # words
  "$prepare" verify $options bad >out 2>err && fail "$options"
  one_line err '^fs-prepare: verify: --shards'
done
touch bad/part-00002.repair-0badcafe
cp -r bad replaced
expect_status 0 "$prepare" pack --force source replaced
expect_status 0 "$prepare" verify --repair-from source bad
same ds
ok 'a wrong PLACE is told, and what a killed repair left is removed'

# The copy lacks the last partition, of which the damaged dataset has all but the header, and blocks that both lack.
damage ds
cp -r ds half
truncate -s 6000 half/part-00000
rm half/part-00003
expect_status 1 "$prepare" verify --repair-from half bad
equal 'what only the two together have' 3 "$(grep -c '^repaired: part-0000' out)"
ok 'a damaged copy gives what it has'

if [ "$(id -u)" = 0 ] && unshare -m true 2>/dev/null; then
  mkdir small
  # shellcheck disable=SC2016 # for the inner shell
  unshare -m sh -c 'mount -t tmpfs -o size=$(($(du -sk damaged | cut -f 1) + 60))k none small && cp -r damaged/. small &&
    "$1" verify -j 1 --repair-from source small >out 2>err; echo $? >status; ls small >left' sh "$prepare"
  equal 'exit status on a full disk' 1 "$(cat status)"
  grep -q 'small/part-0000.: not repaired: it cannot be written: No space left' err || fail 'the full disk is not told'
  ! grep -q repair left || fail 'a temporary file is left on the full disk'
  ok 'a full disk is told'
fi

# Archives: a member that a later one replaces, a hard link to the replaced one, members of several blocks, a sparse file.
rm -rf tree other copy
cp -a source tree
echo first >tree/again
ln tree/again tree/kept
truncate -s 400000 tree/sparse
echo end >>tree/sparse
tar -C tree --sort=name -cf a.tar .
rm tree/again
echo second >tree/again
tar -C tree -rf a.tar ./again
gzip -k a.tar
mkdir b
cp source/text1* b
for i in {1..40}; do seq "$i" $((i * 40)) >"b/many$i"; done
tar -cf b.tar b
"$python" - <<'PY'
import os, zipfile
with zipfile.ZipFile("b.zip", "w", zipfile.ZIP_DEFLATED) as z:
    for f in sorted(os.listdir("b")): z.write("b/" + f, f)
PY
try() { # NAME OPTIONS-OF-PACK --- OPTIONS-OF-VERIFY
  local name=$1 packed=()
  shift
  while [ "$1" != --- ]; do packed+=("$1"); shift; done
  shift
  rm -rf ds
  "$prepare" pack --partitions 4 --block-size 64K --mount /data "${packed[@]}" ds >/dev/null
  damage ds
  expect_status 0 "$prepare" verify "$@" bad
  equal "$name: partitions that were repaired" 4 "$(grep -c '^repaired: part-0000' out)"
  same ds
}
try 'tar' --codec zstd:5 a.tar --- --repair-from a.tar
try 'tar.gz' --codec lz4hc:7 a.tar.gz --- --repair-from a.tar.gz
try 'tar.gz without the replaced name' --exclude again a.tar.gz --- --repair-from a.tar.gz
try 'zip' --codec lz4 b.zip --- --repair-from b.zip
try 'shards, nested' a.tar b.tar b.zip --source in/c=b.tar --- --repair-from a.tar --repair-from b.tar --repair-from b.zip --repair-from in/c=b.tar
try 'shards, merged' --shards merge a.tar.gz b.tar --- --repair-from a.tar.gz --repair-from b.tar --shards merge
try 'a directory and an archive' source --source z=a.tar.gz --- --repair-from source --repair-from z=a.tar.gz
ok 'archives, as pack has them'

# What one place lacks another one has.
damage ds
expect_status 1 "$prepare" verify --repair-from z=a.tar.gz bad
grep -q 'not repaired: z=a.tar.gz does not have\|not repaired: a.tar.gz does not have' err || fail 'what an archive lacks is not told'
rm -rf half
cp -r ds half
rm half/part-00000
expect_status 0 "$prepare" verify --repair-from half --repair-from source --repair-from z=a.tar.gz bad
same ds

# Of an archive that is cut off all is taken that it has; the rest is listed with the reason.
"$prepare" pack --codec zstd --partitions 12 --block-size 64K a.tar.gz cut >/dev/null
head -c $(($(stat -c %s a.tar.gz) * 9 / 10)) a.tar.gz >cut.tar.gz
rm -rf bad
mkdir bad
cp cut/index cut/manifest cut/part-00000 bad
expect_status 1 "$prepare" verify --repair-from cut.tar.gz bad
repaired=$(grep -c '^repaired: ' out)
case $repaired in [1-9] | 10) ;; *) fail "$repaired partitions are repaired" ;; esac
grep -q 'cut.tar.gz.*is damaged' err || fail "it does not say that the archive is damaged: $(cat err)"
[ -z "$(find bad -name '*.repair-*')" ] || fail 'a temporary file is left'
ok 'several places; what an archive lacks'

# A dataset of one SOURCE has its files at its root, one of several in directories with their names. Further places do no harm.
wrong() { # MESSAGE PLACE...: a damaged copy of ds is repaired from the places
  local what=$1 from=() place
  shift
  for place in "$@"; do from+=(--repair-from "$place"); done
  damage ds
  expect_status 0 timeout 30 "$prepare" verify "${from[@]}" bad
  equal "$what: partitions that were repaired" 4 "$(grep -c '^repaired: part-0000' out)"
  same ds
}
rm -rf ds
"$prepare" pack --codec lz4 --partitions 4 --block-size 64K source ds >/dev/null
wrong 'an empty place behind it' source empty
wrong 'other places before it' empty b.tar source
rm -rf ds
"$prepare" pack --codec lz4 --partitions 4 --block-size 64K a.tar ds >/dev/null
wrong 'an archive and an empty place' a.tar empty
rm -rf ds
"$prepare" pack --codec lz4 --partitions 4 --block-size 64K a.tar.gz ds >/dev/null
wrong 'a compressed archive and an empty place' empty a.tar.gz
rm -rf ds
"$prepare" pack --codec lz4 --partitions 4 --block-size 64K source b ds >/dev/null
damage ds
expect_status 1 "$prepare" verify --repair-from source bad
[ "$(grep -o 'source does not have [0-9]* of its blocks, the first one of [a-z]*' err | sed 's/.* //' | sort -u)" = b ] ||
  fail "other files than those of the other SOURCE are missed: $(cat err)"
wrong 'each SOURCE by its name' source b
ok 'places are at the root and at their names'

# The same names and sizes with other contents, more of them than levels are searched for, before a good place.
rm -rf ds like
mkdir like like/good like/bad
"$python" - <<'PY'
import random
for place, add in ("good", 0), ("bad", 1000):
    for i in range(40):
        r = random.Random(i + add)
        open("like/%s/f%d" % (place, i), "w").write("".join("word%04d " % r.randrange(1000) for _ in range(6000)))
PY
tar -C like/bad --sort=name -cf like/bad.tar .
gzip -k like/bad.tar
"$prepare" pack --codec zstd:7 --partitions 4 --block-size 64K like/good ds >/dev/null
for place in bad bad.tar bad.tar.gz; do
  wrong "$place before the good directory" .=like/$place .=like/good
  rm -rf bad
  mkdir bad # all partitions are missing, so no block tells its level
  cp ds/index ds/manifest bad
  expect_status 0 timeout 30 "$prepare" verify --repair-from .=like/$place --repair-from .=like/good bad
  same ds
done
ok 'a place of other contents hinders nothing'
