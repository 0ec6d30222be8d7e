# SPDX-License-Identifier: BSD-3-Clause
# shellcheck shell=bash
# What the test scripts share. Each begins with
#     . "$(dirname "$0")/../functions.sh"
# and gets: strict mode, $root (the source tree), $bin and $lib (what was built), $work (an empty directory of its own,
# removed by the runner, or here when the script is run by hand), $mnt (a mount path where no directory is), and the
# functions below. A test exits 0 (passed), 77 by `skip REASON`, or anything else. A line "# timeout: SECONDS" near the
# top of a script replaces the runner's default.
set -euo pipefail
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
build=${FS_BUILD:-$root/build}
bin=$build/bin
lib=$build/lib/libfanstore.so
python=/usr/bin/python3
export kill_daemon=$root/tests/mpi/kill_daemon.bash LC_ALL=C.UTF-8 PYTHONDONTWRITEBYTECODE=1 PYTHONUNBUFFERED=1
unset LD_PRELOAD "${!FANSTORE_@}"
[ -z "${FS_TEST_PML-}" ] || export FANSTORE_PML=$FS_TEST_PML # by tests/run.sh: what fs-launch would find out
if [ -z "${FS_TEST_ID:-}" ]; then
  TMPDIR=$(mktemp -d "${TMPDIR:-/tmp}/fst.XXXXXX")
  chmod 711 "$TMPDIR"
  export TMPDIR
  # What was made here, also when the test sets another TMPDIR, which is not its own to remove.
  own_directory=$TMPDIR
  trap 'rm -rf "$own_directory"' EXIT
fi
export FANSTORE_RUN_BASE=$TMPDIR # no job looks at those of other tests
work=$TMPDIR/work
mkdir -p "$work"
# shellcheck disable=SC2034 # for the scripts
mnt=$work/mnt/nowhere

say() { printf '%s\n' "-- $*"; }
fail() {
  printf 'FAILED: %s\n' "$*" >&2
  exit 1
}
skip() {
  printf '%s\n' "$*"
  exit 77
}
# A script with a line "# rest: WHAT" does one half of its work in `make check`, and the rest in `make check-slow`, where
# FS_HALF=rest; with FS_HALF=all it does both. half FIRST REST: the words of its half.
rest() { [ "${FS_HALF-}" = rest ]; }
half() {
  case ${FS_HALF-} in
    rest) echo "$2" ;;
    all) echo "$1 $2" ;;
    *) echo "$1" ;;
  esac
}
need_command() { # COMMAND...
  local c
  for c in "$@"; do command -v "$c" >/dev/null || skip "no $c here"; done
}
need_module() { # PYTHON-MODULE...
  local m
  for m in "$@"; do "$python" -c "import $m" 2>/dev/null || skip "no python3 module $m here"; done
}
need_space() { # MEBIBYTES, below $work
  local have
  have=$(($(df -P -k "$work" | awk 'NR == 2 { print $4 }') / 1024))
  [ "$have" -ge "$1" ] || skip "needs $1 MiB in $TMPDIR, has $have"
}

# equal WHAT EXPECTED ACTUAL
equal() { [ "$2" = "$3" ] || fail "$1: expected '$2', got '$3'"; }
# expect_status STATUS COMMAND...: runs it, output to $work/out and $work/err
expect_status() {
  local want=$1 got=0
  shift
  "$@" >"$work/out" 2>"$work/err" || got=$?
  [ "$got" = "$want" ] || {
    tail -n 20 "$work/out" "$work/err" >&2
    fail "exit status of $*: expected $want, got $got"
  }
}
# one_line FILE PATTERN: it holds exactly one line, which matches
one_line() {
  if [ "$(wc -l <"$1")" != 1 ] || ! grep -qE -- "$2" "$1"; then
    cat "$1" >&2
    fail "expected one line with '$2'"
  fi
}
# wait_until SECONDS COMMAND...: retries until it succeeds
wait_until() {
  local end=$((SECONDS + $1))
  shift
  until "$@"; do
    [ $SECONDS -lt $end ] || fail "not within the time: $*"
    sleep 0.1
  done
}

# side_by_side FUNCTION ARGUMENT...: the function with each argument, all at once: for cases that mostly wait. Each is a process
# with a TMPDIR, a $work and a $mnt of its own; what they print comes in the order of the arguments. With eval for FUNCTION the
# arguments are functions themselves.
lane() { # FUNCTION ARGUMENT
  export TMPDIR=$work/$2 FANSTORE_RUN_BASE=$work/$2
  work=$TMPDIR/work
  # shellcheck disable=SC2034 # for the scripts
  mnt=$work/mnt/nowhere
  mkdir -p "$work"
  SECONDS=0
  "$@"
  say "lane $2: $SECONDS s"
}
side_by_side() {
  local each=$1 argument status=0
  local -A lane
  shift
  for argument; do
    lane "$each" "$argument" >"$work/$argument.lane" 2>&1 &
    lane[$argument]=$!
  done
  for argument; do
    wait "${lane[$argument]}" || status=1
    cat "$work/$argument.lane"
  done
  [ $status = 0 ] || fail "see above"
}

