#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# Outputs written, cut, replaced and read in a random order from all nodes: each byte is one that the file had, and none is
# older than it may be. STEPS of it on 4 nodes, and more on 4 and on 2 in outputs_random_many.sh.
. "$(dirname "$0")/../functions.sh"
. "$(dirname "$0")/outputs.bash"

need_module numpy
small_outputs_dataset
for n in $(half 4 2); do seen_on "$n" --cache 16M -- "$python" "$here/outputs_random.py" "$mnt" "$n" "${STEPS:-250}"; done
