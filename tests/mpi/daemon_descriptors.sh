#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# timeout: 120
# More partitions on a node than descriptors: clients are served all the same.
. "$(dirname "$0")/../functions.sh"
. "$(dirname "$0")/daemons.bash"

mkdir -p "$work/source"
for i in $(seq 400); do printf '%s' "$i" >"$work/source/$i"; done
partitions=400
pack "$work/source" "$work/ds" --partitions $partitions --mount "$mnt"
ulimit -n 256
owners=$(printf '0,%.0s' $(seq 399))0 # all on node 0
start_daemons 2
line=$("$ringclient" "$run/node-1.sock" "$work/ds" all) || fail "no place for a client"
equal "blocks" 400 "$(field "$line" blocks)"
equal "errors" 0 "$(field "$line" errors)"
"$ringclient" "$run/node-0.sock" "$work/ds" all 2>"$work/err" || grep -q 'no such block is remote' "$work/err" ||
  fail "no place for a client on the node that holds them all"
stop_daemons
equal "lost partitions" 0 "$(lines_in_log lost)"
equal "refused" 00 "$(stats 0 refused)$(stats 1 refused)"
no_leftovers
