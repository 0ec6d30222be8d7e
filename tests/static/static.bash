# SPDX-License-Identifier: BSD-3-Clause
# shellcheck shell=bash
# For the tests of fanstore-static, to be sourced after functions.sh: skips where the kernel or a sandbox forbids it.

# supervised DATASET MOUNT COMMAND...: under the supervisor alone, no daemon
supervised() {
  local dataset=$1 mount=$2
  shift 2
  env FANSTORE_DATASET="$dataset" FANSTORE_MOUNT="$mount" "$bin/fanstore-static" -- "$@"
}
if ! FANSTORE_DATASET=/nonexistent FANSTORE_MOUNT=/nonexistent "$bin/fanstore-static" true 2>"$work/static.err"; then
  skip "$(tail -n 1 "$work/static.err")"
fi
