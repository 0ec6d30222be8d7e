#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# fs-prepare pack --left-out over emulated nodes: files that are removed, grow or are cut off after the walk, and a damaged
# archive. The dataset, the list and the status are those of one process.
# rest: 1 and 4 nodes
. "$(dirname "$0")/../functions.sh"
cd "$work"

mkdir -p first/dir
"$python" - <<'PY'
import random
r = random.Random(1)
def lines(n): return b"".join(b"%d %d\n" % (i, r.randrange(1 << 40)) for i in range(n))
open("first/aaa", "wb").write(lines(250000)) # packed first: the others are changed meanwhile
open("first/removed", "wb").write(lines(30000))
open("first/grows", "wb").write(lines(40000))
for i in range(200): open("first/dir/%03d" % i, "wb").write(r.randbytes(2000))
PY
cp -p first/removed first/twin
ln first/removed first/zlink
cp -p first/grows first/other
ln first/grows first/zgrows
mkfifo first/dir/fifo
mkdir tree && cp -p first/dir/0* tree
tar cf tree.tar tree
mounted=$work/source

ranks() { pgrep -f "^$bin/(fanstore-pack|fs-prepare) .*$work/list" || true; }
planned() { compgen -G '.ds.partial-*/part-00007' >/dev/null; }
# pack_changing WHAT [OPTION...]: packs into ds and list, while files are changed
pack_changing() {
  local what=$1 status=0 pids packing
  shift
  rm -rf source ds list tree.tar.now
  cp -a first source
  cp -p tree.tar archive.tar
  "$bin/fs-prepare" pack --mount "$mounted" --codec lz4hc:12 --jobs 1 --left-out "$work/list" "$@" --shards merge \
    source archive.tar ds >out 2>err &
  packing=$!
  until planned || ! kill -0 "$packing"; do sleep 0.01; done # at once: the first file is being packed
  pids=$(ranks)
  # shellcheck disable=SC2086
  kill -STOP $pids
  rm source/removed source/dir/17?
  echo more >>source/grows
  truncate -s 100K archive.tar
  # shellcheck disable=SC2086
  kill -CONT $pids
  wait "$packing" || status=$?
  equal "$what: status" 3 "$status"
  grep -q "^fs-prepare: [0-9]* of SOURCE's names were left out of the dataset$" err || fail "$what: $(cat err)"
}

pack_changing "one process"
mv ds plain && mv list plain.list
for name in removed grows dir/fifo dir/170 tree/0; do grep -q "^{\"path\": \"$name" plain.list || fail "$name: $(cat plain.list)"; done
"$bin/fs-prepare" verify plain >out || fail "$(cat out)"
for nodes in $(half 2 "1 4"); do
  pack_changing "$nodes nodes" --local-dir "$work/local" --emulate "$nodes"
  grep -q "^  $nodes node.* with .* in " out || fail "$nodes nodes: $(cat out)"
  diff -r plain ds || fail "$nodes nodes: other bytes"
  cmp plain.list list || fail "$nodes nodes: another list"
done
launch --emulate "$nodes" --local-dir "$work/local" --dataset ds --mount "$mnt" -- cmp "$mnt/twin" first/twin 2>err || fail "$(cat err)"
grep -q ' 0 B staged, ' err || fail "it staged: $(cat err)"
equal "left" "" "$(find local -name '.pack-*'; find . -name '.ds.partial-*')"
echo "ok - files that change after the walk: $(wc -l <list) names are left out, as with one process"

rm -rf source local
mkdir source
expect_status 1 "$bin/fs-prepare" pack --local-dir "$work/local" --emulate 2 --keep-going source/none ds2
seq 10 >source/a
"$bin/fs-prepare" pack --local-dir "$work/local" --emulate 2 --keep-going --mount "$mnt" source ds2 >out 2>err || fail "$(cat err)"
head -c 200000 tree.tar >damaged.tar
(cd tree && "$python" -m zipfile -c ../damaged.zip .)
printf damaged | dd of=damaged.zip bs=1 seek=50000 conv=notrunc status=none
expect_status 1 "$bin/fs-prepare" pack --local-dir "$work/local" --emulate 2 --mount "$mnt" damaged.zip ds3
one_line err 'damaged.zip: member .* is damaged: '
expect_status 3 "$bin/fs-prepare" pack --left-out list --mount "$mnt" damaged.tar damaged.zip plain3
expect_status 3 "$bin/fs-prepare" pack --local-dir "$work/local" --emulate 2 --left-out list3 --mount "$mnt" damaged.tar \
  damaged.zip ds3
diff -r plain3 ds3 || fail "damaged archives: other bytes"
cmp list list3 || fail "damaged archives: another list"
grep -q '^{"path": "damaged/.*", "why": "is damaged"}$' list || fail "$(cat list)"
no_leftovers
echo "ok - damaged archives; status 0 if nothing is left out"

# A disk that fails in a file, and a pack that is killed after this file.
if [ "$(uname -m)" = x86_64 ] && cc -o bad_calls "$root/tests/mpi/bad_calls.c" && ./bad_calls hang 9999 -1 0 -1 true; then
  rm -rf source local plain
  mkdir source
  head -c $(((2 << 20) + 123456)) /dev/urandom >source/aaa # its last chunk has 123456 bytes
  for i in {10..29}; do head -c 900000 /dev/urandom >"source/b$i"; done
  head -c 777777 /dev/urandom >source/zzz
  options=(--partitions 1 --jobs 1 --codec raw --mount "$mnt")
  on_nodes=("$bin/fs-prepare" pack "${options[@]}" --local-dir "$work/local" --emulate 2)
  fails="$work/bad_calls EIO 17 2 123456 -1" # preads of so many bytes
  # shellcheck disable=SC2086 # words
  expect_status 3 $fails "$bin/fs-prepare" pack "${options[@]}" --left-out plain.list source plain
  equal "the list" '{"path": "aaa", "why": "cannot be read: Input/output error"}' "$(cat plain.list)"
  killed=$(FANSTORE_TEST_CHECKPOINT_MS=0 FANSTORE_MPIRUN_ARGS="$fails $work/bad_calls hang 17 2 777777 -1" \
    "$python" "$root/tests/mpi/interrupted.py" 17 INT "${on_nodes[@]}" --keep-going source goes-on 2>err)
  equal "the interrupted one" 130 "${killed% *}"
  FANSTORE_MPIRUN_ARGS=$fails expect_status 3 "${on_nodes[@]}" --left-out list source goes-on
  packed=$(sed -nE 's/^fs-prepare: resuming: ([0-9]+)\.[0-9] MiB of .*/\1/p' err)
  [ "${packed:-0}" -ge 3 ] || fail "aaa had 2 MiB: $(cat err)"
  grep -q 'source/aaa cannot be read: Input/output error$' err || fail "$(cat err)"
  diff -r plain goes-on || fail "other bytes"
  cmp plain.list list || fail "another list"
  no_leftovers
  echo "ok - a disk that fails; a pack that is interrupted after this goes on"
fi
