# SPDX-License-Identifier: BSD-3-Clause
"""mdtest and ior, where they are installed: trees that they made on the plain directory, and the phases that only read, since a
mount is read-only. (mdtest opens files for writing also when it reads them, so that only its stat phase is left.)"""
import os
import re
import shutil

from fsb.peers import Side, call

# As root, Open MPI wants to be asked for it.
ROOT = {"OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1"}


def output(side, argv):
    return call(side.command(argv), env={**side.environment(), **ROOT}, timeout=300)


def sides_of(ctx, source, name):
    dataset = ctx.pack(source, name)
    return ctx.peers(lambda: ctx.plain(source), lambda: ctx.library(dataset), lambda: ctx.nodes(dataset, 1))


def mdtest(ctx):
    source, options = ctx.dir("mdtest"), ["-F", "-n", "500" if ctx.quick else "20000"]
    output(Side("", source), ["mdtest", "-C", *options, "-d", source])

    def timed(side, number):
        printed = output(side, ["mdtest", "-T", "-R", "--random-seed=%d" % (number + 1), *options, "-i", "3", "-d", side.directory])
        return {"rate": float(re.search(r"File stat +([0-9.]+)", printed).group(1)) / 1000}

    got = ctx.interleave(sides_of(ctx, source, "mdtest"), timed, min(ctx.rounds, 3))
    ctx.row("mdtest, file stat, random order", "10^3/s", {n: v["rate"] for n, v in got.items()}, better="higher")


def ior(ctx):
    source, megabytes = ctx.dir("ior"), 16 if ctx.quick else 512
    output(Side("", source), ["ior", "-w", "-k", "-b", "%dm" % megabytes, "-t", "1m", "-o", os.path.join(source, "file")])
    sides = sides_of(ctx, source, "ior")
    for step in (4, 128):
        def timed(side, number):
            printed = output(side, ["ior", "-r", "-k", "-E", "-z", "-b", "%dm" % megabytes, "-t", "%dk" % step, "-i", "3",
                                    "-o", os.path.join(side.directory, "file")])
            return {"rate": float(re.search(r"^read +([0-9.]+)", printed.split("Max(MiB)")[1], re.M).group(1))}

        got = ctx.interleave(sides, timed, min(ctx.rounds, 3))
        ctx.row("ior, read, random, %d KiB" % step, "MiB/s", {n: v["rate"] for n, v in got.items()}, better="higher")


def run(ctx):
    for name, function in (("mdtest", mdtest), ("ior", ior)):
        if shutil.which(name):
            function(ctx)
        else:
            ctx.skip(name, "not installed (no Debian package has it)")
