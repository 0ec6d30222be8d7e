# SPDX-License-Identifier: BSD-3-Clause
"""Warm local files next to the file system below: stat, whole files, readdir."""
from fsb.core import make_files

SETS = {"4 KiB": (4096, 10000, 3, None), "128 KiB": (131072, 1500, 1.35, None)}


def run(ctx):
    for label, (size, count, target, _) in SETS.items():
        source = ctx.dir("source-%d" % size)
        make_files(source, size, count // 10 if ctx.quick else count)
        dataset = ctx.pack(source, "d%d" % size)
        sides = ctx.peers(lambda: ctx.plain(source), lambda: ctx.library(dataset), lambda: ctx.nodes(dataset, 1),
                          lambda: ctx.nodes(dataset, 2))

        def one(side, number):
            return side.run([ctx.tool("fsbench"), "-c", "-p", 1 if ctx.quick else 3, "-s", number + 1, side.directory])

        got = ctx.interleave(sides, one)
        for op, title in (("stat", "stat"), ("read", "open+fstat+read+close"), ("readdir", "readdir, a name")):
            ctx.row("%s, %s" % (title, label), "us", {n: v[op] / 1000 for n, v in got.items()},
                    to=sides[0].name, target=target if op == "read" else None)
