#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# MPI-IO of a program whose ranks are on different nodes: what two ranks read together, each from its own node's daemon, is
# what they read from the plain directory. ROMIO and OMPIO, through mpi4py; the other node's storage and the shared copy
# are hidden. (tests/clients/python_mpi.sh compares the same calls in more ways on one node.)
. "$(dirname "$0")/../functions.sh"
need_module mpi4py numpy
need_command ompi_info

export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
export OMPI_MCA_btl=self,vader OMPI_MCA_rmaps_base_oversubscribe=1 OMPI_MCA_hwloc_base_binding_policy=none
"$python" "$root/tests/clients/python/make_mpi.py" "$work/source"
pack "$work/source" "$work/ds" --partitions 4 --mount "$mnt"
reads=("$python" "$root/tests/clients/python/mpi_cases.py")
hide_other_nodes
cat >"$work/node.sh" <<'END'
mv "$1/ds" "$1/ds.away" 2>/dev/null || while [ -e "$1/ds" ]; do sleep 0.05; done
shift
exec "$@"
END
for io in ompio "$(ompi_info --parsable | sed -n 's/^mca:io:\(romio[0-9]*\):.*/\1/p' | head -n 1)"; do
  say "$io"
  # `refused` would write to the plain directory; ROMIO keeps a shared pointer in a file that it makes beside the dataset's.
  leave_out=(refused)
  [ "$io" = ompio ] || leave_out+=(shared_pointers)
  export OMPI_MCA_io=$io
  mpirun -np 2 "${reads[@]}" "$work/source" "$work/scratch" "${leave_out[@]}" >"$work/want"
  [ "$(grep -c ^=== "$work/want")" -ge 9 ] || fail "the cases did not run"
  if grep raised "$work/want"; then fail "a case does not work on the plain directory"; fi
  launch --dataset "$work/ds" --emulate 2 --np 2 --read-only --report "$work/report.json" -- \
    "${hidden[@]}" bash "$work/node.sh" "$work" "${reads[@]}" "$mnt" "$work/scratch" "${leave_out[@]}" >"$work/got"
  mv "$work/ds.away" "$work/ds"
  diff "$work/want" "$work/got" || fail "$io differs"
  "$python" "$root/tests/setup/report.py" "$work/report.json" every-node-remote none-shared no-errors
done
no_leftovers
