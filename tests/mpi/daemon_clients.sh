#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# Clients that are killed in the middle, and that post what no client should: the daemons go on, honest clients get the
# right bytes, the cache keeps its bound, and nothing grows.
. "$(dirname "$0")/../functions.sh"
. "$(dirname "$0")/daemons.bash"

small_dataset
start_daemons 2 --cache 4M

resident() { awk '/^VmRSS/ { print $2 }' "/proc/$(pid_of 0)/status"; }
descriptors() { find "/proc/$(pid_of 0)/fd" -mindepth 1 | wc -l; }
# The daemon has noticed that all clients are gone, and has unmapped their channels.
no_clients() { ! grep -q fanstore-channel "/proc/$(pid_of 0)/maps"; }
as_before() { [ "$(descriptors)" = "$files" ]; }
round() {
  local pids=() n
  for n in 0 1 0 1 0; do
    "$ringclient" "$run/node-$n.sock" "$work/ds" rude 30 >/dev/null &
    pids+=($!)
  done
  "$ringclient" "$run/node-0.sock" "$work/ds" random 1 8 || fail "an honest client among rude ones"
  kill -KILL "${pids[@]}"
  wait "${pids[@]}" 2>/dev/null || :
}
round
wait_until 30 no_clients
sleep 0.5
before=$(resident) files=$(descriptors)
for _ in 1 2 3 4 5; do round; done
wait_until 30 no_clients
after=$(resident)
say "resident: $before KiB, then $after KiB"
[ "$after" -lt $((before + 4096)) ] || fail "node 0 grew from $before to $after KiB"
wait_until 30 as_before # a client that is gone holds no descriptor
line=$("$ringclient" "$run/node-0.sock" "$work/ds" all)
equal "errors at the end" 0 "$(field "$line" errors)"
stop_daemons
equal "checksum errors" 0 "$(stats 0 checksum_errors)"
no_leftovers
