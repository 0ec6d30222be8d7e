# SPDX-License-Identifier: BSD-3-Clause
# shellcheck shell=bash
# What paths.sh and paths_long.sh share: a directory $top with $top/m/n/tree, which is a tmpfs in a namespace or a mount
# (no part of m/n/tree is there really, then), and $top/o, which is real and full of symlinks that lead there and back.
need_command cc unshare
unshare -Urm true 2>/dev/null || skip "no user namespaces here"
top=$work/q/q/q/q/q/q/q/q/q/q/q/q/top # deep enough that no path climbs to where anything changes
tree=$top/m/n/tree
source=$work/source
mkdir -p "$source/a" "$source/b" "$source/d/e" "$top/o/r1/r2"
echo 'c of the tree' >"$source/c.txt"
echo 'f of the tree' >"$source/d/e/f.txt"
echo 'extra of b' >"$source/b/extra"
echo 'a b' >"$source/a/a b"
echo 'newline' >"$source/a/nl"$'\n'x
echo 'not UTF-8' >"$source/a/"$'\xff'
ln -s a "$source/la"
ln -s .. "$source/lup"
ln -s .. "$source/d/e/lup"
ln -s "$tree/d" "$source/labs"
ln -s "$top/o" "$source/lout"
ln -s ../../../o/r1 "$source/lrel"
ln -s lloop "$source/lloop"
ln -s nothing "$source/ldang"
ln -s . "$source/lself"
ln -s c.txt "$source/lfile"
ln -s ../labs/e/f.txt "$source/a/lfile"
ln -s c.txt "$source/k1"
for i in {2..41}; do ln -s "k$((i - 1))" "$source/k$i"; done
echo 'file of o' >"$top/o/file"
echo 'extra of r2' >"$top/o/r1/r2/extra"
ln -s "$tree" "$top/o/om"
ln -s ../m/n/tree/a "$top/o/oma"
ln -s r1/r2 "$top/o/od"
ln -s .. "$top/o/oup"
ln -s ../m "$top/o/oanc"
ln -s nothing "$top/o/odang"
chmod -R u+rwX,go+rX "$source" "$top"
cc -std=gnu11 -D_GNU_SOURCE -O1 -w -o "$work/paths" "$root/tests/posix/paths.c"
pack "$source" "$work/ds" --partitions 2

# on_tmpfs COMMAND...: the tree is a file system
on_tmpfs() {
  mkdir -p "$tree"
  # shellcheck disable=SC2016
  unshare -Urm bash -c 'mount -t tmpfs -o mode=755 none "$1" && cp -a "$2/." "$1" && mount -o remount,ro "$1" && shift 2 &&
    exec "$@"' - "$tree" "$source" "$@"
  rmdir -p "$tree" 2>/dev/null || true
  [ ! -e "$top/m" ] || fail "$top/m is still there"
}
# on_mount COMMAND...: in the same kind of namespace
on_mount() {
  FANSTORE_DATASET=$work/ds FANSTORE_MOUNT=$tree unshare -Urm env LD_PRELOAD="$lib" "$@"
}
# compare WHAT INPUT ARGUMENT...: what the program says of both. Where they differ, the file system alone is asked again: a
# kernel that meets anybody's mount or umount in the middle of a walk begins it anew and goes on counting links, so that a
# path of 40 links is ELOOP where it is ENOTDIR (of stat calls on k40/la beside a thread that mounts: one in nine).
compare() {
  local what=$1 input=$2 try
  shift 2
  on_mount "$work/paths" "$top" "$tree" "$@" <"$input" >"$work/mount"
  for try in 1 2 3; do
    on_tmpfs "$work/paths" "$top" "$tree" "$@" <"$input" >"$work/native"
    cmp -s "$work/native" "$work/mount" && return
    say "$what, try $try: they differ"
  done
  diff -a "$work/native" "$work/mount" | head -n 10
  fail "$what: the mount answers otherwise (< file system, > mount)"
}
