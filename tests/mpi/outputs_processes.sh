#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# long: 30
# rest: other numbers of nodes
# Output files and processes: how they end, what their children inherit, where their standard output goes.
. "$(dirname "$0")/../functions.sh"
. "$(dirname "$0")/outputs.bash"

small_outputs_dataset
for n in $(half 2 4); do seen_on "$n" --cache 16M -- "$python" "$here/outputs_processes.py" "$mnt" "$n"; done
