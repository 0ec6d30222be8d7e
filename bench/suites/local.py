# SPDX-License-Identifier: BSD-3-Clause
"""Whole files, warm and local, next to other file systems and to a plain memcpy of the same bytes: the first pass of a
worker that was just forked, as a DataLoader's are; the library alone; then again and again by one process. pread at random
in a large file."""
from fsb.jobs import staged

# label: bytes, files, at least so many times as fast as ext4
SETS = {"4 KiB": (4096, 10000, 3), "128 KiB": (131072, 1500, 1.35), "1 MiB": (1 << 20, 200, 1), "8 MiB": (8 << 20, 25, 1)}
# the same for the first pass of a worker that was just forked
FORKED = {"4 KiB": 1.5, "128 KiB": 1.2, "1 MiB": 1.1, "8 MiB": 1}
WHOLE = "open+fstat+read+close, "


def one_set(ctx, label, size, count, target):
    source = ctx.files("source-%d" % size, max(count // 10, 4) if ctx.quick else count, size)
    dataset = ctx.pack(source, "d%d" % size)
    makers = [lambda: ctx.plain(source), lambda: ctx.library(dataset), lambda: ctx.nodes(dataset, 1)]
    if size <= 131072:
        makers += [lambda: ctx.nodes(dataset, 2), lambda: ctx.tmpfs(source), lambda: ctx.squashfs(source),
                   lambda: ctx.squashfuse(source)]
    sides = ctx.peers(*makers) + [ctx.limit("memcpy", source)]

    def timed(side, number):
        if side.name == "memcpy":
            got = ctx.fsbench(side, number, "memcpy,memcpy_aligned", "-c")
            four = ctx.fsbench(side, number, "memcpy", "-j", 4)
            return {**got, "read": got["memcpy"], "aligned": got["memcpy_aligned"], "four": four["memcpy"]}
        got = ctx.fsbench(side, number, "read,aligned,child", "-c")
        return {**got, "four": ctx.fsbench(side, number, "read", "-j", 4)["read"]}

    got = ctx.interleave(sides, timed)
    ctx.row(WHOLE + label + ", forked worker", "us", {n: v["child"] for n, v in got.items() if "child" in v},
            target=FORKED[label])
    ctx.row(WHOLE + label + ", library alone", "us", {n: v["read"] for n, v in got.items()}, of="library")
    for key, what in (("read", label), ("aligned", label + ", page-aligned"), ("four", label + ", 4 at once")):
        values = {name: v[key] for name, v in got.items()}
        ctx.row(WHOLE + what, "us", values, target=target)
        if size >= 131072:
            ctx.row(WHOLE + what, "us", values, to="memcpy", target=0.9)
    return {name: v["read"] for name, v in got.items()}


def large(ctx):
    size = (64 << 20) if ctx.quick else (4 << 30)
    source = ctx.files("large", 1, size)
    dataset = ctx.pack(source, "large", partitions=1)
    sides = ctx.peers(lambda: ctx.plain(source), lambda: ctx.library(dataset), lambda: ctx.nodes(dataset, 1))
    part, limit = staged(ctx, dataset, sides[-1])[0], ctx.limit("mapping", source)

    def timed(side, number):
        if side is limit:
            return side.run([ctx.tool("limit_map"), "-c", 4096, 100000, number + 1, part])
        return ctx.fsbench(side, number, "pread", "-c")

    got = ctx.interleave([*sides, limit], timed, min(ctx.rounds, 3))
    maps = got.pop("mapping")
    took = {n: v["pread"] for n, v in got.items()}
    what = "pread 4 KiB of %d MiB" % (size >> 20)
    ctx.row(what + ", library alone", "us", took, of="library")
    ctx.row(what, "us", took, target=1.8)
    ctx.row(what + ", and memcpy out of a mapping", "us", {**took, "each alone": maps["calls"] / 1000,
                                                          "overlapping": maps["copies"] / 1000}, to="each alone")


def run(ctx):
    plot = {}
    for label, (size, count, target) in SETS.items():
        for name, us in one_set(ctx, label, size, count, target).items():
            plot.setdefault(name, []).append((size, us))
        ctx.clear()
    large(ctx)
    ctx.plot("local", "lines", "Whole files, warm: open+fstat+read+close", plot, xlabel="bytes a file", ylabel="us", logx=True,
             logy=True)
