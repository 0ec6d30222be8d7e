#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# long: 35
# rest: four nodes
# FS_LOCK_SECONDS=60: how long each counter runs.
# Locks between nodes: flock, fcntl, those of open file descriptions, and lockf; and programs that lock:
# SQLite, git, filelock, LMDB, HDF5.
. "$(dirname "$0")/../functions.sh"
. "$(dirname "$0")/outputs.bash"

small_outputs_dataset
export HDF5_USE_FILE_LOCKING=TRUE
for n in $(half 2 4); do
  seconds=2
  [ "$n" = 2 ] || seconds=15
  seen_on "$n" -- "$python" "$here/locks.py" "$mnt" "$n" "${FS_LOCK_SECONDS:-$seconds}"
  seen_on "$n" -- "$python" "$here/locks_programs.py" "$mnt" "$n" "${ROUNDS:-25}"
  grep '^-- left out: ' "$work/out" || :
done
