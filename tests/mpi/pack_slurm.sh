#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# slow
# A Slurm job in which each of two nodes packs its share to its own disk, by mpirun and by srun, and one in which the
# packed dataset is read. A job that is cancelled goes on in the next one. Then the same over two hosts by remote shells.
# shellcheck disable=SC2119
. "$(dirname "$0")/../functions.sh"
. "$(dirname "$0")/../netns.sh"
. "$(dirname "$0")/../slurm.sh"
cluster_up 2
random_files "$work/source" 60 4 1 100 5000 100000 2000000
pack "$work/source" "$work/plain" --mount "$mnt"
cd "$work"
share() { # HOST: its partitions
  (cd "$net_root/$1/local" && find . -name 'part-????[0-9]' -printf '%f ')
}
shares() { # WHAT: each of h2 and h3 has half of the partitions, and stamps for all
  equal "$1: h2" "part-00000 part-00002 part-00004 part-00006" "$(share h2 | xargs -n 1 | sort | xargs)"
  equal "$1: h3" "part-00001 part-00003 part-00005 part-00007" "$(share h3 | xargs -n 1 | sort | xargs)"
}

job <<END
$bin/fs-prepare pack --mount $mnt --local-dir $net_local source ds
echo "status \$?"
$bin/fs-launch --dataset ds --local-dir $net_local --np 2 -- sh -c 'diff -r $work/source $mnt && echo same'
END
ended
shows "Slurm" 'status 0' 1
shows "Slurm" same 2
grep -q ' 0 B staged, ' out.txt || fail "it staged: $(cat out.txt)"
diff -r plain ds || fail "other bytes than with one process"
shares "Slurm"
echo "ok - each node of a Slurm job packs its share to its own disk"

rm -rf ds
find "$net_root"/h?/local -mindepth 1 -delete
job <<END
export FANSTORE_MPIRUN=srun
$bin/fs-prepare pack --nodes-only --mount $mnt --local-dir $net_local source ds
echo "status \$?"
$bin/fs-launch --dataset ds --local-dir $net_local --np 2 -- sh -c 'diff -r $work/source $mnt && echo same'
END
ended
shows "srun" 'status 0' 1
shows "srun" same 2
equal "srun: --nodes-only" "index manifest" "$(cd ds && echo *)"
shares "srun"
echo "ok - by srun, with --nodes-only"

find "$net_root"/h?/local -mindepth 1 -delete
cp -a source larger
seq 4000000 >larger/numbers
"$bin/fs-prepare" pack --codec lz4hc:9 --mount "$mnt" larger more >pack.log
checkpoint() { [ -n "$(find .cut.partial-*/journal -size +1000c 2>/dev/null)" ]; }
slow() { # OPTION...: a job that packs
  job "$@" <<END
export FANSTORE_TEST_CHECKPOINT_MS=50
$bin/fs-prepare pack --codec lz4hc:9 --jobs 1 --mount $mnt --local-dir $net_local larger cut
echo "status \$?"
END
}
slow
wait_until 60 checkpoint
on h1 scancel "$id"
ended
[ ! -e cut ] || fail "a dataset is there"
equal "staged copies" "" "$(find "$net_root"/h?/local -name '*.stamp')"
slow --nodelist h2,h3
ended
shows "after scancel" 'status 0' 1
grep -q '^fs-prepare: resuming: [1-9]' out.txt || fail "$(cat out.txt)"
diff -r more cut || fail "after scancel: other bytes than with one process"
shares "after scancel"
echo "ok - a job that is cancelled; the next one on the same nodes goes on"

find "$net_root"/h?/local -mindepth 1 -delete
netns_plain h1 "$bin/fs-prepare" pack --hosts h2,h3 --mount "$mnt" --local-dir "$net_local" source hosts >out.txt 2>&1 ||
  fail "$(cat out.txt)"
diff -r plain hosts || fail "hosts: other bytes than with one process"
shares "hosts"
netns_cut h3
netns_plain h1 "$bin/fs-prepare" pack --force --hosts h2,h3 --start-timeout 5 --local-dir "$net_local" source hosts \
  >out.txt 2>cut.txt && fail "packed without a host"
one_line cut.txt '^fs-prepare: '
netns_heal h3
# Each host has a /dev/shm of its own.
netns_plain h2 sh -c 'mkdir /dev/shm/mine && touch /dev/shm/mine/file && exec "$@"' - "$bin/fs-prepare" pack \
  --hosts h2,h3 --local-dir "$net_local" /dev/shm/mine own >out.txt 2>err.txt && fail "packed what is on one host only"
one_line err.txt 'node 1 \(h3\): SOURCE /dev/shm/mine: No such file or directory; it must be on storage that all nodes share'
[ ! -e own ] || fail "a dataset was left"
echo "ok - hosts by remote shells, one that is cut off ($(cat cut.txt)), and one without SOURCE"
