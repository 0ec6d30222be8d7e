#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# Daemons that are killed, stop for good or for some seconds, on four emulated nodes: during reads of 4 KiB and of 2 MiB, all
# but one at once, with mpirun; with the dataset's copy on shared storage, with replicas instead, with neither; while the job starts
# and while it ends.
. "$(dirname "$0")/harness.bash"
make_dataset 2000 40 16

on_each() { # COMMAND...: its pid appended, for the daemon of node $try mod 4
  "$@" "$(daemon $((try % 4)))"
}
others_than() { # NODE
  local k
  for k in 0 1 2 3; do [ "$k" = "$1" ] || daemon "$k"; done
}
one() { # SIGNAL SIZES [OPTION...]
  local signal=$1
  shift
  begin "$@" --emulate 4
  on_each kill "-$signal"
  sleep 1
  finish
}
paused() { # SIZES
  local pid
  begin "$@" --emulate 4 --verbose
  pid=$(daemon $((try % 4)))
  kill -STOP "$pid"
  sleep 3
  kill -CONT "$pid"
  sleep 4 # asked again at the latest: pings come after 1, 3 and 7 s
  finish
  grep -q "node $((try % 4)) answers again" "$work/err" || why='it does not serve again'
}
all_but() { # SIGNAL SIZES
  begin "$2" --emulate 4
  # shellcheck disable=SC2046
  kill "-$1" $(others_than $((try * 3 % 4)))
  finish
}
no_mpirun() {
  begin both --emulate 4
  kill -9 "$(pids_of orterun)"
  finish
}
# Of the other nodes' readers: those of a node whose daemon is dead can only go to its own partitions and to the shared copy.
without_shared() { # SIGNAL SIZES [OPTION...]
  local signal=$1 skip=$((try % 4))
  shift
  begin "$@" --emulate 4
  mv "$work/ds" "$work/away"
  on_each kill "-$signal"
  sleep 3
  mv "$work/away" "$work/ds"
  finish
}
# Without anything else that has the data, reads fail; one line tells which, where they should have come from, and why.
nowhere_else() {
  expect_errors=any
  without_shared 9 both
  [ "$errors" -gt 0 ] || why='no errors'
  grep -q "^fanstore: $mnt/.*cannot be read, not from node $((try % 4)) (.*) and not from $work/ds/part-.*(no such file" "$work/err" ||
    why='not told'
}
at_start() {
  local pid again
  expect_end=125
  for again in 1 2 3 4 5; do # on a busy machine it may come too late
    rm -rf "$work/fresh" "$work/ran"
    mkdir "$work/fresh"
    "$bin/fs-launch" --local-dir "$work/fresh" --dataset "$work/ds" --emulate 4 -- touch "$work/ran" >"$work/out" 2>"$work/err" &
    job=$! pid=''
    for ((i = 0; i < 500 && ${#pid} == 0; i++)); do
      pid=$(daemon $((try % 4)))
      sleep 0.01
    done
    kill -9 "$pid" 2>/dev/null || :
    end=0
    wait "$job" || end=$?
    [ -e "$work/ran" ] || break
    echo "$again: too late"
  done
  job=''
  count_left
}
at_end() {
  local pid
  begin both --emulate 4
  pid=$(daemon $((try % 4)))
  touch "$work/go"
  while [ -n "$(pids_of faultreader)" ]; do sleep 0.02; done
  kill -9 "$pid" 2>/dev/null || : # it may be gone already
  finish
}

fault 'kill -9 of a daemon, reads of 4 KiB' 1 one KILL small
fault 'kill -9 of a daemon, reads of 2 MiB' 1 one KILL large
fault 'a daemon stops for good, 4 KiB' 1 one STOP small
fault 'a daemon stops for good, 2 MiB' 0 one STOP large
fault 'a daemon stops for 3 s' 1 paused both
fault 'kill -9 of all daemons but one' 1 all_but KILL both
fault 'all daemons but one stop' 0 all_but STOP both
fault 'kill -9 of mpirun' 1 no_mpirun
fault 'kill -9 of a daemon, no shared copy, --replicas 2' 1 without_shared KILL both --replicas 2
fault 'a daemon stops, no shared copy, --replicas 2' 0 without_shared STOP both --replicas 2
fault 'kill -9 of a daemon, nothing else has its data' 1 nowhere_else
fault 'kill -9 of a daemon while the job starts' 1 at_start
fault 'kill -9 of a daemon while the job ends' 1 at_end
verdict
