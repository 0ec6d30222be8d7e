# SPDX-License-Identifier: BSD-3-Clause
# shellcheck shell=bash
# Jobs whose daemons wait for a file (stuck.c), to be sourced after functions.sh.
#   stuck STUCK_FSYNC|STUCK_READ|STUCK_CACHE TAG [SUFFIX-OF-THE-LOCAL-DIRECTORY]; "${launch_stuck[@]}" [OPTION...] -- COMMAND...
# $work/TAG.in is there once a daemon waits for $work/TAG.go.
stuck_so=$work/stuck.so # also in lanes, whose $work is another
cc -shared -fPIC -o "$stuck_so" "$(dirname "${BASH_SOURCE[0]}")/stuck.c" -ldl

# shellcheck disable=SC2034 # for the scripts; an array, so that $! of what runs in the background is fs-launch itself
stuck() {
  rm -f "$work/$2".*
  launch_stuck=(env FANSTORE_MPIRUN_ARGS="-x LD_PRELOAD=$stuck_so -x $1=$work/$2" "$bin/fs-launch" --local-dir "$work/local${3-}")
}
