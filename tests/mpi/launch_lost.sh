#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# long: 20
# waits
# A daemon that is lost before COMMAND begins: the status is 125, one line says which and why, nothing is left, and COMMAND has not run.
. "$(dirname "$0")/../functions.sh"

make_tree "$work/source"
pack "$work/source" "$work/ds" --partitions 4 --mount "$mnt"
cc -shared -fPIC -o "$work/ends.so" "$(dirname "$0")/silent_end.c" -ldl
job() { # OPTION...
  FANSTORE_MPIRUN_ARGS="-x LD_PRELOAD=$work/ends.so -x TEST_ENDS=$work/ends" \
    expect_status 125 launch --dataset "$work/ds" "$@" -- touch "$work/ran"
}
told() { # PATTERN
  one_line "$work/err" "^fs-launch: $1\$"
  [ ! -e "$work/ran" ] || fail "COMMAND has run"
  rm -f "$work"/ends.[0-9]*
  echo "ok - $(cat "$work/err")"
}

# Others that connect to the killed one may end by themselves, and say so.
touch "$work/ends.1.killed"
job --emulate 3
told 'the daemon of node 1 \([^)]*\) died( of signal 9)? while it started(; .*)?'

# Open MPI 4 may say nothing of the one that was killed.
touch "$work"/ends.{0,1,2}
job --emulate 3
told '(the daemons could not be started: .*|the daemon of node .*died while it started(; .*)?)'

touch "$work/ends.1.stops"
job --emulate 2 --start-timeout 10
told 'no answer from node [01] .* within 10 s.*'

# What is in the way of the second node's directory stays there.
rm -rf "$work/local"
mkdir "$work/local"
echo file >"$work/local/fanstore-node1"
expect_status 125 launch --dataset "$work/ds" --emulate 3 --verbose -- touch "$work/ran"
grep -q '^fs-launch: node 1 (.*): .*Not a directory' "$work/err" || fail "not told: $(cat "$work/err")"
no_leftovers
