#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# Runs tests one after another and counts them: run.sh [-t SECONDS] [-w WRAPPER] [-p PREFIX] TEST...
# A TEST is a program or script, or NAME=COMMAND for a shell command. Used by tests.mk and .ci/run.
#
# Each test has an empty TMPDIR that is removed afterwards, no input, a log in build/test-logs, and a time limit (its
# own line "# timeout: SECONDS", else -t, 300). Exit status 0 is passed, 77 skipped (the last line says why), all
# else failed. What a test started is known by FS_TEST_ID in its environment: processes that are still there a few
# seconds after its end fail it, and are killed. -w goes in front of every command (valgrind), -p in front of the
# names. The last line is the counts; with FS_COUNTS=FILE they are appended there too. Exit status 1 if any failed.
set -uo pipefail
export LC_ALL=C.UTF-8
root=$(cd "$(dirname "$0")/.." && pwd)
cd "$root" || exit 2

limit=300 wrapper='' prefix=''
while getopts t:w:p: option; do
  case $option in
    t) limit=$OPTARG ;;
    w) wrapper=$OPTARG ;;
    p) prefix=$OPTARG ;;
    *) exit 2 ;;
  esac
done
shift $((OPTIND - 1))

logs=build/test-logs
mkdir -p "$logs"
passed=0 failed=0 skipped=0
id='' tmp=''

strays() { grep -lzxsF "FS_TEST_ID=$id" /proc/[0-9]*/environ | sed 's|/proc/\([0-9]*\)/.*|\1|'; }
kill_strays() {
  local pids
  for _ in 1 2 3; do
    pids=$(strays)
    [ -n "$pids" ] || return 0
    # shellcheck disable=SC2086
    kill -KILL $pids 2>/dev/null
    sleep 0.2
  done
}
# Waits a few seconds for what is on its way out; then names what is left, kills it, and fails.
check_strays() {
  local pid
  for _ in {1..40}; do
    [ -n "$(strays)" ] || return 0
    sleep 0.1
  done
  for pid in $(strays); do
    echo "left running: $pid $(tr '\0' ' ' <"/proc/$pid/cmdline" 2>/dev/null)"
  done
  kill_strays
  return 1
}
remove_tmp() {
  [ -n "$tmp" ] || return 0
  rm -rf "$tmp" 2>/dev/null || { chmod -R u+rwX "$tmp" && rm -rf "$tmp"; }
  tmp=''
}
interrupted() {
  trap - INT TERM
  kill_strays
  remove_tmp
  echo "interrupted"
  exit 130
}
trap interrupted INT TERM

run_one() { # NAME COMMAND... -> status; output to the log
  local seconds=$limit own='' status
  local log=$1
  shift
  if [ -f "$1" ]; then
    own=$(head -n 30 "$1" | tr -d '\0' | sed -n 's/^# timeout: \([0-9]*\)$/\1/p' | head -n 1)
  fi
  seconds=${own:-$seconds}
  tmp=$(mktemp -d "${TMPDIR:-/tmp}/fst.XXXXXX") || exit 2
  chmod 711 "$tmp" # tests that give up root must get through
  # The variables of an MPI or Slurm job around us would be taken for the test's own.
  # shellcheck disable=SC2086
  env -u LD_PRELOAD -u MAKEFLAGS -u MAKELEVEL -u MFLAGS -u FS_COUNTS TMPDIR="$tmp" FS_TEST_ID="$id" \
    FS_BUILD="${FS_BUILD:-$root/build}" \
    setsid -w timeout -k 5 "$seconds" $wrapper "$@" </dev/null >"$log" 2>&1 &
  wait $!
  status=$?
  case $status in 124 | 137) echo "stopped after $seconds s (or killed)" >>"$log" ;; esac
  if ! check_strays >>"$log" && [ $status -eq 0 ]; then status=99; fi
  remove_tmp
  return $status
}

for test in "$@"; do
  case $test in
    *=*) name=${test%%=*} command=(bash -c "${test#*=}") ;;
    *) name=${test##*tests/} command=("$test") ;;
  esac
  name=$prefix${name%.sh}
  log=$logs/${name//\//.}.log
  id=$$.$RANDOM.$((passed + failed + skipped))
  start=${EPOCHREALTIME/./}
  run_one "$log" "${command[@]}"
  status=$?
  ms=$(((${EPOCHREALTIME/./} - start) / 1000))
  note='' word=FAIL
  case $status in
    0) word=PASS passed=$((passed + 1)) ;;
    77) word=SKIP skipped=$((skipped + 1)) note="  $(tail -n 1 "$log")" ;;
    *) failed=$((failed + 1)) note="  status $status, $log" ;;
  esac
  printf '%s  %-40s %4d.%d s%s\n' $word "$name" $((ms / 1000)) $((ms / 100 % 10)) "$note"
  [ $word != FAIL ] || tail -n 40 "$log" | sed 's/^/    | /'
done

[ -z "${FS_COUNTS:-}" ] || echo "$passed $failed $skipped" >>"$FS_COUNTS"
counts="$passed passed, $failed failed"
[ $skipped -eq 0 ] || counts="$counts, $skipped skipped"
echo "$counts"
[ $failed -eq 0 ]
