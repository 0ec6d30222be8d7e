#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# interposer_calls.c, linked statically, call by call: on a plain directory, then under fanstore-static at a path where
# no directory is and at one where the real directory holds other bytes.
. "$(dirname "$0")/../functions.sh"
. "$(dirname "$0")/static.bash"
. "$(dirname "$0")/../posix/calls.bash"

"${compile[@]}" -static 2>"$work/err" || skip "no static C library here: $(tail -n 1 "$work/err")"
run_calls supervised
