#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# long: 40
# rest: other options, and the highest levels
# fs-prepare pack over emulated nodes: the same bytes as with one process, for any number of nodes and threads; what it
# leaves on the nodes is what fs-launch would stage; --nodes-only; what a killed or stopped rank, a file that changes
# and a full disk leave behind.
. "$(dirname "$0")/../functions.sh"

make_tree "$work/source"
cp -a "$work/source" "$work/again" # duplicates, of all kinds
mv "$work/again" "$work/source/again"
head -c 5000000 /dev/urandom >"$work/source/large"
{ # equal chunks
  cat "$work/source/large"
  head -c 2500000 /dev/zero
  echo end
} >"$work/source/larger"
mkdir "$work/local"
cat >"$work/compare.py" <<'END'
import os, sys
source, mount = sys.argv[1:]
files = [os.path.join(top, name) for top, _, names in os.walk(source) for name in names]
files = [f for f in files if os.path.isfile(f) and not os.path.islink(f)]
for f in files:
    with open(f, "rb") as a, open(mount + f[len(source):], "rb") as b:
        assert a.read() == b.read(), f
print(len(files), "files are equal")
END

on_nodes() { # NODES DATASET [OPTION...]
  local nodes=$1 dataset=$2
  shift 2
  "$bin/fs-prepare" pack --local-dir "$work/local" --emulate "$nodes" "$@" "$work/source" "$dataset"
}
read_all() { # WHAT [fs-launch's options]: all files are right, and nothing was staged
  local what=$1
  shift
  launch "$@" --mount "$mnt" -- "$python" compare.py "$work/source" "$mnt" >out 2>err || fail "$what: $(cat err)"
  grep -qE '^[0-9]{3} files are equal$' out || fail "$what: $(cat out)"
  grep -q ' 0 B staged, ' err || fail "$what: it staged: $(cat err)"
}
cd "$work"

