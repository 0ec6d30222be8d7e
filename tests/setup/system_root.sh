#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# Makes a root directory of another Debian and prints its path: system_root.sh SUITE [PACKAGE...]
# The root has python3, git and the packages. Each part is made once: a root that is there and has
# the packages is only named. Roots are below FS_SYSTEMS_CACHE (~/.cache/fanstore-systems).
# Needs root and debootstrap. Packages come from the mirror that this machine uses, or from
# FS_SYSTEMS_MIRROR. The status is 77 if that does not answer or does not have the suite.
set -euo pipefail
[ $# -gt 0 ] || { echo "usage: $0 SUITE [PACKAGE...]" >&2; exit 2; }
suite=$1
shift
cache=${FS_SYSTEMS_CACHE:-${HOME:-/root}/.cache/fanstore-systems}
top=$cache/$suite

mirror=$("${0%/*}/mirror.sh")
log=$(mktemp)
trap 'rm -f "$log"' EXIT
quietly() {
  "$@" </dev/null >"$log" 2>&1 || {
    tail -n 20 "$log" >&2
    if grep -qE "Failed getting release|Couldn't download|Could not resolve|Failed to fetch|Could not connect" "$log"; then
      echo "$suite cannot be had from $mirror" >&2
      exit 77
    fi
    echo "failed: $*" >&2
    exit 1
  }
}
# Runs a command in the root, with the network's names and /proc, in namespaces of its own.
inside() {
  # shellcheck disable=SC2016 # expanded inside
  quietly unshare -m bash -c '
    mount -t proc proc "$1/proc" && mount --bind /dev "$1/dev" && exec chroot "$@"' \
    inside "$top" /usr/bin/env -u TMPDIR PATH=/usr/sbin:/usr/bin:/sbin:/bin \
    DEBIAN_FRONTEND=noninteractive LC_ALL=C "$@"
}

mkdir -p "$cache"
exec 9>"$cache/$suite.lock"
flock 9 # two tests want the same root
if [ ! -e "$top/made" ]; then
  # A root that was not finished is made anew.
  rm -rf --one-file-system "$top"
  quietly debootstrap --variant=minbase --include=python3,git "$suite" "$top" "$mirror"
  touch "$top/made"
fi
lacking=()
for package; do
  compgen -G "$top/var/lib/dpkg/info/$package.list" >/dev/null ||
    compgen -G "$top/var/lib/dpkg/info/$package:*.list" >/dev/null || lacking+=("$package")
done
if [ ${#lacking[@]} -gt 0 ]; then
  cp /etc/resolv.conf "$top/etc/resolv.conf"
  inside apt-get -q -y -o Acquire::Retries=3 update
  inside apt-get -q -y -o Acquire::Retries=3 --no-install-recommends install "${lacking[@]}"
  inside apt-get -q clean
fi
echo "$top"
