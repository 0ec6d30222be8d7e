#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# rest: other numbers of nodes
# MPI-IO of a program whose ranks are on different nodes and write one file: each its part, together, and strided; each reads
# what another one wrote. OMPIO and ROMIO, through mpi4py.
. "$(dirname "$0")/../functions.sh"
need_module mpi4py numpy
need_command ompi_info

export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
export OMPI_MCA_btl=self,vader OMPI_MCA_rmaps_base_oversubscribe=1 OMPI_MCA_hwloc_base_binding_policy=none
here=$(cd "$(dirname "$0")" && pwd)
random_files "$work/source" 5 2 1 100 1000
pack "$work/source" "$work/ds" --partitions 2 --mount "$mnt"
writes=("$python" "$here/mpi_write.py")
mkdir "$work/plain"
mpirun -np 2 "${writes[@]}" "$work/plain" >"$work/want"
[ "$(grep -c ': right$' "$work/want")" = 5 ] || fail "on a plain directory: $(cat "$work/want")"
for io in ompio "$(ompi_info --parsable | sed -n 's/^mca:io:\(romio[0-9]*\):.*/\1/p' | head -n 1)"; do
  export OMPI_MCA_io=$io
  for n in $(half 2 4); do
    launch --dataset "$work/ds" --emulate "$n" --np "$n" -- "${writes[@]}" "$mnt" >"$work/got" 2>"$work/err" ||
      fail "$io, $n nodes: $(cat "$work/err")"
    diff "$work/want" "$work/got" || fail "$io, $n nodes"
    echo "ok - $io, $n nodes"
  done
done
no_leftovers
