#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# slow
# Programs on three nodes that use one SQLite database, and are killed at random moments: no transaction that has ended is
# lost, none is half there, and no lock stays. Random ranges of three nodes, beside the answers
# that the kernel gives for a plain file.
. "$(dirname "$0")/../functions.sh"
. "$(dirname "$0")/outputs.bash"

small_outputs_dataset
seen_on 3 -- "$python" "$here/locks_kills.py" "$mnt" "${ROUNDS:-40}"
