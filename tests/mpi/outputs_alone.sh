#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# In a job of one node without --stage-out, nobody waits for the attributes in records: close makes no call.
. "$(dirname "$0")/../functions.sh"
. "$(dirname "$0")/outputs.bash"

small_outputs_dataset
seen_on 1 -- "$python" "$here/outputs_alone.py" "$mnt" "$work/local" "$build/tests/helpers/nameclient"
