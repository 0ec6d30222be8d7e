# SPDX-License-Identifier: BSD-3-Clause
"""A dataset of ImageNet's number of files, from the source to the last read: pack, a job on four emulated nodes, find, and
one epoch in which each node's program reads its quarter; time and memory of each step, for two numbers of files."""
import json
import os
import sys
import tempfile
import time

from fsb.jobs import ROOT, timed
from fsb.peers import Failed, Missing, Side, call

COUNTS = (130000, 1300000)
DIRECTORIES, SIZE, NODES = 1000, 4096, 4
MEMORY = "/dev/shm"  # for the source: a disk with discards takes a minute to remove 100,000 files
LIMIT = 300  # seconds for all steps with the largest number of files


def room(ctx, count):
    """For the source in memory, the nodes' caches, and on the disk the dataset and the nodes' copies."""
    with open("/proc/meminfo") as f:
        free = next(int(line.split()[1]) * 1024 for line in f if line.startswith("MemAvailable"))
    disk, memory = os.statvfs(ctx.work), os.statvfs(MEMORY)
    if disk.f_bavail * disk.f_frsize < 3 * count * SIZE:
        raise Missing("not enough room in %s" % ctx.work)
    if min(memory.f_bavail * memory.f_frsize, free - NODES * (1 << 30)) < count * (SIZE + 2048):
        raise Missing("not enough room in %s, or not enough memory" % MEMORY)


def same(count, plain, job):
    """Both sides have seen every file, and the same bytes."""
    for name in ("find", "epoch"):
        seen = {key: [side[name].get(key) for side in (plain, job)] for key in ("files", "bytes", "sum", "listed")}
        if any(a != b for a, b in seen.values()) or seen["files"][0] != count:
            raise Failed("%s of %d files: plain directory and mount differ: %s" % (name, count, seen))
    if job["daemons"][0]["n"] != NODES:
        raise Failed("%d daemons" % job["daemons"][0]["n"])


def all_steps(ctx, count):
    """Each step's figures; a plain tmpfs's of find and the epoch."""
    room(ctx, count)
    top = tempfile.mkdtemp(prefix="fs-bench.", dir=MEMORY)
    ctx.undo(lambda: call(["rm", "-rf", top]))
    source, began = os.path.join(top, "source"), time.monotonic()
    call([ctx.tool("makefiles"), "-i", "-d", str(-(-count // DIRECTORIES)), source, str(count), str(SIZE)])
    made = time.monotonic() - began
    os.sync()
    dataset = os.path.join(ctx.dir("datasets"), "scale")
    inside = [sys.executable, "-IS", os.path.join(ROOT, "bench/scale.py"), ctx.tool("share"), str(NODES)]
    plain = Side("tmpfs", source).run([*inside, source])
    pack = timed([ctx.bin("fs-prepare"), "pack", source, dataset])
    node = ctx.nodes(dataset, NODES)
    began = time.time()
    job = node.run([*inside, node.directory])
    ended = time.time()
    same(count, plain, job)
    return {"made": made, "plain": plain, "pack": pack, "job": job, "launch": job["start"] - began,
            "end": ended - job["end"], "index": os.path.getsize(os.path.join(dataset, "index"))}


def whole(g):
    return g["pack"]["s"] + g["launch"] + g["job"]["find"]["s"] + g["job"]["epoch"]["s"] + g["end"]


def own(side):
    """MiB of a reading program that no other process shares, with its page tables."""
    return side["epoch"]["anon"] + side["epoch"]["tables"]


def of_step(step, i):
    """The rows of find and the epoch. The daemons were looked at before it (i) and after it."""
    return [
        (step, "s", lambda n, g: g["job"][step]["s"]),
        (step + ", the same on tmpfs", "s", lambda n, g: g["plain"][step]["s"]),
        (step, "files/s", lambda n, g: n / g["job"][step]["s"]),
        (step + ", processor: programs", "s", lambda n, g: g["job"][step]["cpu"]),
        (step + ", processor: daemons", "s", lambda n, g: g["job"]["daemons"][i + 1]["cpu"] - g["job"]["daemons"][i]["cpu"]),
        (step + ", processor: programs on tmpfs", "s", lambda n, g: g["plain"][step]["cpu"]),
        (step + ", peak of a program", "MiB", lambda n, g: g["job"][step]["peak"]),
        (step + ", peak of a program on tmpfs", "MiB", lambda n, g: g["plain"][step]["peak"]),
        (step + ", peak of a daemon", "MiB", lambda n, g: g["job"]["daemons"][i + 1]["VmHWM"])]


ROWS = [
    ("all steps", "s", lambda n, g: whole(g)),
    ("pack", "s", lambda n, g: g["pack"]["s"]),
    ("pack", "files/s", lambda n, g: n / g["pack"]["s"]),
    ("pack, processor", "s", lambda n, g: g["pack"]["cpu"]),
    ("pack, peak", "MiB", lambda n, g: g["pack"]["rss"]),
    ("launch until COMMAND runs", "s", lambda n, g: g["launch"]),
    ("launch, processor: daemons", "s", lambda n, g: g["job"]["daemons"][0]["cpu"]),
    ("launch, peak of fs-launch", "MiB", lambda n, g: g["job"]["launcher"]),
    ("launch, peak of a daemon", "MiB", lambda n, g: g["job"]["daemons"][0]["VmHWM"]),
    *of_step("find", 0),
    *of_step("epoch", 1),
    ("end of the job", "s", lambda n, g: g["end"]),
    ("index", "MiB", lambda n, g: g["index"] / 2**20),
    ("a daemon's own memory: launched", "MiB", lambda n, g: g["job"]["daemons"][0]["own"]),
    ("a daemon's own memory: after the epoch", "MiB", lambda n, g: g["job"]["daemons"][2]["own"]),
    ("a program's own memory, less that on tmpfs", "MiB", lambda n, g: own(g["job"]) - own(g["plain"])),
    ("making the source, in no sum", "s", lambda n, g: g["made"])]


def rows(ctx, got):
    for what, unit, of in ROWS:
        values = {"{:,}".format(count): of(count, g) for count, g in got.items()}
        if unit == "MiB" and len(got) > 1 and not what.startswith(("find", "epoch")):  # what is mapped is no cost of a file
            (few, a), (many, b) = min(got.items()), max(got.items())
            values["B a file"] = (of(many, b) - of(few, a)) * 2**20 / (many - few)
        ctx.row(what, unit, values, of="", to="")


def run(ctx):
    chosen = os.environ.get("FS_SCALE")
    counts = [int(n) for n in chosen.split(",")] if chosen else [n // 100 if ctx.quick else n for n in COUNTS]
    got = {}
    for count in counts:
        try:
            got[count] = all_steps(ctx, count)
            ctx.say("%d files: %.0f s" % (count, whole(got[count])))
        except Missing as e:
            ctx.skip("%d files" % count, str(e))
        ctx.clear()
    rows(ctx, got)
    if max(counts) in got:
        ctx.bound("all steps of %d files" % max(counts), "s", whole(got[max(counts)]), LIMIT)
