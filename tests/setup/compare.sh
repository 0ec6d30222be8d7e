#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# Compares a mount with the directory that was packed, by ordinary tools: compare.sh SOURCE MOUNT SCRATCH. Run with the
# library preloaded; says where it differs and fails.
set -euo pipefail
export LC_ALL=C
source=$1 mount=$2 scratch=$3
mkdir -p "$scratch"

wrong() {
  echo "differs: $*" >&2
  exit 1
}
[ -d "$mount" ] || wrong "$mount is no directory"
# Directories' sizes and link counts are the file system's own affair.
list() { # DIRECTORY
  find "$1" \( -type d -printf '%P|d|%m|%T@\0' \) -o -printf '%P|%y|%m|%T@|%s|%n|%l\0' | sort -z | tr '\0\n' '\n?'
}
list "$source" >"$scratch/list.source"
list "$mount" >"$scratch/list.mount"
diff "$scratch/list.source" "$scratch/list.mount" | head -n 20
cmp "$scratch/list.source" "$scratch/list.mount" || wrong find
sums() { (cd "$1" && find . -type f -print0 | sort -z | xargs -0 md5sum); }
sums "$source" >"$scratch/sums.source"
sums "$mount" >"$scratch/sums.mount"
diff "$scratch/sums.source" "$scratch/sums.mount" | head -n 20
cmp "$scratch/sums.source" "$scratch/sums.mount" || wrong md5sum
tar -C "$mount" -cf "$scratch/mount.tar" .
tar -C "$source" -df "$scratch/mount.tar" || wrong tar
rm "$scratch/mount.tar"
cp -a "$mount" "$scratch/copy"
env -u LD_PRELOAD diff -r --no-dereference "$source" "$scratch/copy" || wrong cp
list "$scratch/copy" >"$scratch/list.copy"
# Hard links between files are made again by cp -a, those out of the tree are not: compare what find shows but the count.
cmp <(cut -d'|' -f1-5,7- "$scratch/list.source") <(cut -d'|' -f1-5,7- "$scratch/list.copy") || wrong "cp -a"
chmod -R u+rwX "$scratch/copy"
rm -rf "$scratch/copy"
diff -r --no-dereference "$source" "$mount" || wrong diff
