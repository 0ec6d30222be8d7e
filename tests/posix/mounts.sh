#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# Several datasets in one process, below one another and below a symlink, as file systems and as mounts: the same paths
# lead to the same places. Then a mount at a populated directory, whose own content never shows.
. "$(dirname "$0")/../functions.sh"
need_command cc unshare
unshare -Urm true 2>/dev/null || skip "no user namespaces here"

top=$work/q/q/q/top
mkdir -p "$work/outer/a/cover" "$work/outer/c" "$work/inner/sub" "$top/real/deep"
echo 'file of outer' >"$work/outer/file"
echo 'covered' >"$work/outer/a/cover/covered"
echo 'beside' >"$work/outer/a/beside"
ln -s x/y/in1/sub "$work/outer/to-in1"
ln -s ../x/y "$work/outer/c/to-y"
echo 'file of inner' >"$work/inner/file"
echo 'j of inner' >"$work/inner/sub/j"
ln -s ../../.. "$work/inner/up3"
ln -s real/deep "$top/link"
ln -s real "$top/other"
echo real >"$top/real/deep/file"
cc -std=gnu11 -D_GNU_SOURCE -O1 -w -o "$work/paths" "$root/tests/posix/paths.c"
pack "$work/outer" "$work/ds-outer"
pack "$work/inner" "$work/ds-inner"
outer=$top/m/outer

# The mount points are made where the kernel needs them; a mount needs none.
# shellcheck disable=SC2016
native='top=$1 work=$2 outer=$1/m/outer && shift 2 &&
  fill() { mkdir -p "$1" && mount -t tmpfs -o mode=755 none "$1" && cp -a "$2/." "$1"; } &&
  fill "$outer" "$work/outer" && fill "$outer/x/y/in1" "$work/inner" && fill "$outer/x/in2" "$work/inner" &&
  fill "$outer/a/cover" "$work/inner" && fill "$outer/a/beside.d/in3" "$work/inner" && fill "$top/link/in4" "$work/inner" &&
  exec "$@"'
{
  for p in m m/outer m/outer/file m/outer/x m/outer/x/ m/outer/x/y m/outer/x/y/in1 m/outer/x/y/in1/file m/outer/x/none \
    m/outer/x/y/in1/.. m/outer/x/y/in1/../.. m/outer/x/y/in1/../../../file m/outer/x/y/in1/up3 m/outer/x/y/in1/up3/file \
    m/outer/x/in2 m/outer/x/in2/sub/j m/outer/x/in2/up3 m/outer/x/../file m/outer/x/in2/../y/in1/file \
    m/outer/a m/outer/a/cover m/outer/a/cover/covered m/outer/a/cover/file m/outer/a/cover/.. m/outer/a/cover/../beside \
    m/outer/a/beside m/outer/a/beside.d m/outer/a/beside.d/in3 m/outer/a/beside.d/in3/sub/../file m/outer/to-in1 \
    m/outer/to-in1/j m/outer/to-in1/../file m/outer/to-in1/../../in1/file m/outer/c/to-y m/outer/c/to-y/in1/sub \
    m/outer/c/to-y/../in2/file m/outer/x/y/../../to-in1/j link link/ link/in4 link/in4/file link/in4/sub/.. link/in4/.. \
    link/in4/../file link/../in4 real/deep real/deep/in4 real/deep/in4/file real/deep/in4/sub real/deep/in4/../../deep/file \
    real/deep/none link/none other/deep other/deep/. other/deep/in4 other/deep/in4/.. other/../other/deep/in4; do
    echo "$top/$p"
  done
  for d in m/outer/x m/outer/x/y m/outer/x/y/in1/sub m/outer/a link/in4/sub real/deep/in4 real/deep m/outer; do
    printf '%s\n' "@$top/$d" . .. ../.. file ../file in1/file y/in1 cover/file in4/file x/in2/sub/j
  done
} >"$work/table"
FANSTORE_DATASET=$work/ds-outer$(printf ":$work/ds-inner%.0s" {1..5})
FANSTORE_MOUNT=$outer:$outer/x/y/in1:$outer/x/in2:$outer/a/cover:$outer/a/beside.d/in3:$top/link/in4
: >"$work/native"
unshare -Urm bash -c "$native" - "$top" "$work" "$work/paths" "$top" x - <"$work/table" >"$work/native"
rmdir -p "$outer" "$top/real/deep/in4" 2>/dev/null || true
for d in "$top/m" "$top/real/deep/in4"; do [ ! -e "$d" ] || fail "$d is still there"; done
run_mounts() {
  FANSTORE_DATASET=$FANSTORE_DATASET FANSTORE_MOUNT=$FANSTORE_MOUNT unshare -Urm env LD_PRELOAD="$lib" "$@"
}
run_mounts "$work/paths" "$top" x - <"$work/table" >"$work/mount"
say "$(wc -l <"$work/table") paths, six mounts"
diff -a "$work/native" "$work/mount" || fail "the mounts answer otherwise (< file systems, > mounts)"

