#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# fd_replaced.c writing: a number that threads write another node's files by is replaced by dup2, while another thread
# writes files of its own.
. "$(dirname "$0")/../functions.sh"
. "$(dirname "$0")/outputs.bash"
need_command cc

small_outputs_dataset
cc -std=gnu11 -D_GNU_SOURCE -O1 -w -pthread -o "$work/replaced" "$here/../posix/fd_replaced.c"
cat >"$work/job" <<JOB
for i in 0 1 2 3 4 5 6 7; do : >"$mnt/b0\$i"; : >"$mnt/c0\$i"; done
export FANSTORE_NODE=1
timeout 60 "$work/replaced" "$mnt" 4 write && echo "ok - replaced while it is written"
JOB
seen_on 2 -- bash "$work/job"
