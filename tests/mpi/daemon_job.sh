#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# waits
# Jobs without COMMAND: fs-launch --daemon and stop. What is refused; a start that fails; outputs; programs that still run
# at the end; two jobs; signals; and the deaths of fs-launch and of a daemon while outputs are saved.
. "$(dirname "$0")/../functions.sh"
text_tree "$work/source"
pack "$work/source" "$work/ds" --partitions 3 --mount "$mnt"
cd "$work"
f() { "$bin/fs-launch" "$@"; }
l=(f --dataset "$work/ds" --local-dir "$work/local" --daemon)
start() { # OPTIONS: sets $job
  expect_status 0 "${l[@]}" "$@"
  one_line out '^job-'
  job=$(cat out)
}
runs=$TMPDIR/fanstore-$(id -u)
launcher() { # the process of fs-launch that holds the lock of $job
  local p fd comm
  for p in /proc/[0-9]*; do
    { read -r comm <"$p/comm"; } 2>/dev/null || continue
    [ "$comm" = fs-launch ] || continue
    for fd in "$p"/fd/*; do
      if [ "$fd" -ef "$runs/$job/launch.lock" ]; then echo "${p#/proc/}" && return; fi
    done
  done
}
nothing_left() { [ ! -e "$runs" ] && [ -z "$(processes_of_test)" ]; }

expect_status 2 "${l[@]}" true
one_line err '^fs-launch: --daemon and COMMAND: '
expect_status 2 "${l[@]}" --np 2
one_line err '^fs-launch: --daemon and --np: '
expect_status 2 "${l[@]}" --report -
expect_status 2 f --dataset ds --log x true
expect_status 125 "${l[@]}" --log "$work/no/log"
one_line err '^fs-launch: --log .*/no/log: No such file'
mkfifo pipe
expect_status 125 "${l[@]}" --log pipe
one_line err '^fs-launch: --log pipe: not a file$'
exec 8<>pipe
expect_status 125 "${l[@]}" --log pipe
one_line err '^fs-launch: --log pipe: not a file$'
exec 8>&-
expect_status 125 f --dataset "$work/none" --daemon
expect_status 125 "${l[@]}" --emulate 2 --cache 900T
one_line err '^fs-launch: node .* --cache 900.0 TiB on each'
nothing_left || fail "left by a start that failed: $(ls -R "$runs") $(processes_of_test)"
expect_status 125 f stop
one_line err '^fs-launch: you have no job on this host$'
echo "ok - what is refused, and a start that fails"

exec 7>held
flock 7
start --emulate 2 --keep
flock -n held true && fail "the lock of the shell is not held"
exec 7>&-
flock -n held true || fail "the background process holds the shell's lock"
kill -HUP "$(launcher)"
f attach --node 1 -- sh -c "cp $mnt/b.txt $mnt/one"
f stop >out 2>err || fail "$(cat err)"
grep -q '^fs-launch: 2 nodes, 1 dataset: .*; the job served' err || fail "$(cat err)"
grep -q ' still ran' err && fail "$(cat err)"
cmp source/b.txt "local/fanstore-outputs/$job/one" || fail "the output is not kept"
nothing_left || fail "left: $(ls -R "$runs") $(processes_of_test)"
echo "ok - start, SIGHUP, outputs, stop"

start --keep --log log
f attach "$job" -- "$python" -c "
import time
closed = open('$mnt/closed', 'w'); closed.write('whole'); closed.close()
left = open('$mnt/left', 'w'); left.write('written'); left.flush()
open('ready', 'w').close()
time.sleep(100)" &
program=$!
wait_until 30 test -e ready
expect_status 0 f stop "$runs/$job"
grep -q '^fs-launch: 1 program of the job still runs on this host' err || fail "$(cat err)"
grep -q 'warning: 1 program of the job still ran at its end and was ended' err || fail "$(cat err)"
wait $program && fail "the program was not ended"
equal "outputs" "whole written" "$(cd "local/fanstore-outputs/$job" && echo "$(cat closed)" "$(cat left)")"
equal "the log" "fs-launch: $job is ready
$(cat err)" "$(cat log)"
echo "ok - a program that still runs: what it closed is saved, it is ended and counted"

# The second job is no program of the first one, though its shell has joined this.
start
first=$job
second=$(eval "$(f env)" && f --dataset ds --local-dir "$work/local2" --daemon 2>err) || fail "$(cat err)"
expect_status 2 f stop
one_line err "several jobs .*: ($first, $second|$second, $first)$"
expect_status 2 f attach true
f stop "$first" 2>other &
expect_status 0 f stop "$first"
grep -q ' still ran' err && fail "$(cat err)"
wait $! || grep -qE ': (it has just ended|you have no such job on this host)$' other || # on a busy machine it came late
  fail "the other stop of the same job: $(cat other)"
kill -TERM "$(job=$second launcher)"
wait_until 30 nothing_left
echo "ok - two jobs; stop twice at once; SIGTERM"

start --log full
one_line full "^fs-launch: $job is ready$"
prlimit --pid "$(launcher)" --fsize=60
expect_status 0 f stop
grep -qE "fs-launch: $job: [2-9] of its messages are missing, because its log could not be written$" err || fail "$(cat err)"
echo "ok - a log that cannot be written"

start --log log
rm log
f attach -- sh -c 'trap "touch told" TERM; touch deaf; while :; do sleep 0.1; done' &
program=$!
wait_until 30 test -e deaf
pid=$(launcher) begin=$SECONDS
{ wait_until 30 test -e told && kill -TERM "$pid"; } & # it waits for a program then
expect_status 0 f stop
one_line err "^fs-launch: $job: its log is gone"
[ $((SECONDS - begin)) -lt 9 ] || fail "a signal while it waits for a program: $((SECONDS - begin)) s"
wait $program && fail "the program was not ended"
rm deaf told
echo "ok - stop without a log; a signal does not wait for programs"

"$bin/fs-launch" --dataset ds --local-dir "$work/local" -- sh -c 'touch running; exec sleep 100' 2>err &
foreground=$!
wait_until 30 test -e running
expect_status 2 f stop
one_line err "^fs-launch: job-.* runs a COMMAND: end that, or send a signal to its fs-launch, process $foreground$"
kill -TERM $foreground
wait $foreground || :
echo "ok - stop refuses a job with COMMAND"

start --keep
f attach -- sh -c 'trap "touch told" TERM; touch deaf; while :; do sleep 0.1; done' &
program=$!
wait_until 30 test -e deaf
pid=$(launcher)
{ wait_until 30 test -e told && kill -KILL "$pid"; } &
expect_status 125 f stop
grep -q 'its fs-launch was killed while the job ended' err || fail "$(cat err)"
wait $program && fail "the guard did not end the program"
wait_until 30 nothing_left
echo "ok - fs-launch is killed while the job ends"

# Node 0 has reported its outputs when the daemon of node 1 dies, which has not saved its own.
mkdir to
cc -shared -fPIC -o slow.so "$root/tests/mpi/slow_sync.c" -ldl || fail "cc"
touch hold
FANSTORE_MPIRUN_ARGS="-x LD_PRELOAD=$work/slow.so -x TEST_HOLD=$work/hold -x TEST_NAME=/to/.fanstore-" \
  start --emulate 2 --stage-out "$work/to"
f attach --node 1 -- sh -c "echo lost >$mnt/lost"
copying() { [ -n "$(find to -name '.fanstore-job*' -type f)" ]; }
wait_until 30 copying
{ sleep 3 && "$kill_daemon" 1 "$mnt"; } &
expect_status 125 f stop
grep -q 'nobody is left who knows' err || fail "$(cat err)"
rm hold
wait_until 30 nothing_left
echo "ok - a daemon is killed while it saves, after the others have reported"
