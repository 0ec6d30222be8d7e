#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# ior on a plain directory, tmpfs and FanStore (bench/README.md): bench/ior.sh --help
# shellcheck disable=SC2034 # for phases.bash
program=ior stand_in=ioblocks
more_usage='  --size N       MiB of each process (64; with --quick 4), a quarter where small blocks are written'
. "$(dirname "$0")/phases.bash"
mib=${size:-$([ -n "$quick" ] && echo 4 || echo 64)}
small=$(((mib + 3) / 4))
others=(-C -Q "$(((np + 1) / 2))") # half of the ranks further on: another node's, however many there are
check=(-W -R)
random=(-z)
if [ "$tool" = ior ]; then # all hosts have one name here: ior would shift by all ranks of a host
  others+=(-O numTasksOnNode0=1)
  check+=(-G 5)
  random+=(--random-offset-seed=5)
fi

figures_of() { # of a run's output: NAME TAB MiB a second
  awk '($1 == "write" || $1 == "read") && $2 + 0 > 0 && !($1 in seen) { seen[$1]; print $1 "\t" $2 }'
}
with() { # CASE ARGUMENT...
  measure "$1" "${@:2}" -o @/data
}
mpi_io() { # COMPONENT
  environment=("OMPI_MCA_io=$1")
  with "MPI-IO ($1), one file" -a MPIIO -t 1m -b "${mib}m" "${others[@]}"
  with "MPI-IO ($1), collective, strided" -a MPIIO -c -w -r -t 64k -b 64k -s $((mib * 16)) "${others[@]}" "${check[@]}"
  environment=()
}
cases() {
  with "own files, others' read" -F -t 1m -b "${mib}m" "${others[@]}"
  with "own files, fsync" -F -e -t 1m -b "${mib}m"
  again=(-r -R "${check[@]:2}" -F -t 1m -b "${mib}m" "${others[@]}" -o @/data)
  with "kept (-k), checked by new processes" -w -k -F -R "${check[@]:2}" -t 1m -b "${mib}m"
  again=()
  with "own files, random 4 KiB" -F "${random[@]}" -t 4k -b "${small}m"
  with "one file, fsync, others' read" -e -t 1m -b "${mib}m" "${others[@]}"
  with "one file, strided 64 KiB" -t 64k -b 64k -s $((mib * 16)) "${others[@]}"
  with "one file, random 64 KiB" "${random[@]}" -t 64k -b "${small}m" # not -C: each reads all over the file
  with "one file, all checked (-W -R)" "${check[@]}" -w -r -t 256k -b "${small}m" "${others[@]}"
  [ "$tool" = ior ] || return 0
  mpi_io ompio
  mpi_io "$(ompi_info --parsable | sed -n 's/^mca:io:\(romio[0-9]*\):.*/\1/p' | head -n 1)"
}
compare "MiB a second"
