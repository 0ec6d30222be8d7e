#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# timeout: 200
# kill -9 of a writer at random moments leaves what a local file system would, seen alike from every node: new files,
# replaced and appended ones, files of several writers. ROUNDS of it on 2 nodes, as many on 4.
. "$(dirname "$0")/../functions.sh"
here=$(cd "$(dirname "$0")" && pwd)

random_files "$work/source" 5 2 1 100 1000
pack "$work/source" "$work/ds" --partitions 2 --mount "$mnt"
for n in 2 4; do
  launch --dataset "$work/ds" --emulate $n -- /usr/bin/python3 "$here/outputs_kills.py" "$mnt" $n "${ROUNDS:-60}" \
    2>"$work/err" >"$work/out" || fail "$n nodes: $(cat "$work/out" "$work/err")"
  sed "s/^ok - /ok - $n nodes: /" "$work/out"
  no_leftovers
done