# pack SOURCE DATASET [OPTION...]
pack() {
  local source=$1 dataset=$2
  shift 2
  "$bin/fs-prepare" pack "$@" "$source" "$dataset" >"$work/pack.log" 2>&1 || {
    cat "$work/pack.log" >&2
    fail "fs-prepare pack $* $source"
  }
}
# plain DATASET MOUNT COMMAND...: with the library alone, no daemon
plain() {
  local dataset=$1 mount=$2
  shift 2
  env LD_PRELOAD="$lib" FANSTORE_DATASET="$dataset" FANSTORE_MOUNT="$mount" "$@"
}
# launch [fs-launch's options] -- COMMAND...; the nodes' storage is $work/local unless --local-dir is given
launch() {
  case " $* " in
    *" --local-dir "*) "$bin/fs-launch" "$@" ;;
    *) "$bin/fs-launch" --local-dir "$work/local" "$@" ;;
  esac
}
# Sets the array `hidden`: a command prefix for processes of a job that must not see the other nodes' storage below
# $work/local. Where mount namespaces are not allowed it is empty.
# shellcheck disable=SC2034 # for the scripts
hide_other_nodes() {
  hidden=()
  if unshare -m true 2>/dev/null || { [ "$(id -u)" != 0 ] && unshare -rm true 2>/dev/null; }; then
    hidden=("$root/tests/setup/hidden.sh" "$work/local")
  else
    say "no mount namespaces here: the other nodes' storage is not hidden"
  fi
}
# unleased FILE...: opens them for writing and keeps them so: a daemon that starts then gets no lease on these staged
# files (docs/internals/staging.md), and what they are damaged by is as unexpected as what a disk does. `leased` closes them.
held_open=()
unleased() {
  local f fd
  for f in "$@"; do
    chmod u+w "$f"
    exec {fd}<>"$f"
    held_open+=("$fd")
  done
}
leased() {
  local fd
  for fd in "${held_open[@]}"; do exec {fd}>&-; done
  held_open=()
}
# json FILE EXPRESSION: a Python expression over the report `r`, e.g. 'r["nodes"][0]["files"]["local"]'
json() {
  "$python" -c 'import json, sys
r = json.load(open(sys.argv[1]))
print(eval(sys.argv[2]))' "$1" "$2"
}

# random_files DIRECTORY COUNT DIRECTORIES SIZE...: dNN/fNNNNN, each of one of the sizes; the same bytes each time
random_files() {
  "$python" - "$@" <<'END'
import os, random, sys
top, (count, directories, *sizes) = sys.argv[1], map(int, sys.argv[2:])
random.seed(count)
for i in range(directories):
    os.makedirs(os.path.join(top, "d%02d" % i))
for i in range(count):
    with open(os.path.join(top, "d%02d" % (i % directories), "f%05d" % i), "wb") as f:
        f.write(random.randbytes(random.choice(sizes)))
END
}
# number_lines COUNT: "line 0" and so on
number_lines() { seq -f 'line %.0f' 0 $(($1 - 1)); }
# text_tree DIRECTORY: two texts and an empty directory d, for programs that read by line
text_tree() {
  mkdir -p "$1/d"
  number_lines 800 >"$1/a.txt"
  printf 'hello\nworld\n' >"$1/b.txt"
}
# A small tree with what file systems get wrong: all sizes around pages and blocks, odd names, deep paths, links,
# modes, times with nanoseconds, both compressible and random bytes. Deterministic.
make_tree() { # DIRECTORY
  "$python" "$root/tests/setup/tree.py" "$1"
}
# decoy SOURCE DIRECTORY: the same names and sizes with other bytes, for a mount over a real directory
decoy() {
  cp -a "$1" "$2"
  find "$2" -type f -size +0 -exec sh -c '
    for f do
      mode=$(stat -c %a "$f") size=$(stat -c %s "$f")
      chmod u+w "$f"
      head -c "$size" /dev/zero | tr "\0" D >"$f"
      chmod "$mode" "$f"
    done' sh {} +
}
# What a job may leave below $work/local and TMPDIR: staged partitions, nothing else.
no_leftovers() {
  local left
  left=$(find "$TMPDIR" -path "$work" -prune -o \( -path '*/fanstore-*/*' ! -type d \) -print 2>/dev/null)
  [ -z "$left" ] || fail "left behind: $left"
}
# Open MPI 5 has other programs than 4: what mpirun is, and what it starts on other hosts.
case $(mpirun --version 2>/dev/null) in
  *'(Open MPI) '[5-9]*) mpi=5 mpirun_is=prte mpi_remote=prted ;;
  *) mpi=4 mpirun_is=orterun mpi_remote=orted ;;
esac
export mpi mpirun_is mpi_remote
# processes_of_test: the processes that this test started and that are still there, but for this shell's own
processes_of_test() {
  local p comm
  while read -r p; do
    { read -r comm <"${p%/environ}/comm"; } 2>/dev/null || continue
    case $comm in fanstored | fs-launch* | mpirun | orted | prterun | prted) echo "$p" | tr -dc '0-9\n' ;; esac
  done < <(grep -lzxsF "FS_TEST_ID=${FS_TEST_ID:-none}" /proc/[0-9]*/environ)
}
