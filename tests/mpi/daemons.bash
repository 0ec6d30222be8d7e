# SPDX-License-Identifier: BSD-3-Clause
# shellcheck shell=bash
# Daemons without fs-launch, for the tests that play the launcher and the clients themselves. To be sourced after
# functions.sh. small_dataset makes $work/ds, of 4 partitions; start_daemons NODES [OPTION...] leaves $run (the run directory) and $log (the daemons' lines);
# pid_of RANK, tell LINE, stop_daemons.
job=test
log=$work/daemons.log
run=$TMPDIR/fanstore-$(id -u)/$job
ringclient=$build/tests/helpers/ringclient
names=$build/tests/helpers/nameclient
mpi_flags=(--oversubscribe --bind-to none --enable-recovery)
case $mpi in
  4) mpi_flags+=(--mca oob_tcp_if_include lo --mca plm isolated --mca ras ^slurm) ;;
  *) mpi_flags+=(--prtemca plm ssh --prtemca ras ^slurm) ;;
esac
case ${PML:-ucx} in
  ucx) mpi_flags+=(--mca pml ucx --mca pml_ucx_tls any --mca pml_ucx_devices any -x UCX_TLS=tcp,self -x UCX_NET_DEVICES=lo) ;;
  *) mpi_flags+=(--mca pml ob1 --mca btl self,tcp --mca btl_tcp_if_include lo --mca mpi_event_tick_rate 1) ;;
esac
if [ "$(id -u)" = 0 ]; then mpi_flags+=(--allow-run-as-root); fi

need_command mpirun

small_dataset() {
  make_tree "$work/source"
  partitions=4
  pack "$work/source" "$work/ds" --partitions $partitions --mount "$mnt"
}

# A client of names (nameclient.c) for these calls.
ask() { # NODE LINE...
  local node=$1
  shift
  printf '%s\n' "$@" | "$names" "$run/node-$node.sock"
}

lines_in_log() { grep -c "^@fs $1" "$log" || :; }
have_lines() { [ "$(lines_in_log "$1")" -ge "$2" ]; }
tell() { printf '@fs %s\n' "$*" >&7; }
pid_of() { sed -n "s/^@fs hello rank=$1 .* pid=\([0-9]*\) .*/\1/p" "$log"; }

# stats RANK KEY
stats() { sed -n "s/^@fs stats rank=$1 .*[ ]$2=\([0-9]*\).*/\1/p" "$log"; }

# Every partition on one node in turn, or what $owners says.
start_daemons() {
  local nodes=$1 owners=${owners:-} p
  shift
  : >"$log"
  mkfifo "$work/lines" 2>/dev/null || :
  mpirun -np "$nodes" "${mpi_flags[@]}" "$bin/fanstored" --job $job --local-dir "$work/local" --emulate "$nodes" \
    --dataset "$work/ds" --mount "$mnt" "$@" <"$work/lines" >>"$log" 2>"$work/daemons.err" &
  mpirun_pid=$!
  exec 7>"$work/lines"
  wait_until 30 have_lines have "$nodes"
  if [ -z "$owners" ]; then
    for ((p = 0; p < partitions; p++)); do owners+=${owners:+,}$((p % nodes)); done
  fi
  tell place dataset=0 first=0 "owners=$owners"
  tell go
  wait_until 60 have_lines ready "$nodes"
}
stop_daemons() { stop_daemons_with; }
stop_daemons_with() { # [purge=1]
  tell stop "$@"
  exec 7>&-
  for ((i = 0; i < 100; i++)); do
    kill -0 "$mpirun_pid" 2>/dev/null || break
    sleep 0.1
  done
  kill "$mpirun_pid" 2>/dev/null || :
  wait "$mpirun_pid" || :
}
# field LINE NAME: of what ringclient prints
field() { sed -n "s/.*\b$2=\([0-9.]*\).*/\1/p" <<<"$1"; }
daemon_alive() { [ -n "$(pid_of "$1")" ] && kill -0 "$(pid_of "$1")" 2>/dev/null; }
