#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# A dataset with a damaged byte: verify and unpack find it, and no reader crashes or gets wrong bytes.
# CORRUPT_SECONDS=0 tries every place, which takes minutes.
. "$(dirname "$0")/../functions.sh"

mkdir -p "$work/source/dir/sub"
cd "$work/source"
random() { "$python" -c "import random, sys; sys.stdout.buffer.write(random.Random($1).randbytes($1))"; }
random 20000 >random.bin # raw, aligned
"$python" -c 'print("\n".join(str(i * i) for i in range(9000)))' >dir/squares.txt # lz4, several blocks
random 49152 >dir/blocks.raw
seq 600 >dir/sub/one-block
printf tiny >dir/sub/tiny
: >dir/empty
random 4096 >page
ln random.bin dir/hard
cp random.bin dir/twin
ln -s dir/sub/tiny symlink
ln -s symlink dir/../chain
touch -d '2001-02-03 04:05:06.789' dir page
cd "$work"
pack source ds --partitions 2 --block-size 16K
"$python" "$root/tests/prepare/corrupt.py" "$bin/fs-prepare" "$lib" "$work/source" "$work/ds" \
  "${CORRUPT_SECONDS:-15}"
