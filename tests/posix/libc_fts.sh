#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# fts and nftw in all combinations of their options (libc_fts.c): what a program sees of each step is the same on a
# plain directory, at a mount where no directory is, and at one over a directory with other files.
. "$(dirname "$0")/../functions.sh"
need_command cc
# Each change of directory makes one and removes it (docs/internals/descriptors.md, section 6): in memory, where that is quick.
export TMPDIR
[ ! -w /dev/shm ] || TMPDIR=/dev/shm

source=$work/mnt/nowhere # the same last component as the mount's: it is printed
mkdir -p "$source/d/sub/deep" "$source/empty" "$source/loops"
number_lines 100 >"$source/a.txt"
for i in 0 1 2; do head -c $((i * 1000)) /dev/urandom >"$source/d/f$i"; done
echo hello >"$source/d/sub/t.txt"
echo x >"$source/d/sub/deep/y"
ln -s a.txt "$source/link"
ln -s none "$source/dangling"
ln -s loop "$source/loops/loop"
ln -s d "$source/to-d"
ln -s ../d "$source/d/up"
ln -s ../../a.txt "$source/d/sub/file-link"
ln -s nothing "$source/d/sub/dangling"
cc -std=gnu11 -D_GNU_SOURCE -O1 -w -o "$work/walks" "$(dirname "$0")/libc_fts.c"
pack "$source" "$work/ds"

(cd / && "$work/walks" "$source") >"$work/native"
[ "$(grep -c '^==' "$work/native")" -gt 2500 ] || fail "too few walks"
say "the directory itself, with a mount elsewhere"
(cd / && plain "$work/ds" "$work/elsewhere" "$work/walks" "$source") >"$work/mounted"
cmp "$work/native" "$work/mounted" || { diff "$work/native" "$work/mounted" | head -n 20; fail "walks differ"; }
mv "$source" "$work/original"
say "no directory at the mount"
(cd / && plain "$work/ds" "$source" "$work/walks" "$source") >"$work/mounted"
cmp "$work/native" "$work/mounted" || { diff "$work/native" "$work/mounted" | head -n 20; fail "walks differ"; }
say "other files at the mount"
mkdir -p "$source/d/other"
touch "$source/d/f9"
(cd / && plain "$work/ds" "$source" "$work/walks" "$source") >"$work/mounted"
cmp "$work/native" "$work/mounted" || { diff "$work/native" "$work/mounted" | head -n 20; fail "walks differ"; }

say "a walk that begins above the mount shows the dataset, not what it covers"
cat >"$work/list.c" <<'END'
#include <fts.h>
#include <stdio.h>
int main(int argc, char **argv) {
  FTS *walk = fts_open(argv + 1, FTS_PHYSICAL, NULL);
  for (FTSENT *e; (e = fts_read(walk)) != NULL;) puts(e->fts_name);
  return fts_close(walk);
}
END
cc -w -o "$work/list" "$work/list.c"
plain "$work/ds" "$source" "$work/list" "$work/mnt" >"$work/out"
grep -qx t.txt "$work/out" || fail "the dataset is not shown"
if grep -qx other "$work/out"; then fail "what the mount covers is shown"; fi
