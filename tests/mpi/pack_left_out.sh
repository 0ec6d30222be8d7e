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
