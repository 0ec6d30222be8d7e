#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# fs-prepare pack stores equal chunks of large files once: of an appended copy, of files that share a middle, and runs
# of zeros. Files that can be mapped stay in one piece. Everything is read back, by one process and over two nodes.
. "$(dirname "$0")/../functions.sh"

ok() { echo "ok - $*"; }
prepare=$bin/fs-prepare
cd "$work"
"$python" - <<'PY'
import os, random
random.seed(4)
M = 1 << 20
os.mkdir("source")
def put(name, *parts):
    with open("source/" + name, "wb") as f:
        for part in parts: f.write(part)
log = b"".join(b"%s step %d loss 0.%d\n" % (random.randbytes(12).hex().encode(), i, i * i) for i in range(200000))[:6 * M]
first = random.randbytes(8 * M)
put("a-log", log)
put("b-log", log, log[5:500000])              # a log that was appended to
put("c-random", first)
put("d-random", first, b"tail")
put("e-middle", random.randbytes(2 * M), first[2 * M:6 * M], random.randbytes(12345))
put("f-zeros", random.randbytes(M), bytes(20 * M), random.randbytes(M + 7))
put("g-small", random.randbytes(300000), bytes(200000))
put("h-mapped", first[:3 * M])                # as far as it can be mapped, it stays so
put("i-mapped", first[:3 * M], b"x")
PY
cat >check.py <<'PY'
import mmap, os, random, sys
source, mount = sys.argv[1:]
random.seed(1)
for name in sorted(os.listdir(source)):
    want = open(os.path.join(source, name), "rb").read()
    with open(os.path.join(mount, name), "rb", buffering=0) as f:
        got = b"".join(iter(lambda: f.read(1 << 21), b""))
        assert got == want, name
        for at in [k << 18 for k in range(1, len(want) >> 18)] + [random.randrange(len(want)) for _ in range(20)]:
            assert os.pread(f.fileno(), 9000, at - 4500 if at > 4500 else 0) == want[max(at - 4500, 0):][:9000], (name, at)
        with mmap.mmap(f.fileno(), 0, prot=mmap.PROT_READ) as m:
            assert m[:] == want, name
print("all is equal")
PY
info() { "$prepare" info --json "$1" | "$python" -c "import json, sys; d = json.load(sys.stdin); print($2)"; }
read_all() { # DATASET
  plain "$1" "$mnt" "$python" check.py source "$mnt" >out || fail "$1 differs"
  equal "$1" "all is equal" "$(cat out)"
}


# A sixteenth of a partition's share is more than 1 MiB, so that is what a chunk has.
for codec in raw lz4 zstd:1 auto; do
  ds=${codec%:*}.fs
  pack source "$ds" --codec $codec --partitions 4
  cp pack.log ${codec%:*}.log
  pack source again.fs --codec $codec --partitions 4 --jobs 1 --force
  diff -r "$ds" again.fs || fail "$codec: the bytes depend on --jobs"
  "$prepare" verify "$ds" >out || fail "$codec: $(cat out)"
  read_all "$ds"
  rm -rf restored
  "$prepare" unpack "$ds" restored
  diff -r source restored || fail "$codec: unpack"
  expect_status 0 "$prepare" diff "$ds" source
  ok "$codec: $(grep -oE '[0-9]+ equal pieces .*' ${codec%:*}.log)"
done

# 8 chunks of c in d and 4 in e, 6 of a in b; of 20 chunks of zeros 18, as one copy stands for 16 places.
equal "raw: MiB saved" 36 "$(info raw.fs 'd["shared_bytes"] >> 20')"
equal "raw: files that can be mapped" 3 "$(info raw.fs 'd["aligned_files"]')"
equal "lz4: pieces, without zeros" 1 "$(grep -c ' 18 equal pieces' lz4.log)"

# A replicated file shares with replicated ones only. A raw one stays in one piece.
pack source replicated.fs --codec lz4 --partitions 4 --replicate '[ab]-*'
grep -q ' 18 equal pieces' pack.log || fail "a and b replicated: $(cat pack.log)"
pack source replicated.fs --codec lz4 --partitions 4 --replicate '[bc]-*' --force
grep -q ' 4 equal pieces' pack.log || fail "b and c replicated: $(cat pack.log)"
read_all replicated.fs
ok "replicated files"

launch --emulate 2 --dataset raw.fs --mount "$mnt" -- "$python" check.py source "$mnt" >out 2>err || fail "$(cat err)"
equal "over two nodes" "all is equal" "$(cat out)"
grep -q '^fs-launch: all 2 nodes: .* 0.0% shared storage; ' err || fail "over two nodes: $(cat err)"
ok "over two nodes"

# Small tables of chunks forget the oldest. Killed in the middle of it, and resumed.
export FANSTORE_TEST_CHUNK_SLOTS=6
pack source forgets.fs --codec zstd:1 --partitions 4
cp -r forgets.fs first.fs
started=${EPOCHREALTIME/./}
pack source forgets.fs --codec zstd:1 --partitions 4 --jobs 1 --force
took=$((${EPOCHREALTIME/./} - started))
diff -r first.fs forgets.fs || fail "small tables: the bytes depend on --jobs"
found=$(grep -oE '[0-9]+ equal pieces' pack.log)
[ "${found% equal*}" -lt 18 ] || fail "nothing was forgotten: $(cat pack.log)"
read_all forgets.fs
export FANSTORE_TEST_CHECKPOINT_MS=1
resumed=0
for percent in 25 40 50 60 75 90; do
  rm -rf resumed.fs .resumed.fs.partial-*
  "$prepare" pack source resumed.fs --jobs 1 --codec zstd:1 --partitions 4 >pack.log 2>&1 &
  pid=$!
  after=$((took * percent / 100))
  sleep "$(printf '%d.%06d' $((after / 1000000)) $((after % 1000000)))"
  kill -KILL $pid 2>/dev/null || true
  wait $pid 2>/dev/null || true
  pack source resumed.fs --codec zstd:1 --partitions 4 --force
  grep -q resuming pack.log || continue
  resumed=$((resumed + 1))
  head -n 1 pack.log
  grep -q " $found" pack.log || fail "resumed: $(cat pack.log)"
  diff -r forgets.fs resumed.fs || fail "the resumed pack has other bytes"
done
[ $resumed -gt 0 ] || fail "no pack was resumed"
ok "resumed $resumed times: the same bytes"
unset FANSTORE_TEST_CHECKPOINT_MS FANSTORE_TEST_CHUNK_SLOTS

# An update keeps what others refer to.
rm source/c-random
pack source raw.fs --update
"$prepare" verify raw.fs >out || fail "after an update: $(cat out)"
read_all raw.fs
ok "updated"
