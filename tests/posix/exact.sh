#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# Every file and attribute through the mount, with the library alone: by find, md5sum, tar, cp and diff, for each codec,
# at a path where no directory is and at one where the real directory holds other bytes.
. "$(dirname "$0")/../functions.sh"

make_tree "$work/source"
cp -a "$work/source" "$work/original" # to compare with: the library must not be able to cheat by it
for codec in auto raw lz4; do
  say "$codec, no directory at the mount"
  pack "$work/source" "$work/ds-$codec" --codec $codec --partitions 5 --mount "$mnt"
  [ ! -e "$mnt" ] || fail "$mnt is there"
  plain "$work/ds-$codec" "$mnt" "$root/tests/setup/compare.sh" "$work/original" "$mnt" "$work/scratch"
done

say "decoys at the mount, and small blocks"
pack "$work/source" "$work/ds-small" --block-size 16K --codec lz4
chmod -R u+rwX "$work/source"
rm -rf "$work/source"
decoy "$work/original" "$work/source"
cmp -s "$work/source/sizes/random-16385.bin" "$work/original/sizes/random-16385.bin" && fail "no decoy"
plain "$work/ds-small" "" "$root/tests/setup/compare.sh" "$work/original" "$work/source" "$work/scratch"
no_leftovers
