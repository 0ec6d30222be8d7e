#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# timeout: 120
# However the daemons come to their end, by mpirun's death, a signal, or the launcher's silence in the middle of staging,
# they go at once and leave nothing but staged partitions, and for programs of the job, where there are any, what they need to know (node-N.ctl,
# which fs-launch removes); and what a killed one leaves, the next one removes.
. "$(dirname "$0")/../functions.sh"
. "$(dirname "$0")/daemons.bash"

small_dataset
gone() { ! daemon_alive 0 && ! daemon_alive 1; }
no_spill() { [ -z "$(find "$work/local" -name 'spill-*' -print -quit)" ] || fail "spill directories are left"; }
end() {
  exec 7>&-
  wait "$mpirun_pid" 2>/dev/null || :
}

say "mpirun is killed"
start_daemons 2
"$ringclient" "$run/node-0.sock" "$work/ds" random 20 4 >/dev/null &
client=$!
sleep 0.5
kill -KILL "$mpirun_pid"
wait_until 5 gone
end
kill -KILL $client 2>/dev/null || :
wait $client 2>/dev/null || :
left=$(find "$TMPDIR" -maxdepth 2 -path '*/fanstore-*/*' -print -quit)
[ -z "$left" ] || say "left behind for the next: $left"

for program in no a; do
  say "SIGTERM, where $program program of the job is"
  start_daemons 2
  client=''
  if [ $program = a ]; then
    FANSTORE_RUN=$run sleep 60 &
    client=$!
  fi
  kill -TERM "$(pid_of 0)" "$(pid_of 1)"
  wait_until 8 gone
  end
  no_spill
  equal "left" "$([ $program = no ] || echo 'node-0.ctl node-1.ctl')" "$(cd "$run" 2>/dev/null && find . -name '*.ctl' -printf '%f\n' | sort | paste -sd ' ')"
  [ -z "$client" ] || kill "$client"
  rm -rf "${run%/*}"
  no_leftovers
done

say "kill -9 of a daemon, and the next job"
start_daemons 2
kill -KILL "$(pid_of 0)" "$(pid_of 1)"
wait_until 5 gone
kill -KILL "$mpirun_pid" 2>/dev/null || :
end
[ -e "$run/node-0.lock" ] || fail "a killed daemon's lock is gone: this proves nothing"
touch -d '1 minute ago' "$run"
job=next run=$TMPDIR/fanstore-$(id -u)/next
start_daemons 2
[ ! -e "$TMPDIR/fanstore-$(id -u)/test" ] || fail "the dead job's run directory is still there"
line=$("$ringclient" "$run/node-1.sock" "$work/ds" all)
equal "errors" 0 "$(field "$line" errors)"
stop_daemons
no_spill
no_leftovers
