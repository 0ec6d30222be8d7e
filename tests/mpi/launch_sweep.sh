#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# What another job's launch does with run directories that are not locked: a job launched on another host goes on here
# without its daemon; one whose launcher died is ended.
. "$(dirname "$0")/../functions.sh"
need_command mpirun
need_command cc

mkdir -p "$work/source"
echo 1 >"$work/source/1"
pack "$work/source" "$work/ds" --partitions 1 --mount "$mnt"
base=$TMPDIR/fanstore-$(id -u)
launch_another() { expect_status 0 "$bin/fs-launch" --local-dir "$work/local" --dataset "$work/ds" -- true; }

# job NAME LOCK: a rank of it, and what its dead daemon or launcher left
job() {
  mkdir -p "$base/$1"
  chmod 700 "$base" "$base/$1"
  touch "$base/$1/$2"
  touch -d '1 minute ago' "$base/$1/$2" "$base/$1"
  FANSTORE_RUN=$base/$1 sleep 60 &
  rank=$!
}
job elsewhere node-1.lock
launch_another
kill -0 $rank || fail "a job that lost its daemon was ended by another job"
kill $rank
wait $rank || :
launch_another
[ ! -e "$base/elsewhere" ] || fail "the run directory of a job that has ended is still there"
job here launch.lock
# Its age is by the kernel's clock, whatever the launcher's own clock says.
cc -shared -fPIC -o "$work/frozen.so" "$root/tests/fault/table/frozen_clock.c"
LD_PRELOAD=$work/frozen.so launch_another
wait $rank && fail "what a dead launcher left goes on"
[ ! -e "$base/here" ] || fail "the dead launcher's run directory is still there"
