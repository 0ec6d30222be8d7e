#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# slow
# waits
# Programs hold and wait for locks while two daemons of four are killed or stopped at random moments: no two programs of
# living nodes have one lock, nobody waits too long, and the locks can be had afterwards.
. "$(dirname "$0")/../functions.sh"
. "$(dirname "$0")/outputs.bash"

small_outputs_dataset
for ((i = 0; i < ${ROUNDS:-3}; i++)); do
  expect_status 0 launch --dataset "$work/ds" --emulate 4 --deadline 2000 --discard -- "$python" "$here/locks_faults.py" "$mnt" 2
  grep -e '^ok - ' -e '^-- ' "$work/out"
  rm -rf "$work"/local/*/outputs-* "$TMPDIR"/fanstore-* "$TMPDIR/marks"
done
