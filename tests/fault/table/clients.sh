#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# Clients that are killed: hundreds at each step of a request (tests/helpers/ringclient.c, die), and readers at random moments, while
# other readers of the same node go on. What the daemon holds for them is counted before and after: descriptors, mappings (one a channel),
# and lines of the cache, by reading all remote blocks through it once more.
. "$(dirname "$0")/harness.bash"
make_dataset 2000 40 16
deaths=${FAULTS_DEATHS:-1000}
ringclient=$build/tests/helpers/ringclient
readers=(--nodes 4 --workers 1 --seconds 2)

holds() { # PID: "descriptors mappings"
  printf '%d %d' "$(find "/proc/$1/fd" -mindepth 1 | wc -l)" "$(grep -c fanstore-channel "/proc/$1/maps")"
}
as_before() { [ "$(holds "$pid")" = "$before_deaths" ]; }
# COMMAND... kills clients of node 0 during a job
during() {
  local pid before_deaths
  begin both --emulate 4
  pid=$(daemon 0)
  sock=$(find "$TMPDIR" -name node-0.sock)
  before_deaths=$(holds "$pid")
  "$@" || why='clients were not killed'
  until_true 30 as_before || why="descriptors and channels were $before_deaths, are $(holds "$pid")"
  all=$("$ringclient" "$sock" "$work/ds" all)
  case $all in *' errors=0 '*) ;; *) why="the cache: $all" ;; esac
  finish
}
in_steps() { "$ringclient" "$sock" "$work/ds" die "$deaths"; }
# Readers with the library, each killed up to 40 ms after it has begun to read.
at_random() {
  local i
  for ((i = 0; i < deaths; i += 4)); do
    FANSTORE_RUN=$(dirname "$sock") FANSTORE_NODE=0 FANSTORE_DATASET=$work/ds FANSTORE_MOUNT=$mnt LD_PRELOAD=$lib \
      "$faultreader" read "$mnt" both --workers 3 --seconds 60 --begun "$work/dying" >/dev/null 2>&1 &
    while ! compgen -G "$work/dying.$!" >/dev/null; do sleep 0.005; done
    sleep "0.0$((RANDOM % 40))"
    rm "$work/dying.$!"
    kill -9 $(pgrep -P $!) $!
    wait $! 2>/dev/null || :
  done
  rm -f "$TMPDIR"/faultreader.*
}

[ -z "${FAULTS_TIMES:-}" ] || FAULTS_TIMES=1 # which is a thousand
fault "$deaths clients killed at steps of a request" 1 during in_steps
fault "$deaths readers killed at random" 1 during at_random
verdict
