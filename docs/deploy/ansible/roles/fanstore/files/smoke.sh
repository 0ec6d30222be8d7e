#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# Does FanStore work on this host? smoke.sh USER BIN: as USER, packs a file and reads it in a job of
# two emulated nodes, below a path where no directory is. Leaves nothing.
set -eu
export PATH=$2:$PATH
# OMPI_ALLOW_RUN_AS_ROOT is for USER root.
runuser -u "$1" -- env -i PATH="$PATH" OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 \
  bash -euc '
  dir=$(mktemp -d)
  trap "rm -rf $dir" EXIT
  export TMPDIR=$dir HOME=$dir
  mkdir "$dir/source"
  head -c 100000 /dev/urandom >"$dir/source/file"
  fs-prepare pack --mount "$dir/mount/nowhere" "$dir/source" "$dir/dataset" >/dev/null
  fs-launch --dataset "$dir/dataset" --local-dir "$dir/local" --emulate 2 -- \
    cmp "$dir/source/file" "$dir/mount/nowhere/file"
  [ ! -e "$dir/mount" ]'
echo "FanStore works: $(fs-launch --version)"
