#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# long: 23
# Hints on two emulated nodes: what was hinted by posix_fadvise, readahead or fanstore_prefetch is then read from the
# node's cache with no message, by the daemons' counters; 10,000 hints do not hold up a read, nor end in the shared copy.
. "$(dirname "$0")/../functions.sh"

# As an archive: to make and to remove so many files takes longer than all that follows.
"$python" - "$work/source.tar" <<'END'
import io, random, sys, tarfile
random.seed(10400)
with tarfile.open(sys.argv[1], "w") as tar:
    for name, size in [(f"d{i % 50:02}/f{i:05}", 2000) for i in range(10400)] + [("large", 4 << 20)]:
        member = tarfile.TarInfo(name)
        member.size = size
        tar.addfile(member, io.BytesIO(random.randbytes(size)))
END
pack "$work/source.tar" "$work/ds" --partitions 8 --mount "$mnt"

hints() { # HOW
  launch --dataset "$work/ds" --emulate 2 --report "$work/r.json" -- "$python" "$root/tests/mpi/prefetch.py" "$1" "$mnt" \
    2>"$work/err" || { cat "$work/err"; fail "$1"; }
  equal "$1: fallbacks" 0 "$(json "$work/r.json" "r['total']['fallbacks']")"
  equal "$1: timeouts" 0 "$(json "$work/r.json" "r['total']['timeouts']")"
}
for how in fadvise readahead api; do
  hints $how
  equal "$how: remote reads" 0 "$(json "$work/r.json" "r['total']['blocks_remote']")"
  [ "$(json "$work/r.json" "r['nodes'][0]['prefetched']")" -ge 1500 ] || fail "$how: prefetched"
  [ "$(json "$work/r.json" "r['nodes'][1]['served']")" -ge 1500 ] || fail "$how: served"
  echo "ok - $how: read from the cache, without a message"
done
FANSTORE_TEST_DELAY_US=40000 hints overtake
equal "messages waited for" 1 "$(json "$work/r.json" "r['total']['blocks_remote']")"
echo "ok - a read overtakes 10,000 hints"
no_leftovers

mkdir "$work/source.away"
tar -C "$work/source.away" -xf "$work/source.tar" --wildcards 'd0*' # more than what the example reads
rm "$work/source.tar"
# The example of docs/training.md: the same words as without FanStore, and most files are fetched before they are read.
cat >"$work/example.sh" <<'END'
cd "$1" && exec "$2" "$3" $(find . -type f ! -name large | sort | head -n 2000)
END
example=$root/docs/examples/prefetch.py
sh "$work/example.sh" "$work/source.away" "$python" "$example" >"$work/plain"
FANSTORE_TEST_DELAY_US=1000 launch --dataset "$work/ds" --emulate 2 --report "$work/r.json" -- sh "$work/example.sh" "$mnt" "$python" "$example" \
  >"$work/out" 2>"$work/err" || fail "the example: $(cat "$work/err")"
diff "$work/plain" "$work/out" || fail "the example"
equal "lines" 2000 "$(wc -l <"$work/out")"
waited=$(json "$work/r.json" "r['nodes'][0]['blocks_remote']") prefetched=$(json "$work/r.json" "r['nodes'][0]['prefetched']")
[ "$prefetched" -gt 500 ] || fail "the example: prefetched $prefetched"
[ "$waited" -lt $((prefetched / 2)) ] || fail "the example: $waited reads waited, $prefetched were fetched ahead"
echo "ok - the example: $prefetched files fetched ahead, $waited reads waited"

