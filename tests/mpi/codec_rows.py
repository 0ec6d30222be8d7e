# SPDX-License-Identifier: BSD-3-Clause
"""codec_rows.py make DIRECTORY N: N files of every kind that a codec has to do with. codec_rows.py read SOURCE MOUNT: threads
and forked children read every file below MOUNT, whole and in pieces, and compare with SOURCE."""
import array
import math
import os
import random
import sys
import threading


def make(top, n):
    os.makedirs(top)
    rng = random.Random(7)
    words = ["word%d" % rng.randrange(3000) for _ in range(4000)]
    for i in range(n):
        length = (200, 3000, 70000, 199000)[i % 4]
        if i % 3 == 0:
            data = "".join('{"id": %d, "class": "%s", "score": %.3f}\n' % (k, words[k * i % 4000], rng.random())
                           for k in range(length // 40)).encode()
        elif i % 3 == 1:
            data = array.array("d", (math.sin(k / 500 + i) for k in range(length // 8))).tobytes()
        else:
            data = " ".join(rng.choice(words) for _ in range(length // 8)).encode()
        if i % 10 == 9:
            data = rng.randbytes(length)
        with open(os.path.join(top, "f%d" % i), "wb") as f:
            f.write(data[:199999])


def compare(source, mount, seed):
    rng = random.Random(seed)
    names = os.listdir(mount)
    if sorted(names) != sorted(os.listdir(source)):
        os._exit(3)
    rng.shuffle(names)
    for name in names:
        with open(os.path.join(source, name), "rb") as f:
            want = f.read()
        fd = os.open(os.path.join(mount, name), os.O_RDONLY)
        for n in (len(want) + 1, 100, 9000):
            at = 0 if n > len(want) else rng.randrange(len(want))
            if os.pread(fd, n, at) != want[at:at + n]:
                print("%s: %d bytes at %d are wrong" % (name, n, at), file=sys.stderr)
                os._exit(4)
        os.close(fd)


def read(source, mount):
    children = []
    for seed in range(4):
        pid = os.fork()
        if pid == 0:
            threads = [threading.Thread(target=compare, args=(source, mount, 10 * seed + i)) for i in range(4)]
            for t in threads:
                t.start()
            compare(source, mount, seed)
            for t in threads:
                t.join()
            os._exit(0)
        children.append(pid)
        compare(source, mount, seed)
    if any(os.waitpid(pid, 0)[1] for pid in children):
        sys.exit(1)


if __name__ == "__main__":
    make(sys.argv[2], int(sys.argv[3])) if sys.argv[1] == "make" else read(*sys.argv[2:])
