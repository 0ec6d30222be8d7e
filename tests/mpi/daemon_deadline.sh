#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# alone: a time limit
# A peer that is stopped: requests end in EREMOTEIO within the deadline, later ones at once; a replica is asked instead
# where there is one; and a peer that goes on is found again.
. "$(dirname "$0")/../functions.sh"
. "$(dirname "$0")/daemons.bash"

EREMOTEIO=121
small_dataset

all_on() { "$ringclient" "$run/node-$1.sock" "$work/ds" all; }

say "no replica"
start_daemons 2 --deadline 1000
kill -STOP "$(pid_of 1)"
start=$(date +%s%N)
line=$(all_on 0)
took=$((($(date +%s%N) - start) / 1000000))
kill -CONT "$(pid_of 1)"
equal "blocks of a stopped node" 0 "$(field "$line" blocks)"
equal "errno" $EREMOTEIO "$(field "$line" last)"
[ "$took" -lt 6000 ] || fail "took $took ms with a deadline of 1000, which each block would take anew"
recovered() {
  line=$(all_on 0)
  [ "$(field "$line" errors)" = 0 ]
}
wait_until 30 recovered
stop_daemons
[ "$(stats 0 timeouts)" -gt 0 ] || fail "no deadline passed"
[ "$(stats 0 dropped)" -gt 0 ] || fail "the replies that came late are not counted"
no_leftovers

say "with a replica"
owners=0,1.2,1.2,2.1 start_daemons 3 --deadline 2000
kill -STOP "$(pid_of 1)"
line=$(all_on 0)
kill -CONT "$(pid_of 1)"
equal "errors with a replica" 0 "$(field "$line" errors)"
[ "$(field "$line" blocks)" -gt 10 ] || fail "too few blocks: $line"
stop_daemons
no_leftovers

say "a peer that is killed"
start_daemons 2 --deadline 1000
kill -KILL "$(pid_of 1)"
line=$(all_on 0)
equal "blocks of a dead node" 0 "$(field "$line" blocks)"
daemon_alive 0 || fail "node 0 died with node 1"
stop_daemons