first=("" "--replicate large --replicate again --block-size 16K --partitions 5")
others=("--codec zstd:3 --block-size 64K" "--codec raw --partitions 3 --order size")
if rest; then first=("${others[@]}"); elif [ "${FS_HALF-}" = all ]; then first+=("${others[@]}"); fi
for options in "${first[@]}"; do
  # shellcheck disable=SC2086
  "$bin/fs-prepare" pack $options source plain >pack.log || fail "$(cat pack.log)"
  grep -q 'equal pieces of large files' pack.log || [[ $options == *--replicate* ]] || fail "no equal chunks: $(cat pack.log)"
  for how in 1:1 2:3 4:1; do
    rm -rf local/*
    # shellcheck disable=SC2086
    on_nodes "${how%:*}" ds --force --jobs "${how#*:}" $options >pack.log || fail "$how $options: $(cat pack.log)"
    diff -r plain ds >diff.out || fail "$how $options: $(cat diff.out)"
  done
  read_all "4 nodes $options" --emulate 4 --dataset ds
  rm -rf plain
done
grep -q '^  4 nodes with ' pack.log || fail "$(cat pack.log)"
echo "ok - 1, 2 and 4 nodes: the same bytes as one process, and nothing to stage"

tar cf few.tar -C source again/sizes again/odd
for codec in $(half "" "zstd:22 lz4hc:12"); do # the highest levels, which take seconds for some megabytes
  "$bin/fs-prepare" pack --codec "$codec" few.tar plain >pack.log || fail "$(cat pack.log)"
  "$bin/fs-prepare" pack --local-dir local --emulate 2 --codec "$codec" few.tar both >pack.log 2>&1 ||
    fail "$codec: $(cat pack.log)"
  diff -r plain both || fail "$codec: other bytes"
  mkdir -p more && tar -xf few.tar -C more && seq 50000 >more/numbers
  "$bin/fs-prepare" pack --local-dir local --emulate 2 --update --mount "$mnt" more both >pack.log 2>&1 ||
    fail "$codec, --update: $(cat pack.log)"
  rm -rf plain both local/*
  echo "ok - $codec, the highest level, and an update with it"
done
! rest || exit 0

tar cf flat.tar -C source again
tar czf stream.tar.gz source/large -C source again
sources=(source/again flat.tar stream.tar.gz)
"$bin/fs-prepare" pack --mount "$mnt" "${sources[@]}" plain >pack.log || fail "$(cat pack.log)"
"$bin/fs-prepare" pack --local-dir local --emulate 2 --mount "$mnt" "${sources[@]}" both >pack.log || fail "$(cat pack.log)"
diff -r plain both || fail "several SOURCEs"
equal "left" "" "$(find local -name '.pack-*')"
rm -rf plain local/*
echo "ok - several SOURCEs, with a plain and a compressed archive"

# Whether a large file is worth compressing is learned once: by eight blocks beside its own bytes.
if strace -f --seccomp-bpf -o /dev/null true 2>/dev/null; then
  mkdir one && cp source/large one/large
  strace -qq --seccomp-bpf -ff -y -o trace -e trace=pread64 "$bin/fs-prepare" pack --local-dir local --emulate 1 --jobs 2 \
    --codec lz4 one plain --force >pack.log 2>&1 || fail "$(cat pack.log)"
  bytes=$(cat trace.* | sed -nE 's@^pread64\([0-9]+<[^>]*/one/large>.*= ([0-9]+)$@\1@p' | awk '{ n += $1 } END { print n + 0 }')
  if [ "$bytes" -lt 5000000 ] || [ "$bytes" -gt $((5000000 + 8 * 262144)) ]; then fail "$bytes bytes of 5000000 were read"; fi
  rm -rf plain local/* trace.*
  echo "ok - samples of a large file are read once"
fi

on_nodes 3 only --nodes-only >pack.log
grep -q '^  the partitions are on these nodes only: ' pack.log || fail "$(cat pack.log)"
equal "--nodes-only" "index manifest" "$(cd only && echo *)"
read_all "--nodes-only" --emulate 3 --dataset only
expect_status 125 launch --emulate 2 --dataset only -- true
one_line err '/only: 2 of 8 partitions are on no node of this job \(2, 5\): '
expect_status 125 launch --emulate 3 --dataset only --purge -- true
one_line err 'leave --purge out'
for command in "verify only" "unpack only out.dir" "pack --update source only"; do
  # shellcheck disable=SC2086
  expect_status 1 "$bin/fs-prepare" $command
  one_line err 'only: its partitions are on the nodes only \(--nodes-only\); '
done
"$bin/fs-prepare" info only | grep '^partitions .* (on the nodes only: --nodes-only)$' >/dev/null || fail "info"
"$bin/fs-prepare" info --json only | grep '"nodes_only": true' >/dev/null || fail "info --json"
"$bin/fs-prepare" diff only source || fail "diff"
"$bin/fs-prepare" list only >out
grep -qx large out || fail "list"
"$bin/fs-prepare" verify --local-dir local only >out || fail "$(cat out)"
equal "good directories" 3 "$(grep -cE 'fanstore-node[012]/[0-9a-f]{32}: good: [23] of the dataset.s 8 partitions$' out)"
copy=$(echo local/fanstore-node1/*/part-00001)
cp -p "$copy" sound
printf '\376\377' | dd of="$copy" bs=1 seek=6000 conv=notrunc status=none
expect_status 1 "$bin/fs-prepare" verify --local-dir local only
one_line err 'part-00001: damaged: checksums differ; 1 block damaged; remove this file'
grep -q '^damaged: ' out || fail "no damaged file is named"
grep -qE 'node1/.*: damaged: 1 of 3 partitions$' out || fail "$(cat out)"
mv -f sound "$copy"
expect_status 1 "$bin/fs-prepare" verify --local-dir "$work/source" only
one_line err 'source: no partition of only is there$'
expect_status 2 "$bin/fs-prepare" verify --local-dir local --repair-from source only
cp -r only whole
"$bin/fs-prepare" verify --repair-from source whole >out 2>err || fail "$(cat err)"
[ ! -s err ] || fail "$(cat err)"
"$bin/fs-prepare" verify whole >out || fail "$(cat out)"
echo "ok - --nodes-only: read by a job on the same nodes, and missing partitions are named"

