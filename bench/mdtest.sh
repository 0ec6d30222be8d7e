#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# mdtest on plain directories and FanStore (bench/README.md): bench/mdtest.sh --help
# shellcheck disable=SC2034 # for phases.bash
program=mdtest stand_in=mdphases
more_usage='  --size N         items of each process and kind (2000; with --quick 100)'
. "$(dirname "$0")/phases.bash"
items=${size:-$([ -n "$quick" ] && echo 100 || echo 2000)}
shift_by=$(((np + 3) / 4)) # over a quarter of the ranks: with 4 processes on 2 nodes what is read is always the other's
compared=()
[ "$tool" != mdtest ] || compared=(-X) # our own program always does

figures_of() { # of a run's output: NAME TAB 1000 a second
  sed -nE 's/^ *(Directory|File) (creation|stat|rename|open|read|first read|second read|removal) +:? *([0-9.]+).*/\1 \2\t\3/p' |
    awk -F '\t' '$2 > 0 { printf "%s\t%.4f\n", tolower($1), $2 / 1000 }'
}
reader=$build/bench/$stand_in
large=$(((items + 9) / 10)) # files of 128 KiB
packed() {
  packs "$reader" -C -F -n "$items" -w 4k -d @/small
  packs "$reader" -C -F -n "$large" -w 128k -d @/large
}
dataset() { # CASE ARGUMENT...: of packed files, always by our own program: mdtest opens for writing what it reads
  measure dataset "$1" "$reader" -P "${@:2}"
}
outputs() { # CASE ARGUMENT...
  measure outputs "$1" "$binary" "${@:2}" -d @/out
}
cases() {
  dataset "own files, 4 KiB" -n "$items" -e 4k -d @/small
  dataset "own files, 128 KiB" -n "$large" -e 128k -d @/large
  outputs "one directory" -n "$items"
  outputs "own directories (-u), 3901 bytes" -F -u -n "$items" -w 3901 -e 3901 "${compared[@]}"
  outputs "others' (-N), 4 KiB" -F -n "$items" -N "$shift_by" -w 4096 -e 4096 "${compared[@]}"
  outputs "tree (-z 2 -b 4), others'" -z 2 -b 4 -n "$items" -N "$shift_by"
  outputs "leaves (-L -z 2 -b 4 -u)" -F -L -u -z 2 -b 4 -n "$items"
  local np=2
  outputs "two processes, own directories (-F -u)" -F -u -n "$items"
}
compare "1000 operations a second"
