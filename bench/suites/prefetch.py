# SPDX-License-Identifier: BSD-3-Clause
"""A reader that computes 1 ms after each file, on files of the other node, hinted ahead; next to this node's own files, and to
MPI alone for such a reader."""
from fsb.jobs import files, mpi_here, read

SETS = {"4 KiB": (4096, 1200), "128 KiB": (131072, 1200), "2 MiB": (2 << 20, 200)}
WAYS = {"local": ("-x", "local"), "no hints": ("-x", "remote"), "fadvise": ("-x", "remote", "-a", 32),
        "prefetch": ("-x", "remote", "-a", 1000000, "-A")}


class Way:
    """The same job, read in one of the ways."""

    def __init__(self, name, options):
        self.name, self.options = name, options


def run(ctx):
    for label, (size, count) in SETS.items():
        source, listed = files(ctx, str(size), size, count // 4 if ctx.quick else count)
        node = ctx.nodes(ctx.pack(source, "d%d" % size), 2, ("--cache", "1G"))
        node.run(["true"])
        limit = mpi_here()

        def one(way, number):
            if way is limit:
                return limit.run([ctx.tool("limit_ahead"), size, count // (8 if ctx.quick else 2), 1000])
            check = ["-v", source] if number == 0 else []
            return read(ctx, node, listed, "-s", number + 1, "-w", 1000, *way.options, *check)

        got = ctx.interleave([*(Way(*way) for way in WAYS.items()), limit], one)
        times = {name: values["first"] / 1000 for name, values in got.items()}
        note = "MPI alone: %.2fx local" % (times["local"] / times["MPI"])
        for way, title in ("fadvise", "posix_fadvise 32 ahead"), ("prefetch", "fanstore_prefetch"):
            ctx.row("%s, 1 ms a file, %s" % (label, title), "us", times, of=way, to="local", target=0.9, note=note)
