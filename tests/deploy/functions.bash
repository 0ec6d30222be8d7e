# SPDX-License-Identifier: BSD-3-Clause
# shellcheck shell=bash
# What the tests of deployment share. Sourced after ../functions.sh. A copy is a root directory
# whose changes go to memory: an overlay in a mount namespace of its own.
. "$root/tests/systems/functions.bash"
# What apt fetches in copies is kept there.
archives=${FS_SYSTEMS_CACHE:-${HOME:-/root}/.cache/fanstore-systems}/archives
mkdir -p "$archives/partial"

# in_copy ROOT COMMAND...: runs it in a copy of ROOT, with the source tree, the build and TMPDIR at
# the same paths. $work/changed then has the files that are other than in ROOT, apart from those of
# dpkg, apt, logs and temporary directories.
cat >"$work/copy.sh" <<'END'
set -eu
system=$1 archives=$2 changed=$3
shift 3
copy=$(mktemp -d -p "${changed%/*}")
mount -t tmpfs tmpfs "$copy"
mkdir "$copy/upper" "$copy/work" "$copy/root"
mount -t overlay overlay -o "lowerdir=$system,upperdir=$copy/upper,workdir=$copy/work" "$copy/root"
mount -t proc proc "$copy/root/proc"
mount -t sysfs sysfs "$copy/root/sys"
mount --rbind /dev "$copy/root/dev"
mkdir -p "$copy/root/var/cache/apt/archives"
mount --bind "$archives" "$copy/root/var/cache/apt/archives"
cp /etc/resolv.conf "$copy/root/etc/resolv.conf"
while [ "$1" != -- ]; do
  mkdir -p "$copy/root$1"
  mount --bind "$1" "$copy/root$1"
  shift
done
shift
status=0
chroot "$copy/root" "$@" || status=$?
(cd "$copy/upper" && find . ! -type d) | grep -vE \
  '^\./(var/(lib/(dpkg|apt)|log|cache)/|(var/)?tmp/|run/|etc/(ld\.so\.cache|resolv\.conf)$)' >"$changed" || :
exit $status
END
in_copy() {
  local system=$1
  shift
  unshare -m bash "$work/copy.sh" "$system" "$archives" "$work/changed" \
    "$root" "$build" "$TMPDIR" -- "$@"
}
# the_deb: prints the path of the package, which it makes if something is newer
the_deb() {
  local package
  command -v dh >/dev/null || skip "no debhelper here"
  exec 8>"$build/test-deb.lock"
  flock 8
  package=$(compgen -G "$build/test-deb/fanstore_*.deb") || :
  if [ -z "$package" ] || find "$root/docs" "$root"/*.md "$root/Makefile" "$bin" "$lib" \
    -newer "$package" | grep -q .; then
    DEB_BUILD_OPTIONS=noautodbgsym make -C "$root" --no-print-directory deb DEB="$build/test-deb" \
      DEBFULLNAME=Site DEBEMAIL=fanstore@site.invalid >"$work/make_deb" 2>&1 || {
      tail -n 20 "$work/make_deb" >&2
      fail "make deb"
    }
  fi
  compgen -G "$build/test-deb/fanstore_*.deb"
  exec 8>&-
}
