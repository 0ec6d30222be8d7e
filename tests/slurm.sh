# SPDX-License-Identifier: BSD-3-Clause
# shellcheck shell=bash disable=SC2154
# A Slurm cluster of hosts made by netns.sh: h1 is the login host, the others are nodes. Each node runs the prolog and the
# epilog of docs/examples/slurm. Source functions.sh, netns.sh and this file. Then
#     cluster_up NODES [dense]  makes it, or skips the test where that is not possible; with a second partition, dense, of
#                               two slurmds on the last host
#     on HOST COMMAND...        runs COMMAND there
#     job OPTION... <SCRIPT     submits a batch script with these options of sbatch, and sets $id
#     ended                     waits for its end
#     shows WHAT LINE TIMES     its output, $work/out.txt, has this line so many times
# All is undone at exit.
need_command munged slurmctld slurmd sbatch srun scancel
mpirun_slurm=$(ompi_info --parsable 2>/dev/null | grep -c '^mca:plm:slurm:' || :)
[ "$mpirun_slurm" -gt 0 ] || skip "this Open MPI knows nothing of Slurm"
etc=$work/etc
export SLURM_CONF=$etc/slurm.conf

cluster_files() { # "dense" OR NOTHING
  local script
  mkdir -p "$etc/state"
  head -c 1024 /dev/urandom >"$etc/key"
  chmod 400 "$etc/key"
  cat >"$SLURM_CONF" <<END
ClusterName=test
SlurmctldHost=h1
SlurmUser=root
AuthInfo=socket=$etc/munge
StateSaveLocation=$etc/state
SlurmdSpoolDir=$etc/spool-%n
SlurmdPidFile=$etc/%n.pid
SlurmctldPidFile=$etc/slurmctld.pid
SlurmdLogFile=$etc/%n.log
SlurmctldLogFile=$etc/slurmctld.log
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
SelectType=select/cons_tres
SelectTypeParameters=CR_CPU_Memory
DefMemPerCPU=300
SlurmdParameters=config_overrides
MpiDefault=none
ReturnToService=2
KillWait=5
Prolog=$etc/prolog
Epilog=$etc/epilog
NodeName=h[2-$net_count] CPUs=2 RealMemory=1000 State=UNKNOWN
PartitionName=main Nodes=h[2-$net_count] Default=YES OverSubscribe=NO
END
  [ -z "$1" ] || cat >>"$SLURM_CONF" <<END
NodeName=d1 NodeHostname=h$net_count NodeAddr=h$net_count Port=17001 CPUs=2 RealMemory=1000 State=UNKNOWN
NodeName=d2 NodeHostname=h$net_count NodeAddr=h$net_count Port=17002 CPUs=2 RealMemory=1000 State=UNKNOWN
PartitionName=dense Nodes=d[1-2] OverSubscribe=NO
END
  mkdir -m 1777 "$work/nvme"
  for script in prolog epilog; do
    # Each says in a file that it has come to its end.
    sed "s|^local=/local|local=$work/nvme|; s|/usr/local/bin|$bin|; s|^exit 0|echo $script >>$etc/scripts; &|" \
      "$root/docs/examples/slurm/$script" >"$etc/$script"
    chmod +x "$etc/$script"
  done
  echo CgroupPlugin=cgroup/v1 >"$etc/cgroup.conf"
  echo "PMIxCliTmpDirBase=$net_tmp" >"$etc/mpi.conf"
}

on() { # HOST COMMAND...
  local host=$1
  shift
  netns_on "$host" env SLURM_CONF="$SLURM_CONF" "$@"
}
server() { # HOST COMMAND...: in the background, until netns_down; slurmd wants to see cgroups, which it does not use
  on "$1" sh -c 'mount -t tmpfs none /sys/fs/cgroup 2>/dev/null; exec "$@"' - "${@:2}" >>"$etc/servers.log" 2>&1 </dev/null &
}
all_idle() { [ "$(on h1 sinfo -h -o %T 2>/dev/null | sort -u)" = idle ]; }
cluster_up() { # NODES ["dense"]
  local h i
  netns_up $(($1 + 1))
  cluster_files "${2-}"
  server h1 munged --foreground --force --key-file="$etc/key" --socket="$etc/munge" --pid-file="$etc/munge.pid" \
    --log-file="$etc/munge.log" --seed-file="$etc/munge.seed"
  wait_until 60 test -S "$etc/munge"
  server h1 slurmctld -D
  for h in $(seq 2 "$net_count"); do server "h$h" slurmd -N "h$h" -D; done
  for h in ${2:+d1 d2}; do server "h$net_count" slurmd -N "$h" -D; done
  for ((i = 0; i < 150; i++)); do
    if all_idle; then break; fi
    sleep 0.1
  done
  all_idle || { tail -n 5 "$etc"/*.log && skip "the cluster does not start here"; }
  mkdir "$work/out"
}

job() { # SBATCH'S OPTION... ; the script's lines on standard input; output to $work/out.txt
  { echo '#!/bin/bash' && cat; } >job.sh
  rm -rf out.txt up-* out/* again
  id=$(on h1 sbatch --parsable -N2 --ntasks-per-node=1 -o "$work/out.txt" "$@" job.sh)
}
gone() { ! on h1 squeue -h -o %i | grep -qx "$id"; }
ended() {
  wait_until 200 gone
  wait_until 60 all_idle
}
shows() { # WHAT LINE TIMES
  [ "$(grep -cx -- "$2" out.txt)" = "$3" ] || fail "$1: not $3 times '$2': $(cat out.txt)"
}
