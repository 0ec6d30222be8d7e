#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# Runs tests and counts them: run.sh [-j JOBS] [-t SECONDS] [-w WRAPPER] [-p PREFIX] TEST...
# A TEST is a program or script, or NAME=COMMAND for a shell command. Used by tests.mk and .ci/run.
#
# Each test has an empty TMPDIR that is removed afterwards, no input, a log in build/test-logs, and a time limit (its
# own line "# timeout: SECONDS", else -t, 600). Exit status 0 is passed, 77 skipped (the last line says why), all
# else failed. What a test started is known by FS_TEST_ID in its environment: processes that are still there a few
# seconds after its end fail it, and are killed. -w goes in front of every command (valgrind), -p in front of the
# names. One at a time, or -j at once; a test with a line "# alone: WHY" has nothing beside it all the same. Tests with a line
# "# waits" mostly sleep: with -j, half as many of them run beside the others. Tests with a line "# long: SECONDS" begin
# early, the longest first, so that none of them is left when all others have ended. The last line is the counts; with
# FS_COUNTS=FILE they are appended there too, and the failed tests' logs to FILE.failed. Exit status 1 if any failed. With
# FS_UNTIL=T, tests that have not begun at T (in seconds since 1970) are skipped. Behind a test: its seconds, and those of
# processors.
set -uo pipefail
export LC_ALL=C.UTF-8
root=$(cd "$(dirname "$0")/.." && pwd)
cd "$root" || exit 2

limit=600 wrapper='' prefix='' jobs=1
while getopts j:t:w:p: option; do
  case $option in
    j) jobs=$OPTARG ;;
    t) limit=$OPTARG ;;
    w) wrapper=$OPTARG ;;
    p) prefix=$OPTARG ;;
    *) exit 2 ;;
  esac
done
shift $((OPTIND - 1))

# fs-launch would ask ompi_info at each start: tests/functions.sh tells it.
if command -v ompi_info >/dev/null; then
  FS_TEST_PML=ob1
  ! ompi_info --parsable --param pml ucx 2>/dev/null | grep '^mca:pml:ucx:' >/dev/null || FS_TEST_PML=ucx
  export FS_TEST_PML
fi
# At each start mpirun and all daemons would read the registers of PCI devices: in a virtual machine, a fifth of their CPU time.
export HWLOC_COMPONENTS=-linuxio,-pci
# Each would also load hwloc's plugins, and with them the libraries of X11 and OpenCL: a tenth of a job's start. None is there.
export HWLOC_PLUGINS_PATH=/nonexistent

logs=build/test-logs
mkdir -p "$logs"
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
  exit 130
}

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

test_one() { # NUMBER TEST: in a process of its own, which prints at its end, all at once
  local name command log start status ms cpu note='' word=FAIL counted='0 1 0'
  trap interrupted INT TERM
  case $2 in
    *=*) name=${2%%=*} command=(bash -c "${2#*=}") ;;
    *) name=${2##*tests/} command=("$2") ;;
  esac
  name=$prefix${name%.sh}
  log=$logs/${name//\//.}.log
  id=$$.$RANDOM.$1
  start=${EPOCHREALTIME/./}
  if [ "${EPOCHREALTIME%.*}" -lt "${FS_UNTIL:-99999999999}" ]; then
    run_one "$log" "${command[@]}"
    status=$?
  else
    echo "no time is left (FS_UNTIL)" >"$log"
    status=77
  fi
  ms=$(((${EPOCHREALTIME/./} - start) / 1000))
  times >"$log.times"
  cpu=$(awk 'NR == 2 { split($1, u, /[ms]/); split($2, s, /[ms]/); print 60 * (u[1] + s[1]) + u[2] + s[2] }' "$log.times")
  rm -f "$log.times"
  case $status in
    0) word=PASS counted='1 0 0' ;;
    77) word=SKIP counted='0 0 1' note="  $(tail -n 1 "$log")" ;;
    *)
      note="  status $status, $log"$'\n'$(tail -n 40 "$log" | sed 's/^/    | /')
      [ -z "${FS_COUNTS:-}" ] || echo "$log" >>"$FS_COUNTS.failed"
      ;;
  esac
  echo "$counted" >>"$counts"
  printf '%s  %-40s %4d.%d s  %5.1f cpu%s\n' $word "$name" $((ms / 1000)) $((ms / 100 % 10)) "$cpu" "$note"
}

