#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# MPI-IO through mpi4py on two ranks, with both of Open MPI's implementations: ROMIO and OMPIO.
. "$(dirname "$0")/harness.bash"
need_command mpirun ompi_info
need_module mpi4py numpy

export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
export OMPI_MCA_btl=self,vader OMPI_MCA_rmaps_base_oversubscribe=1 OMPI_MCA_hwloc_base_binding_policy=none
data() { "$python" "$root/tests/clients/python/make_mpi.py" "$1"; }
components=$(ompi_info --parsable | sed -n 's/^mca:io:\(romio[0-9]*\|ompio\):version.*/\1/p' | sort -u)
[ "$(wc -w <<<"$components")" = 2 ] || fail "components of Open MPI's I/O: $components"
for io in $components; do
  # Both ranks on the node whose storage is not hidden.
  many "$io" - <<END
export OMPI_MCA_io=$io FANSTORE_NODE=0
mpirun -np 2 "\$PYTHON" "\$C/python/mpi_cases.py" "\$D" "\$W/s" 2>err
status=\$?
sed 's/\[[^] ]*:[0-9]*\]/[HOST:PID]/' err | sort >&2
rm err
exit \$status
END
done
compare