# Another node's output is read ahead, and fetched on a hint.
cat >"$work/output.py" <<'END'
import ctypes, os, sys, time
how, path = sys.argv[1:]
fd, block = os.open(path, os.O_RDONLY), 1 << 18
if how == "ahead":
    for i in range(8):
        assert os.read(fd, block // 4) == bytes(block // 4), i
elif how == "api":
    lib = ctypes.CDLL(None)
    lib.fanstore_prefetch.restype = ctypes.c_int64
    assert lib.fanstore_prefetch((ctypes.c_char_p * 1)(path.encode()), ctypes.c_size_t(1), None) == 1
else:
    os.posix_fadvise(fd, 0, 0, os.POSIX_FADV_WILLNEED)
time.sleep(3)
END
for how in ahead hint api; do
  launch --dataset "$work/ds" --emulate 2 --report "$work/r.json" -- sh -c \
    'FANSTORE_NODE=1 dd if=/dev/zero of="$1/out" bs=5000000 count=1 2>&1 && FANSTORE_NODE=0 "$2" "$3" "$4" "$1/out"' - "$mnt" "$python" "$work/output.py" $how \
    2>"$work/err" || fail "$how: $(cat "$work/err")"
  fetched=$(json "$work/r.json" "r['nodes'][0]['fetched_bytes'] // (1 << 18)")
  prefetched=$(json "$work/r.json" "r['nodes'][0]['prefetched']")
  case $how in
    ahead) if [ "$fetched" -lt 6 ] || [ "$fetched" -gt 8 ]; then fail "after two blocks of an output $fetched are here"; fi ;;
    *) equal "blocks of an output, $how" "19 20" "$fetched $prefetched" ;;
  esac
done
echo "ok - another node's output is read ahead, and on hints"

# Of a file that four nodes have written in turns no more is fetched than what is read, but for what shares a grain of 32 KiB with it.
cat >"$work/strided.py" <<'END'
import os, sys
how, path, node, size = sys.argv[1], sys.argv[2], int(sys.argv[3]), int(sys.argv[4])
fd = os.open(path, os.O_CREAT | os.O_RDWR)
for turn in range(32):
    at, data = (4 * turn + node) * size, bytes([1 + node + 4 * turn]) * size
    if how == "write":
        assert os.pwrite(fd, data, at) == size
    else:
        assert os.pread(fd, size, at) == data, turn
END
for size in 65536 47008; do
  launch --dataset "$work/ds" --emulate 4 --discard --report "$work/r.json" -- sh -c '
    for node in 0 1 2 3; do FANSTORE_NODE=$node "$1" "$2" write "$3" $node $4 || exit; done
    FANSTORE_NODE=0 "$1" "$2" read "$3" 1 $4' - "$python" "$work/strided.py" "$mnt/strided" $size 2>"$work/err" || fail "strided: $(cat "$work/err")"
  fetched=$(json "$work/r.json" "r['nodes'][0]['fetched_bytes']")
  [ "$fetched" -ge $((32 * size)) ] || fail "strided: $fetched"
  [ "$fetched" -le $((32 * (size % 32768 ? size + 65536 : size))) ] || fail "$fetched bytes were fetched to read $((32 * size))"
done
echo "ok - of a file in stripes of four nodes what is read is fetched"

# What was fetched ahead, or read of other nodes' parts, and is closed, takes no room once it is removed.
cat >"$work/room.py" <<'END'
import ctypes, os, subprocess, sys
mount, local = sys.argv[1:3]
names = [f"{mount}/room{i}" for i in range(20)]


def on(node, code, *args):
    subprocess.run([sys.executable, "-c", "import os, sys\n" + code, *args], env={**os.environ, "FANSTORE_NODE": node}, check=True)


def backing_files():
    return [f for top, _, files in os.walk(local) if top.endswith("/out") for f in files]


on("1", "for n in sys.argv[1:]: open(n, 'wb').write(bytes(300_000))", *names)
on("2", "for n in sys.argv[11:]: open(n, 'r+b').write(b'x' * 100_000)", *names)
lib = ctypes.CDLL(None)
lib.fanstore_prefetch.restype = ctypes.c_int64
assert lib.fanstore_prefetch((ctypes.c_char_p * 10)(*[n.encode() for n in names[:10]]), ctypes.c_size_t(10), None) == 10
for n in names[10:]:
    assert open(n, "rb").read() == b"x" * 100_000 + bytes(200_000)
assert len(backing_files()) == 30, backing_files()
on("1", "for n in sys.argv[1:]: os.unlink(n)", *names)
on("0", "import time; end = time.time() + 60\nwhile time.time() < end and [f for top, _, files in os.walk(sys.argv[1]) "
   "if top.endswith('/out') for f in files]: time.sleep(0.1)", local)
assert backing_files() == [], backing_files()
END
launch --dataset "$work/ds" --emulate 3 -- "$python" "$work/room.py" "$mnt" "$work/local" 2>"$work/err" || fail "$(cat "$work/err")"
echo "ok - what was fetched and closed takes no room when it is removed"
no_leftovers
