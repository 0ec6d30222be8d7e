# SPDX-License-Identifier: BSD-3-Clause
"""fs-prepare pack, the source being in the page cache; next to reading the source and to lz4, each with all CPUs, and to
the steps of packing that nothing can leave out."""
import os
import shutil
import tempfile

from fsb.jobs import files, halves, read, timed
from fsb.peers import Side

SETS = {"16 KiB": (16384, 48000), "1 MiB": (1 << 20, 1500), "64 MiB": (64 << 20, 24)}
BLOCK = 256 << 10
FIXED, A_JOB, A_FILE = 80, 4, 160 / (1 << 20)  # MiB of memory: fs-prepare(1); a file with its path


class Source:
    """A tree, and what is done to it."""

    def __init__(self, ctx, size, count):
        self.ctx, self.cpus, self.count = ctx, len(os.sched_getaffinity(0)), count
        self.top, self.listed = files(ctx, str(size), size, count, fill=halves)
        self.bytes = sum(os.path.getsize(os.path.join(top, n)) for top, _, names in os.walk(self.top) for n in names)
        self.memory = tempfile.mkdtemp(prefix="fs-bench.", dir="/dev/shm")
        os.sync()

    def pack(self, codec, where, number):
        dataset = os.path.join(where, "packed-" + codec)
        shutil.rmtree(dataset, ignore_errors=True)
        os.sync()  # nobody pays for what others left: writes, and discards of what was removed
        got = timed([self.ctx.bin("fs-prepare"), "pack", "--codec", codec, self.top, dataset])
        if number == 0:
            timed([self.ctx.bin("fs-prepare"), "verify", dataset])
        return got

    def measure(self, side, number):
        ctx = self.ctx
        if side.name == "read":
            got = read(ctx, side, self.listed, "-s", 0, "-j", self.cpus, "-P", "-p", 2)
            return {"s": got["again"] * got["files"] / 1e9}
        if side.name == "lz4 alone":
            got = side.run([ctx.tool("limit_lz4"), BLOCK, self.cpus, self.top, self.listed])
            return {"s": got["first"] / 1e9, "ratio": self.bytes / got["stored"]}
        if side.name.endswith(" steps"):
            os.sync()
            got = side.run([ctx.tool("limit_pack"), side.name.split()[0], BLOCK, self.cpus, self.top, self.listed,
                            os.path.join(ctx.work, "steps")])
            return {"s": got["first"] / 1e9}
        return self.pack(side.name.split()[0], self.memory if "memory" in side.name else ctx.work, number)


def rows(ctx, label, source, got):
    speed = {name: source.bytes / values["s"] / 1e6 for name, values in got.items()}
    most = FIXED + A_JOB * source.cpus + A_FILE * source.count
    for codec, limits in (("lz4", ("read", "lz4 alone")), ("raw", ("read",))):
        packed, memory, steps = codec + " packed", codec + " in memory", codec + " steps"
        what = "files of %s, %s" % (label, codec)
        values = {**{name: speed[name] for name in limits}, "slower": min(speed[name] for name in limits),
                  "packed": speed[packed], "in memory": speed[memory]}
        ctx.row(what, "MB/s", values, of="packed", to="slower", better="higher", target=0.8)
        ctx.row(what + ", and its steps alone", "MB/s", {"steps": speed[steps], "packed": speed[packed]}, of="packed",
                to="steps", better="higher")
        ctx.bound(what + ", peak memory", "MiB", got[packed]["rss"], most)


def run(ctx):
    names = ["read", "lz4 alone", "raw steps", "lz4 steps", "raw packed", "lz4 packed", "raw in memory", "lz4 in memory"]
    for label, (size, count) in SETS.items():
        source = Source(ctx, size, max(count // 10, 2) if ctx.quick else count)
        try:
            sides = [Side(name, source.top) for name in names]
            rows(ctx, label, source, ctx.interleave(sides, source.measure, rounds=1 if ctx.quick else 3))
        finally:
            shutil.rmtree(source.memory, ignore_errors=True)
        shutil.rmtree(source.top)
