#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# long: 25
# rest: 16 more moments, and of --nodes-only
# fs-prepare pack --update over emulated nodes that is killed at random moments between its begin and its end: all processes at
# once, the lead, another rank, mpirun, fs-launch. Until the new dataset has its name, the old one and the nodes' copies of it are
# whole. The same command goes on, and the dataset has the bytes of an update by one process. pack_kill_steps.sh kills it at
# each step. FS_SEED=N repeats the moments.
. "$(dirname "$0")/../functions.sh"
nodes=3 codec=zstd:12 seed=${FS_SEED:-$((${EPOCHREALTIME/./} % 32768))}
. "$(dirname "$0")/pack_resume.bash"
RANDOM=$seed
say "FS_SEED=$seed"

wanted=$(half 4 8) kinds=('')
[ -z "${FS_HALF-}" ] || kinds+=(--nodes-only)
[ "${FS_HALF-}" != all ] || wanted=10
for each in "${kinds[@]}"; do
  # shellcheck disable=SC2206 # a word or none
  more=($each)
  update_begin
  measure update_again --update
  update_done
  if ! rest; then
    launch --emulate "$nodes" --dataset ds --mount "$mnt" -- diff -r changed "$mnt" >out 2>err || fail "$(cat out err)"
    grep -q ' 0 B staged, ' err || fail "$(cat err)"
  fi
  say "an update takes $took ms"
  kill_often "$wanted" update_again update_safe update_done --update
done
no_leftovers
echo "ok - killed $killed times, $resumed runs went on from a checkpoint: the bytes of an update by one process"
