# SPDX-License-Identifier: BSD-3-Clause
"""Files of the other of two nodes, each read once with nothing in the node's cache, next to MPI alone between the same two
nodes; then the same files again, out of the node's cache, next to this node's own."""
import sys

from fsb.jobs import Hosts, files, mpi_here, read
from fsb.peers import Missing

SETS = {"4 KiB": (4096, 24000), "128 KiB": (131072, 3000), "2 MiB": (2 << 20, 300)}
READERS = {"16 threads": ("-j", 16), "16 processes": ("-j", 16, "-P")}
CACHE = ("--cache", "1G")
NEW, LATER, USED = "new memory", "after 1 s", "memory in use"
RELAY, TOUCH = "waking relay", "touching"
# The program starts for a second before it reads, as Python with PyTorch does at least.
START = ["sh", "-c", 'ls "$0" >/dev/null && sleep 1 && exec "$@"']
# MiB/s at which one thread gets new memory from the kernel.
TOUCHING = """import mmap, time
n = 512 << 20
m = mmap.mmap(-1, n)
begin = time.perf_counter()
for at in range(0, n, 2 << 20):
    m.madvise(23, at, 2 << 20)  # MADV_POPULATE_WRITE
print('{"rate": %.1f}' % (n / 1e6 / (time.perf_counter() - begin)))"""


def mpi(ctx, side, size, count, window):
    return side.run([ctx.tool("limit_mpi"), size, count, window])


def remote(ctx, side, listed, source, number, *how):
    """The other node's files. side: by how the cache's memory is met; the first round compares all bytes."""
    how += ("-s", number + 1, "-x", "remote") + (("-v", source) if number == 0 else ())
    how += ("-u", 40) if side.name == USED else ()
    command = [ctx.tool("reader"), *how, side.directory, listed]
    return side.run([*START, side.directory, *command] if side.name == LATER else command)


def one_at_a_time(ctx, label, size, count, source, listed, nodes):
    """One client that waits for each file, and MPI's round trip: between two ranks, and for a process beside the first,
    which polls (relay) or sleeps and is woken (waking relay). nodes: by how the cache's memory is met. New memory has to be
    cleared by the kernel, and before that found by the host of a virtual machine, which takes longer than the rest."""
    limit = mpi_here()
    relays = {"relay": [], RELAY: ["-s"]}
    sides = [mpi_here() for _ in relays]
    for side, name in zip(sides, relays):
        side.name = name

    def one(side, number):
        if side is limit:
            return mpi(ctx, side, size, count // 2, 1)
        if side in sides:
            return side.run([ctx.tool("limit_relay"), *relays[side.name], size, count // 2])
        return remote(ctx, side, listed, source, number)

    got = ctx.interleave([*nodes.values(), limit, *sides], one)
    took = {n: v["median"] / 1000 for n, v in got.items()}
    for name, target in (USED, 0.6 if size > 1 << 20 else None), (LATER, None), (NEW, None):
        ctx.row("remote, %s, one at a time, %s" % (label, name), "us (median)", took, of=name, to="MPI", target=target)
    for name, target in ("relay", None), (RELAY, 0.8):
        ctx.row("remote, %s, one at a time, next to a %s" % (label, name), "us (median)", took, of=USED, to=name,
                target=target if size == 4096 else None)


def many(ctx, label, size, count, source, listed, nodes, limit, where, target):
    """16 readers, and 16 answers of MPI on their way. nodes: by how the cache's memory is met. Beside: 16 processes that a
    rank asks for (on this host only, where the clients are), and how fast new memory can be had at all."""
    relay, touch = mpi_here(), ctx.limit(TOUCH, source)
    relay.name = RELAY
    for title, readers in READERS.items():
        def one(side, number, how=readers):
            if side is limit:
                return mpi(ctx, side, size, count // 2, 16)
            if side is relay:
                return side.run([ctx.tool("limit_relay"), "-s", size, max(count // 32, 8), 16])
            if side is touch:
                return side.run([sys.executable, "-c", TOUCHING])
            return remote(ctx, side, listed, source, number, *how)

        got = ctx.interleave([*nodes.values(), limit, touch] + ([] if where else [relay]), one)
        rates = {n: v["rate"] if n == TOUCH else size / v["first"] * 1000 for n, v in got.items()}
        what = "remote, %s, %s%s, " % (label, title, where)
        for name, aim, note in ((USED, target[0], "files before the timed ones have filled the cache"),
                                (LATER, target[1], "the program starts for a second before it reads"), (NEW, None, "")):
            ctx.row(what + name, "MB/s", rates, of=name, to="MPI", better="higher", target=aim, note=note)
        if not where:
            ctx.row(what + "next to " + RELAY, "MB/s", rates, of=USED, to=RELAY, better="higher")
        if size > 4096:
            ctx.row(what + NEW + ", next to " + TOUCH, "MB/s", rates, of=NEW, to=TOUCH, better="higher")


def both(make, dataset, size, count):
    """Caches with room for all, whose memory is used for the first time, and one for a quarter, which fills beforehand."""
    nodes = {NEW: make(dataset, CACHE), LATER: make(dataset, CACHE), USED: make(dataset, ("--cache", str(size * count // 8)))}
    for name, side in nodes.items():
        side.name = name
    return nodes


def cache_hits(ctx, label, listed, node):
    """Blocks in the node's cache next to this node's own blocks: the later passes of the same program in one job each."""
    sides = {"cache": "remote", "local": "local"}

    def one(side, number):
        return {name: read(ctx, side, listed, "-s", number + 1, "-c", "-p", 20, "-x", place)["again"]
                for name, place in sides.items()}

    got = ctx.interleave([node], one)[node.name]
    ctx.row("node's cache, %s" % label, "us", {n: v / 1000 for n, v in got.items()}, of="cache", to="local", target=0.9)


def run(ctx):
    try:
        hosts = Hosts(ctx, "10gbit")
    except Missing as e:
        hosts = None
        ctx.skip("10 Gbit/s", str(e))
    for label, (size, count) in [("128 KiB", SETS["128 KiB"])] if ctx.quick else SETS.items():
        count = count // 10 if ctx.quick else count
        source, listed = files(ctx, str(size), size, count)
        dataset = ctx.pack(source, "d%d" % size)
        node = ctx.nodes(dataset, 2, CACHE)
        node.run(["true"])
        near = both(lambda d, extra: ctx.nodes(d, 2, extra), dataset, size, count)
        one_at_a_time(ctx, label, size, count, source, listed, near)
        cache_hits(ctx, label, listed, node)
        many(ctx, label, size, count, source, listed, near, mpi_here(), "", (0.6, None) if size == 4096 else (0.75, 0.6))
        if hosts and size > 4096:
            far = both(hosts.nodes, dataset, size, count)
            far[NEW].run(["true"])
            many(ctx, label, size, count, source, listed, far, hosts.mpi(), ", 10 Gbit/s", (0.9, 0.9))
            hosts.remove()
