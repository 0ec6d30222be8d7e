#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# All fault tests (docs/reliability.md), and one table of them: run.sh [--times N] [--short] [GROUP...]. Each fault is tried N
# times (3), or in the short form once or not at all; GROUP is a script here without its .sh. Exit status 1 when a try failed.
set -uo pipefail
cd "$(dirname "$0")" || exit 2
groups=() failed=0
export FAULTS_TIMES=3 FAULTS_TABLE FAULTS_DEATHS=1000
while [ $# -gt 0 ]; do
  case $1 in
    --times)
      FAULTS_TIMES=$2
      shift
      ;;
    --short)
      unset FAULTS_TIMES
      FAULTS_DEATHS=200
      ;;
    *) groups+=("$1") ;;
  esac
  shift
done
[ ${#groups[@]} -gt 0 ] || groups=(daemons links clients disks clocks)
FAULTS_TABLE=$(mktemp)
unset FS_TEST_ID # each group has a TMPDIR of its own, and looks itself for what is left
trap 'rm -f "$FAULTS_TABLE"' EXIT
for group in "${groups[@]}"; do
  printf '%s\n' "-- $group"
  ./"$group.sh" || {
    status=$?
    [ $status = 77 ] || failed=1
  }
done
echo
awk -f table.awk "$FAULTS_TABLE"
exit $failed
