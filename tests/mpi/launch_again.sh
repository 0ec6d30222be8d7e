#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# long: 20
# A daemon that is killed each time it starts: all are started twice, then one line names its node; nothing is left, and COMMAND
# has not run. (Killed or stopped once: tests/fault/table/daemons.sh.) Daemons that all end without a word are started again, too; one
# that says why it cannot start is not.
. "$(dirname "$0")/../functions.sh"

make_tree "$work/source"
pack "$work/source" "$work/ds" --partitions 4 --mount "$mnt"

launch --dataset "$work/ds" --emulate 3 --start-timeout 20 -- touch "$work/ran" 2>"$work/err" &
job=$! starts=0
while kill -0 "$job" 2>/dev/null; do
  while read -r environ; do
    pid=${environ#/proc/} pid=${pid%/environ}
    [[ $(readlink "/proc/$pid/exe") == */fanstored ]] || continue
    grep -qszxF "$work/ds" "/proc/$pid/cmdline" || continue
    if kill -9 "$pid" 2>/dev/null; then starts=$((starts + 1)); fi
  done < <(grep -lzxs "OMPI_COMM_WORLD_RANK=1" /proc/[0-9]*/environ)
  sleep 0.02
done
status=0
wait "$job" || status=$?
equal "status" 125 "$status"
[ "$starts" -ge 2 ] || fail "$starts starts"
# One that is killed before its first word is but silent; one that others connect to then, mpirun may not name.
# Those that had ended by then are counted; which one was first, mpirun has not said.
lost='(node 1( \([^)]*\))?|node [0-2]( \([^)]*\))?, and of 1 more) (died.*|said nothing for [0-9]+ s) while it started'
one_line "$work/err" "^fs-launch: (the daemon of $lost|the daemons could not be started: .*), after all had been started again(; .*)?\$"
[ ! -e "$work/ran" ] || fail "COMMAND has run"
echo "ok - $(cat "$work/err")"

# mpirun may say nothing of the one that was killed.
cc -shared -fPIC -o "$work/ends.so" "$(dirname "$0")/silent_end.c" -ldl
touch "$work"/ends.{0,1,2}
FANSTORE_MPIRUN_ARGS="-x LD_PRELOAD=$work/ends.so -x TEST_ENDS=$work/ends" expect_status 0 launch --dataset "$work/ds" --emulate 3 -- touch "$work/ran"
grep -q '^fs-launch: warning: .*: all daemons are started again$' "$work/err" || fail "not started again: $(cat "$work/err")"
[ -e "$work/ran" ] || fail "COMMAND has not run"
rm "$work/ran"
echo "ok - $(grep "started again" "$work/err")"

# Silent is the only one there is, for as long as the line says, and not for all of --start-timeout.
touch "$work/ends.0.stops"
FANSTORE_MPIRUN_ARGS="-x LD_PRELOAD=$work/ends.so -x TEST_ENDS=$work/ends" expect_status 0 launch --dataset "$work/ds" --emulate 1 --start-timeout 60 -- touch "$work/ran"
grep -Eq '^fs-launch: warning: the daemon of node 0 \(.*\) said nothing for [1-5][0-9] s while it started: all daemons are started again$' "$work/err" ||
  fail "not told how long: $(cat "$work/err")"
rm "$work/ran"
echo "ok - $(grep "started again" "$work/err")"

# What is in the way of the second node's directory stays there.
rm -rf "$work/local"
mkdir "$work/local"
echo file >"$work/local/fanstore-node1"
expect_status 125 launch --dataset "$work/ds" --emulate 3 --verbose -- touch "$work/ran"
if grep -q 'started again' "$work/err"; then fail "started again"; fi
grep -q '^fs-launch: node 1 (.*): .*Not a directory' "$work/err" || fail "not told: $(cat "$work/err")"
no_leftovers
