#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# rest: other numbers of nodes
# Libraries, extension modules, programs and scripts that were written below the mount, on their home and on another node.
# Kernel AIO of an output (tests/posix/kaio.c), and fs-launch --no-io-uring.
. "$(dirname "$0")/../functions.sh"
. "$(dirname "$0")/outputs.bash"
need_command gcc

small_outputs_dataset
for n in $(half 2 1); do seen_on "$n" -- "$python" "$here/outputs_libraries.py" "$mnt" "$n"; done
! rest || exit 0

cc -O1 -w -o "$work/kaio" "$here/../posix/kaio.c" -laio -luring
file=$(cd "$work/source" && find . -type f | sort | head -n 1)
"$work/kaio" "$work/source/$file" /etc/passwd "$work/new" | grep -av '^ring' >"$work/native"
# shellcheck disable=SC2016
expect_status 0 "$bin/fs-launch" --dataset "$work/ds" --mount "$mnt" --local-dir "$work/local" --emulate 2 --discard \
  --no-io-uring -- bash -c 'for n in 0 1; do for m in 0 1; do
    FANSTORE_NODE=$n "$0" "$1" /etc/passwd "$2/new-$n-$m" >"$3/kaio.$n.$m" || exit 1; FANSTORE_NODE=$((1 - n)) cat "$2/new-$n-$m"; done; done' \
  "$work/kaio" "$mnt/$file" "$mnt" "$work"
equal "what the other node reads" "$(printf 'helloworld%.0s' 1 2 3 4)" "$(cat "$work/out")"
for n in 0 1; do
  for m in 0 1; do
    diff <({ cat "$work/native"; echo 'ring -38'; } | LC_ALL=C sort) <(LC_ALL=C sort "$work/kaio.$n.$m") || fail "libaio on node $n"
  done
done
