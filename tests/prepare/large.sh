#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# fs-prepare and a file of more than 4 GiB (sparse): it is streamed in little memory, spread over the partitions, and
# comes back.
# long: 25
# slow
. "$(dirname "$0")/../functions.sh"

need_space 500
cd "$work"
mkdir source
truncate -s 4500M source/sparse
for at in 0 1000000 2147483647 4294967295 4718591990; do
  printf 'marker' | dd of=source/sparse bs=1 seek=$at conv=notrunc status=none
done
case $build in
  *san-*) ;; # sanitizers need address space of their own
  *) ulimit -v 700000 ;;
esac
pack source ds --codec lz4 --partitions 4 --jobs 4
expect_status 0 "$bin/fs-prepare" verify ds
"$bin/fs-prepare" info --json ds >info.json
equal 'partitions differ by less than a tenth' True \
  "$(json info.json 'max(p["size"] for p in r["partitions"]) < 1.1 * min(p["size"] for p in r["partitions"])')"
expect_status 0 "$bin/fs-prepare" unpack ds restored
cmp source/sparse restored/sparse || fail 'the content differs'
[ "$(stat -c %b restored/sparse)" -lt 100000 ] || fail 'zeros are no holes'
echo 'ok - a file of more than 4 GiB'
