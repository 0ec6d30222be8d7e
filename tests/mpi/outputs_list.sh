#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# rest: other numbers of nodes
# A large directory of outputs is listed whole on each node: by buffers of any size, from any position, and while names
# in it come and go.
. "$(dirname "$0")/../functions.sh"
. "$(dirname "$0")/outputs.bash"

small_outputs_dataset
for n in $(half 2 "1 4"); do seen_on "$n" -- "$python" "$here/outputs_list.py" "$mnt" "$n"; done
