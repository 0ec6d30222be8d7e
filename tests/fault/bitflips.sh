#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# timeout: 1500
# Every bit of every structure of a small dataset flipped, one at a time, and a bit of every byte of its data: what a
# program sees is an error or what was packed, never another byte, name or attribute (bitflips.c). With the library
# alone an error is allowed; of what a node has staged, with --verify always, none is, since the shared copy is good.
# FLIP_SECONDS is for each part: 3 when not set, 0 for all flips (five minutes; bitflips_all.sh).
. "$(dirname "$0")/../functions.sh"
need_command cc
seconds=${FLIP_SECONDS-3}
source=$work/source
mkdir -p "$source/dir/sub" "$source/empty-dir"
cd "$source"
random() { "$python" -c "import random, sys; sys.stdout.buffer.write(random.Random($1).randbytes($1))"; }
random 17000 >raw.bin # of two blocks, on a page of its own
random 900 >dir/small
seq 5000 >dir/numbers # lz4, two blocks
seq 300 >dir/sub/one-block
printf tiny >dir/sub/tiny
: >dir/empty
ln raw.bin dir/hard
ln -s dir/sub/tiny symlink
ln -s ../nowhere dir/$'odd\n\xff'
touch -d '2001-02-03 04:05:06.789' dir raw.bin
cd "$work"
pack source ds --partitions 2 --block-size 16K
cc -std=gnu11 -D_GNU_SOURCE -O1 -w -o bitflips "$root/tests/fault/bitflips.c"

say "the dataset, with the library alone"
FANSTORE_VERIFY=always plain "$work/ds" "$mnt" ./bitflips source "$mnt" "$seconds" \
  "$work"/ds/{manifest,index,part-00000,part-00001}

say "what a node has staged"
staged=$work/local/fanstore
launch --dataset "$work/ds" --mount "$mnt" -- true
unleased "$staged"/*/{index,part-00000,part-00001}
cat >flip.sh <<END
cd "$work"
exec ./bitflips -s source "$mnt" "$seconds" "$staged"/*/{index,part-00000,part-00001}
END
launch --dataset "$work/ds" --mount "$mnt" --verify always --report r.json -- bash flip.sh
[ "$(json r.json 'r["nodes"][0]["checksum_errors"]')" -gt 0 ] || fail "nothing was found"
