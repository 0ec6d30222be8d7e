#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# mdtest on a plain directory, tmpfs and FanStore (bench/README.md): bench/mdtest.sh --help
# shellcheck disable=SC2034 # for phases.bash
program=mdtest stand_in=mdphases
more_usage='  --size N       items of each process and kind (2000; with --quick 100)'
. "$(dirname "$0")/phases.bash"
items=${size:-$([ -n "$quick" ] && echo 100 || echo 2000)}
shift_by=$(((np + 3) / 4)) # over a quarter of the ranks: with 4 processes on 2 nodes what is read is always the other's
compared=()
[ "$tool" != mdtest ] || compared=(-X) # our own program always does

figures_of() { # of a run's output: NAME TAB 1000 a second
  sed -nE 's/^ *(Directory|File) (creation|stat|rename|read|removal) +:? *([0-9.]+).*/\1 \2\t\3/p' |
    awk -F '\t' '$2 > 0 { printf "%s\t%.4f\n", tolower($1), $2 / 1000 }'
}
with() { # CASE ARGUMENT...
  measure "$1" "${@:2}" -d @/out
}
cases() {
  with "one directory" -n "$items"
  with "own directories (-u), 3901 bytes" -F -u -n "$items" -w 3901 -e 3901 "${compared[@]}"
  with "others' (-N), 4 KiB" -F -n "$items" -N "$shift_by" -w 4096 -e 4096 "${compared[@]}"
  with "tree (-z 2 -b 4), others'" -z 2 -b 4 -n "$items" -N "$shift_by"
  with "leaves (-L -z 2 -b 4 -u)" -F -L -u -z 2 -b 4 -n "$items"
  local np=2
  with "two processes, own directories (-F -u)" -F -u -n "$items"
}
compare "1000 operations a second"
