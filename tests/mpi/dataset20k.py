# SPDX-License-Identifier: BSD-3-Clause
"""The large data set of dataset20k.sh.

dataset20k.py make DIRECTORY COUNT       makes it, and prints "DIGEST SIZE PATH" for every file
dataset20k.py read DIRECTORY LIST PASSES SEED    reads every file of the list, PASSES times, each in another random
                                         order, and fails when a byte differs. With MEET in the environment, a
                                         directory, all processes wait for each other there before each pass.
Sizes are spread evenly on a logarithmic scale from 4 KiB to 150 KiB, one file in a hundred has 2 to 3 MiB; every other
file can be compressed."""
import hashlib
import math
import os
import random
import sys
import time


def digest(data):
    return hashlib.blake2b(data, digest_size=16).hexdigest()


def make(top, count):
    rng = random.Random(20000)
    noise = rng.randbytes(8 << 20)
    words = [rng.randbytes(3).hex().encode() for _ in range(600)]
    text = b" ".join(rng.choice(words) for _ in range(1 << 20))
    for number in range(count):
        if number % 100 == 99:
            size = rng.randrange(2 << 20, 3 << 20)
        else:
            size = int(math.exp(rng.uniform(math.log(4096), math.log(150 * 1024))))
        pool = text if number % 2 else noise
        start = rng.randrange(len(pool) - size)
        # The number makes every file's first bytes its own: no two have the same content.
        data = b"%016d" % number + pool[start + 16:start + size]
        path = "dir%03d/file%05d.%s" % (number // 100, number, "txt" if number % 2 else "bin")
        if number % 100 == 0:
            os.makedirs(os.path.join(top, os.path.dirname(path)))
        with open(os.path.join(top, path), "wb") as f:
            f.write(data)
        print(digest(data), len(data), path)


def meet(where, name, expected):
    open(os.path.join(where, "%s.%d" % (name, os.getpid())), "w").close()
    end = time.monotonic() + 120
    while sum(1 for n in os.listdir(where) if n.startswith(name + ".")) < expected:
        if time.monotonic() > end:
            sys.exit("the other process did not come")
        time.sleep(0.01)


def read(top, listing, passes, seed):
    with open(listing) as f:
        files = [line.rstrip("\n").split(" ", 2) for line in f]
    where, world = os.environ.get("MEET"), int(os.environ.get("OMPI_COMM_WORLD_SIZE", 1))
    wrong = 0
    for number in range(passes):
        if where:
            meet(where, "pass%d" % number, world)
        random.Random(seed * 100 + number).shuffle(files)
        start = time.monotonic()
        total = 0
        for expected, size, path in files:
            with open(os.path.join(top, path), "rb") as f:
                data = f.read()
            total += len(data)
            if len(data) != int(size) or digest(data) != expected:
                wrong += 1
                print("differs: %s (%d bytes of %s)" % (path, len(data), size), file=sys.stderr)
        print("pass %d: %d files, %d MiB, %.1f s" % (number + 1, len(files), total >> 20, time.monotonic() - start))
    if wrong:
        sys.exit("%d files differ" % wrong)


if __name__ == "__main__":
    if sys.argv[1] == "make":
        make(sys.argv[2], int(sys.argv[3]))
    else:
        read(sys.argv[2], sys.argv[3], int(sys.argv[4]), int(sys.argv[5]))
