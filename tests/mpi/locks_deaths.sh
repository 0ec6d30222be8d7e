#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# slow
# waits
# Locks when a daemon dies: that of the holder's node, and that of the file's home, without and with replicas.
. "$(dirname "$0")/../functions.sh"
here=$(cd "$(dirname "$0")" && pwd)
random_files "$work/source" 5 3 1 100
pack "$work/source" "$work/ds" --partitions 1 --mount "$mnt"

job() { # CASE OPTION...
  local case=$1
  shift
  expect_status 0 launch --dataset "$work/ds" --emulate 3 --deadline 2000 --discard "$@" -- \
    "$python" "$here/locks_deaths.py" "$mnt" "$case"
  grep '^ok - ' "$work/out" || fail "$case: nothing was seen"
  [ "$case" = holder ] || equal "$case: told" 1 "$(grep -c 'the lock is lost' "$work/err" || :)"
  rm -rf "$work"/local/*/outputs-* "$TMPDIR"/fanstore-*
}
job holder
job stopped
job home
job replicas --output-replicas 1
