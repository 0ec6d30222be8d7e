#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# rest: other numbers of nodes
# What a node's programs write into a file of several writers is in one segment there, whoever started them: at once, one
# after the other, anew, killed, of removed files, as ranks of MPI.
. "$(dirname "$0")/../functions.sh"
. "$(dirname "$0")/outputs.bash"

small_outputs_dataset
for n in $(half 2 4); do
  seen_on "$n" --local-dir "$work/local" -- "$python" "$here/outputs_segments.py" "$mnt" "$n" "$work/local"
  rm -rf "$work/local"
  mkdir "$work/local"
  seen_on "$n" --local-dir "$work/local" --np $((2 * n)) -- "$python" "$here/outputs_segments.py" "$mnt" "$n" "$work/local" ranks
  rm -rf "$work/local"
done
