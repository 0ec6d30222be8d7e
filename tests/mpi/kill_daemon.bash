#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# kill_daemon.bash RANK WORD [SIGNAL]: kills the daemon of that rank that has WORD on its command line (the job's mount, or
# its local directory); with `pid` for SIGNAL, prints its process. Run by COMMANDs, whose job it is. Exit status 99 when there
# is none.
for p in /proc/[0-9]*; do
  { read -r comm <"$p/comm"; } 2>/dev/null || continue
  [ "$comm" = fanstored ] || continue
  grep -qzxF -- "$2" "$p/cmdline" || continue
  grep -qzxF "OMPI_COMM_WORLD_RANK=$1" "$p/environ" || continue
  if [ "${3:-}" = pid ]; then echo "${p#/proc/}" && exit; fi
  kill "${3:--9}" "${p#/proc/}" && exit
done
exit 99
