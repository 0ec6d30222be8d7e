#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# long: 22
# Copies that are not whole: none is left at the end of a job whose daemon, mpirun or launcher dies or stops while it is made, and no backing directory; `clean`
# removes those of a power cut, and neither whole copies nor what another job is copying.
. "$(dirname "$0")/../functions.sh"
need_command mpirun cc

random_files "$work/source" 20 3 1 100 5000
ds=$work/ds
pack "$work/source" "$ds" --partitions 4 --mount "$mnt"
slow=$work/slow.so
cc -shared -fPIC -o "$slow" "$(dirname "$0")/slow_sync.c" -ldl
fragments() { find "$work/local" -name '.new-*' 2>/dev/null | sed 's|.*/fanstore||' | sort; }
whole() { find "$work/local" -name 'part-*' | sort | xargs ls -i; }
copying() { [ "$(fragments | grep -c '/\.new-part-')" = 2 ]; }
mpirun_of() { sed -n 's/^PPid:[^0-9]*//p' "/proc/$1/status"; }
# A job of two nodes, both of which go on copying, for SECONDS at most: then they have made no progress for too long.
hold() { # [SECONDS]
  touch "$work/hold"
  FANSTORE_MPIRUN_ARGS="-x LD_PRELOAD=$slow -x TEST_HOLD=$work/hold" \
    "$bin/fs-launch" --local-dir "$work/local" --dataset "$ds" --mount "$mnt" --emulate 2 --start-timeout "${1:-15}" -- \
    true >"$work/out" 2>"$work/err" &
  job=$!
  wait_until 60 copying
  daemon=$("$kill_daemon" 1 "$work/local" pid)
}
clean() { "$bin/fs-launch" clean --local-dir "$work/local" 2>"$work/clean" || fail "clean: $(cat "$work/clean")"; }

dies() { # WHAT SIGNAL PROCESS
  local status=0
  kill "$2" "$3"
  wait "$job" 2>/dev/null || status=$?
  [ $status != 0 ] || fail "$1: the job went on"
  [ $status = 137 ] || equal "$1: left" "" "$(fragments)"
  rm -rf "$work/local"
}
# A daemon, mpirun or fs-launch dies or stands still meanwhile.
daemon_dies() { # SIGNAL
  hold
  dies "a daemon, $1" "$1" "$daemon"
  echo "ok - nothing is left of copies that are not whole: a daemon, $1"
}
killed() { daemon_dies -KILL; }
stopped() { daemon_dies -STOP; }
mpirun_dies() {
  hold
  dies "mpirun" -KILL "$(mpirun_of "$daemon")"
  echo "ok - nothing is left of copies that are not whole: mpirun"
}
none() { [ -z "$(fragments)" ]; }
launcher_dies() {
  hold
  dies "fs-launch" -KILL "$job"
  wait_until 40 none
  wait_until 40 eval '! "$kill_daemon" 1 "$work/local" pid >/dev/null && ! "$kill_daemon" 0 "$work/local" pid >/dev/null'
  rm -rf "$work/local"
  echo "ok - nothing is left of copies that are not whole: fs-launch"
}

# A signal that comes while it is looked for why a daemon died.
asked_to_end() {
  local again status=0
  for again in 1 2 3 4; do
    rm -rf "$work/local"
    hold
    kill -KILL "$daemon"
    sleep 0.2
    kill "$job" 2>/dev/null || :
    status=0
    wait "$job" || status=$?
    [ $status = 125 ] || break # it had found the reason already
    echo "$again: too late"
  done
  equal "killed and asked to end" "143, nothing told" "$status, $([ -s "$work/err" ] && cat "$work/err" || echo nothing told)"
  rm -rf "$work/local"
}

# What no end of a job has removed.
cleans() {
  expect_status 0 launch --dataset "$ds" --mount "$mnt" --emulate 2 -- true
  whole >"$work/before"
  id=$(find "$work/local/fanstore-node1" -mindepth 1 -maxdepth 1)
  mkdir "$work/local/fanstore-node1/other" "$work/elsewhere"
  touch "$id/.new-part-00001" "$id/.new-part-00001.stamp" "$work/local/fanstore-node1/other/.new-x" "$work/elsewhere/.new-y"
  ln -s "$work/elsewhere" "$work/local/fanstore-node0/0123456789abcdef0123456789abcdef"
  clean
  equal "told" "fs-launch: removed $id/.new-part-00001, left by a daemon that died
fs-launch: removed $id/.new-part-00001.stamp, left by a daemon that died" "$(sort "$work/clean")"
  equal "left" "-node1/other/.new-x" "$(fragments)"
  [ -e "$work/elsewhere/.new-y" ] || fail "a symlink was followed"
  whole | diff "$work/before" - || fail "whole copies are gone"
  clean
  [ ! -s "$work/clean" ] || fail "there is nothing: $(cat "$work/clean")"
  echo "ok - clean removes them, and nothing else"
}

# Another job, and clean, beside one that copies.
beside() {
  rm -rf "$work/local"
  hold 60
  fragments >"$work/before"
  clean
  fragments | diff "$work/before" - || fail "clean removes what a job copies"
  [ ! -s "$work/clean" ] || fail "clean: $(cat "$work/clean")"
  mkdir "$work/other"
  echo 1 >"$work/other/1"
  pack "$work/other" "$work/ds1" --partitions 1 --mount "$mnt"
  expect_status 0 launch --dataset "$work/ds1" --emulate 2 -- true
  fragments | diff "$work/before" - || fail "the end of a job removes what another one copies"
  rm "$work/hold"
  wait "$job" || fail "the job that copies: $(cat "$work/err")"
  equal "left" "" "$(fragments)"
  echo "ok - not of another job that copies"
}

# A daemon that was killed lets the lock of its backing directory go a moment after it looks dead: here somebody holds it for longer than that.
backing_directory() {
  rm -rf "$work/local"
  # shellcheck disable=SC2016
  launch --dataset "$ds" --mount "$mnt" --emulate 2 -- sh -c '"$0" 1 "$1/local" && touch "$1/killed" && until [ -e "$1/held" ]; do sleep 0.02; done' \
    "$kill_daemon" "$work" 2>"$work/err" &
  job=$!
  wait_until 60 test -e "$work/killed"
  backing=$(find "$work/local/fanstore-node1" -maxdepth 1 -name 'outputs-*')
  (
    flock 9
    touch "$work/held"
    wait_until 60 grep -q 'COMMAND ran' "$work/err"
    sleep 0.2
  ) 9<"$backing"
  wait "$job" || fail "$(cat "$work/err")"
  [ ! -e "$backing" ] || fail "left: $backing"
  echo "ok - the backing directory of a killed daemon"
}

first() { killed; mpirun_dies; }
second() { stopped; cleans; }
third() { launcher_dies; asked_to_end; }
fourth() { beside; backing_directory; }
side_by_side eval first second third fourth
