# SPDX-License-Identifier: BSD-3-Clause
"""fs-launch on four emulated nodes that have their partitions: until COMMAND starts, and until fs-launch ends."""
import subprocess
import time

from fsb.jobs import files, mpirun
from fsb.peers import Side


def start_and_end(side, number):
    """COMMAND is `date`: the time at which it ran is the time of the start."""
    del number
    began = time.time()
    done = subprocess.run(side.command(["date", "+%s.%N"]), env=side.environment(), stdin=subprocess.DEVNULL,
                          stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, check=True, timeout=60)
    ended = time.time()
    return {"start": max(float(line) for line in done.stdout.split()) - began, "all": ended - began}


def run(ctx):
    source, _ = files(ctx, "launch", 16384, 2000 if ctx.quick else 20000)
    node = ctx.nodes(ctx.pack(source, "launch", partitions=16), 4)
    node.run(["true"])
    mpi = Side("mpirun", "", mpirun([])[:-1] + ["4"])
    got = ctx.interleave([node, mpi], start_and_end, rounds=3 if ctx.quick else 15)
    ctx.bound("COMMAND started, 4 emulated nodes", "s", got[node.name]["start"], 1)
    ctx.row("COMMAND started, and by mpirun -np 4", "s", {n: v["start"] for n, v in got.items()}, of=node.name, to=mpi.name)
    ctx.row("all over, and mpirun -np 4", "s", {n: v["all"] for n, v in got.items()}, of=node.name, to=mpi.name)
