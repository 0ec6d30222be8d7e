#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# long: 35
# rest: other numbers of nodes
# What fs-launch does when all goes well: 1, 2 and 4 emulated nodes, the whole tree from each of them, counts that add
# up, a second job that finds the partitions staged, --replicas, --np, --purge, clean, exit statuses, standard input.
. "$(dirname "$0")/../functions.sh"
here=$(cd "$(dirname "$0")" && pwd)

random_files "$work/source" 300 7 1 100 5000 40000 300000
pack "$work/source" "$work/ds" --partitions 5 --mount "$mnt"
files=$(find "$work/source" -type f | wc -l)
bytes=$(find "$work/source" -type f -printf '%s\n' | awk '{ s += $1 } END { printf "%d", s }')
local=$work/local
staged_files() { find "$local" -name 'part-*' ! -name '*.stamp' 2>/dev/null | wc -l; }

for n in $(half 4 "1 2"); do
  for node in $(seq 0 $((n - 1))); do
    launch --dataset "$work/ds" --emulate "$n" --report "$work/r.json" -- \
      env FANSTORE_NODE="$node" diff -r "$work/source" "$mnt" 2>"$work/err" || fail "node $node of $n"
    equal "opens on node $node" "$files" "$(json "$work/r.json" "r['nodes'][$node]['opens']")"
    equal "bytes on node $node" "$bytes" \
      "$(json "$work/r.json" "sum(r['nodes'][$node]['bytes_' + k] for k in ('local', 'cache', 'remote', 'shared'))")"
    equal "total opens" "$files" "$(json "$work/r.json" "r['total']['opens']")"
    equal "fetched and served" "$(json "$work/r.json" "r['total']['fetched_bytes']")" \
      "$(json "$work/r.json" "r['total']['served_bytes']")"
    equal "shared" 0 "$(json "$work/r.json" "r['total']['bytes_shared']")"
    [ "$n" -eq 1 ] || [ "$(json "$work/r.json" "r['nodes'][$node]['bytes_remote']")" -gt 0 ] || fail "nothing remote"
    no_leftovers
    [ "$node" -eq 0 ] || equal "staged again" 0 "$(json "$work/r.json" "sum(x['staged'] for x in r['nodes'])")"
  done
  equal "placed once" 5 "$(json "$work/r.json" "sum(len(p) == 1 for p in r['datasets'][0]['placement'])")"
  echo "ok - $n nodes: the tree is the same from each, the counts add up, a second job stages nothing"
  [ "$n" -gt 1 ] || continue
  grep -q "^fs-launch: $n nodes, 1 dataset: 0 B staged, .* reused" "$work/err" || fail "no summary"
  [ "$(grep -c '^fs-launch: node [0-3] ' "$work/err")" = "$n" ] || fail "no line for each node"
  echo "ok - the summary"
done
! rest || exit 0

rm -rf "$local"
! grep -q ' staging: ' "$work/err" || fail "a line of progress within the first minute"
FANSTORE_TEST_PROGRESS_MS=1 launch --dataset "$work/ds" --emulate 3 --replicas 2 --report "$work/r.json" -- true \
  2>"$work/err"
line='^fs-launch: staging: [0-9.]+ [KM]iB of [0-9.]+ [KM]iB on 3 nodes, [0-9.]+ [KM]?i?B/s, about [0-9]+ (s|min) left$'
grep -qE "$line" "$work/err" || fail "no line of progress: $(cat "$work/err")"
echo "ok - progress of staging without a terminal: a line at a time"
equal "two owners" 5 "$(json "$work/r.json" "sum(len(set(p)) == 2 for p in r['datasets'][0]['placement'])")"
equal "copies on disk" 10 "$(staged_files)"
launch --dataset "$work/ds" --emulate 2 --replicas 3 -- true 2>"$work/err"
grep -q '^fs-launch: warning: --replicas 3: with 2 nodes there can be 2 copies only$' "$work/err" || fail "$(cat "$work/err")"
unused=" nothing below $mnt was used: is the path right, and did LD_PRELOAD reach the programs?"
grep -qF "fs-launch: node 0:$unused" "$work/err" || fail "node 0 is not named: $(cat "$work/err")"
echo "ok - --replicas 2, and more than there are nodes"

