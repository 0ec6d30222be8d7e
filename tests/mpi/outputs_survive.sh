#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# The names of output files survive the death of any one daemon of four: here of one, in outputs_survive_each.sh of each in
# turn, in a job of its own.
. "$(dirname "$0")/../functions.sh"
here=$(cd "$(dirname "$0")" && pwd)

random_files "$work/source" 5 2 1 100 1000
pack "$work/source" "$work/ds" --partitions 4 --mount "$mnt"
for victim in ${VICTIMS:-$((RANDOM % 4))}; do
  launch --dataset "$work/ds" --emulate 4 --deadline 2000 --discard -- /usr/bin/python3 "$here/outputs_survive.py" "$mnt" 4 "$victim" \
    "$work/local" 2>"$work/err" >"$work/out" || fail "daemon $victim: $(cat "$work/out" "$work/err")"
  sed "s/^ok - /ok - daemon $victim: /" "$work/out"
done
