#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# Files that several nodes write, append to and read at once.
. "$(dirname "$0")/../functions.sh"
. "$(dirname "$0")/outputs.bash"

small_outputs_dataset
seen_on 3 --cache 16M -- "$python" "$here/outputs_beside.py" "$mnt" 3 "$work/published"
