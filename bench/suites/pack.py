# SPDX-License-Identifier: BSD-3-Clause
"""fs-prepare pack, the source being in the page cache; next to reading the source and to lz4, each with all CPUs, and to
writing as many bytes to one file."""
import os
import shutil
import subprocess
import tempfile
import time

from fsb.jobs import files, halves, read
from fsb.peers import Failed, Side

SETS = {"16 KiB": (16384, 24000), "1 MiB": (1 << 20, 800), "64 MiB": (64 << 20, 12)}
BLOCK = 256 << 10


def timed(command):
    """Seconds, and the most memory that the process had, MiB."""
    began = time.monotonic()
    with subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE) as process:
        errors = process.stderr.read()
        _, status, usage = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode:
        raise Failed("%s: %d\n%s" % (" ".join(command), process.returncode, errors.decode()))
    return {"s": time.monotonic() - began, "rss": usage.ru_maxrss / 1024}


def write(path, size):
    """So many bytes to one file, and synced, as a dataset is."""
    data = os.urandom(4 << 20)
    began = time.monotonic()
    with open(path, "wb", buffering=0) as f:
        for _ in range(size // len(data)):
            f.write(data)
        os.fsync(f.fileno())
    took = time.monotonic() - began
    os.remove(path)
    return {"s": took}


class Source:
    """A tree, and what is done to it."""

    def __init__(self, ctx, size, count):
        self.ctx, self.cpus = ctx, len(os.sched_getaffinity(0))
        self.top, self.listed = files(ctx, str(size), size, count, fill=halves)
        self.bytes = sum(os.path.getsize(os.path.join(top, n)) for top, _, names in os.walk(self.top) for n in names)
        self.memory = tempfile.mkdtemp(prefix="fs-bench.", dir="/dev/shm")
        os.sync()

    def pack(self, codec, where, number):
        dataset = os.path.join(where, "packed-" + codec)
        shutil.rmtree(dataset, ignore_errors=True)
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
        if side.name == "write":
            return write(os.path.join(ctx.work, "written"), self.bytes)
        return self.pack(side.name.split()[0], self.memory if "memory" in side.name else ctx.work, number)


def rows(ctx, label, source, got):
    speed = {name: source.bytes / values["s"] / 1e6 for name, values in got.items()}
    for codec, limits in (("lz4", ("read", "lz4 alone")), ("raw", ("read",))):
        packed, memory = codec + " packed", codec + " in memory"
        more = got["lz4 alone"]["ratio"] if codec == "lz4" else 1
        values = {**{name: speed[name] for name in limits}, "slower": min(speed[name] for name in limits),
                  "write": speed["write"] * more, "packed": speed[packed], "in memory": speed[memory]}
        ctx.row("files of %s, %s" % (label, codec), "MB/s", values, of="packed", to="slower", better="higher", target=0.8,
                note="peak memory %.0f MiB" % got[packed]["rss"])


def run(ctx):
    names = ["read", "lz4 alone", "write", "raw packed", "lz4 packed", "raw in memory", "lz4 in memory"]
    for label, (size, count) in SETS.items():
        source = Source(ctx, size, max(count // 10, 2) if ctx.quick else count)
        try:
            sides = [Side(name, source.top) for name in names]
            rows(ctx, label, source, ctx.interleave(sides, source.measure, rounds=1 if ctx.quick else 3))
        finally:
            shutil.rmtree(source.memory, ignore_errors=True)
        shutil.rmtree(source.top)