launch --dataset "$work/ds" --emulate 3 --purge --report "$work/r.txt" -- true 2>/dev/null
equal "after --purge" 0 "$(find "$local" -type f | wc -l)"
for line in '^status 0$' '^node.2.host ' '^total.opens '; do
  grep -q "$line" "$work/r.txt" || fail "no '$line' in the text report"
done
echo "ok - --purge, and a report in text"

unset FANSTORE_PML # fs-launch finds out itself what Open MPI has
launch --dataset "$work/ds" --mount "$work/a/b" --dataset "$work/ds" --mount "$work/c" --emulate 2 -- \
  sh -c "diff -r '$work/source' '$work/a/b' && diff -r '$work/source' '$work/c'" 2>/dev/null || fail "two mounts"
[ -z "${FS_TEST_PML-}" ] || export FANSTORE_PML=$FS_TEST_PML
echo "ok - two datasets, each at its mount"

for given in NONE A,B ALL,A=1; do # what sbatch --export leaves for srun
  SLURM_EXPORT_ENV=$given launch --dataset "$work/ds" --emulate 2 -- sh -c 'echo $SLURM_EXPORT_ENV' >>"$work/exports" 2>/dev/null
done
equal "SLURM_EXPORT_ENV" "ALL ALL ALL,A=1" "$(paste -sd' ' "$work/exports")"
echo "ok - srun in COMMAND passes its environment on"

launch --dataset "$work/ds" --emulate 2 --np 3 -- sh -c \
  "diff -r '$work/source' '$mnt' && echo \$OMPI_COMM_WORLD_RANK \$FANSTORE_EMULATE" \
  >"$work/out" 2>"$work/err" || fail "--np 3"
! grep -qF "$unused" "$work/err" || fail "each node has used the mount: $(cat "$work/err")"
equal "ranks" "0 2,1 2,2 2" "$(sort "$work/out" | paste -sd,)"
mkdir "$work/bin"
printf '#!/bin/sh\necho mine "$PATH" "${LD_LIBRARY_PATH-none}"' >"$work/bin/true"
chmod +x "$work/bin/true"
for libraries in "" "$work/lib"; do
  (
    export PATH="$work/bin:$PATH"
    unset LD_LIBRARY_PATH
    [ -z "$libraries" ] || export LD_LIBRARY_PATH="$libraries"
    launch --dataset "$work/ds" --emulate 2 --np 2 -- true >"$work/out" 2>"$work/err" || fail "--np 2"
    grep -qF "fs-launch: nodes 0, 1:$unused" "$work/err" || fail "both nodes: $(cat "$work/err")"
    equal "PATH and LD_LIBRARY_PATH with --np" "2 mine $PATH ${libraries:-none}" "$(sort "$work/out" | uniq -c | sed 's/^ *//')"
  ) || exit 1
done
echo "ok - --np 3"

"$bin/fs-launch" clean --staged --local-dir "$local" 2>"$work/err"
equal "after clean" 0 "$(find "$local" -type f | wc -l)"
[ "$(grep -c '^fs-launch: removed ' "$work/err")" = 2 ] || fail "clean says nothing"
echo "ok - clean --staged"

# Beside jobs that start: none of these fails, and none is without its files.
while [ ! -e "$work/stop" ]; do
  "$bin/fs-launch" clean --staged --local-dir "$local" 2>/dev/null || true
  sleep 0.02
done &
for i in {1..5}; do
  launch --dataset "$work/ds" --emulate 2 -- diff -r "$work/source" "$mnt" >"$work/out" 2>"$work/err" ||
    fail "job $i: $(cat "$work/out" "$work/err")"
done
touch "$work/stop"
wait
echo "ok - clean --staged beside jobs that start"

status() { # EXPECTED COMMAND...
  local want=$1
  shift
  expect_status "$want" launch --dataset "$work/ds" -- "$@"
}
status 3 sh -c 'exit 3'
status 137 sh -c 'kill -9 $$'
status 143 sh -c 'kill $$'
# One that uses the same copies meanwhile keeps them from being purged; what ends by itself a moment later is not told of.
# shellcheck disable=SC2016
expect_status 0 "$bin/fs-launch" --local-dir "$work/local" --dataset "$work/ds" -- \
  "$bin/fs-launch" -v --local-dir "$work/local" --dataset "$work/ds" --mount "$work/inner" --purge -- \
  sh -c 'sleep 0.2 & exit 0'
