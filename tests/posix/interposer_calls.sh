#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# interposer_calls.c, call by call: on a plain directory, then with the library at a path where no directory is and at
# one where the real directory holds other bytes.
. "$(dirname "$0")/../functions.sh"
. "$(dirname "$0")/calls.bash"

"${compile[@]}"
run_calls plain
