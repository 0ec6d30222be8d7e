#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# rest: other numbers of nodes
# What unlink and a replacing rename have done when they return.
. "$(dirname "$0")/../functions.sh"
. "$(dirname "$0")/outputs.bash"

small_outputs_dataset
for n in $(half 2 1); do seen_on "$n" -- "$python" "$here/outputs_removed.py" "$mnt" "$n" "$work"; done
