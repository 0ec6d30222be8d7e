#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# timeout: 200
# Output files and processes: how they end, what their children inherit, where their standard output goes.
. "$(dirname "$0")/../functions.sh"
here=$(cd "$(dirname "$0")" && pwd)
python=/usr/bin/python3

random_files "$work/source" 20 3 1 100 5000
pack "$work/source" "$work/ds" --partitions 2 --mount "$mnt"
for n in 2 4; do
  launch --dataset "$work/ds" --emulate $n --cache 16M -- "$python" "$here/outputs_processes.py" "$mnt" $n 2>"$work/err" >"$work/out" ||
    fail "$n nodes: $(tail -1 "$work/out") $(cat "$work/err")"
  sed "s/^ok - /ok - $n nodes: /" "$work/out"
  no_leftovers
done
