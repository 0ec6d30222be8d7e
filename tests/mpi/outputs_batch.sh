#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# rest: other numbers of nodes
# Small files of other nodes that are opened by a batch (docs/internals/output-bytes.md): that they are, and that no open sees
# what was before the last change, whoever made it.
. "$(dirname "$0")/../functions.sh"
. "$(dirname "$0")/outputs.bash"

small_outputs_dataset
for n in $(half 2 4); do seen_on "$n" -- "$python" "$here/outputs_batch.py" "$mnt" "$n" "${STEPS:-400}"; done
