# SPDX-License-Identifier: BSD-3-Clause
# shellcheck shell=bash disable=SC2154
# What the groups of fault tests (tests/fault/table/*.sh) share. Each begins with
#     . "$(dirname "$0")/harness.bash"
# and calls `fault NAME TIMES FUNCTION [ARG...]`, which runs FUNCTION so often and makes one row of the table of it. One try
# looks like this:
#     begin small --emulate 4          # a job of readers (tests/helpers/faultreader.c), as soon as all of them read
#     kill -9 "$(daemon 2)"            # the fault
#     finish                           # reads on, ends, and what it left is counted
# FAULTS_TIMES is how often a try is made (NAME's TIMES says how often in the short form), FAULTS_TABLE a file for the rows.
# With less than no errors, a stall below the deadline and two seconds, the status 0 and nothing left a try has failed, unless it says
# what it expects (expect_*, reset by each try).

# A private /dev/shm, so that what is left there is this test's.
if [ -z "${faults_in_place:-}" ] && [ "$(id -u)" = 0 ] && [ -z "${FAULTS_OWN_SHM:-}" ] && unshare -m true 2>/dev/null; then
  exec env FAULTS_OWN_SHM=1 unshare -m sh -c 'mount -t tmpfs none /dev/shm && exec "$0" "$@"' "$0" "$@"
fi
. "$(dirname "${BASH_SOURCE[0]}")/../../functions.sh"
# A job that goes on is ended with the script, whatever ends that.
ended() {
  if [ -n "${job:-}" ]; then
    kill -TERM "$job" 2>/dev/null || :
    wait "$job" 2>/dev/null || :
  fi
  [ -n "${FS_TEST_ID:-}" ] || rm -rf "$TMPDIR"
}
trap ended EXIT
faultreader=$build/tests/helpers/faultreader
deadline_ms=2000
table=${FAULTS_TABLE:-$work/table}
failures=0

# Of the rows in work: filled by finish.
errors=0 stall=0 bytes=0 end=0 left=0

make_dataset() { # SMALL LARGE PARTITIONS
  mkdir -p "$work/source"
  "$faultreader" make "$work/source" "$1" "$2"
  pack "$work/source" "$work/ds" --partitions "$3" --mount "$mnt"
}

# ---- processes ----

# Processes of the job: those that name its dataset, or have it in their environment.
job_processes() {
  {
    grep -lzxsF -e "$work/ds" /proc/[0-9]*/cmdline
    grep -lzxsF -e "FANSTORE_DATASET=$work/ds" /proc/[0-9]*/environ
  } | sed 's|/proc/\([0-9]*\)/.*|\1|' | sort -u | grep -vx $$ || :
}
pids_of() { # PROGRAM: the job's processes of it
  local p
  for p in $(job_processes); do
    case $(readlink "/proc/$p/exe") in */"$1") echo "$p" ;; esac
  done
}
# The daemon of a node, which is the rank that mpirun gave it.
daemon() {
  local p
  for p in $(pids_of fanstored); do
    if grep -qzx "OMPI_COMM_WORLD_RANK=$1" "/proc/$p/environ" 2>/dev/null; then echo "$p"; fi
  done
}

# ---- a try ----

# What starts a job, and what is told to its readers; groups may change them.
launcher=("$bin/fs-launch" --local-dir "$work/local")
readers=(--nodes 4 --workers 2 --seconds 3)
processes=1 # of readers that print a line
# In the short form, which runs beside other tests, readers leave the processors to others for a while.
pause=()
[ -n "${FAULTS_TIMES:-}" ] || pause=(--pause 10)

begin() { # small|large|both [options of fs-launch]
  local sizes=$1
  shift
  rm -f "$work"/begun.* "$work/out" "$work/err" "$work/go"
  "${launcher[@]}" --dataset "$work/ds" --cache 16M --deadline $deadline_ms --report "$work/r.json" "$@" -- \
    "${before[@]}" "$faultreader" read "$mnt" "$sizes" "${pause[@]}" "${readers[@]}" ${skip:+--skip $skip} --begun "$work/begun" \
    --until "$work/go" >"$work/out" 2>"$work/err" &
  job=$!
  wait_until 60 all_begun
}
# until_true SECONDS COMMAND...: waits for it, as wait_until does; returns 1 after this time, and the table goes on
until_true() {
  local i times=$(($1 * 10))
  shift
  for ((i = 0; i < times; i++)); do
    ! "$@" || return 0
    sleep 0.1
  done
  return 1
}
told() { grep -q "$1" "$work/err"; } # PATTERN: in what fs-launch says
before=() # of the readers' command line
all_begun() { [ "$(find "$work" -maxdepth 1 -name 'begun.*' | wc -l)" = "$processes" ]; }

# Of local directories, where whole copies, their index, stamps and locks may stay.
left_locally() { # DIRECTORY...
  find "$@" \( -name '.new-*' -o -name 'outputs-*' \) -prune -print 2>/dev/null || :
}
# What no job may leave behind, one thing a line.
list_left() {
  job_processes
  find "$TMPDIR" -mindepth 1 -maxdepth 1 ! -name work
  left_locally "$work/local"
  [ -z "${FAULTS_OWN_SHM:-}" ] || ls -A /dev/shm
  grep -F "$TMPDIR" /proc/net/unix || :
}
# A process with its state, what it waits in, its parent and its command line.
named_left() {
  local what
  while read -r what; do
    case $what in
      *[!0-9]*) echo "left: $what" ;;
      *) echo "left: $(ps -o pid=,ppid=,stat=,wchan=,etimes=,args= -p "$what" | cut -c 1-300 || :)" ;;
    esac
  done
}
# Counts what is still there some seconds after the end, and names it.
count_left() {
  local i list
  for ((i = 0; i < 80; i++)); do
    list=$(list_left)
    [ -n "$list" ] || break
    sleep 0.1
  done
  left=$(grep -c . <<<"$list" || :)
  [ "$left" = 0 ] || named_left <<<"$list"
}

