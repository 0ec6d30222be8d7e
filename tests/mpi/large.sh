#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# slow
# long: 50
# timeout: 1800
# Much of one thing: partitions, files in a directory, opens in a process, bytes in a file, all on two nodes. LARGE=1
# (make check-load) makes it 4,096 partitions, 10^6 files, 10^6 opens and 100 GB; else it is a tenth of the last three.
. "$(dirname "$0")/../functions.sh"
reader=$build/tests/helpers/loadreader
tenth=$([ -n "${LARGE:-}" ] && echo 1 || echo 10)
names=$((1000000 / tenth)) opens=$((1000000 / tenth)) giga=$((100 / tenth))
fast=/dev/shm/fanstore-large.$$ # a million files take minutes on some disks
mkdir "$fast" 2>/dev/null || fast=$work/fast
mkdir -p "$fast"
trap 'rm -rf "$fast" ${own_directory:+"$own_directory"}' EXIT

mkdir "$work/source"
"$reader" make "$work/source" 9000 5000
pack "$work/source" "$work/ds" --partitions 4096 --mount "$mnt"
launch --dataset "$work/ds" --emulate 2 --cache 16M -- bash -c '"$1" open "$2" 9000 5000 "$3" && diff -r "$4" "$2"' - \
  "$reader" "$mnt" $opens "$work/source" >"$work/out" 2>"$work/err" || fail "$(tail -n 3 "$work/out" "$work/err")"
grep -q "^load: opens=$opens .*errors=0 wrong=0" "$work/out" || fail "$(cat "$work/out")"
say "$(cat "$work/out")"
no_leftovers
echo "ok - 4,096 partitions; $opens opens in one process"

"$python" - "$fast/all" $names <<'END'
import os, sys
os.mkdir(sys.argv[1])
os.chdir(sys.argv[1])
for i in range(int(sys.argv[2])):
    with open("file-%07d" % i, "wb") as f:
        f.write(b"%d" % i)
END
pack "$fast" "$work/ds-names" --mount "$mnt"
cat >"$work/names.py" <<'END'
import os, random, sys
top, count = sys.argv[1] + "/all", int(sys.argv[2])
names = os.listdir(top)
assert len(names) == count and len(set(names)) == count, len(names)
random.seed(1)
for name in random.sample(names, 20000):
    with open(f"{top}/{name}", "rb") as f:
        assert f.read() == b"%d" % int(name[5:]), name
assert sum(e.stat().st_size for e in os.scandir(top)) == sum(len(str(i)) for i in range(count))
assert not os.path.exists(top + "/file-%07d" % count)
END
launch --dataset "$work/ds-names" --emulate 2 -- "$python" "$work/names.py" "$mnt" $names 2>"$work/err" || fail "$(cat "$work/err")"
no_leftovers
echo "ok - $names files in one directory"
rm -rf "$fast" "$work/ds-names" "$work/local" "$work/source"

cat >"$work/sparse.py" <<'END'
"""A file of zeros with some words in it: made, and looked at there and around them."""
import os, random, sys
what, path, size = sys.argv[1], sys.argv[2], int(sys.argv[3]) << 30
random.seed(size)
words = {random.randrange(size - 8): random.randbytes(8) for _ in range(50)}
words[size - 8] = b"the end."
if what == "make":
    with open(path, "xb") as f:
        f.truncate(size)
        for at, word in words.items():
            os.pwrite(f.fileno(), word, at)
with open(path, "rb") as f:
    assert os.fstat(f.fileno()).st_size == size == f.seek(0, 2)
    for at, word in words.items():
        before = min(at, 100000)
        data = os.pread(f.fileno(), before + 8, at - before)
        assert len(data) == before + 8 and data[-8:] == word and not any(data[:-8]), at
END
mkdir "$work/source"
"$python" "$work/sparse.py" make "$work/source/zeros" $giga
pack "$work/source" "$work/ds-zeros" --mount "$mnt"
# shellcheck disable=SC2016
launch --dataset "$work/ds-zeros" --emulate 2 --cache 64M -- bash -c '
  for node in 0 1; do FANSTORE_NODE=$node "$1" "$2" look "$3/zeros" "$4" || exit; done
  FANSTORE_NODE=1 "$1" "$2" make "$3/written" "$4" && FANSTORE_NODE=0 "$1" "$2" look "$3/written" "$4"' - \
  "$python" "$work/sparse.py" "$mnt" $giga 2>"$work/err" || fail "$(cat "$work/err")"
no_leftovers
echo "ok - a sparse file of $giga GB, packed and written"
