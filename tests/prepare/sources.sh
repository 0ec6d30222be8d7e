#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# fs-prepare pack and its sources: archives beside what tar and unzip extract, hostile archives, shards, several SOURCEs
# at prefixes, and --files-from.
. "$(dirname "$0")/../functions.sh"
need_command tar zip unzip gzip bzip2 xz zstd lz4

prepare=$bin/fs-prepare
ok() { echo "ok - $*"; }
cd "$work"
"$python" "$root/tests/prepare/archives.py"
tree() { (cd "$1" && find . -mindepth 1 -printf '%P\t%y\t%m\t%n\t%l\n' | LC_ALL=C sort); }
times() { (cd "$1" && find . -mindepth 1 -not -type d -printf '%P\t%T@\n' | LC_ALL=C sort); }
# packs ARGUMENT...: into ds, the same with one thread and with four, and without a message
packs() {
  local jobs
  rm -rf ds ds-1 ds-4 restored
  for jobs in 1 4; do
    expect_status 0 "$prepare" pack --jobs $jobs "$@" ds-$jobs
    equal "messages of pack $*" '' "$(cat err)"
  done
  diff -r ds-1 ds-4 || fail "the output depends on --jobs: $*"
  mv ds-1 ds
  expect_status 0 "$prepare" unpack ds restored
}
same() { # DIRECTORY WHAT: restored has what is in it
  diff -r --no-dereference "$1" restored || fail "contents: $2"
  equal "types, modes and links: $2" "$(tree "$1")" "$(tree restored)"
}
# refuses PATTERN ARGUMENT...: status 1, and the pattern on standard error; nothing is left
refuses() {
  local pattern=$1
  shift
  rm -rf ds ds-4
  expect_status 1 "$prepare" pack "$@" ds
  grep -qE -- "$pattern" err || { cat err >&2; fail "no '$pattern'"; }
  [ -z "$(find . -maxdepth 1 -name '*ds*')" ] || fail "something is left"
}

# The formats
mkdir -p src/sub/empty
for i in $(seq 60); do head -c $((i * 97)) /dev/urandom >"src/sub/f$i"; done
head -c 1200000 /dev/urandom >src/random
"$python" -c 'print("text\n" * 300000, end="")' >src/text
ln src/text src/sub/hard
ln -s ../text src/sub/symbolic
chmod 640 src/random
chmod 700 src/sub/empty
find src -exec touch -hd 2001-02-03T04:05:06 {} +
tar cf f.tar -C src .
gzip -c1 f.tar >f.tar.gz
zstd -q f.tar -o f.tar.zst
lz4 -q f.tar f.tar.lz4
xz -c1 f.tar >f.tar.xz
bzip2 -c1 f.tar >f.tar.bz2
for archive in f.tar f.tar.{gz,zst,lz4,xz,bz2}; do
  packs --mount "$mnt" "$archive"
  same src "$archive"
  equal "times of $archive" "$(times src)" "$(times restored)"
done
(cd src && TZ=UTC zip -qry ../f.zip .)
TZ=UTC packs --mount "$mnt" f.zip
mkdir unzipped
unzip -q f.zip -d unzipped
same unzipped f.zip
for archive in f.tar f.zip; do
  rm -rf ds
  pack $archive ds
  equal "the mount of $archive" "$work/f" "$("$prepare" info --json ds | "$python" -c 'import json, sys; print(json.load(sys.stdin)["mount"])')"
done
pack f.tar.gz mounted
equal 'a program on the mount' "$(md5sum <src/text)" "$(plain "$work/mounted" "$mnt" cat "$mnt/text" | md5sum)"
ok 'tar, compressed or not, and zip give what tar and unzip extract'

# Odd members, as tar extracts them
tar xf odd.tar -C odd --warning=no-timestamp
packs --mount "$mnt" odd.tar
chmod 755 odd/a odd/a/b odd/dir/x
same odd odd.tar
equal 'times' "$(times odd)" "$(times restored)"
equal 'parents without a member' 315532800 "$(stat -c %Y restored/a/b)"
expect_status 0 "$prepare" pack --force --mount "$mnt" odd.tar ds
grep -q 'archives: 1 member replaced by later ones of the same name, 0 names' out || fail 'replaced members are not counted'
gzip -k odd.tar
packs --mount "$mnt" odd.tar.gz
same odd odd.tar.gz
expect_status 0 "$prepare" pack --mount "$mnt" absolute.tar abs
grep -q "1 name without the leading '/'" out || fail 'absolute names are not counted'
equal 'an absolute name' abs/file "$("$prepare" list abs | tail -n 1)"
ok 'names, duplicates and links are those of tar -x'

