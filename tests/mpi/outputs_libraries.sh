#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# Libraries, extension modules, programs and scripts that were written below the mount, on their home and on another node.
. "$(dirname "$0")/../functions.sh"
. "$(dirname "$0")/outputs.bash"
need_command gcc

small_outputs_dataset
for n in 1 2; do seen_on $n -- "$python" "$here/outputs_libraries.py" "$mnt" $n; done
