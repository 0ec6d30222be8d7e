#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# fd_reopened.c: threads that open, write and close the same files of another node, one's open in another one's last close.
. "$(dirname "$0")/../functions.sh"
. "$(dirname "$0")/outputs.bash"
need_command cc

small_outputs_dataset
cc -std=gnu11 -D_GNU_SOURCE -O1 -w -pthread -o "$work/reopened" "$here/../posix/fd_reopened.c"
cat >"$work/job" <<JOB
for i in 0 1; do : >"$mnt/f\$i"; done
export FANSTORE_NODE=1
timeout 60 "$work/reopened" "$mnt" 5 && echo "ok - opened while it is closed"
JOB
seen_on 2 -- bash "$work/job"
