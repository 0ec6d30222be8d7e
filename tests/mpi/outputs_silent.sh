#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# long: 28
# waits
# rest: other numbers of nodes
# A program that starts when its node's daemon is stopped or dead knows that it cannot see the outputs: no name is missing,
# none can be made. What the dataset has it reads from its node's partitions. With --read-only nothing is missed.
. "$(dirname "$0")/../functions.sh"
. "$(dirname "$0")/outputs.bash"

silent() { # NODES CASE OPTION...
  local n=$1 case=$2
  shift 2
  seen_on "$n" "$@" -- "$python" "$here/outputs_silent.py" "$mnt" "$n" "$work/local" "$work/ds" "$case"
}
on() { # NODES: each with a dataset of its own, which goes away
  small_outputs_dataset
  silent "$1" outputs --replicas "$1"
  [ "$1" != 2 ] || silent 2 read-only --read-only
}
stalls() {
  small_outputs_dataset
  silent 2 stalls
}
two() { on 2; }
four() { on 4; }
# shellcheck disable=SC2046 # words
side_by_side eval $(half 'four stalls' two)
