#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# rest: other numbers of nodes
# What root restores below a mount with tar, cp, rsync and Python has its modes, whoever owned it, on each node.
. "$(dirname "$0")/../functions.sh"
. "$(dirname "$0")/outputs.bash"
[ "$(id -u)" = 0 ] || skip "only root gives files away"

small_outputs_dataset
for n in $(half 2 1); do seen_on "$n" -- bash "$here/outputs_owners.bash" "$mnt" "$work" "$python" "$n"; done
