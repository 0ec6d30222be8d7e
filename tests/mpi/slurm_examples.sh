#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# slow
# long: 20
# waits
# The batch scripts of docs/examples/slurm in a Slurm cluster of three nodes, with checksums and losses as on a plain
# directory; srun in a shell that has joined a job; emulated nodes in a batch script; two slurmds on one host.
. "$(dirname "$0")/../functions.sh"
. "$(dirname "$0")/../netns.sh"
. "$(dirname "$0")/../slurm.sh"
need_module mpi4py numpy
cluster_up 3 dense
srun --mpi=list 2>&1 | grep -qw pmix || skip "this Slurm has no PMIx"
random_files "$work/source" 40 4 1 100 5000 100000
pack "$work/source" "$work/ds" --partitions 5 --mount "$mnt"
cd "$work"
l="$bin/fs-launch --dataset $work/ds --local-dir $net_local"

example() { # NAME ARGUMENT...: its output to out.txt
  sed "s|^dataset=.*|dataset=$work/ds|; s|^local=.*|local=$net_local|; s|^saved=.*|saved=$work/out|" \
    "$root/docs/examples/slurm/$1.sbatch" >"$work/$1.sbatch"
  rm -rf out.txt out/*
  id=$(on h1 env PATH="$bin:$PATH" SLURM_MPI_TYPE=pmix sbatch --parsable -N3 -o "$work/out.txt" "$work/$1.sbatch" "${@:2}")
  ended
}
each_node() { # WHAT FILES: each has read so many, and the whole dataset, from the nodes, by its own daemon
  local h
  for h in h2 h3 h4; do
    grep -qE "^fs-launch: node . \($h\): $2 dataset files opened, .* 0.0% shared storage" out.txt || fail "$1: $h: $(cat out.txt)"
    shows "$1" "$h: $whole" 1
  done
}
cat >sums.sh <<END
echo "\$(hostname): \$(cd $mnt && find d* -type f -exec sha1sum {} + | sort | sha1sum)"
hostname >$mnt/sum-\$(hostname)
END
whole=$(cd source && find d* -type f -exec sha1sum {} + | sort | sha1sum)
example train sh "$work/sums.sh"
each_node train.sbatch 40
equal "train.sbatch: saved" "h2 h3 h4" "$(cat out/sum-* | xargs)"
echo "ok - train.sbatch"

# Slurm's own PMIx starts the MPI program of the first step.
program=$root/docs/examples/mpi_data_parallel.py
mpirun --allow-run-as-root --oversubscribe -np 3 "$python" "$program" source >plain 2>err || fail "$(cat err)"
equal "epochs" 3 "$(grep -c 'loss [0-9]' plain)"
example steps "$python $program $mnt" "sh $work/sums.sh" "cat $mnt/sum-* | xargs" "exit 3" "echo not this"
each_node steps.sbatch "[4-9][0-9]"
equal "losses" "$(cat plain)" "$(grep ^epoch out.txt)"
shows "steps.sbatch" "h2 h3 h4" 3
shows "steps.sbatch" "not this" 0
equal "steps.sbatch: saved" "h2 h3 h4" "$(cat out/sum-* | xargs)"
echo "ok - steps.sbatch: $(tail -n 1 plain), as on a plain directory"

job -N3 <<END
job=\$($l --daemon --discard) || exit
(eval "\$($bin/fs-launch env \$job)" && srun sh $work/sums.sh)
$bin/fs-launch stop \$job
echo "status \$?"
# A batch script has SLURM_PROCID=0. This is not the rank of what another launcher starts.
$l --emulate 2 -- sh -c 'for r in 0 1; do RANK=\$r sh -c "echo rank \\\$RANK node \\\$FANSTORE_NODE"; done'
END
ended
each_node "srun after eval" 40
shows "srun after eval" 'status 0' 1
shows "emulated" "rank 0 node 0" 1
shows "emulated" "rank 1 node 1" 1
echo "ok - srun in a shell that has joined the job; emulated nodes in a batch script"

cat >here.sh <<END
echo "\$SLURMD_NODENAME is node \$FANSTORE_NODE: \$(cd $mnt && find . -type f -exec sha1sum {} + | sort | sha1sum)"
END
whole=$(cd source && find . -type f -exec sha1sum {} + | sort | sha1sum)
job -p dense -N2 <<END
$l -- srun sh $work/here.sh
job=\$($l --daemon)
srun $bin/fs-launch attach \$job sh $work/here.sh
$bin/fs-launch stop \$job
END
ended
shows "two slurmds on a host" "d1 is node 0: $whole" 2
shows "two slurmds on a host" "d2 is node 1: $whole" 2
echo "ok - two slurmds on one host: each task has the daemon of its own node"

# The daemons by srun's PMIx, as where there is no mpirun: all of a job, and a daemon that is killed.
job -N3 <<END
export FANSTORE_MPIRUN=srun
mkdir -p $work/out
$l --np 3 --stage-out $work/out -- sh $work/sums.sh
echo "status \$?"
$l --keep -- sh -c 'srun sh $work/sums.sh; kill -9 \$(pgrep -f "^$bin/fanstored.*\$(basename \$FANSTORE_RUN)" | head -n 1); sleep 3'
echo "status \$?"
END
ended
whole=$(cd source && find d* -type f -exec sha1sum {} + | sort | sha1sum)
for h in h2 h3 h4; do shows "by srun" "$h: $whole" 2; done
grep -q "^fs-launch: all 3 nodes: 120 dataset files opened, .* 0.0% shared storage" out.txt || fail "by srun: $(cat out.txt)"
equal "by srun: saved" "h2 h3 h4" "$(cat out/sum-* | xargs)"
shows "by srun" "status 0" 1
shows "by srun" "status 125" 1
echo "ok - daemons by srun, without mpirun"