say "the names of all six, by find, ls and du"
names() { find "$top" -printf '%P %y %s\n' | LC_ALL=C sort && ls -R "$top" && cd "$outer/x/y/in1/sub" && pwd -P && cd ../.. && pwd -P; }
export -f names
export top outer
unshare -Urm bash -c "$native" - "$top" "$work" bash -c names | sed -E 's/ d [0-9]+$/ d/' >"$work/native"
rmdir -p "$outer" "$top/real/deep/in4" 2>/dev/null || true
run_mounts bash -c names | sed -E 's/ d [0-9]+$/ d/' >"$work/mount"
diff -a "$work/native" "$work/mount" || fail "other names (< file systems, > mounts)"

say "one device for each mount, inode numbers of their own"
run_mounts "$python" - "$top" <<'END'
import os, sys
top = sys.argv[1]
mounts = [top + "/" + p for p in ("m/outer", "m/outer/x/y/in1", "m/outer/x/in2", "m/outer/a/cover", "link/in4")]
assert len({os.stat(m).st_dev for m in mounts}) == len(mounts)
for m in mounts:
    st, below = os.stat(m), [os.lstat(os.path.join(m, n)) for n in os.listdir(m)]
    mine = [s for s in below if s.st_dev == st.st_dev]
    assert len({s.st_ino for s in mine}) == len(mine) and st.st_ino not in {s.st_ino for s in mine}
    assert all(s.st_uid == os.geteuid() and s.st_gid == os.getegid() and s.st_nlink >= 1 for s in mine), m
    assert all(s.st_ctime_ns == s.st_mtime_ns for s in mine), m
assert os.stat(top + "/real/deep/in4").st_dev == os.stat(top + "/link/in4").st_dev
virtual = os.stat(top + "/m")
assert virtual.st_dev not in {os.stat(m).st_dev for m in mounts} and virtual.st_mode == 0o40755
for p in (top + "/link/in4/sub/j", top + "/m/outer/to-in1", top + "/m/outer/x/y/in1/up3"):
    real = os.path.realpath(p)
    assert os.path.samefile(real, p) and os.path.realpath(real) == real, p
    os.chdir(os.path.dirname(real))
    assert os.getcwd() == os.path.dirname(real)
END

say "a populated directory at the mount"
mkdir -p "$outer/x/y/in1" "$outer/a/cover" "$outer/extra/dir"
for f in file extra/dir/file x/y/in1/file x/decoy a/cover/covered only; do echo decoy >"$outer/$f"; done
run_mounts bash -ec 'cd "$0"; ! cat only extra/dir/file x/decoy a/cover/covered 2>/dev/null; cat file x/y/in1/file
  ls; ls x; cd x/y/in1; cat file; cd ..; ! cat decoy ../decoy 2>/dev/null; cd ..; [ ! -e decoy ]; ls ..' "$outer" >"$work/out" ||
  fail "the real directory shows"
! grep -aq 'decoy\|only\|extra' "$work/out" || fail "the real directory shows: $(cat "$work/out")"
no_leftovers
