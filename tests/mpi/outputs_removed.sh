#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# timeout: 200
# What unlink and a replacing rename have done when they return.
. "$(dirname "$0")/../functions.sh"
. "$(dirname "$0")/outputs.bash"

small_outputs_dataset
for n in 1 2; do seen_on $n -- "$python" "$here/outputs_removed.py" "$mnt" $n "$work"; done
