# SPDX-License-Identifier: BSD-3-Clause
# shellcheck shell=bash
# What the groups of tests/clients share. A group is a script that names cases; each case is run once on a plain
# directory and then on the mount of the same tree, at the same path, and must say the same: standard output, standard
# error, exit status, and the files that it left (bytes, modes, owners, links, times; a time of this run counts as "new").
#
#     . "$(dirname "$0")/harness.bash"
#     data() { make_tree "$1"; }                    # makes the tree; as here when it is not defined
#     pack_options=(--partitions 4)                 # optional
#     try    NAME 'ls -l "$D"'                      # a case: a shell script that succeeds natively
#     fails  NAME 'cat "$D/none"'                   # one that fails natively
#     refused NAME 'rm "$D/file"'                   # one that fails since the file system is read-only
#     many   NAME '"$PYTHON" "$C/thing.py" "$D"'    # many cases in one run: each begins with a line "=== NAME"
#     compare                                       # runs all; the end of the script
#
# A script that is given as - is read from standard input. It runs under bash with pipefail, without input, in an empty
# directory of its own ($W, the current one), with $D the dataset's directory, $C tests/clients, $PYTHON, and HOME and
# TMPDIR of its own. It must sort what comes in the order of a directory. `have COMMAND...` tells whether a program is
# there, and notes it when not.
#
# The plain directory is a read-only bind mount in a mount namespace; where there are none, the directory itself is
# moved there, and what is `refused` is left out. The mount is seen twice: "alone", with the library and no daemon, and
# "two", as the first of two emulated nodes of a job, with the shared copy and the other node's storage hidden.
# Differences that are known are in known.txt with their reasons; any other fails, and so does a known one that is gone.
#
# FS_CLIENTS_ONLY=REGEX runs those cases only (names are GROUP/CASE), FS_CLIENTS_EXCEPT=REGEX not those; FS_CLIENTS_MODES="alone two" chooses what is
# compared. A third mode, valgrind, is as alone, each process under valgrind: an error of memory in the library fails,
# and so does a crash. A fourth, asan, is as alone with a library that AddressSanitizer watches. FS_CLIENTS_COUNTS=FILE
# gets the group's counts.
. "$(dirname "${BASH_SOURCE[0]}")/../functions.sh"
clients=$root/tests/clients
group=$(basename "$0" .sh)
modes=${FS_CLIENTS_MODES:-alone two}
only=${FS_CLIENTS_ONLY:-.}
pack_options=(--partitions 4)
ns=()
absent=''
cases=0
declare -A taken=()
mkdir -p "$work/cases" "$work/mnt" "$work/valgrind"

data() { make_tree "$1"; }

have() { # COMMAND...
  local c
  for c in "$@"; do
    command -v "$c" >/dev/null && continue
    case " $absent " in *" $c "*) ;; *) absent="$absent $c" ;; esac
    return 1
  done
}
add_case() { # KIND NAME SCRIPT
  local script=$3
  [ "$script" != - ] || script=$(cat)
  [[ $group/$2 =~ $only ]] || return 0
  [[ ! $group/$2 =~ ${FS_CLIENTS_EXCEPT:-^$} ]] || return 0
  case $2 in *[!A-Za-z0-9_.+-]* | '') fail "a case's name: '$2'" ;; esac
  [ -z "${taken[$2]:-}" ] || fail "two cases are called $2"
  taken[$2]=1
  printf -v name '%s/%03d-%s.%s' "$work/cases" $cases "$2" "$1"
  [ "$1" = try ] || script="set -o pipefail"$'\n'$script
  printf '%s\n' "$script" >"$name"
  cases=$((cases + 1))
}
try() { add_case try "$@"; }
fails() { add_case fails "$@"; }
refused() { add_case refused "$@"; }
many() { add_case many "$@"; }

