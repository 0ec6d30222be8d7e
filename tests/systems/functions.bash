# SPDX-License-Identifier: BSD-3-Clause
# shellcheck shell=bash
# What the tests of other systems share. Sourced after ../functions.sh. A system is a root directory
# that tests/setup/system_root.sh makes and keeps. A program runs in it by chroot, with /proc, /dev,
# /sys, the source tree, the build and the test's TMPDIR at the same paths, in a mount namespace of
# its own.
here=$root/tests/systems

# systems: the suites to test. FS_SYSTEMS names others.
systems() { tr ' ' '\n' <<<"${FS_SYSTEMS:-bullseye trixie}"; }

# need_systems: skips the test where roots cannot be made
need_systems() {
  [ "$(id -u)" = 0 ] || skip "debootstrap and chroot need root"
  need_command debootstrap unshare
  unshare -m true 2>/dev/null || skip "no mount namespaces here"
}
# system_root SUITE [PACKAGE...]: prints the root's path
system_root() {
  local status=0
  "$root/tests/setup/system_root.sh" "$@" || status=$?
  [ $status -ne 77 ] || exit 77 # it has said why
  [ $status -eq 0 ] || fail "no root for $1"
}

# enter ROOT COMMAND...: runs it in the root
export enter_script=$work/enter.sh # also for lanes (side_by_side), and for the shells of jobs
cat >"$enter_script" <<'END'
set -eu
system=$1
shift
mount -t tmpfs tmpfs "$system/tmp"
mount -t proc proc "$system/proc"
mount -t sysfs sysfs "$system/sys"
mount --rbind /dev "$system/dev"
while [ "$1" != -- ]; do
  mkdir -p "$system$1"
  mount --bind "$1" "$system$1"
  shift
done
shift
exec chroot "$system" "$@"
END
enter() {
  local system=$1
  shift
  unshare -m bash "$enter_script" "$system" "$root" "$build" "$TMPDIR" -- "$@"
}

# systems_source DIRECTORY: a tree for programs.bash
systems_source() {
  local i
  mkdir -p "$1/d/empty"
  number_lines 800 >"$1/a.txt"
  for i in {0..39}; do
    head -c $((i * 397 + 1)) /dev/zero | tr '\0' "\\$(printf %o $((65 + i % 26)))" >"$1/d/f$i"
  done
  "$python" -c 'import random, sys
random.seed(5)
sys.stdout.buffer.write(random.randbytes(700000))' >"$1/d/big"
  ln -s a.txt "$1/link"
  chmod 755 "$1/d/f1"
  git -C "$1" init -q
  git -C "$1" -c user.name=a -c user.email=a@b add .
  git -C "$1" -c user.name=a -c user.email=a@b -c gc.auto=0 commit -q -m first
  touch -d '2020-01-02 03:04:05.678' "$1/a.txt" "$1/d/f7"
  git -C "$1" update-index -q --refresh
}
# What programs.bash prints: programs ROOT DIRECTORY [VARIABLE=VALUE...]
programs() {
  local system=$1 dir=$2
  shift 2
  enter "$system" /usr/bin/env "$@" \
    bash "$here/programs.bash" "$dir" "$TMPDIR/scratch" "$here/programs.py"
}
# compared WHAT EXPECTED ACTUAL: files; both are long enough to be of all programs
compared() {
  [ "$(wc -l <"$2")" -gt 150 ] || fail "$1: the plain directory gives too little: $(tail "$2")"
  grep -q '^== python' "$2" || fail "$1: not all programs ran"
  diff "$2" "$3" >"$work/diff" || {
    head -n 30 "$work/diff" >&2
    fail "$1: the mount differs from the directory"
  }
}
