#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# rest: 18 more moments
# fs-prepare place that is killed at random moments: the launcher, one node's daemon, or all of them at once. The next place
# completes, the copies are good, and a job reads everything from them. FS_SEED=N repeats a run.
. "$(dirname "$0")/../functions.sh"
cd "$work"

nodes=3 rounds=$(half 2 18) seed=${FS_SEED:-$((${EPOCHREALTIME/./} % 32768))}
[ "${FS_HALF-}" != all ] || rounds=20
RANDOM=$seed
say "FS_SEED=$seed"

mkdir source local
for i in 1 2 3 4 5; do head -c $((3000000 + i * 700000)) /dev/urandom >source/$i; done
pack source ds --codec raw --partitions 4 --mount "$mnt"

# No function: $! of one in the background is a shell's, and killing that leaves the program.
place=("$bin/fs-prepare" place --local-dir "$work/local" --emulate "$nodes" --replicas 2 ds)
now() { echo "${EPOCHREALTIME/./}"; } # microseconds
# Waits until partitions are being copied, or the place has ended.
until_copying() {
  while kill -0 "$placing" 2>/dev/null && ! compgen -G 'local/*/*/*part-*' >/dev/null; do sleep 0.005; done
}
sleep_us() { sleep "$(printf '%d.%06d' $(($1 / 1000000)) $(($1 % 1000000)))"; }

# An undisturbed one: how long it takes until partitions are copied, and from there to its end.
begun=$(now)
"${place[@]}" 2>err &
placing=$!
until_copying
copying=$(now)
wait $placing || fail "$(cat err)"
starts=$((copying - begun)) copies=$(($(now) - copying))

daemon() { "$kill_daemon" "$1" "$work/local" pid 2>/dev/null || :; }
killed=0 reused=0
for ((round = 1; killed < rounds && round <= 4 * rounds; round++)); do
  # All numbers are drawn whatever happens, so that a seed gives the same ones.
  before=$((RANDOM % 4 == 0)) moment=$((RANDOM % 1000)) whom=$((RANDOM % 3)) node=$((RANDOM % nodes))
  rm -rf local/*
  "${place[@]}" >/dev/null 2>&1 &
  placing=$!
  if [ $before = 1 ]; then
    sleep_us $((starts * moment / 1000))
  else
    until_copying
    sleep_us $((copies * moment / 1000))
  fi
  victims=$placing
  case $whom in
    1) victims=$(daemon $node) ;;
    2) for ((i = 0; i < nodes; i++)); do victims+=" $(daemon $i)"; done ;;
  esac
  # shellcheck disable=SC2086 # words
  kill -9 ${victims:-$placing} 2>/dev/null || :
  if wait $placing 2>/dev/null; then # it was faster than the first one
    copies=$((copies * 2 / 3))
    continue
  fi
  killed=$((killed + 1))
  told="FS_SEED=$seed, round $round (before $before, moment $moment, whom $whom, node $node)"
  "${place[@]}" 2>err || fail "$told: place again: $(cat err)"
  grep -q ', 0 B reused' err || reused=$((reused + 1))
  equal "$told: left" "" "$(find local -name '.new-*')"
  "$bin/fs-prepare" verify --local-dir "$work/local" ds >out 2>err || fail "$told: $(cat out err)"
  equal "$told: nodes with good copies" $nodes "$(grep -c ': good: ' out)"
  launch --emulate $nodes --replicas 2 --dataset ds -- diff -r source "$mnt" 2>err || fail "$told: the job: $(cat err)"
  grep -q ' 0 B staged' err || fail "$told: the job stages: $(cat err)"
done
gone() { [ -z "$(processes_of_test)" ]; }
wait_until 30 gone # what a killed launcher has started: on a busy machine that ends later than the runner waits
[ $killed -ge "$rounds" ] || fail "FS_SEED=$seed: only $killed of $rounds were killed"
echo "ok - killed $killed times, $reused times the next one went on with partitions that were there"
