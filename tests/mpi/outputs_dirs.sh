#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# timeout: 300
# Output directories are renamed to other parents, by nodes of 2 and of 4, and no directory ends up below itself.
. "$(dirname "$0")/../functions.sh"
here=$(cd "$(dirname "$0")" && pwd)

random_files "$work/source" 5 2 1 100 1000
pack "$work/source" "$work/ds" --partitions 2 --mount "$mnt"
for n in 2 4; do
  # shellcheck disable=SC2016
  launch --dataset "$work/ds" --emulate $n -- bash -c 'mkdir "$2/dirs" && /usr/bin/python3 "$1" "$2" "$3"' - \
    "$here/outputs_dirs.py" "$mnt" $n 2>"$work/err" >"$work/out" || fail "$n nodes: $(tail -1 "$work/out") $(cat "$work/err")"
  sed "s/^ok - /ok - $n nodes: /" "$work/out"
  no_leftovers
done
