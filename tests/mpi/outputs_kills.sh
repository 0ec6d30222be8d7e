#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# kill -9 of a writer at random moments leaves what a local file system would, seen alike from every node: new files,
# replaced and appended ones, files of several writers. ROUNDS of it on 2 nodes, as many on 4: 20
# on 4 here, more on both in outputs_kills_many.sh.
. "$(dirname "$0")/../functions.sh"
. "$(dirname "$0")/outputs.bash"

small_outputs_dataset
for n in $(half 4 2); do seen_on "$n" -- "$python" "$here/outputs_kills.py" "$mnt" "$n" "${ROUNDS:-20}"; done
