#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# Daemons that are killed, stop for good or for some seconds, or hang inside MPI, on four emulated nodes: during reads of 4 KiB and of 2 MiB, all
# but one at once, with mpirun; with the dataset's copy on shared storage, with replicas instead, with neither; while the job starts
# and while it ends. The first victim is drawn, the others are the nodes after it, so that four tries are all nodes.
. "$(dirname "$0")/harness.bash"
make_dataset 2000 40 16

first=$((RANDOM % 4))
victim() { echo $(((first + try) % 4)); }
on_each() { # COMMAND...: its pid appended, for the daemon of the victim
  "$@" "$(daemon "$(victim)")"
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
  pid=$(daemon "$(victim)")
  kill -STOP "$pid"
  sleep 3
  until_true 30 told "node $(victim) does not answer" || why='it was not missed'
  kill -CONT "$pid"
  until_true 30 told "node $(victim) answers again" || why='it does not serve again' # pings come after 1, 3, 7 and 15 s
  sleep 1
  finish
}
# The thread that speaks MPI hangs in it, and the daemon's others go on.
hangs_in_mpi() { # SIZES
  local node
  node=$(victim)
  export FANSTORE_MPIRUN_ARGS="-x LD_PRELOAD=$work/hanging_mpi.so -x FAULTS_MPI=$work/mpi"
  begin "$1" --emulate 4 --verbose
  unset FANSTORE_MPIRUN_ARGS
  touch "$work/mpi.$node"
  sleep 5
  until_true 30 told "node $node does not answer" || why='it did not hang'
  rm "$work/mpi.$node"
  until_true 30 told "node $node answers again" || why='it does not serve again'
  sleep 1
  finish
}
all_but() { # SIGNAL SIZES
  begin "$2" --emulate 4
  # shellcheck disable=SC2046
  kill "-$1" $(others_than "$(victim)")
  finish
}
no_mpirun() {
  begin both --emulate 4
  kill -9 "$(pids_of "$mpirun_is")"
  finish
}
# Of the other nodes' readers: those of a node whose daemon is dead can only go to its own partitions and to the shared copy.
without_shared() { # SIGNAL SIZES [OPTION...]
  local signal=$1 skip
  skip=$(victim)
  shift
  begin "$@" --emulate 4
  mv "$work/ds" "$work/away"
  on_each kill "-$signal"
  sleep 3
  mv "$work/away" "$work/ds"
  finish
}
# All of it is on each node, so that readers beside the dead daemon read on, too.
replicated() { # SIGNAL
  begin both --emulate 4
  mv "$work/ds" "$work/away"
  on_each kill "-$1"
  sleep 3
  mv "$work/away" "$work/ds"
  finish
}
# Without anything else that has the data, reads fail; one line tells which, where they should have come from, and why.
nowhere_else() {
  expect_errors=any
  without_shared 9 both
  [ "$errors" -gt 0 ] || why='no errors'
  grep -q "^fanstore: $mnt/.*cannot be read, not from node $(victim) (.*) and not from $work/ds/part-.*(no such file" "$work/err" ||
    why='not told'
}
lost_at_start() { # SIGNAL LINE: N is the node
  at_start "$1" "${2/N/$(victim)}" "$work/local" daemon "$(victim)" -- --emulate 4 --start-timeout 10
}
# COMMAND's last act, or, in every other try, shortly after it. How long fs-launch's own end takes is told.
at_end() { # SIGNAL
  local from before=(sh -c '"$@"; [ ! -s "$0.victim" ] || kill $(cat "$0.victim"); : >"$0"' "$work/over")
  rm -f "$work/over" "$work/over.victim"
  begin both --emulate 4
  local pid
  pid=$(daemon "$(victim)")
  [ $((try % 2)) = 1 ] || echo "-$1 $pid" >"$work/over.victim"
  touch "$work/go"
  while [ ! -e "$work/over" ]; do sleep 0.005; done
  from=$(date +%s%N)
  if [ $((try % 2)) = 1 ]; then kill "-$1" "$pid" 2>/dev/null || :; fi # it may be gone already
  while kill -0 "$job" 2>/dev/null; do sleep 0.02; done
  echo "node $(victim), $1: the end took $((($(date +%s%N) - from) / 1000000)) ms"
  finish
}

fault 'kill -9 of a daemon, reads of 4 KiB' 1 one KILL small
fault 'kill -9 of a daemon, reads of 2 MiB' 1 one KILL large
fault 'a daemon stops for good, 4 KiB' 1 one STOP small
fault 'a daemon stops for good, 2 MiB' 0 one STOP large
fault 'a daemon stops for 3 s' 1 paused both
cc -shared -fPIC -O1 -o "$work/hanging_mpi.so" "$root/tests/fault/table/hanging_mpi.c"
fault 'a daemon hangs inside MPI for 5 s, 4 KiB' 1 hangs_in_mpi small
fault 'a daemon hangs inside MPI for 5 s, 2 MiB' 0 hangs_in_mpi large
fault 'kill -9 of all daemons but one' 1 all_but KILL both
fault 'all daemons but one stop' 0 all_but STOP both
fault 'kill -9 of mpirun' 1 no_mpirun
fault 'kill -9 of a daemon, no shared copy, --replicas 2' 1 without_shared KILL both --replicas 2
fault 'a daemon stops, no shared copy, --replicas 2' 0 without_shared STOP both --replicas 2
fault 'kill -9 of a daemon, nothing else has its data' 1 nowhere_else
# Open MPI 4 may say nothing of the one that was killed: then those are told of that could not connect to it.
fault 'kill -9 of a daemon while the job starts' 1 lost_at_start KILL \
  '\(the daemon of node N (.*) died of signal 9\|the daemon of node [0-3] .* died while\|the daemons could not be started: .\)'
fault 'a daemon stops while the job starts' 1 lost_at_start STOP 'no answer from .* within 10 s'
fault 'kill -9 of a daemon while the job ends' 1 at_end KILL
fault 'a daemon stops while the job ends' 1 at_end STOP
mv "$work/ds" "$work/plain"
pack "$work/source" "$work/ds" --partitions 16 --mount "$mnt" --replicate '*'
fault 'kill -9 of a daemon, no shared copy, pack --replicate' 1 replicated KILL
fault 'a daemon stops, no shared copy, pack --replicate' 0 replicated STOP
verdict
