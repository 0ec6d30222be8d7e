#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# fs-prepare pack --update: packs what is new or changed, drops what is gone, and keeps the rest and its partitions.
. "$(dirname "$0")/../functions.sh"

prepare=$bin/fs-prepare
ok() { echo "ok - $*"; }
cd "$work"
"$python" - <<'PY'
import os, random
random.seed(7)
os.makedirs("source/d/e")
for i in range(200):
    with open("source/d/%03d" % i, "wb") as f: f.write(random.randbytes(3000) + b"text " * i)
for i in range(4):
    with open("source/d/e/large%d" % i, "wb") as f: f.write(random.randbytes(2500000 + i))
os.link("source/d/010", "source/d/linked")
os.symlink("010", "source/d/symlink")
open("source/empty", "w").close()
PY
cp -a source first
"$prepare" pack --mount /data/set --codec lz4 source ds >/dev/null
cp -al ds whole
same() { # DATASET TREE: the dataset has the tree
  expect_status 0 "$prepare" verify "$1"
  rm -rf unpacked
  expect_status 0 "$prepare" unpack "$1" unpacked
  expect_status 0 rsync -aHni --delete "$2/" unpacked/
  [ ! -s out ] || { cat out >&2; fail "$1 is not like $2"; }
}
need_command rsync
inode() { stat -c %i "$1"; }
field() { "$prepare" info --json "$1" | "$python" -c "import json, sys; d = json.load(sys.stdin); print($2)"; }

before=$(inode ds)
expect_status 0 "$prepare" pack --update source ds
equal 'the directory after an update without changes' "$before" "$(inode ds)"
ok 'an update without changes changes nothing'

