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
tar -cf source.tar source
expect_status 1 "$prepare" verify --repair-from source.tar bad
one_line err "repair-from 'source.tar': is no directory; extract an archive"
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