# The array `ns`: how to get a mount namespace; empty when there is none. Sees that a read-only bind mount works there.
find_namespace() {
  local way
  for way in "unshare -m" "unshare -rm"; do
    # shellcheck disable=SC2086
    if $way bash "$clients/native.bash" "$work/source" "$mnt" true 2>/dev/null; then
      read -ra ns <<<"$way"
      return 0
    fi
  done
  say "no mount namespaces here: the plain directory is moved to the mount's path, and no writing is tried"
  rm -f "$work"/cases/*.refused
}
driver() { # MODE: prints the command that runs all cases
  printf '%s\n' bash "$clients/driver.bash" "$work" "$work/result.$1"
}
run_native() {
  local command
  mapfile -t command < <(driver native)
  if [ ${#ns[@]} -gt 0 ]; then
    "${ns[@]}" bash "$clients/native.bash" "$work/source" "$mnt" "${command[@]}"
  else
    mv "$work/source" "$mnt"
    "${command[@]}"
    mv "$mnt" "$work/source"
  fi
}
run_alone() {
  local command
  mapfile -t command < <(driver "${1:-alone}")
  [ "${ns[*]}" != "unshare -rm" ] || command=("${ns[@]}" "${command[@]}")
  plain "$work/ds" "$mnt" "${command[@]}"
}
run_valgrind() {
  FS_CLIENTS_SECONDS=600 FS_CLIENTS_PREFIX="valgrind -q --trace-children=yes --fair-sched=try --fullpath-after= \
    --log-file=$work/valgrind/%p" run_alone valgrind
  echo "processes under valgrind: $(find "$work/valgrind" -type f | wc -l)"
}
# GCC's run-time comes first, and C++'s, which it wants to find; but one function goes before it: coreutils ask
# aligned_alloc for sizes that it does not like. It leaves
# SIGSEGV to the programs, as Java wants it. What it reports is a difference on standard error (it cannot write to
# files of its own: making them, it would call the library before it is ready itself).
run_asan() {
  local runtime
  runtime=$(readlink -f "$(gcc -print-file-name=libasan.so)"):$(readlink -f "$(gcc -print-file-name=libstdc++.so)")
  printf '%s\n' 'void *memalign(unsigned long, unsigned long);' \
    'void *aligned_alloc(unsigned long a, unsigned long n) { return memalign(a, n); }' >"$work/aligned.c"
  gcc -w -shared -fPIC -o "$work/aligned.so" "$work/aligned.c"
  lib=$work/aligned.so:$runtime:${FS_ASAN_LIB:?} \
    ASAN_OPTIONS=detect_leaks=0:handle_segv=0:verify_asan_link_order=0 run_alone asan
}
run_two() {
  local command remote
  mapfile -t command < <(driver two)
  hide_other_nodes
  launch --dataset "$work/ds" --mount "$mnt" --emulate 2 --read-only --report "$work/two.json" -- \
    "${hidden[@]}" bash -c 'mv "$1/ds" "$1/ds.away" && shift && exec "$@"' two "$work" "${command[@]}" \
    >"$work/two.log" 2>&1 || {
    cat "$work/two.log" >&2
    fail "the job of two nodes"
  }
  mv "$work/ds.away" "$work/ds"
  remote=$("$python" "$root/tests/setup/report.py" "$work/two.json" none-shared files.0.remote)
  echo "read from the other node: $remote files"
  [ "$remote" -gt 0 ] || [ "$only" != . ] || fail "nothing came from the other node"
}

compare() {
  local mode
  [ $cases -gt 0 ] || skip "no case is chosen"
  [ -z "$absent" ] || echo "not here, left out:$absent"
  export D=$mnt C=$clients PYTHON=$python TZ=UTC
  umask 022
  data "$work/source"
  # rsync leaves the time of a directory that it made in the second in which the original was made.
  find "$work/source" -type d -newermt '-1 hour' -exec touch -d '2011-12-13 14:15:16.171819202' {} +
  pack "$work/source" "$work/ds" "${pack_options[@]}" --mount "$mnt"
  # A read-only file system changes no access times; the mount shows the modification times there.
  "$python" "$clients/access_times.py" "$work/source"
  find_namespace
  run_native
  for mode in $modes; do run_"$mode"; done
  no_leftovers
  "$python" "$clients/compare.py" "$group" "$work" "$clients/known.txt" "$modes" "${FS_CLIENTS_COUNTS:-}"
}
