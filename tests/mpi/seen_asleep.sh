#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# long: 25
# waits
# rest: other numbers of nodes
# Programs that write into another node's file and then sleep, are stopped, are killed or fork: all nodes see the bytes.
. "$(dirname "$0")/../functions.sh"
. "$(dirname "$0")/outputs.bash"

small_outputs_dataset
for n in $(half 2 3); do seen_on "$n" -- "$python" "$here/seen_asleep.py" "$mnt" "$n"; done