grep -q "^fs-launch: warning: node 0 (.*): --purge: $work/local/fanstore/[0-9a-f]* stays: another job uses it$" "$work/err" ||
  fail "what --purge leaves is not told: $(cat "$work/err")"
! grep 'still ran at its end' "$work/err" || fail "something still ran"
! grep 'PMIX ERROR' "$work/err" || fail "noise"
# Its guard is stopped: nobody waits for it.
# shellcheck disable=SC2016
expect_status 0 timeout -s KILL 60 "$bin/fs-launch" --local-dir "$local" --dataset "$work/ds" -- \
  sh -c 'kill -STOP "$(pgrep -P $PPID -x fs-launch-guard)"'
equal "standard input" "$(seq 100000 | md5sum)" "$(seq 100000 | launch --dataset "$work/ds" -- md5sum 2>/dev/null)"
mkdir "$work/starters"
printf '#!/bin/sh\nexec "$@"\n' >"$work/starters/sudo"
chmod +x "$work/starters/sudo"
equal "standard output" "out 1" "$(launch --dataset "$work/ds" --env-as-is -- \
  "$work/starters/sudo" sh -c 'echo out $FANSTORE_ENV_AS_IS; echo err >&2' 2>"$work/err")"
grep -q '^fs-launch: warning: .*/sudo starts the command with other rights' "$work/err" || fail "sudo: $(cat "$work/err")"
for _ in 1 2 3; do
  launch --dataset "$work/ds" --emulate 2 -- sh -c "[ -e /proc/self/fd/0 ] || echo >'$work/closed'" <&- >&- 2>&- ||
    fail "all three closed: $?"
  [ -s "$work/closed" ] || fail "all three closed: COMMAND has a standard input"
  rm "$work/closed"
done
equal "closed input with --np" "0 0" "$(launch --dataset "$work/ds" --np 2 -- sh -c 'cat; echo $?' <&- 2>/dev/null | paste -sd' ')"
echo "ok - exit statuses, standard input and output, closed ones"

# ^C and ^\ at the terminal, and signals to fs-launch alone, whether COMMAND is its child or mpirun's.
signalled() { # EXPECTED KEY fs-launch's words...
  local want=$1 key=$2 got=0
  shift 2
  "$python" "$here/terminal.py" READY "$key" "$bin/fs-launch" --local-dir "$work/local" --dataset "$work/ds" --emulate 2 "$@" \
    >"$work/out" 2>&1 || got=$?
  [ $got = "$want" ] || fail "$key, $*: $got, not $want: $(cat "$work/out")"
}
signalled 130 03 --np 2 -- sh -c 'echo READY; exec sleep 30'
signalled 130 SIGINT --np 1 -- sh -c 'echo READY; exec sleep 30'
signalled 143 SIGTERM --np 2 -- sh -c 'echo READY; exec sleep 30'
signalled 130 03 -- sh -c '(echo READY; exec sleep 30); exit 7' # not between sh's echo and its fork
signalled 5 03 -- sh -c 'trap "exit 5" INT; echo READY; sleep 30 & wait; exit 6' # COMMAND says what it means
echo "ok - interrupts"

expect_status 0 launch --dataset "$work/ds" -- sh -c 'setsid sleep 300 >/dev/null 2>&1 & exit 0'
grep -q 'still ran at its end' "$work/err" || fail "what COMMAND left is not told"
echo "ok - what COMMAND left running is ended, and told"

# A job inside a job: its nodes are its own.
launch --local-dir "$local" --dataset "$work/ds" --emulate 2 -- \
  env FANSTORE_NODE=1 "$bin/fs-launch" --local-dir "$local" --dataset "$work/ds" --mount "$work/inner" -- \
  sh -c "echo \$FANSTORE_NODE; diff -r '$work/source' '$work/inner'" \
  >"$work/out" 2>"$work/err" || fail "a job inside a job: $(cat "$work/err")"
equal "inner node" 0 "$(cat "$work/out")"
if command -v mpirun >/dev/null; then
  mpirun --allow-run-as-root --oversubscribe -np 1 "$bin/fs-launch" --local-dir "$local" --dataset "$work/ds" \
    --emulate 2 --np 2 -- diff -r "$work/source" "$mnt" >"$work/out" 2>&1 || fail "inside mpirun: $(cat "$work/out")"
fi
echo "ok - a job inside a job, and inside an MPI job"
no_leftovers