rm source/d/0[2-4]* source/d/e/large1
mv source/d/005 source/d/renamed
printf 'new content\n' >source/d/006
cp source/d/e/large0 source/d/a-copy # equal to a kept file, and before it in the order
head -c 700000 /dev/urandom >source/d/new
chmod 600 source/d/007
ln source/d/011 source/d/000-link # before its other name in the order
expect_status 0 "$prepare" pack --update source ds
grep -q 'kept 1.* files .*removed 32 files' out || fail "$(cat out)"
same ds source
equal 'mount and codec' '/data/set lz4' "$(field ds 'd["mount"], d["codec"]' | tr -d "(),'")"
for f in whole/part-*; do equal "inode of $f" "$(inode "$f")" "$(inode "ds/${f##*/}")"; done
[ "$(field ds 'd["partitions"][-1]["size"]')" -lt 800000 ] || fail 'the new partition has more than what is new'
[ "$(field ds 'd["unused_bytes"]')" -gt 2500000 ] || fail 'the unused bytes are not counted'
equal 'unused bytes of a fresh dataset' 0 "$(field whole 'd["unused_bytes"]')"
same whole first
ok 'what is new or changed is packed, the rest keeps its partitions'

cp -a ds once
printf 'NEW content\n' >other && touch -r source/d/006 other && cp -p other source/d/006
expect_status 0 "$prepare" pack --update source ds
expect_status 0 cmp -s <("$prepare" info ds) <("$prepare" info ds)
cmp -s ds/index once/index || fail 'a file of the same size and time was packed'
expect_status 0 "$prepare" pack --update --checksum source ds
same ds source
touch source/d/1*
expect_status 0 "$prepare" pack --update -c source ds
grep -q 'packed 0 B' out || fail "files of the same content are packed: $(cat out)"
same ds source
ok '--checksum compares contents'

# What no file uses stays for one update, for jobs that are running; then its number is used again.
mkdir -p small/d && cp source/d/100 small/d
expect_status 0 "$prepare" pack --update --mount /data/small small ds
[ "$(du -s ds | cut -f 1)" -gt 6000 ] || fail 'partitions of the dataset before are gone'
cp source/d/10[1-3] small/d
n=$(field ds 'len(d["partitions"])')
expect_status 0 "$prepare" pack --update small ds
[ "$(du -s --apparent-size ds | cut -f 1)" -lt 3000 ] || fail 'unused partitions stay'
equal 'number of partitions' "$n" "$(field ds 'len(d["partitions"])')"
same ds small
expect_status 0 "$prepare" pack --update small new
same new small
ok 'partitions without use are dropped by the next update'

cp -a source again
tar -C source -czf first.tar.gz .
rm again/d/12* && echo more >>again/d/130
tar -C again -czf again.tar.gz . && tar -C again -cf again.tar .
expect_status 0 "$prepare" pack first.tar.gz archive
expect_status 0 "$prepare" pack --update again.tar.gz archive
grep -q 'packed 3.* KiB, removed 10 files' out || fail "an archive: $(cat out)"
expect_status 0 "$prepare" verify archive
expect_status 0 "$prepare" diff --checksum archive again.tar
expect_status 2 "$prepare" diff --checksum archive again.tar.gz
grep -q 'unpack it first' err || fail "$(cat err)"
expect_status 0 "$prepare" pack --update --checksum again.tar archive
grep -q 'packed 0 B' out || fail "--checksum of an archive: $(cat out)"
ok 'archives as SOURCE'

# Kept files that were cut, and a file that was changed under its old time: it stays as it was, and a new file does not
# get its content.
mkdir cut
for i in 1 2 3 4; do head -c 700000 /dev/urandom >"cut/f$i"; done
expect_status 0 "$prepare" pack cut cutds
head -c 40000000 /dev/urandom >cut/big
cp cut/f1 cut/copy
expect_status 0 "$prepare" pack --update cut cutds
same cutds cut
cp -p cut/big before
printf changed | dd of=cut/big bs=1 seek=1500000 conv=notrunc status=none
touch -r before cut/big
cp cut/big cut/new
expect_status 0 "$prepare" pack --update cut cutds
rm -rf got
expect_status 0 "$prepare" unpack cutds got
cmp got/new cut/new || fail 'a new file has the content that a kept one had'
cmp got/big before || fail 'a file of the same size and time was packed again'
rm -rf cut cutds got before
ok 'kept files that were cut or changed under their old time'

expect_status 1 "$prepare" pack --update --block-size 64K small ds
one_line err 'another --block-size'
mkdir empty elsewhere && cp source/d/100 elsewhere
cp -al ds before
for source in empty elsewhere; do
  expect_status 1 "$prepare" pack --update "$source" ds
  one_line err 'ds: SOURCE has none of its 4 files; name the right SOURCE, or replace the dataset by pack --force$'
done
diff -r before ds
expect_status 0 "$prepare" pack empty none
expect_status 0 "$prepare" pack --update small none # which has no file that could be lost
expect_status 2 "$prepare" pack --update --force small ds
expect_status 2 "$prepare" pack --checksum small ds
ok 'what cannot be updated is refused'

# A partition with bytes of no file cannot be repaired from SOURCE. An update drops what is damaged, and packs its files again.
poke() { printf '\377\376\375' | dd of="$1" bs=1 seek="$2" conv=notrunc status=none; }
last() { stat -c %s "$1" | awk '{print $1 - 600}'; } # the offset of bytes of the last file
mkdir -p mend
for i in {100..339}; do seq "$i" $((i * 7)) >"mend/$i"; done
expect_status 0 "$prepare" pack --codec lz4 --partitions 4 mend whole2
rm mend/2[0-4]*
expect_status 0 "$prepare" pack -u mend whole2
rm whole2/part-00001 && truncate -s 9000 whole2/part-00002
expect_status 1 "$prepare" verify --repair-from mend whole2
equal 'partitions that SOURCE does not have' 2 "$(grep -c 'not repaired: it has bytes of no file.*; pack --update --checksum packs its files again' err)"
expect_status 0 "$prepare" pack -u mend whole2
equal 'damaged partitions that are told' 2 "$(grep -cE 'part-0000(1: missing|2: truncated partition: .*); what SOURCE has of it is packed again$' err)"
grep -q 'kept [0-9]* files .*removed 0 files' out || fail "$(cat out)"
same whole2 mend
poke whole2/part-00000 5000
poke whole2/part-00003 "$(last whole2/part-00003)"
rm mend/25*
expect_status 0 "$prepare" pack -u mend whole2
[ ! -s err ] || fail "a partition was read: $(cat err)"
expect_status 1 "$prepare" verify whole2
expect_status 0 "$prepare" pack -u -c mend whole2
equal 'damaged partitions that are told' 2 "$(grep -c 'damaged: its checksum differs; what SOURCE has of it is packed again$' err)"
same whole2 mend
rm -rf mend2
expect_status 0 "$prepare" pack --codec lz4 --partitions 2 mend mend2
cp mend2/index index2
rm mend2/part-00001
expect_status 0 "$prepare" pack -u mend mend2
cmp index2 mend2/index || fail 'the same bytes were expected: the test shows nothing'
same mend2 mend
ok 'files of damaged partitions are packed again'

# An update that was killed; then one that is refused, and one that can keep less.
mkdir slow
seq 30000 >slow/kept
"$prepare" pack slow killed >pack.log
seq 2000000 >slow/numbers
checkpoint() { [ -n "$(find .killed.partial-*/journal -size +300c 2>/dev/null)" ]; }
FANSTORE_TEST_CHECKPOINT_MS=10 "$prepare" pack -u -j 1 --codec lz4hc:9 slow killed >log 2>&1 &
pid=$!
wait_until 60 checkpoint
kill -KILL $pid
wait $pid || :
expect_status 1 "$prepare" pack -u -j 1 --codec lz4hc:9 elsewhere killed
equal 'lines of a refusal' 2 "$(wc -l <err)"
grep -q 'killed: SOURCE has none of its 1 file;' err || fail "$(cat err)"
grep -q "what an interrupted pack has packed is in $PWD/.killed.partial-[2-7a-z]*: its own command goes on from there; " err ||
  fail "$(cat err)"
cp -a .killed.partial-* partial
cp -a killed whole3
expect_status 0 "$prepare" pack -u -j 1 --codec lz4hc:9 slow killed
one_line err 'resuming: [1-9].* of .* are packed already$'
same killed slow
rm -rf killed && mv whole3 killed && mv partial .killed.partial-2bcdef
poke killed/part-00000 0
expect_status 0 "$prepare" pack -u -j 1 --codec lz4hc:9 slow killed
grep -q 'killed is not resumed, because SOURCE, DATASET or its partitions have changed since; this one begins anew$' err || fail "$(cat err)"
same killed slow
ok 'an interrupted update goes on after one that was refused, and says what has changed'

# Where files cannot be linked they are copied.
if [ "$(id -u)" = 0 ] && strace -o /dev/null true 2>/dev/null; then
  cp -a once ds4
  rm source/d/e/large2
  expect_status 0 strace -f -o /dev/null -e inject=linkat:error=EPERM "$prepare" pack --update source ds4
  same ds4 source
  ok 'partitions that cannot be linked are copied'
fi