stop_all() {
  trap - INT TERM
  # shellcheck disable=SC2046
  kill $(jobs -p) 2>/dev/null
  wait
  rm -f "$counts"
  echo "interrupted"
  exit 130
}
counts=$(mktemp) || exit 2
trap stop_all INT TERM
number=0
begin() { # TEST
  number=$((number + 1))
  test_one $number "$1" &
}
# Runs the tests of the arrays `busy` and `idle`: JOBS of the first at once, and half as many of the second beside them.
at_once() { # JOBS
  local b=0 i=0 running=0 pid=''
  local -A waits=()
  while [ $b -lt ${#busy[@]} ] || [ $i -lt ${#idle[@]} ]; do
    if [ $i -lt ${#idle[@]} ] && [ ${#waits[@]} -lt $(($1 / 2)) ]; then
      begin "${idle[i++]}"
      waits[$!]=1
    elif [ $b -lt ${#busy[@]} ] && [ $running -lt "$1" ]; then
      begin "${busy[b++]}"
      running=$((running + 1))
    else
      wait -n -p pid
      if [ -n "${waits[$pid]-}" ]; then unset "waits[$pid]"; else running=$((running - 1)); fi
    fi
  done
  wait
}
# The lines at the top of a script are about a test that is this script, or whose command ends with it.
has_line() { # TEST PATTERN
  case $1 in *.sh) grep -q "^# $2" "${1##*[ =]}" 2>/dev/null ;; *) return 1 ;; esac
}
# SECONDS TEST, of those with a line "# long: SECONDS".
lengths() {
  local test seconds
  for test; do
    case $test in *.sh) ;; *) continue ;; esac
    seconds=$(sed -n 's/^# long: \([0-9]*\)$/\1/p' "${test##*[ =]}" 2>/dev/null)
    [ -z "$seconds" ] || printf '%s\n' "$seconds $test"
  done
}
mapfile -t long < <(lengths "$@" | sort -snr | cut -d ' ' -f 2-)
others=()
for test; do [[ " ${long[*]} " = *" $test "* ]] || others+=("$test"); done
# A long one, which may run many jobs at once, with three others after it: long ones alone would be too much at once.
order=()
while [ $((${#long[@]} + ${#others[@]})) -gt 0 ]; do
  order+=("${long[@]:0:1}" "${others[@]:0:3}")
  long=("${long[@]:1}") others=("${others[@]:3}")
done
apart=() together=() waiting=()
for test in "${order[@]}"; do
  if [ -f "$test" ] && has_line "$test" 'alone: '; then
    apart+=("$test")
  elif [ "$jobs" -gt 1 ] && has_line "$test" 'waits$'; then
    waiting+=("$test")
  else
    together+=("$test")
  fi
done
busy=("${apart[@]}") idle=()
at_once 1
busy=("${together[@]}") idle=("${waiting[@]}")
at_once "$jobs"

# A test whose process was killed itself has counted nothing: it failed.
read -r passed failed skipped < <(awk -v all=$# '{ p += $1; s += $3 } END { print p + 0, all - p - s, s + 0 }' "$counts")
rm -f "$counts"
[ -z "${FS_COUNTS:-}" ] || echo "$passed $failed $skipped" >>"$FS_COUNTS"
counted="$passed passed, $failed failed"
[ "$skipped" -eq 0 ] || counted="$counted, $skipped skipped"
echo "$counted"
[ "$failed" -eq 0 ]
