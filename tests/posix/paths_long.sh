#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# slow
# Many random paths on a file system and on a mount at the same path. FS_SEED=N repeats one run.
. "$(dirname "$0")/../functions.sh"
. "$(dirname "$0")/paths.bash"

first=${FS_SEED:-$(($(date +%s) % 1000000))} count=10
[ -z "${FS_SEED:-}" ] || count=1
for ((seed = first; seed < first + count; seed++)); do
  say "5000 random paths of seed $seed"
  compare "FS_SEED=$seed" /dev/null "$seed" 5000
done
