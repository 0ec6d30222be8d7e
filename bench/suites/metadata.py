# SPDX-License-Identifier: BSD-3-Clause
"""Names and attributes, warm: stat in random order of trees of three sizes, one process and four; listings of one large
directory, of a dataset and of outputs; bytes of the index."""
import os
import sys

COUNTS = {10000: 4, 100000: 4, 1000000: 3}  # files: how many times as fast as ext4


def stat(ctx, count, target, plot):
    source = ctx.files("tree-%d" % count, count, 0, per_directory=500 if count <= 100000 else 2000)
    dataset = ctx.pack(source, "t%d" % count)
    makers = [lambda: ctx.plain(source), lambda: ctx.library(dataset), lambda: ctx.nodes(dataset, 1)]
    if count <= 100000:  # copies of a million files take minutes
        makers += [lambda: ctx.tmpfs(source), lambda: ctx.squashfs(source), lambda: ctx.squashfuse(source)]
    sides = ctx.peers(*makers)
    index, limit = os.path.join(dataset, "index"), ctx.limit("index", source)

    def timed(side, number):
        if side is limit:
            return side.run([ctx.tool("limit_index"), "-c", index, number + 1])
        one, four = (ctx.fsbench(side, number, "stat", *how, "-p", 3) for how in (["-c"], ["-j", 4]))
        return {"one": one["stat"], "four": four["stat"], "sum": one["sum"], "sum of four": four["sum"]}

    got = ctx.interleave([*sides, limit], timed, ctx.rounds if count <= 100000 else min(ctx.rounds, 2))
    alone = {name: ns / 1000 for name, ns in got.pop("index").items()}
    for key, what in (("one", "stat, %d files"), ("four", "stat, %d files, 4 at once")):
        ctx.row(what % count, "us", {n: v[key] for n, v in got.items()}, target=target)
    ctx.row("stat, %d files, and what it touches" % count, "us", {**{n: v["one"] for n, v in got.items()}, **alone}, to="touches")
    for name, v in got.items():
        plot.setdefault(name, []).append((count, v["one"]))
    size = os.path.getsize(index)
    ctx.bound("index of %d files, a file less its name" % count, "bytes", size / count - len("file0000000"), 96)


def listings(ctx):
    count = 5000 if ctx.quick else 100000
    source = ctx.files("flat", count, 0, per_directory=0)
    dataset = ctx.pack(source, "flat")
    sides = ctx.peers(lambda: ctx.plain(source), lambda: ctx.library(dataset), lambda: ctx.nodes(dataset, 1),
                      lambda: ctx.tmpfs(source), lambda: ctx.squashfs(source), lambda: ctx.squashfuse(source))
    commands = {"ls -l": ["ls", "-l"], "ls": ["ls"], "find -type f": ["find"]}

    def timed(side, number):
        got = ctx.fsbench(side, number, "readdir", "-c")
        for name, command in commands.items():
            if name == "ls -l" and side.name == "squashfuse" and not ctx.quick:
                continue  # a round trip for each attribute: a quarter of a minute
            after = ["-type", "f"] if name.startswith("find") else []
            done = side.run(["env", "LC_ALL=C", ctx.tool("repeat"), "-n", 3, *command, side.directory, *after])
            got[name] = done["us"] / 1000
        return got

    got = ctx.interleave(sides, timed, min(ctx.rounds, 3))
    what = " of a directory of %d" % count
    ctx.row("readdir" + what + ", a name", "us", {n: v["readdir"] for n, v in got.items()}, target=3)
    for name in commands:
        ctx.row(name + what, "ms", {n: v[name] for n, v in got.items() if name in v}, target=3 if name == "ls -l" else None)


def outputs(ctx):
    """Each side makes the files and lists them; with 2 nodes, the other node lists them."""
    count = 2000 if ctx.quick else 100000
    dataset = ctx.pack(ctx.files("few", 10, 10), "few")
    script = os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "outputlist.py")
    sides = [ctx.plain(ctx.dir("listed")), ctx.nodes(dataset, 1, ["--discard"]), ctx.nodes(dataset, 2, ["--discard"])]

    def timed(side, number):
        there = os.path.join(side.directory, "round%d" % number)
        other = ["1"] if side.name == "2 nodes" else []
        return side.run([sys.executable, script, there, count, os.path.join(ctx.build, "bench"), *other])

    got = ctx.interleave(sides, timed, min(ctx.rounds, 3))
    what = " of a directory of %d outputs" % count
    ctx.row("readdir" + what + ", a name", "us", {n: v["readdir"] / 1000 for n, v in got.items()})
    for of in ("1 node", "2 nodes"):
        ctx.row("ls -l%s, %s" % (what, of), "ms", {n: v["ls -l"] for n, v in got.items()}, of=of)
    ctx.row("ls" + what, "ms", {n: v["ls"] for n, v in got.items()})


def blocks(ctx, count=1000, each=4):
    """Files of more than one block have a record for each in the index."""
    source = ctx.dir("blocks")
    for i in range(count):
        with open(os.path.join(source, "file%07d" % i), "wb") as f:
            f.write(b"%d" % i)  # no two are alike
            f.truncate(each << 18)
    size = os.path.getsize(os.path.join(ctx.pack(source, "blocks", codec="lz4"), "index"))
    ctx.row("index, files of %d blocks, a file less its name" % each, "bytes", {"measured": size / count - len("file0000000")},
            note="%d of them are its blocks'" % (24 * each))


def run(ctx):
    plot = {}
    blocks(ctx)
    ctx.clear()
    listings(ctx)
    ctx.clear()
    outputs(ctx)
    ctx.clear()
    for count, target in COUNTS.items():
        stat(ctx, count // 100 if ctx.quick else count, target, plot)
        ctx.clear()
    ctx.plot("stat", "lines", "stat, warm, random order", plot, xlabel="files", ylabel="us", logx=True, logy=True)
