#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# timeout: 1500
# Bits of a large dataset flipped at random, some dozens at a time: index and partitions of one with 3,000 files. Every file that
# a program then reads is as it was packed, or an error; of what a node has staged, with --verify always, none is an error,
# since the shared copy is good. FLIP_SECONDS is for each part: 2 when not set.
. "$(dirname "$0")/../functions.sh"
export SECONDS_EACH=${FLIP_SECONDS-2}
random_files "$work/source" 3000 20 0 1 4096 9000 40000
number_lines 400000 >"$work/source/d03/lines" # lz4, many blocks
"$python" -c 'import random, sys; sys.stdout.buffer.write(random.Random(3).randbytes(12 << 20))' >"$work/source/d04/long"
pack "$work/source" "$work/ds" --partitions 8 --block-size 64K

cat >"$work/flips.py" <<'END'
"""flips.py strict|lenient SOURCE MOUNT FILE...: rounds of flips of the FILEs, until SECONDS_EACH have passed. A round is of one
kind: the index alone, data in many places, or one partition's data in a few; its reader is a process of its own."""
import errno, os, pickle, random, stat, subprocess, sys, time

def entries(top):
    for directory, directories, names in os.walk(top, onerror=failed):
        for name in sorted(directories + names):
            yield os.path.relpath(os.path.join(directory, name), top)

errors = []
def failed(error):
    if error.errno not in (errno.EIO, errno.EUCLEAN, errno.EBADMSG):
        sys.exit("another error: %s" % error)
    errors.append(error)

def read(mount):
    """Prints how many of the names that were packed are right, and how many errors; ends with 1 if one is wrong."""
    with open(os.environ["EXPECTED"], "rb") as f:
        want = pickle.load(f)
    seen = right = 0
    for name in entries(mount):
        seen += 1
        if name not in want:
            sys.exit("a name that was never there: %r" % name)
        try:
            st = os.lstat(os.path.join(mount, name))
            mode, size, mtime, data = want[name]
            if (st.st_mode, st.st_mtime_ns) != (mode, mtime) or stat.S_ISREG(mode) and st.st_size != size:
                sys.exit("other attributes: %r" % name)
            if data is None:
                right += 1
                continue
            with open(os.path.join(mount, name), "rb", buffering=0) as f:
                got = bytearray()
                while piece := f.read(1 << 20):
                    got += piece
            if got != data:
                sys.exit("other bytes: %r" % name)
            right += 1
        except OSError as error:
            failed(error)
    if not errors and seen != len(want):
        sys.exit("%d names of %d" % (seen, len(want)))
    print(right, len(errors))

def flip(places):
    """As a disk does it: the times stay."""
    for path, bit in places:
        was = os.stat(path)
        with open(path, "r+b", buffering=0) as f:
            f.seek(bit // 8)
            byte = f.read(1)[0] ^ 1 << bit % 8
            f.seek(bit // 8)
            f.write(bytes([byte]))
        os.utime(path, ns=(was.st_atime_ns, was.st_mtime_ns))

def main():
    how, source, mount, *files = sys.argv[1:]
    expected = {}
    for name in entries(source):
        path = os.path.join(source, name)
        st = os.lstat(path)
        data = open(path, "rb").read() if stat.S_ISREG(st.st_mode) else None
        expected[name] = (st.st_mode, st.st_size, st.st_mtime_ns, data)
    os.environ["EXPECTED"] = os.path.join(os.environ["TMPDIR"], "expected.pickle")
    with open(os.environ["EXPECTED"], "wb") as f:
        pickle.dump(expected, f)
    for path in files:
        os.chmod(path, 0o600)
    seed = int(time.time()) if os.environ["SECONDS_EACH"] != "6" else 6
    choose, end = random.Random(seed), time.monotonic() + float(os.environ["SECONDS_EACH"])
    rounds = flips = right = wrong = 0
    sizes = {path: os.path.getsize(path) for path in files}
    while time.monotonic() < end or rounds < 3:
        of = ([files[0]], files[1:], [choose.choice(files[1:])])[rounds % 3]
        n = (choose.choice((1, 3)), 60, choose.choice((1, 12)))[rounds % 3]
        places = set()
        while len(places) < n:
            path = choose.choice(of)
            places.add((path, choose.randrange(8 * sizes[path])))
        flip(places)
        p = subprocess.run([sys.executable, __file__, "read", mount], stdout=subprocess.PIPE, stderr=subprocess.PIPE, timeout=120,
                           env=dict(os.environ, **({} if how == "strict" else {"LD_PRELOAD": os.environ["READ_WITH"]})))
        told = p.stderr.decode(errors="replace")
        if p.returncode != 0:
            sys.exit("seed %d, round %d, %s: status %d: %s" % (seed, rounds, sorted(places)[:5], p.returncode, told[-2000:]))
        a, b = map(int, p.stdout.split())
        if b and how == "strict":
            sys.exit("seed %d, round %d, %s: %d errors: %s" % (seed, rounds, sorted(places)[:5], b, told[-2000:]))
        if b and "fanstore:" not in told:
            sys.exit("errors without a word")
        flip(places)
        rounds, flips, right, wrong = rounds + 1, flips + n, right + a, wrong + b
    print("seed %d: %d rounds, %d flips: %d entries as they were packed, %d errors, none wrong" % (seed, rounds, flips, right, wrong))
    if how == "lenient" and (wrong == 0 or right == 0):
        sys.exit("nothing was found")

read(sys.argv[2]) if sys.argv[1] == "read" else main()
END

say "the dataset, with the library alone"
FANSTORE_VERIFY=always FANSTORE_DATASET=$work/ds FANSTORE_MOUNT=$mnt READ_WITH=$lib \
  "$python" "$work/flips.py" lenient "$work/source" "$mnt" "$work"/ds/index "$work"/ds/part-*

say "what a node has staged"
staged=$work/local/fanstore
launch --dataset "$work/ds" --mount "$mnt" -- true
unleased "$staged"/*/index "$staged"/*/part-*[0-9]
launch --dataset "$work/ds" --mount "$mnt" --verify always --report "$work/r.json" -- \
  "$python" "$work/flips.py" strict "$work/source" "$mnt" "$staged"/*/index "$staged"/*/part-*[0-9]
[ "$(json "$work/r.json" 'r["nodes"][0]["checksum_errors"]')" -gt 0 ] || fail "nothing was found"
leased
