#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# long: 20
# fs-prepare pack over emulated nodes that is interrupted or killed: the same command goes on, and the dataset has the
# bytes of a run that was not interrupted. Other packs, the end of a job and fs-launch clean leave what it needs.
# tests/mpi/pack_resume_kills.sh kills it at random moments.
. "$(dirname "$0")/../functions.sh"
nodes=2
. "$(dirname "$0")/pack_resume.bash"

read_large() { # DATASET: a job on the nodes reads a file, and nothing is staged
  launch --emulate 2 --dataset "$1" --mount "$mnt" -- cmp "$mnt/large1" source/large1 2>err || fail "$(cat err)"
  grep -q ' 0 B staged, ' err || fail "$(cat err)"
}

kill_pack int c ds
equal "an interrupted pack" killed "$ended"
one_line err "(what is packed is in $PWD/.ds.partial-[2-7a-z]* and on the nodes: |interrupted; )the same command goes on from "
expect_status 0 "${pack[@]}" source ds
one_line err 'resuming: [1-9].* of .* are packed already$'
same ds
read_large ds
echo "ok - an interrupted pack goes on, and fs-launch finds it on the nodes"

rm -rf local/*
more=(--nodes-only)
mkdir shared
kill_pack rank c shared/only
equal "a killed rank" killed "$ended"
grep -q 'node 1 (.*) was killed by signal 9 while it packed' err || fail "$(cat err)"
mv shared away # as if it were not mounted
mkdir shared
"$bin/fs-prepare" pack --emulate 1 --local-dir local source/1 other >out || fail "another pack: $(cat out)"
launch --emulate 2 --dataset other -- true 2>err || fail "$(cat err)"
expect_status 0 "$bin/fs-launch" clean --local-dir local
equal "kept by clean" 2 "$(grep -c 'pack-.*: kept: the pack that made it goes on from .*; clean --staged removes it$' err)"
rm -rf local/*/[0-9a-f]* other shared
mv away shared
expect_status 0 "${pack[@]}" "${more[@]}" source shared/only
one_line err 'resuming: '
same shared/only
read_large shared/only
echo "ok - others leave what a pack goes on with, also while shared storage is away; --nodes-only"

rm -rf local/*
more=()
kill_pack int c gone
equal "an interrupted pack" killed "$ended"
rm -r local/fanstore-node1
expect_status 0 "${pack[@]}" source gone
one_line err 'the interrupted pack of .*/gone is not resumed, because what node 1 (.*) has of it is not there; this one begins anew$'
same gone
echo "ok - without a node's directory it begins anew, and says so"

# Another run makes DATASET first.
rm -rf local/*
cp -r whole first
checkpoint() { [ -n "$(find .late.partial-*/journal -size +40c 2>/dev/null)" ]; }
"${pack[@]}" source late >out 2>err &
packing=$!
wait_until 60 checkpoint
mv first late
status=0
wait "$packing" || status=$?
equal "status of the one that is late" 1 "$status"
grep -q 'late: a dataset exists already; use --force to replace it$' err || fail "$(cat err)"
grep -q 'packed is in .* and on the nodes: with --force the same command goes on from there; else remove' err || fail "$(cat err)"
equal "staged copies of what has no name" 0 "$(find local -name '*.stamp' | wc -l)"
expect_status 0 "${pack[@]}" --force source late
one_line err 'resuming: '
same late
echo "ok - one that is late says so, and --force goes on"

# A rank that was killed is in a call of the disk, before there is a checkpoint: its lock goes a second after the next pack asks.
rm -rf local/* ds
mkdir -m 700 .ds.partial-2aaaaa
head -c 40 /dev/zero >.ds.partial-2aaaaa/journal
asks() {
  local pid
  for pid in $(pgrep -x fanstore-pack); do ls -l "/proc/$pid/fd"; done 2>/dev/null | grep "$PWD/.ds.partial-2aaaaa/journal$" >/dev/null
}
(
  flock 9
  wait_until 30 asks
  sleep 1
) 9<.ds.partial-2aaaaa/journal &
locked() { ! flock -n .ds.partial-2aaaaa/journal true; }
wait_until 10 locked
expect_status 0 "${pack[@]}" source ds
equal "said" "" "$(cat err)"
same ds
wait $!
no_leftovers
echo "ok - it waits for a process that is about to end, and removes what that one leaves"
