#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# interposer_threads.c with 16 threads: with the library alone, in a job of two nodes, and with other allocators loaded
# before and after the library. The allocators are from the packages of tests/setup/packages.sh clients.
# slow
# long: 30
. "$(dirname "$0")/../functions.sh"
here=$(cd "$(dirname "$0")" && pwd)
need_command cc

plain_dir=$work/source
mkdir -p "$plain_dir"
for i in $(seq 0 9); do head -c $((i * i * 2000)) /dev/urandom >"$plain_dir/f$i"; done
cc -std=gnu11 -D_GNU_SOURCE -O1 -w -pthread -o "$work/threads" "$here/interposer_threads.c"
pack "$plain_dir" "$work/ds" --partitions 2
pack "$plain_dir" "$work/ds-lz4" --codec lz4

# with LIBRARIES DATASET SECONDS
with() {
  FANSTORE_DATASET="$2" FANSTORE_MOUNT="$mnt" LD_PRELOAD="$1" timeout 120 "$work/threads" "$plain_dir" "$mnt" "$3" 16
}
say "16 threads"
with "$lib" "$work/ds" 10
with "$lib" "$work/ds-lz4" 5
say "16 threads in a job"
launch --dataset "$work/ds" --mount "$mnt" --emulate 2 -- timeout 120 "$work/threads" "$plain_dir" "$mnt" 10 16

found=0
for name in libjemalloc.so.2 libtcmalloc_minimal.so.4; do
  allocator=$(ldconfig -p | awk -v name="$name" '$1 == name && !n++ { print $NF }')
  [ -n "$allocator" ] || continue
  found=1
  for both in "$lib:$allocator" "$allocator:$lib"; do
    say "$both"
    with "$both" "$work/ds" 3
    # Something of Python's size, whose allocator works before the library's start.
    equal "$both" "$(md5sum <"$plain_dir/f9")" "$(FANSTORE_DATASET="$work/ds" FANSTORE_MOUNT="$mnt" LD_PRELOAD="$both" \
      "$python" -c 'import hashlib, sys; print(hashlib.md5(open(sys.argv[1], "rb").read()).hexdigest() + "  -")' "$mnt/f9")"
  done
done
no_leftovers
[ $found = 1 ] || skip "neither jemalloc nor tcmalloc here; all else passed"
