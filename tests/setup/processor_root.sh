#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# Makes a root directory with Debian's programs for another processor and prints its path:
# processor_root.sh {aarch64|ppc64le} PACKAGE...
# Downloads the packages and all that they depend on, and unpacks them. No script of a package runs,
# and this machine's own packages stay as they are. A root that is there with the same packages is
# only named. Roots are below FS_SYSTEMS_CACHE (~/.cache/fanstore-systems). Packages come from the
# mirror that this machine uses, or from FS_SYSTEMS_MIRROR. The status is 77 if that does not answer
# or does not have the processor.
set -euo pipefail
[ $# -gt 1 ] || { echo "usage: $0 {aarch64|ppc64le} PACKAGE..." >&2; exit 2; }
processor=$1
shift
case $processor in
  aarch64) arch=arm64 ;;
  ppc64le) arch=ppc64el ;;
  *) echo "$0: no processor '$processor'" >&2; exit 2 ;;
esac
suite=${FS_PROCESSORS_SUITE:-bookworm}
cache=${FS_SYSTEMS_CACHE:-$HOME/.cache/fanstore-systems}
top=$cache/$suite-$processor
mirror=$("${0%/*}/mirror.sh")
log=$(mktemp)
trap 'rm -f "$log"' EXIT

mkdir -p "$cache"
exec 9>"$top.lock"
flock 9 # two tests want the same root
if [ "$(cat "$top/made" 2>/dev/null)" = "$*" ]; then
  echo "$top"
  exit 0
fi

# apt with a list of installed packages of its own, which is empty.
state=$top.apt
mkdir -p "$state/lists/partial" "$state/archives/partial"
echo "deb [signed-by=/usr/share/keyrings/debian-archive-keyring.gpg] $mirror $suite main" >"$state/sources.list"
: >"$state/status"
apt() {
  apt-get -q -y -o APT::Architecture="$arch" -o APT::Architectures="$arch" -o Dir::State="$state" \
    -o Dir::State::status="$state/status" -o Dir::State::lists="$state/lists" -o Dir::Cache="$state" \
    -o Dir::Cache::archives="$state/archives" -o Dir::Etc::sourcelist="$state/sources.list" \
    -o Dir::Etc::sourceparts=/dev/null -o APT::Install-Recommends=false -o APT::Sandbox::User=root \
    -o Acquire::Languages=none -o Acquire::Retries=3 -o Debug::NoLocking=1 "$@" </dev/null >"$log" 2>&1 || {
    tail -n 20 "$log" >&2
    echo "the packages for $processor ($suite) cannot be had from $mirror" >&2
    exit 77
  }
}
apt update
apt --download-only install "$@"

rm -rf --one-file-system "$top"
mkdir -p "$top"/{usr/{bin,sbin,lib,lib64,local/bin},proc,dev,sys,tmp,etc}
for dir in bin sbin lib lib64; do ln -s "usr/$dir" "$top/$dir"; done
for package in "$state"/archives/*.deb; do
  dpkg-deb --fsys-tarfile "$package" | tar -x --keep-directory-symlink -C "$top"
done
# What the packages' scripts would do, as far as it is needed.
ln -sf bash "$top/bin/sh"
ln -sf mawk "$top/bin/awk"
printf '%s\n' root:x:0:0::/:/bin/bash user:x:1000:1000::/tmp:/bin/bash \
  nobody:x:65534:65534::/:/bin/false >"$top/etc/passwd"
printf '%s\n' root:x:0: user:x:1000: nogroup:x:65534: >"$top/etc/group"
# A compiler that follows an absolute link would leave the root.
while read -r link; do
  target=$(readlink "$link")
  ln -sfnr "$top$target" "$link"
done < <(find "$top" -type l -lname '/*')
rm -rf "$state"
echo "$*" >"$top/made"
echo "$top"
