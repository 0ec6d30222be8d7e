#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# fd_ends.c: handlers, files that are removed, limits and interruptions at the end of what a process writes of another
# node's file. END_SECONDS is for each (fd_ends.c): 2 when not set.
. "$(dirname "$0")/../functions.sh"
. "$(dirname "$0")/outputs.bash"
need_command cc

small_outputs_dataset
cc -std=gnu11 -D_GNU_SOURCE -O1 -w -pthread -o "$work/ends" "$here/../posix/fd_ends.c"
seconds=${END_SECONDS:-2}
cat >"$work/job" <<JOB
for i in f0 f1 g0 g1 g2 g3 g4 g5 g6 g7 g8 g9; do : >"$mnt/\$i"; done
FANSTORE_NODE=1
export FANSTORE_NODE
for what in signals emfile handler; do
  timeout -s KILL 60 "$work/ends" \$what "$mnt" $seconds && echo "ok - \$what" || { echo "FAILED: \$what: \$?"; exit 1; }
done
(FANSTORE_NODE=0; end=\$((SECONDS + $seconds + 1)); while [ \$SECONDS -lt \$end ]; do rm -f "$mnt/f1"; : >"$mnt/f1"; done) &
timeout -s KILL 60 "$work/ends" gone "$mnt" $seconds && echo "ok - gone" || { echo "FAILED: gone: \$?"; exit 1; }
wait
JOB
seen_on 2 -- bash "$work/job"
