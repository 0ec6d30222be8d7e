#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# timeout: 200
# A program that starts when its node's daemon is stopped or dead knows that it cannot see the outputs: no name is missing,
# none can be made. What the dataset has it reads from its node's partitions. With --read-only nothing is missed.
. "$(dirname "$0")/../functions.sh"
. "$(dirname "$0")/outputs.bash"

small_outputs_dataset
for n in 2 4; do
  seen_on $n --replicas $n -- "$python" "$here/outputs_silent.py" "$mnt" $n "$work/local" "$work/ds" outputs
done
seen_on 2 -- "$python" "$here/outputs_silent.py" "$mnt" 2 "$work/local" "$work/ds" stalls
seen_on 2 --read-only -- "$python" "$here/outputs_silent.py" "$mnt" 2 "$work/local" "$work/ds" read-only
