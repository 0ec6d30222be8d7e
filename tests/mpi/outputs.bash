# SPDX-License-Identifier: BSD-3-Clause
# shellcheck shell=bash
# For the tests of output files, to be sourced after functions.sh: small_outputs_dataset makes $work/ds;
# seen_on NODES [OPTION...] -- COMMAND... launches the command, whose lines "ok - what" become the test's.
here=$(cd "$(dirname "$0")" && pwd)

small_outputs_dataset() {
  random_files "$work/source" 20 3 1 100 5000
  pack "$work/source" "$work/ds" --partitions 2 --mount "$mnt"
}
seen_on() {
  local n=$1 discard=(--discard)
  shift
  case " $* " in *" --read-only "*) discard=() ;; esac
  launch --dataset "$work/ds" --emulate "$n" "${discard[@]}" "$@" 2>"$work/err" >"$work/out" ||
    fail "$n nodes: $(tail -n 3 "$work/out") $(cat "$work/err")"
  grep -q '^ok - ' "$work/out" || fail "$n nodes: nothing was seen"
  sed "s/^ok - /ok - $n nodes: /" "$work/out"
  no_leftovers
}
