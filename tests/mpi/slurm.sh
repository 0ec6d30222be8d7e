#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# slow
# long: 70
# A Slurm cluster of two nodes and a login host (tests/slurm.sh): fs-launch in batch scripts, by docs/slurm.md.
# COMMAND by --np and by srun, an empty environment, one fs-launch in a step of several tasks, the signals of a job that
# is to end, a job that is cancelled, and bench/mdtest.sh and bench/ior.sh. Each node runs the prolog and the epilog of
# docs/examples/slurm.
. "$(dirname "$0")/../functions.sh"
. "$(dirname "$0")/../netns.sh"
. "$(dirname "$0")/../slurm.sh"
cluster_up 2
random_files "$work/source" 40 4 1 100 5000 100000
pack "$work/source" "$work/ds" --partitions 5 --mount "$mnt"
cd "$work"
export l="$bin/fs-launch --dataset $work/ds --local-dir $net_local"

job <<END
$l --np 2 --report $work/r.json -- sh -c 'hostname; diff -r $work/source $mnt && echo same'
echo "status \$?"
$l -- srun sh -c 'hostname; diff -r $work/source $mnt && echo same'
echo "status \$?"
END
ended
shows "--np and srun" same 4
shows "--np and srun" 'status 0' 2
shows "--np and srun" h2 2
shows "--np and srun" h3 2
equal "nodes" "h2,h3" "$(json r.json "','.join(sorted(n['host'] for n in r['nodes']))")"
equal "remote on each" True "$(json r.json "all(n['bytes_remote'] > 0 for n in r['nodes'])")"
equal "shared" 0 "$(json r.json "r['total']['bytes_shared']")"
grep -q ' 0 B staged, ' out.txt || fail "the second job staged: $(cat out.txt)"
equal "prolog and epilog" "2 epilog 2 prolog" "$(sort "$etc/scripts" | uniq -c | xargs)"
[ -d "$work/nvme/$(id -un)" ] || fail "the prolog has made no local directory"
echo "ok - COMMAND by --np, and by srun, on both nodes; what is staged is used again"

job --export=NONE <<END
export PATH=$PATH
$l --np 2 -- sh -c 'diff -r $work/source $mnt && echo same'
$l -- srun sh -c 'diff -r $work/source $mnt && echo same'
END
ended
shows "--export=NONE" same 4
echo "ok - --export=NONE"

job <<END
srun $l -- echo once
echo "status \$?"
END
ended
shows "srun fs-launch" once 1
shows "srun fs-launch" 'status 2' 1
echo "ok - srun fs-launch runs COMMAND once"

job <<END
srun sh -c 'touch $work/up-\$(hostname); while [ ! -e $work/again ]; do sleep 0.1; done' &
while ! [ -e $work/up-h2 -a -e $work/up-h3 ]; do sleep 0.1; done
$l --np 2 -- sh -c 'diff -r $work/source $mnt && echo same'
touch $work/again
wait
END
ended
shows "beside another step" same 2
echo "ok - beside a step that has the job's memory"

mkdir scratch
job --export=NONE <<END
export PATH=$PATH FS_BUILD=$build
bench() {
  $root/bench/\$1.sh --own --quick --size 4 --plain-dir $work/scratch --local-dir $net_local --only "\$2"
  echo "status \$?"
}
bench mdtest "4 KiB"
bench ior "random 4 KiB"
END
ended
shows "benchmarks" 'status 0' 2
shows "benchmarks" "nodes: of h2 h3, storage in $net_local" 2
[ "$(grep -cE '^\| (dataset|outputs) \| .*: .*( \| [0-9.]+){4} \|$' out.txt)" = 12 ] || fail "benchmarks: $(cat out.txt)"
equal "benchmarks: left" "" "$(find scratch "$net_root"/h?/local -mindepth 1 -name 'fsb.*')"
echo "ok - bench/mdtest.sh and bench/ior.sh, on one node of the job and on both"

job <<END
export SLURM_CONSTRAINT=nothing
$l -- echo once
echo "status \$?"
END
ended
grep -q '^fs-launch: the daemons could not be started: srun: error: ' out.txt || fail "$(cat out.txt)"
shows "no step" 'status 125' 1
echo "ok - $(head -n 1 out.txt)"

# Slurm's --signal, to the batch script (B:) or to the job steps: COMMAND writes after it, on each node.
cat >save.sh <<END
trap 'heard=1' \$1
touch $work/up-\$(hostname)
while [ -z "\${heard:-}" ]; do sleep 0.1; done
sleep 1
hostname >$mnt/saved-\$(hostname)
END
ups() { [ -e up-h2 ] && [ -e up-h3 ]; }
for how in '--batch USR1 srun' '--ctld USR1 srun' '--batch USR1 --np' '--batch TERM --np'; do
  read -r to signal command <<<"$how"
  case $command in
    srun) job <<<"exec $l --stage-out $work/out -- srun bash $work/save.sh $signal" ;;
    *) job <<<"exec $l --stage-out $work/out --np 2 -- bash $work/save.sh $signal" ;;
  esac
  wait_until 60 ups
  on h1 scancel "$to" --signal="$signal" "$id"
  ended
  equal "$how: saved" "saved-h2 saved-h3" "$(cd out && echo *)"
  grep -q '2 outputs .* written, 2 staged out' out.txt || fail "$how: $(cat out.txt)"
done
echo "ok - what COMMAND saves after --signal is staged out, on all nodes"

job <<<"exec $l --np 2 -- bash $work/save.sh USR1"
wait_until 60 ups
on h1 scancel "$id"
ended
running() { pgrep -f "fanstored --job job-.*--local-dir $net_local " >/dev/null; }
not_running() { ! running; }
wait_until 60 not_running
job <<<"$l --np 2 -- sh -c 'diff -r $work/source $mnt && echo same'"
ended
shows "after a cancelled job" same 2
grep -q ' 0 B staged, ' out.txt || fail "staged again: $(cat out.txt)"
echo "ok - a cancelled job leaves no daemon, and the next one finds what it staged"