# A rank that is killed ends all, and nothing is taken for whole. A large file at the highest level takes seconds.
seq 1000000 3500000 >source/slow
ranks() { pgrep -f "^$bin/fanstore-pack .*--local-dir $work/local "; }
begun() { [ "$(find local -path '*/.pack-*/part-*' 2>/dev/null | wc -l)" = 8 ]; }
gone() { ! ranks >/dev/null; }
begin() { # OPTION...
  rm -rf slow local/*
  FANSTORE_TEST_CHECKPOINT_MS=600000 \
    "$bin/fs-prepare" pack --local-dir "$work/local" --emulate 3 --codec lz4hc:12 --block-size 4M --jobs 1 "$@" \
    source slow >out 2>err &
  packing=$!
  wait_until 60 begun
}
ended() { # STATUS: and nothing is there, but what a killed rank has left
  local status=0
  wait "$packing" || status=$?
  equal "exit status" "$1" "$status"
  wait_until 30 gone
  [ ! -e slow ] || fail "a dataset is there"
  [ -z "$(find local -name '*.stamp')" ] || fail "a staged copy is there"
}
nth() { ranks | sed -n "$1p"; }
ln -s / source/outside # a warning comes first
begin
rm source/outside
kill -9 "$(nth 2)"
ended 1
grep -v 'warning: 1 of .* symlinks leads out of SOURCE ' err >said || true
one_line said 'node 1 \(.*\) was killed by signal 9 while it packed; pack again to go on, or to remove what it has left$'
[ -n "$(find local -name '.pack-*')" ] || fail "a killed rank left nothing"
"$bin/fs-launch" clean --local-dir local >clean.out 2>&1
equal "left after clean" "" "$(find local -name '.pack-*')"
begin
kill -INT "$packing"
ended 130
one_line err 'interrupted; nothing is left behind$'
equal "left after an interrupt" "" "$(find local -name '.pack-*' && ls -d .slow.partial-* 2>/dev/null)"
begin --json-progress "$work/progress"
stopped=$(nth 2)
kill -STOP "$stopped"
wait_until 30 grep -q '"slowest_node": {"node": 1, "host": "[^"]*", "bytes_per_second": [0-9]*, "writes": false}' progress
told() { kill -USR1 "$packing" && sleep 0.2 && grep -qE '^fs-prepare: packing: [0-9]+%, .* left, slowest: node 1 \([^)]+\), [0-9]+ MB/s$' err; }
wait_until 30 told
kill -CONT "$stopped"
kill -INT "$packing"
ended 130
"$python" -c 'import json; [json.loads(line) for line in open("progress")]'
begin --node-timeout 5
stopped=$(nth 3)
kill -STOP "$stopped"
ended 1
one_line err 'node 2 (.*) has not answered for 5 s; '
echo "ok - killed, interrupted and stopped ranks"

begin
kill -9 "$(nth 1)"
ended 1
one_line err 'node 0 \(.*\) was killed by signal 9'
rm source/slow
"$bin/fs-prepare" pack source plain >pack.log
on_nodes 3 slow >pack.log
equal "left after a killed one" "" "$(find local -name '.pack-*' && ls -d .slow.partial-* 2>/dev/null)"
read_all "after a killed one" --emulate 3 --dataset slow
echo "ok - a later pack removes what a killed one has left"

rm -rf local/*
"$bin/fs-prepare" place --emulate 2 --replicas 2 --local-dir local plain 2>err || fail "$(cat err)"
one_line err '^fs-prepare: plain is on 2 nodes, [0-9].* each in .*/local: [0-9].* staged \(.* of it from other nodes\), 0 B reused$'
equal "placed" 16 "$(find local -name 'part-*.stamp' | wc -l)"
read_all "placed" --emulate 2 --replicas 2 --dataset plain
cp -r plain damaged
printf damaged! | dd of=damaged/part-00003 bs=1 seek=9000 conv=notrunc status=none
expect_status 3 "$bin/fs-prepare" place --emulate 1 --local-dir local2 damaged
grep -q '^fs-prepare: a part of damaged is on 1 node, ' err || fail "$(cat err)"
grep -q '^fs-prepare: warning: node 0 (.*): partition 3 could not be staged there$' err || fail "$(cat err)"
expect_status 3 "$bin/fs-prepare" place --emulate 1 --replicas 2 --local-dir local3 plain
grep -q '^fs-prepare: plain is on 1 node, ' err || fail "$(cat err)"
grep -q '^fs-prepare: warning: --replicas 2: with 1 node there can be 1 copy only$' err || fail "$(cat err)"
if command -v ssh >/dev/null; then
  expect_status 1 "$bin/fs-prepare" place --hosts nosuch.invalid --local-dir local3 plain
  one_line err "^fs-prepare: the nodes could not be started: ssh: .*; 'ssh HOST true' must work for each host$"
fi
expect_status 1 "$bin/fs-prepare" place --emulate 1 --local-dir local2 nosuch
one_line err '^fs-prepare: nosuch: no such dataset'
expect_status 2 "$bin/fs-prepare" place plain
one_line err 'place: --local-dir is missing'
echo "ok - place"

expect_status 2 "$bin/fs-prepare" pack --emulate 2 source other
one_line err '--emulate: give the nodes. directory with --local-dir$'
expect_status 1 on_nodes 2 slow
one_line err 'a dataset exists already'
touch local/file
expect_status 1 "$bin/fs-prepare" pack --local-dir "$work/local/file" source other
one_line err 'node 0 \(.*\): .*local/file/fanstore: cannot be written: Not a directory; choose another --local-dir$'
if [ "$(id -u)" = 0 ] && unshare -m true 2>/dev/null; then
  mkdir small
  # shellcheck disable=SC2016 # for the inner shell
  expect_status 1 unshare -m sh -c 'mount -t tmpfs -o size=1m none small && "$@"' sh \
    "$bin/fs-prepare" pack --local-dir "$work/local" --emulate 2 source small/ds
  one_line err 'node [01] \(.*\): .*/small/.ds.partial-.*: cannot be written: No space left on device; free some there, or name a DATASET on another file system$'
fi
[ ! -e other ] || fail "a dataset was left"
expect_status 1 "$bin/fanstore-pack" --version 9.9 -- pack source other
one_line err ' has FanStore [0-9.]*, and fs-launch is of version 9.9; install the same version on all nodes$'
no_leftovers
echo "ok - refused in one line"

# Different files, made so that XXH3 is equal: 64 bits of it, and 128. Two lanes cancel each other out.
mkdir collide
"$python" - <<'PY'
import random, struct
SECRET = bytes.fromhex("b8fe6c3923a44bbe7c01812cf721ad1c")  # xxHash's own, in which the low half of a word is 0 when combined
for name, delta in (("one", 0), ("two", 12345)):
    data = bytearray(random.Random(3).randbytes(4096))
    for stripe, sign in ((0, 1), (1, -1)):
        low = struct.unpack_from("<I", SECRET, stripe * 8)[0]
        struct.pack_into("<II", data, stripe * 64, low, 0x40000000 + sign * delta)
    open("collide/" + name, "wb").write(data)
PY
! cmp -s collide/one collide/two || fail "the files are equal"
for codec in raw auto; do
  rm -rf collided
  expect_status 0 "$bin/fs-prepare" pack --codec $codec --local-dir "$work/local" --emulate 2 collide collided
  expect_status 0 "$bin/fs-prepare" diff -c collided collide
done
no_leftovers
echo "ok - files whose hashes collide stay two"
