# SPDX-License-Identifier: BSD-3-Clause
"""What --verify always costs: raw files that this node has staged, all in memory, the first time that a process reads each and
after that, next to the default (remote)."""
from fsb.jobs import files, read
from fsb.peers import Side

SETS = {"4 KiB": (4096, 20000), "128 KiB": (131072, 1500), "1 MiB": (1 << 20, 200)}


def run(ctx):
    for label, (size, count) in SETS.items():
        source, listed = files(ctx, str(size), size, count // 10 if ctx.quick else count)
        dataset = ctx.pack(source, "d%d" % size)
        sides = []
        for which in ("remote", "always", "never"):
            node = ctx.nodes(dataset, 1, ("--verify", which))
            sides.append(Side(which, node.directory, node.prefix))
        sides[0].run(["true"])  # stages
        read(ctx, sides[0], listed, "-v", source)

        def one(side, number):
            return read(ctx, side, listed, "-s", number + 1, "-p", 4, "-c")

        got = ctx.interleave(sides, one)
        for key, what in (("first", "first read"), ("again", "read again")):
            ctx.row("%s, %s" % (label, what), "us", {name: v[key] / 1000 for name, v in got.items()}, of="always",
                    to="remote")
