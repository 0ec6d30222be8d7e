#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# All fault tests (tests/fault/table/README.md), and one table of them: run.sh [--times N] [--short] [GROUP...]. Each fault is tried N
# times (4: as there are nodes), or in the short form once or not at all; GROUP is a script here without its .sh. Exit status 1 when a try failed.
set -uo pipefail
cd "$(dirname "$0")" || exit 2
groups=() failed=0
export FAULTS_TIMES=4 FAULTS_DEATHS=1000
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
tables=$(mktemp -d)
unset FS_TEST_ID # each group has a TMPDIR of its own, and looks itself for what is left
trap 'rm -rf "$tables"' EXIT
run() { # GROUP...
  local group status=0
  for group; do
    printf '%s\n' "-- $group"
    FAULTS_TABLE=$tables/$group ./"$group.sh" || case $? in 77) ;; *) status=1 ;; esac
  done
  return $status
}
if [ -n "${FAULTS_TIMES:-}" ]; then
  run "${groups[@]}" || failed=1
else # which waits most of the time: every other group beside the rest
  every_other=() rest=()
  for i in "${!groups[@]}"; do
    if ((i % 2)); then every_other+=("${groups[i]}"); else rest+=("${groups[i]}"); fi
  done
  run "${every_other[@]}" >"$tables/.beside" 2>&1 &
  run "${rest[@]}" || failed=1
  wait $! || failed=1
  cat "$tables/.beside"
fi
echo
for group in "${groups[@]}"; do cat "$tables/$group" 2>/dev/null; done | awk -f table.awk
cat "$tables"/*.failed 2>/dev/null # once more, where they are seen
exit $failed
