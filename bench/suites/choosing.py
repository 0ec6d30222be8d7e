# SPDX-License-Identifier: BSD-3-Clause
"""The measured tables of docs/choosing.md: what the block size, the cache's size and busy processors do to reads of the
other of two nodes. Rows without a target: they compare the choices with each other."""
import subprocess
import sys

from fsb.jobs import files, halves, read

# Reads pieces of 16 KiB at random places, each once, of the files of the other node.
PIECES = """import json, os, random, sys, time
top, listed, seed = sys.argv[1], sys.argv[2], int(sys.argv[3])
fds = [os.open(p, os.O_RDONLY) for p in (os.path.join(top, l.strip()) for l in open(listed))
       if os.getxattr(p, "user.fanstore.place") == b"remote"]
places = [(fd, at) for fd in fds for at in range(0, os.fstat(fd).st_size - 16384, 16384)]
random.Random(seed).shuffle(places)
places = places[:len(places) // 16]
begin = time.perf_counter()
for fd, at in places:
    os.pread(fd, 16384, at)
print(json.dumps({"us": (time.perf_counter() - begin) * 1e6 / max(len(places), 1)}))"""


def blocks(ctx):
    """A first read of files of 1 MiB, of which lz4 saves half: in order, and in random pieces of 16 KiB."""
    size, count = 1 << 20, 48 if ctx.quick else 192
    source, listed = files(ctx, "large", size, count, fill=halves)
    sides = []
    for block in ("16K", "64K", "256K", "1M"):
        dataset = ctx.pack(source, "b" + block, codec="auto", extra=("--block-size", block))
        side = ctx.nodes(dataset, 2, ("--cache", "1G"))
        side.name = block
        sides.append(side)

    def one(side, number):
        pieces = side.run([sys.executable, "-c", PIECES, side.directory, listed, number + 1])
        return {"order": read(ctx, side, listed, "-s", number + 1, "-x", "remote")["first"] / 1000, "pieces": pieces["us"]}

    got = ctx.interleave(sides, one)
    for key, what in ("order", "1 MiB in order"), ("pieces", "16 KiB at random"):
        ctx.row("block size, other node's files, first read, " + what, "us", {n: v[key] for n, v in got.items()}, of="256K",
                to="16K")


def caches(ctx):
    """A pass over the other node's files after the first ones, with caches of parts of what they take."""
    size, count = 131072, 400 if ctx.quick else 3000
    source, listed = files(ctx, "cached", size, count)
    dataset = ctx.pack(source, "cached")
    theirs = size * count // 2
    sides = []
    for name, extra in (("all", ("--cache", theirs * 5 // 4)), ("half", ("--cache", theirs // 2)),
                        ("quarter", ("--cache", theirs // 4)), ("16th", ("--cache", theirs // 16)),
                        ("quarter, rest on disk", ("--cache", theirs // 4, "--cache-disk", theirs * 5 // 4))):
        side = ctx.nodes(dataset, 2, extra)
        side.name = name
        sides.append(side)
    got = ctx.interleave(sides, lambda side, number: {
        "again": read(ctx, side, listed, "-r", "-s", number + 1, "-p", 4, "-x", "remote")["again"] / 1000})
    ctx.row("cache, other node's 128 KiB, later passes", "us", {n: v["again"] for n, v in got.items()}, of="all", to="16th")


def busy(ctx):
    """First reads of the other node's files while other processes take processors."""
    size, count = 131072, 200 if ctx.quick else 1000
    source, listed = files(ctx, "busy", size, count)
    dataset = ctx.pack(source, "busy")
    sides = []
    for n in range(4):
        side = ctx.nodes(dataset, 2, ("--cache", "1G"))
        side.name = "%d busy" % n
        sides.append(side)

    def one(side, number):
        others = [subprocess.Popen(["sh", "-c", "while :; do :; done"]) for _ in range(int(side.name[0]))]
        try:
            return {"median": read(ctx, side, listed, "-s", number + 1, "-x", "remote")["median"] / 1000}
        finally:
            for other in others:
                other.kill()
                other.wait()

    got = ctx.interleave(sides, one)
    ctx.row("busy processors (of 2), other node's 128 KiB, first read", "us (median)",
            {n: v["median"] for n, v in got.items()}, of="0 busy", to="2 busy")


def run(ctx):
    for part in blocks, caches, busy:
        part(ctx)
        ctx.clear()
