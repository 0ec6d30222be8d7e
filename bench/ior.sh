#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# ior on plain directories and FanStore (bench/README.md): bench/ior.sh --help
# shellcheck disable=SC2034 # for phases.bash
program=ior stand_in=ioblocks
more_usage='  --size N         MiB of each process (64; with --quick 4), a quarter where small blocks are written'
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

# Of a run's output: NAME TAB MiB a second. ior repeats the line in its summary, where the number is another one.
figures_of() {
  awk '/^Max Write|^Max Read|^Summary/ { exit }
    ($1 == "write" || $1 == "read") && $2 + 0 > 0 { print (n[$1]++ ? "second " : "") $1 "\t" $2 }'
}
packed() {
  packs "$binary" -w -k -F -t 1m -b "${mib}m" "${check[@]:2}" -R -o @/packed
}
dataset() { # CASE ARGUMENT...: each process its own packed file
  measure dataset "$1" "$binary" -r -k -E -F "${@:2}" -o @/packed
}
outputs() { # CASE ARGUMENT...
  measure outputs "$1" "$binary" "${@:2}" -o @/data
}
mpi_io() { # COMPONENT
  environment=("OMPI_MCA_io=$1")
  outputs "MPI-IO ($1), one file" -a MPIIO -t 1m -b "${mib}m" "${others[@]}"
  outputs "MPI-IO ($1), collective, strided" -a MPIIO -c -w -r -t 64k -b 64k -s $((mib * 16)) "${others[@]}" "${check[@]}"
  environment=()
}
cases() {
  dataset "own files, in order" -i 2 -t 1m -b "${mib}m"
  dataset "own files, random 4 KiB" -i 2 "${random[@]}" -t 4k -b "${mib}m"
  dataset "own files, checked (-R)" -R "${check[@]:2}" -t 1m -b "${mib}m"
  outputs "own files, others' read" -F -t 1m -b "${mib}m" "${others[@]}"
  outputs "own files, fsync" -F -e -t 1m -b "${mib}m"
  if [ ${#host[@]} = 0 ]; then # mpirun in COMMAND, which is started once
    again=("$binary" -r -R "${check[@]:2}" -F -t 1m -b "${mib}m" "${others[@]}" -o @/data)
    outputs "kept (-k), checked by new processes" -w -k -F -R "${check[@]:2}" -t 1m -b "${mib}m"
    again=()
  fi
  outputs "own files, random 4 KiB" -F "${random[@]}" -t 4k -b "${small}m"
  outputs "one file, fsync, others' read" -e -t 1m -b "${mib}m" "${others[@]}"
  outputs "one file, strided 64 KiB" -t 64k -b 64k -s $((mib * 16)) "${others[@]}"
  outputs "one file, random 64 KiB" "${random[@]}" -t 64k -b "${small}m" # not -C: each reads all over the file
  outputs "one file, all checked (-W -R)" "${check[@]}" -w -r -t 256k -b "${small}m" "${others[@]}"
  [ "$tool" = ior ] || return 0
  mpi_io ompio
  mpi_io "$(ompi_info --parsable | sed -n 's/^mca:io:\(romio[0-9]*\):.*/\1/p' | head -n 1)"
}
compare "MiB a second"
