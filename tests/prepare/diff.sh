#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# fs-prepare diff: names what differs between a dataset and what it was packed from or another dataset.
. "$(dirname "$0")/../functions.sh"

prepare=$bin/fs-prepare
ok() { echo "ok - $*"; }
cd "$work"
mkdir -p source/d/e
for i in 1 2 3 4 5; do
  head -c $((i * 90000)) /dev/urandom >source/d/file$i
  seq $((i * 1000)) >>source/d/file$i
done
printf 'same size\n' >source/d/e/content
ln -s file1 source/d/link
ln -s /elsewhere source/outside
"$prepare" pack --codec lz4 source ds 2>/dev/null
expect_status 0 "$prepare" diff ds source
[ ! -s out ] || fail "$(cat out)"
expect_status 0 "$prepare" diff --checksum ds source

cp -a source other
cd other
rm d/file1 d/link
ln -s file2 d/link
touch -h -r ../source/d/link d/link
touch -d '2020-01-01' d/file2
chmod 600 d/file3
echo more >>d/file4
touch -r ../source/d/file4 d/file4
printf 'SAME size\n' >d/e/content
touch -r ../source/d/e/content d/e/content
rm d/file5 && mkdir d/file5
mkdir "d/new
dir" && touch "d/new
dir/file"
touch -r ../source/d d && touch -r ../source/d/e d/e
cd ..
cat >want <<'TEXT'
removed d/file1
changed mtime d/file2
changed mode d/file3
changed size d/file4
changed type d/file5
changed target d/link
added d/new\ndir
added d/new\ndir/file
TEXT
expect_status 1 "$prepare" diff ds other
diff -u want out || fail 'a directory: other lines than wanted'
sed -i '/d.new.ndir$/a changed content d/e/content' want
expect_status 1 "$prepare" diff --checksum ds other
diff -u want out || fail '--checksum: other lines than wanted'
ok 'a dataset and a directory'

"$prepare" pack --codec zstd --block-size 64K other ds2 2>/dev/null
expect_status 1 "$prepare" diff --checksum ds ds2
diff -u want out || fail 'a dataset: other lines than wanted'
"$prepare" pack --codec raw --block-size 1M source ds3 2>/dev/null
expect_status 0 "$prepare" diff --checksum ds ds3
expect_status 1 "$prepare" diff -0 ds ds2
equal 'names with NUL' 8 "$(tr -cd '\0' <out | wc -c)"
tr '\0' '\n' <out | grep -qx 'added d/new' || fail '-0 changes a name'
expect_status 1 "$prepare" diff --exclude 'new*' ds other
! grep -q 'd/new' out || fail '--exclude is without effect'
ok 'two datasets of different codecs and block sizes, -0 and --exclude'

cp -a other updated
expect_status 0 "$prepare" pack --update other ds
expect_status 0 "$prepare" diff ds updated
ok 'an update leaves no difference'

# The SOURCEs are given as pack was given them: a directory and an archive below their names, below prefixes, in one tree.
mkdir -p in/train in/val
cp -a source/d/e in/train/
cp -a source/d/file2 in/train/
cp -a source/d/file3 in/val/
tar -C in -cf in/test.tar -C "$work/source" outside d/file1 d/link
as_packed() { # WORD...: a dataset of these SOURCEs differs in nothing, and then in one file of one of them
  "$prepare" pack --force --mount /in "$@" in.fs >/dev/null
  expect_status 0 "$prepare" diff in.fs "$@"
  expect_status 0 "$prepare" diff --checksum in.fs "$@"
  equal "diff in.fs $*: lines" '' "$(cat out)"
  touch -r in/val/file3 stamp
  printf x | dd of=in/val/file3 bs=1 seek=70000 conv=notrunc 2>/dev/null
  touch -r stamp in/val/file3
  expect_status 0 "$prepare" diff in.fs "$@"
  expect_status 1 "$prepare" diff --checksum in.fs "$@"
  equal "diff --checksum in.fs $*" "$(find_path)" "$(cat out)"
  cp -a source/d/file3 in/val/
}
find_path() { "$prepare" list in.fs | sed -n 's,^\(.*/\)*file3$,changed content &,p'; }
as_packed in/train in/val in/test.tar
as_packed --source a/b=in/train --source a=in/val in/test.tar
as_packed --source a=in/train --source b=in/val --source b/c=in/test.tar
as_packed --shards merge in/val in/test.tar
as_packed --shards nest in/val
"$prepare" pack --force --mount /in in/train in/val in.fs >/dev/null
expect_status 1 "$prepare" diff in.fs in/val
grep -qx 'removed train/file2' out || fail "one SOURCE of two: $(cat out)"
expect_status 1 "$prepare" diff in.fs in/train --source other=in/val
grep -qx 'added other/file3' out || fail "another prefix: $(cat out)"
ok 'several SOURCEs, prefixes and shards'

while IFS=: read -r words line; do
  # shellcheck disable=SC2086 # words
  expect_status 2 "$prepare" diff $words
  one_line err "$line"
done <<'BAD'
:DATASET is missing \(usage: fs-prepare diff
ds:SOURCE is missing \(usage: fs-prepare diff
--source a=source:DATASET is missing \(usage: fs-prepare diff
--source source ds:diff. --source 'source'. give PREFIX=PATH
--source ../a=source ds:the prefix has '\.\.'
--shards one ds source:diff. --shards 'one'. give nest or merge
ds source nowhere:nowhere. no such directory or archive
BAD
expect_status 2 "$prepare" diff ds ''
one_line err 'diff: SOURCE is empty'
expect_status 2 "$prepare" diff ds nowhere
one_line err 'nowhere: .*no such'
expect_status 2 "$prepare" diff nowhere source
for pair in 'only source' 'ds3 only'; do
  mkdir -p only && cp ds/index ds/manifest only
  # shellcheck disable=SC2086 # words
  expect_status 2 "$prepare" diff -c $pair
  one_line err 'only: its partitions are on the nodes only \(--nodes-only\); leave out --checksum, or '
done
expect_status 0 "$prepare" diff -c only ds
for f in ds3/part-*; do printf x | dd of="$f" bs=1 seek=5000 conv=notrunc 2>/dev/null; done
expect_status 2 "$prepare" diff --checksum ds3 source
one_line err 'damaged or unreadable in a dataset; run fs-prepare verify'
ok 'trouble is status 2'
