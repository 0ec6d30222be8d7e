#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# Two daemons without a launcher: staged, every remote block once by message and once from the cache, a second job on
# the same copies, and nothing left behind.
. "$(dirname "$0")/../functions.sh"
. "$(dirname "$0")/daemons.bash"

small_dataset

say "staged"
start_daemons 2
for node in 0 1; do
  line=$("$ringclient" "$run/node-$node.sock" "$work/ds" all)
  blocks=$(field "$line" blocks)
  [ "$blocks" -gt 10 ] || fail "too few blocks: $line"
  equal "errors" 0 "$(field "$line" errors)"
  equal "hits at first" 0 "$(field "$line" hits)"
  line=$("$ringclient" "$run/node-$node.sock" "$work/ds" all)
  equal "hits the second time" "$blocks" "$(field "$line" hits)"
  declare "blocks_$node=$blocks"
done
stop_daemons
equal "stats lines" 2 "$(lines_in_log stats)"
equal "good-byes" 2 "$(lines_in_log bye)"
# shellcheck disable=SC2154 # blocks_0 and blocks_1 come from declare
{
  equal "fetched by node 0" "$blocks_0" "$(stats 0 fetched)"
  equal "served by node 1" "$blocks_0" "$(stats 1 served)"
  equal "fetched by node 1" "$blocks_1" "$(stats 1 fetched)"
  equal "clients of node 0" 2 "$(stats 0 clients)"
}
[ "$(stats 0 staged_bytes)" -gt 0 ] || fail "node 0 staged nothing"
no_leftovers

say "reused"
mv "$work/ds/part-00000" "$work/part-00000.away"
start_daemons 2
line=$("$ringclient" "$run/node-1.sock" "$work/ds" all)
equal "errors" 0 "$(field "$line" errors)"
mv "$work/part-00000.away" "$work/ds/part-00000"
stop_daemons_with purge=1
equal "staged the second time" 0 "$(stats 0 staged_bytes)"
[ "$(stats 0 reused_bytes)" -gt 0 ] || fail "node 0 reused nothing"
[ -z "$(find "$work/local" -name 'part-*' -print -quit)" ] || fail "purged, but partitions are left"
no_leftovers

say "the launcher's end is a stop"
start_daemons 2
exec 7>&-
gone() { ! daemon_alive 0 && ! daemon_alive 1; }
wait_until 20 gone
wait "$mpirun_pid" || :
no_leftovers
