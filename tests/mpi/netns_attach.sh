#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# A job without COMMAND on two hosts: programs join it on each, by JOB alone, and it is stopped on the host where it was
# started. A program that still runs on the other host is told of.
. "$(dirname "$0")/../functions.sh"
. "$(dirname "$0")/../netns.sh"
netns_up 2
text_tree "$work/source"
pack "$work/source" "$work/ds" --partitions 4 --mount "$mnt"
cd "$work"
job=$(netns_on h1 "$bin/fs-launch" --dataset "$work/ds" --local-dir "$net_local" --hostfile "$net_hostfile" --daemon --keep 2>err) ||
  fail "$(cat err)"
for h in h1 h2; do
  netns_on $h "$bin/fs-launch" attach "$job" -- sh -c "diff -r -x 'of-*' '$work/source' '$mnt' && hostname >'$mnt'/of-$h" >out 2>&1 ||
    fail "$h: $(cat out)"
done
equal "seen on h1" "h2" "$(netns_on h1 "$bin/fs-launch" attach cat "$mnt/of-h2")"
equal "the nodes" "0 1" "$(for h in h1 h2; do netns_on $h "$bin/fs-launch" attach printenv FANSTORE_NODE; done | sort | paste -sd' ')"
rc=0
netns_on h2 "$bin/fs-launch" stop >out 2>&1 || rc=$?
equal "stop on h2" 2 $rc
one_line out "^fs-launch: $job: its fs-launch is not on this host: "
echo "ok - programs join on both hosts"

cat >left.py <<PYTHON
import time
f = open('$mnt/open', 'w'); f.write('written'); f.flush()
open('$mnt/closed', 'w').close()
open('$work/ready', 'w').close()
time.sleep(120)
PYTHON
# These hosts share /proc. Another spelling of FANSTORE_RUN hides the program of h2 from fs-launch on h1.
netns_on h2 "$bin/fs-launch" attach -- sh -c "FANSTORE_RUN=/.\$FANSTORE_RUN exec $python left.py" >left 2>&1 &
program=$!
wait_until 30 test -e ready
netns_on h1 "$bin/fs-launch" stop "$job" >out 2>err || fail "$(cat err)"
grep -q 'warning: node 1 (h2): 1 program still ran when the job finished' err || fail "$(cat err)"
kept=$net_root/h2/local/fanstore-outputs/$job
equal "kept on h2" "closed of-h2 open" "$(cd "$kept" && echo *)"
equal "h2's file" h2 "$(cat "$kept/of-h2")"
for p in $(ip netns pids "${net_id}2"); do kill "$p" 2>/dev/null || :; done
wait $program || :
no_run() { [ -z "$(find "$net_root"/h?/tmp -name 'job-*' 2>/dev/null)" ]; }
wait_until 30 no_run
echo "ok - stop: outputs of both hosts are kept, the program on the other host is told of"
