#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# Disks: full while a node stages and while outputs and copies of mapped files are written; local partitions truncated,
# removed and overwritten while they are read; the local directory gone; a disk that hangs, and one that gives errors.
. "$(dirname "$0")/harness.bash"
need_command cc
make_dataset 2000 40 16
mkdir -p "$work/local"
if [ "$(id -u)" = 0 ] && [ -n "${FAULTS_OWN_SHM:-}" ]; then mounts=1; fi

small_disk() { # MEBIBYTES, for all nodes
  umount "$work/local" 2>/dev/null || :
  mount -t tmpfs -o size="$1m" none "$work/local"
}
# There is room when the job starts, and none when the partitions come.
full_staging() {
  small_disk 80
  export FANSTORE_MPIRUN_ARGS="-x LD_PRELOAD=$work/full.so -x FAULTS_FULL=$work/local/filler"
  begin both --emulate 4
  unset FANSTORE_MPIRUN_ARGS
  finish
  grep -q 'could not be staged' "$work/err" || why='the disk was not full'
  umount "$work/local"
}
# A program that joins the job, without fs-launch.
on_node() { # NODE COMMAND...
  FANSTORE_RUN=$(dirname "$(find "$TMPDIR" -name node-1.sock)") FANSTORE_NODE=$1 FANSTORE_DATASET=$work/ds FANSTORE_MOUNT=$mnt \
    LD_PRELOAD=${preload:-}$lib "${@:2}"
}
full_backing() {
  small_disk 70
  begin both --emulate 4 --discard
  on_node 1 dd if=/dev/zero of="$mnt/output" bs=64k 2>"$work/dd" && why='no error for the writer'
  grep -q 'No space left' "$work/dd" || why="the writer: $(cat "$work/dd")"
  sleep 1
  finish
  umount "$work/local"
}
# All partitions of node $try mod 4. The next job stages them again.
partitions() { find "$work/local/fanstore-node$((try % 4))" -name 'part-?????'; }
damaged() { # COMMAND...
  begin both --emulate 4
  partitions >"$work/parts"
  [ -s "$work/parts" ] || why='no partitions'
  xargs -d '\n' chmod u+w <"$work/parts"
  while read -r p; do "$@" "$p" & done <"$work/parts"
  finish
  [ "$1" = rm ] || grep -q 'warning: .*somebody writes to this local copy' "$work/err" || why='not noticed'
}
# truncate(1) does not wait for what the kernel holds up: it is told to come again.
shorten() { until truncate -s 4096 "$1" 2>/dev/null; do sleep 0.1; done; }
overwrite() { dd if=/dev/zero of="$1" bs=4k seek=1 count=$(($(stat -c %s "$1") / 4096 - 1)) conv=notrunc 2>/dev/null; }
no_directory() {
  begin both --emulate 4
  local i
  for ((i = 0; i < 100; i++)); do # a daemon may put something there while rm goes through it
    ! rm -rf "$work/local/fanstore-node$((try % 4))" 2>/dev/null || break
  done
  [ $i -lt 100 ] || why='not removed'
  finish
}
# The disk of node $try mod 4 hangs under its daemon, which goes on answering, and later it is well again.
hang() {
  export FANSTORE_MPIRUN_ARGS="-x LD_PRELOAD=$work/hanging.so -x FAULTS_HANG=$work/hang"
  begin both --emulate 4
  unset FANSTORE_MPIRUN_ARGS
  touch "$work/hang.$((try % 4))"
  sleep 8
  rm "$work/hang.$((try % 4))"
  sleep 1
  finish
  say "requests that were not answered in time: $(json "$work/r.json" 'sum(n["timeouts"] for n in r["nodes"])')"
}

# The disk of node $try mod 4 gives errors, to its daemon and to its programs, and later it is well again. One of these begins
# then: those that read already may have all that is here mapped.
fails() {
  local node=$((try % 4))
  export FANSTORE_MPIRUN_ARGS="-x LD_PRELOAD=$work/failing.so -x FAULTS_EIO=$work/eio"
  # shellcheck disable=SC2016
  local before=(env "FAULTS_EIO=$work/eio" sh -c 'LD_PRELOAD=$0:$LD_PRELOAD exec "$@"' "$work/failing.so")
  begin both --emulate 4 "$@"
  unset FANSTORE_MPIRUN_ARGS
  touch "$work/eio.$node"
  FAULTS_EIO=$work/eio preload=$work/failing.so: on_node "$node" diff -r "$work/source" "$mnt" >"$work/diff" 2>&1 || why='read wrong'
  sleep 5
  rm "$work/eio.$node"
  sleep 1
  finish
  grep -q "fanstore: .*node$node/.*part-.*cannot be read (input/output error" "$work/diff" || why='not told by its programs'
  [ "$(grep -c "warning: .*node$node/.*part-.*cannot be read: Input/output error" "$work/err")" = 1 ] || why='not told by its daemon, once'
}

for disk in full hanging failing; do cc -shared -fPIC -O1 -o "$work/$disk.so" "$root/tests/fault/table/${disk}_disk.c"; done
if [ -n "${mounts:-}" ]; then
  fault 'the disk is full while staging' 1 full_staging
  fault 'the disk is full while outputs are written' 1 full_backing
else
  say "no mounts here: full disks are not tried"
fi
fault 'local partitions removed' 1 damaged rm
fault 'local partitions truncated' 1 damaged shorten
fault 'local partitions overwritten' 1 damaged overwrite
fault 'the local directory removed' 0 no_directory
fault "a node's disk hangs" 1 hang
fault "a node's disk gives errors" 1 fails
fault "a node's disk gives errors, --replicas 2" 0 fails --replicas 2
verdict
