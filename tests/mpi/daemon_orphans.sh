#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# However the daemons come to their end, by mpirun's death, a signal, or the launcher's silence in the middle of staging,
# they go at once and leave nothing but staged partitions, and for programs of the job, where there are any, what they need to know (node-N.ctl,
# which fs-launch removes); and what a killed one leaves, the next one removes.
. "$(dirname "$0")/../functions.sh"
. "$(dirname "$0")/daemons.bash"

small_dataset
base=${run%/*}
gone() { ! daemon_alive 0 && ! daemon_alive 1; }
no_backing() { [ -z "$(find "$work/local" -name 'outputs-*' -print -quit)" ] || fail "backing directories are left"; }
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
wait_until 20 gone
end
kill -KILL $client 2>/dev/null || :
wait $client 2>/dev/null || :
left=$(find "$TMPDIR" -maxdepth 2 -path '*/fanstore-*/*' -print -quit)
[ -z "$left" ] || say "left behind for the next: $left"
rm -rf "$base"

for program in no a; do
  say "SIGTERM, where $program program of the job is"
  start_daemons 2
  client=''
  if [ $program = a ]; then
    FANSTORE_RUN=$run sleep 60 &
    client=$!
  fi
  kill -TERM "$(pid_of 0)" "$(pid_of 1)"
  wait_until 20 gone
  end
  no_backing
  equal "left behind" "$([ $program = no ] || echo 'node-0.ctl node-1.ctl')" "$(cd "$run" 2>/dev/null && find . -name '*.ctl' -printf '%f\n' | sort | paste -sd ' ')"
  [ $program = a ] || no_leftovers
done

say "those that start there afterwards"
file=$(cd "$work/source" && find . -type f | sort | sed -n 1p)
afterwards() { # COMMAND
  "$bin/fs-launch" --exec-node $job '' '' '' FANSTORE_DATASET="$work/ds" FANSTORE_MOUNT="$mnt" library="$lib" -- sh -c "$1" 2>"$work/err"
}
equal "nodes, by what was left" 2 "$(afterwards "echo \$FANSTORE_EMULATE")"
afterwards "cat '$mnt/$file'" | cmp - "$work/source/$file"
equal "file of the dataset, for one of another node" 0 "$(afterwards "FANSTORE_NODE=7 cat '$mnt/$file' >/dev/null; echo \$?")"
afterwards "FANSTORE_NODE=7 cp '$mnt/$file' '$mnt/new'" && fail "an output was made without a daemon"
grep -q 'the daemon of node 0, this program.s own, has ended' "$work/err" || fail "not said whose daemon has ended"

say "the next jobs there, while a program is, and then"
for program in a no; do
  [ $program = a ] || kill $client
  touch -d '20 minutes ago' "$run"
  job=next run=$base/next
  start_daemons 2
  stop_daemons
  job=test run=$base/test
  equal "what was left" "$([ $program = no ] || echo 'node-0.ctl node-1.ctl')" "$(find "$run" -name '*.ctl' -printf '%f\n' 2>/dev/null | sort | paste -sd ' ')"
done
no_leftovers

say "kill -9 of a daemon, and the next job"
start_daemons 2
kill -KILL "$(pid_of 0)" "$(pid_of 1)"
wait_until 20 gone
kill -KILL "$mpirun_pid" 2>/dev/null || :
end
[ -e "$run/node-0.lock" ] || fail "a killed daemon's lock is gone: this proves nothing"
touch -d '1 minute ago' "$run"
job=next run=$base/next
start_daemons 2
[ ! -e "$base/test" ] || fail "the dead job's run directory is still there"
line=$("$ringclient" "$run/node-1.sock" "$work/ds" all)
equal "errors" 0 "$(field "$line" errors)"
stop_daemons
no_backing
no_leftovers
