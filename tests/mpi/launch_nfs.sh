#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# waits
# TMPDIR and the local directory on NFS, which hosts share, or without a free descriptor: a job that lives is not taken for a
# dead one by others that start, end and clean up beside it.
. "$(dirname "$0")/../functions.sh"
need_command cc
shim=$work/nfs_locks.so ds=$work/ds script=$work/job.sh
cc -shared -fPIC -o "$shim" "$(dirname "$0")/nfs_locks.c"
random_files "$work/source" 5 1 1000
pack "$work/source" "$ds" --partitions 2
cat >"$script" <<'END'
mkdir "$1/out" && for i in 1 2 3; do echo "$i" >"$1/out/$i"; done
touch "$2/made"
until [ -e "$2/go" ]; do sleep 0.1; done
cat "$1/out"/* && FANSTORE_NODE=1 cat "$1/out"/* && FANSTORE_NODE=1 bash -c 'echo 4 >"$1/out/4"' - "$1" && ls "$1/out"
END
as_nfs() { env LD_PRELOAD="$shim" FANSTORE_MPIRUN_ARGS="-x LD_PRELOAD=$shim" "$@"; }
beside() { # COMMAND...: a job while that runs
  rm -f "$work/made" "$work/go"
  as_nfs "$bin/fs-launch" --local-dir "$work/local" --dataset "$ds" --mount "$mnt" --emulate 2 --keep -- \
    env -u LD_PRELOAD LD_PRELOAD="$lib" bash "$script" "$mnt" "$work" >"$work/job.out" 2>"$work/job.err" &
  local job=$! status=0
  wait_until 60 test -e "$work/made"
  sleep 11 # a younger one is left alone in any case
  "$@" >"$work/beside" 2>&1 || fail "beside it: $(cat "$work/beside")"
  touch "$work/go"
  wait "$job" || status=$?
  equal "its status, beside $*: $(cat "$work/job.err" "$work/beside")" 0 "$status"
  equal "what it read" "1 2 3 1 2 3 1 2 3 4" "$(xargs <"$work/job.out")"
  rm -rf "$work/local/fanstore-outputs"
}
others() {
  as_nfs "$bin/fs-launch" clean --local-dir "$work/local" || return
  as_nfs "$bin/fs-launch" --local-dir "$work/local" --dataset "$ds" --mount "$mnt" --emulate 2 -- true
}
few() { # the more, the further it gets
  local n
  for n in 5 6 7 8 9 10 12; do (
    ulimit -n "$n"
    "$bin/fs-launch" clean --local-dir "$work/local" >/dev/null 2>&1
  ) || true; done
}
side_by_side beside others few
echo "ok - a job beside others, and beside a clean without descriptors"
