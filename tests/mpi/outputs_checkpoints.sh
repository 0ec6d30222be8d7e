#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# Checkpoints, arrays, logs and databases, by the libraries that training programs use, written on one node and read on two;
# and locks.
. "$(dirname "$0")/../functions.sh"
here=$(cd "$(dirname "$0")" && pwd)
python=/usr/bin/python3

random_files "$work/source" 5 3 1 100
pack "$work/source" "$work/ds" --partitions 1 --mount "$mnt"
# shellcheck disable=SC2016 # for the command's shell
launch --dataset "$work/ds" --emulate 2 -- sh -c '"$1" "$2/outputs_checkpoints.py" "$3" && "$1" "$2/outputs_locks.py" "$3" "$4"' \
  sh "$python" "$here" "$mnt" "$mnt/$(cd "$work/source" && find . -type f -size +0 -printf '%P\n' -quit)" >"$work/out" 2>"$work/err" ||
  fail "$(tail -1 "$work/out") $(cat "$work/err")"
cat "$work/out"
[ "$(grep -c '^ok' "$work/out")" -ge 8 ] || fail "too little was tried"
no_leftovers