of_readers() { # KEY: its sum (the maximum of times) over the readers' lines
  sed -n 's/^reader: \(.*\)/ \1/p' "$work/out" | tr ' ' '\n' | awk -F= -v key="$1" '
    $1 == key { sum += $2; if ($2 > most) most = $2; n++ }
    END { print n == 0 ? -1 : key ~ /_ms$/ ? most + 0 : sum + 0 }'
}

# Waits for the end of the job, and looks at all of it.
finish() {
  touch "$work/go"
  end=0
  wait "$job" 2>/dev/null || end=$?
  job=''
  count_left
  if [ "$(of_readers reads)" = -1 ]; then
    errors=1 stall=0 bytes=0
    return
  fi
  errors=$(($(of_readers errors) + $(of_readers wrong) + $(of_readers died)))
  stall=$(of_readers stall_ms)
  bytes=$(of_readers bytes)
}

# A daemon gets SIGNAL before COMMAND begins, a little later in each try: before MPI is up, between hello and go, while partitions are
# staged. The job ends before COMMAND begins, and LINE says why. A signal that comes too late is tried again.
at_start() { # SIGNAL LINE LOCAL-DIRECTORIES PID-OF-VICTIM... [-- OPTION...]
  local signal=$1 line=$2 local=$3 pid_of=() pid again i
  shift 3
  while [ $# -gt 0 ] && [ "$1" != -- ]; do
    pid_of+=("$1")
    shift
  done
  for again in 1 2 3 4 5; do
    # shellcheck disable=SC2086 # patterns
    rm -rf $local "$work/ran" "$work/out"
    touch "$work/go"
    "${launcher[@]}" --dataset "$work/ds" --cache 16M --deadline $deadline_ms "${@:2}" -- sh -c 'touch "$0"; exec "$@"' "$work/ran" \
      "$faultreader" read "$mnt" both "${pause[@]}" "${readers[@]}" --until "$work/go" >"$work/out" 2>"$work/err" &
    job=$! pid=''
    for ((i = 0; i < 500 && ${#pid} == 0; i++)); do
      pid=$("${pid_of[@]}")
      sleep 0.01
    done
    [ "$again" -gt 1 ] || sleep "0.$(printf %03d $((try % 4 * 40)))"
    kill "-$signal" "$pid" 2>/dev/null || :
    finish
    if [ ! -e "$work/ran" ]; then
      grep -q "^fs-launch: $line" "$work/err" || break
      expect_end=125 expect_errors=1 # no reader has run
      return 0
    fi
    [ "$errors $end $left" = '0 0 0' ] || break
    echo "$again: too late"
  done
  why='not told'
}

try_failed() { # FUNCTION ARG...
  failures=$((failures + 1))
  printf 'FAILED: %s: %d errors, stall %d ms, status %d, %d left%s\n' "$*" "$errors" "$stall" "$end" "$left" "${why:+, $why}" |
    tee -a "$table.failed"
  sed 's/^/    | /' "$work/out" "$work/err" 2>/dev/null | tail -n 30
}

fault() { # NAME TIMES-IN-SHORT FUNCTION [ARG...]
  local name=$1 times=${FAULTS_TIMES:-$2} t all_errors=0 all_bytes=0 worst=0 ends='' all_left=0
  shift 2
  [ "$times" -gt 0 ] || return 0
  case $name in *${FAULTS_ONLY:-}*) ;; *) return 0 ;; esac
  for ((try = 0; try < times; try++)); do
    errors=0 stall=0 bytes=0 end=0 left=0 why=''
    expect_end=0 expect_errors=0 expect_stall=$((deadline_ms + 2000))
    "$@"
    all_errors=$((all_errors + errors)) all_bytes=$((all_bytes + bytes)) all_left=$((all_left + left))
    [ "$stall" -le "$worst" ] || worst=$stall
    case " $ends " in *" $end "*) ;; *) ends="$ends${ends:+ }$end" ;; esac
    if { [ $expect_errors != any ] && [ "$errors" != $expect_errors ]; } || [ "$stall" -ge $expect_stall ] ||
      [ "$end" != $expect_end ] || [ "$left" != 0 ] || [ -n "$why" ]; then
      try_failed "$name, try $((try + 1))"
    fi
  done
  printf '%s\t%d\t%d\t%d\t%d\t%s\t%d\n' "$name" "$times" "$all_errors" "$worst" $((all_bytes >> 20)) "$ends" "$all_left" |
    tee -a "$table" | awk -F'\t' '{ printf "done - %s: %d tries, %d errors, stall %d ms, %d MiB, end %s, left %d\n", $1, $2, $3, $4, $5, $6, $7 }'
}

# The end of each group.
verdict() {
  [ -n "${FAULTS_TABLE:-}" ] || awk -f "$root/tests/fault/table/table.awk" "$table"
  [ $failures = 0 ] || fail "$failures tries"
}