# Sparse files
mkdir sparse
truncate -s 3M sparse/hole
cp /bin/bash sparse/head
truncate -s 5M sparse/head
dd if=/bin/bash of=sparse/tail bs=64K count=1 seek=20 status=none
for format in gnu posix; do
  tar c --sparse --format=$format -f sparse-$format.tar -C sparse .
  packs --mount "$mnt" sparse-$format.tar
  same sparse "sparse files, $format"
done
rm sparse/*
truncate -s 20M sparse/hole
echo x >>sparse/hole
for format in gnu posix; do
  tar cz --sparse --format=$format -f sparse-$format.tar.gz -C sparse .
  packs --mount "$mnt" sparse-$format.tar.gz
  same sparse "a long hole, $format"
done
tar cjf zeros.tar.bz2 -C sparse .
packs --mount "$mnt" zeros.tar.bz2
same sparse 'a very small archive'
ok 'sparse files'

# Names that are marked as UTF-8 keep their bytes, in any locale.
for locale in C C.UTF-8; do
  LC_ALL=$locale packs --mount "$mnt" names.zip
  equal "names of a zip file, $locale" "$(printf 'e\314\201-decomposed\n\303\251-composed\nデータ\nデータ/猫.jpg')" \
    "$("$prepare" list ds | LC_ALL=C sort)"
  equal "contents by such a name, $locale" 'データ/猫.jpg' "$(cat restored/データ/猫.jpg)"
done
ok 'names in UTF-8'

# Hostile ones
refuses 'dotdot.tar/a/../../out leads out of the archive by .\.\.' dotdot.tar
grep -q "2 of the archives' members cannot be packed; leave them out with --keep-going" err || fail 'no count'
refuses 'devices.tar/null is a device' devices.tar
refuses 'devices.tar/pipe is a fifo' devices.tar
refuses 'links.tar/none is a hard link to a name that is not before it' links.tar
refuses "^fs-prepare: s/x is in below.tar, but 's' is no directory" below.tar
grep -q '^fs-prepare: 2 names collide; leave them out' err || { cat err >&2; fail 'the advice for one SOURCE'; }
refuses "^fs-prepare: f/x is in below.tar, but 'f' is no directory" below.tar
refuses 'many.tar/../m09 leads out' many.tar
equal 'ten are named' 10 "$(grep -c 'leads out' err)"
grep -q 'and 5 more' err || fail 'no count'
refuses 'cut.tar/second is cut off by the end of the archive' cut.tar
refuses 'cut.tgz/second is damaged' cut.tgz
refuses "flip.tgz is damaged: 'gzip -t' refuses it, and any of its members may be wrong" flip.tgz
refuses 'bomb.tar/huge (claims|is cut off)' bomb.tar
refuses 'bomb.tar.gz/huge claims' bomb.tar.gz
refuses 'bomb.zip/zeros claims to have more bytes' bomb.zip
refuses 'crc.zip: member bad is damaged: .*CRC' crc.zip
refuses 'hurt.zip: member large is damaged' hurt.zip
refuses 'header.tar is damaged after first: what follows, up to the next good header, cannot be read' header.tar
equal 'lines about one header' 2 "$(wc -l <err)"
refuses 'noise.tar: neither a directory nor an archive' noise.tar
head -c 30 f.tar.lz4 >cut.tar.lz4
refuses 'cut.tar.lz4: neither a directory nor an archive .*: truncated lz4' cut.tar.lz4
: >empty.tar
refuses 'empty.tar: neither a directory nor an archive .*: the file is empty' empty.tar
for archive in dotdot devices below; do
  rm -rf ds
  expect_status 3 "$prepare" pack --keep-going $archive.tar ds
  equal "what is left of $archive" "$([ $archive = below ] && printf 'f\ns' || echo ok)" "$("$prepare" list ds)"
done
rm -rf ds
expect_status 1 "$prepare" pack --keep-going cut.tgz ds
grep -q "^fs-prepare: cut.tgz is damaged: 'gzip -t' refuses it" err || { cat err >&2; fail 'gzip -t'; }
expect_status 3 "$prepare" pack --keep-going --mount "$mnt" --source a=flip.tgz --source b=header.tar.gz ds
equal "what is left of a damaged archive" "$(printf 'b\nb/first\nb/last')" "$("$prepare" list ds)"
for archive in hurt.zip header.tar header.tar.gz pax.tar pax.tar.gz described.tar described.tar.gz; do
  rm -rf ds restored
  expect_status 3 "$prepare" pack --left-out list $archive ds
  grep -qE '^fs-prepare: (hurt.zip/large is damaged|(header|pax|described).tar(.gz)? is damaged after first: .*)$' err || { cat err >&2; fail $archive; }
  equal "what is left of $archive" "$(printf 'first\nlast')" "$("$prepare" list ds)"
  expect_status 0 "$prepare" unpack ds restored
  equal "after the damage in $archive" last "$(cat restored/last)"
  [ $archive = hurt.zip ] || grep -q "^{\"path\": \"\", \"why\": \"$archive is damaged after first" list || fail "no $archive in the list"
done
rm -rf ds kept
mkdir kept
cp header.tar kept
expect_status 3 "$prepare" pack --left-out kept/list --mount "$mnt" --source a=header.tar --source b=kept ds
equal "a list in SOURCE" "$(printf 'a\na/first\na/last\nb\nb/header.tar')" "$("$prepare" list ds | sort)"
ok 'bad members are named, and refused or left out'

# Shards
for kind in shard zipped; do
  rm -rf merged nested
  mkdir merged nested
  for archive in "$kind"-*.tar*; do
    mkdir "nested/${archive%%.*}"
    tar xf "$archive" -C "nested/${archive%%.*}"
    tar xf "$archive" -C merged
  done
  packs $kind-*
  same nested "$kind, nested"
  packs --shards merge --mount "$mnt" $kind-*
  same merged "$kind, merged"
done
expect_status 2 "$prepare" pack --shards merge shard-* ds
one_line err 'give one with --mount'
refuses "is in shard-001.tar and in shard-001.tar" --shards merge --mount "$mnt" shard-001.tar shard-001.tar
grep -q '60 names collide; give each SOURCE its own directory' err || fail 'no advice'
packs --shards nest shard-003.tar
equal 'a single nested shard' shard-003 "$("$prepare" list ds | sed -n 1p)"
ok 'shards, nested and merged'

# Several SOURCEs
rm -rf merged
mkdir -p merged/val/v2
cp -a src merged/train
tar xf odd.tar -C merged/val/v2 --warning=no-timestamp
chmod 755 merged/val/v2/{a,a/b,dir/x}
packs --mount "$mnt" --source train=src --source val/v2=odd.tar.gz
same merged prefixes
packs --mount "$mnt" --replicate train --exclude 'val/**' --source train=src --source val/v2=odd.tar
equal 'an excluded tree' '' "$("$prepare" list ds | grep val/v2/ || true)"
"$prepare" info ds | grep -q 'on every node' || fail 'no replicated partition'
mkdir -p parent/{a,b}
echo a >parent/a/f
echo b >parent/b/f
packs parent/a parent/b
equal 'directories keep their paths' "$work/parent" "$("$prepare" info ds | awk '$1 == "mount" { print $2 }')"
same parent 'two directories'
for bad in =x x= x ../a=src a/../b=src /a=src; do
  expect_status 2 "$prepare" pack --source "$bad" ds
  [ "$bad" != =x ] || continue
  one_line err -- '--source|missing'
done
refuses 'is in src and in f.tar' --mount "$mnt" --source x=src --source x=f.tar
for option in '--order size' '--dereference all'; do
  # shellcheck disable=SC2086 # two words
  refuses 'does not work with' $option f.tar.gz
done
packs --order size f.tar
same src 'a plain tar by size'
ok 'several SOURCEs'

# --files-from
printf '%s\n' sub/f1 ./sub//f2 text sub/empty sub/symbolic text >list
packs --files-from list src
equal 'what is packed' 'sub
text
sub/empty
sub/f1
sub/f2
sub/symbolic' "$("$prepare" list ds)"
cmp src/sub/f1 restored/sub/f1
equal 'the mode of a directory' 700 "$(stat -c %a restored/sub/empty)"
(cd src && find . -print0) >all
packs --null --files-from all src
same src 'all names'
rm -rf ds
expect_status 0 bash -c 'cd src && find . -type f | "$1" pack --files-from - . ../ds' - "$prepare"
equal 'standard input' "$(find src -type f -printf x | wc -c)" "$("$prepare" info --json ds | "$python" -c 'import json, sys; print(json.load(sys.stdin)["files"])')"
printf 'sub/no\ntext/below\nsub/symbolic/x\n' >list
refuses 'src/sub/no is not there' --files-from list src
refuses "src/text is no directory, but --files-from names" --files-from list src
for name in /etc/passwd ../x a/../../x; do
  printf '%s\n' "$name" >list
  refuses "list: the name '$name' " --files-from list src
done
refuses 'end.* with NUL; give --null' --files-from all src
refuses 'does not work with archives' --files-from list f.tar
expect_status 2 "$prepare" pack --null src ds
one_line err -- '--null is for --files-from'
ok 'names from a list'
