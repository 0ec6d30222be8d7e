# SPDX-License-Identifier: BSD-3-Clause
# shellcheck shell=bash
# Runs a command with a directory at another path, read-only: native.bash DIRECTORY PATH COMMAND... To be started in a
# mount namespace of its own. PATH's parent is hidden by an empty file system, so that nothing is made in the real one.
set -euo pipefail
source=$1 path=$2
shift 2
mount --make-rprivate /
mount -t tmpfs -o mode=755 none "$(dirname "$path")"
mkdir "$path"
mount --bind "$source" "$path"
mount -o remount,ro,bind "$path"
if (: >"$path/.write") 2>/dev/null; then exit 1; fi
exec "$@"
