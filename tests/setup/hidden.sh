#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# Runs a command of a job on emulated nodes so that it cannot see the other nodes' storage: hidden.sh LOCAL-DIR COMMAND...
# An empty file system lies over each other node's directory, in a mount namespace of this process's own; the daemons
# do not notice.
set -euo pipefail
local_dir=$1
shift
node=${FANSTORE_NODE:-$((${OMPI_COMM_WORLD_RANK:-0} % ${FANSTORE_EMULATE:-1}))}
unshare=(unshare -m)
[ "$(id -u)" = 0 ] || unshare=(unshare -rm)
exec "${unshare[@]}" bash -euc '
  hidden=0
  for d in "$1"/fanstore-node*; do
    [ "$d" != "$1/fanstore-node$2" ] || continue
    mount -t tmpfs -o size=4k,mode=0 none "$d"
    hidden=$((hidden + 1))
  done
  [ $hidden -gt 0 ] || { echo "hidden.sh: no other node below $1" >&2; exit 1; }
  shift 2
  exec "$@"' hidden "$local_dir" "$node" "$@"
