#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# slow
# waits
# Locks when a daemon dies or stands still: that of the holder's node, and that of the file's home, without and with replicas.
# The one that waits has its answer in time, and each program is told once.
. "$(dirname "$0")/../functions.sh"
here=$(cd "$(dirname "$0")" && pwd)
random_files "$work/source" 5 3 1 100
pack "$work/source" "$work/ds" --partitions 1 --mount "$mnt"

job() { # CASE OPTION...
  local case=$1
  shift
  expect_status 0 launch --dataset "$work/ds" --emulate 3 --deadline 2000 --discard "$@" -- \
    "$python" "$here/locks_deaths.py" "$mnt" 2 "$case"
  grep '^ok - ' "$work/out" || fail "$case: nothing was seen"
  # Each program says once what it has lost, and nothing else.
  equal "$case: told" "$told" "$(sed -n 's/^fanstore: //p' "$work/err" | sed 's/[0-9]\{10,\}/ID/' | cut -c -41 | sort)"
  rm -rf "$work"/local/*/outputs-* "$TMPDIR"/fanstore-*
}
lost='output file ID: the lock is lost, because'
told='the daemon of node 1, this program'\''s own,' job holder
told=$lost job stopped
told="node 0 does not answer node 2; what it ha"$'\n'$lost
job home
job home-stopped
told=$lost job replicas --output-replicas 1
