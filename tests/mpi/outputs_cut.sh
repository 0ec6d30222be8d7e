#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# rest: as fast as all nodes can
# A file of several writers that is cut while it is read on all nodes, and while another one publishes: home's daemon
# takes long to cut its backing, and the list of segments is still the old one then. And as fast as all nodes can.
. "$(dirname "$0")/../functions.sh"
. "$(dirname "$0")/outputs.bash"

small_outputs_dataset
slow() {
  cc -shared -fPIC -o "$work/slow.so" "$here/slow_cut.c" -ldl
  FANSTORE_MPIRUN_ARGS="-x LD_PRELOAD=$work/slow.so" seen_on 3 --cache 16M -- "$python" "$here/outputs_cut.py" "$mnt"
}
many() { seen_on 3 --cache 16M -- "$python" "$here/outputs_cut.py" "$mnt" many; }
for case in $(half slow many); do $case; done
