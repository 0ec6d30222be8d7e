#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# Libraries that put functions of their own in the place of mmap, munmap, msync and mremap, and make the calls by
# syscall(2): UCX, which does so in every program of MPI that uses it, and a program that does it itself (hooks.c).
. "$(dirname "$0")/../functions.sh"
need_command mpicc ompi_info

mkdir "$work/source"
head -c 100000 /dev/urandom >"$work/source/file"
pack "$work/source" "$work/ds" --mount "$mnt"
mpicc -O1 -o "$work/plain" "$root/tests/mpi/hooks.c"
mpicc -O1 -DOWN_HOOKS -rdynamic -o "$work/own" "$root/tests/mpi/hooks.c"

run() { # PROGRAM
  launch --dataset "$work/ds" --emulate 2 --np 2 "$1" "$mnt" "$mnt/file" >"$work/got"
  sort "$work/got" | diff - <(printf 'rank %d: right\n' 0 1) || fail "$1 saw something else"
}
export OMPI_MCA_pml=ob1
run "$work/plain"
run "$work/own"
if ompi_info --parsable | grep -q '^mca:pml:ucx:'; then
  export OMPI_MCA_pml=ucx OMPI_MCA_pml_ucx_tls=any OMPI_MCA_pml_ucx_devices=any
  run "$work/plain"
else
  say "this Open MPI has no UCX"
fi
no_leftovers
