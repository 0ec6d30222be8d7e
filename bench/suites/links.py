# SPDX-License-Identifier: BSD-3-Clause
"""A DataLoader's first epoch on two hosts, over links of 1 and 10 Gbit/s, without and with --prefetch: how many of the reads of
the other host's files waited for it, and how long the steps of a simulated accelerator waited for their batches."""
import json
import os
import subprocess
import sys

from fsb.jobs import Hosts
from fsb.peers import Missing, Side

RATES = ("1gbit", "10gbit")
SIDES = {"plain": (), "torch": ("--prefetch", "torch"), "idle": ("--prefetch", "idle"), "both": ("--prefetch", "torch,idle")}
FILES, SIZE = 3000, 110000
PROGRAM = os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "steps.py")


def run(ctx):
    if subprocess.run([sys.executable, "-c", "import torch"], stderr=subprocess.DEVNULL, check=False).returncode:
        ctx.skip("all", "no torch")
        return
    source = ctx.files("source", 300 if ctx.quick else FILES, SIZE)
    dataset = ctx.pack(source, "links")
    for rate in RATES[-1:] if ctx.quick else RATES:
        try:
            hosts = Hosts(ctx, rate)
        except Missing as e:
            ctx.skip(rate, str(e))
            continue
        report = os.path.join(ctx.work, "report.json")

        def one(side, number, workers, report=report):
            got = side.run([sys.executable, PROGRAM, side.directory, number + 1, workers])
            with open(report, encoding="ascii") as f:
                node = json.load(f)["nodes"][0]
            other = node["files_cache"] + node["files_remote"]
            return {**got, "waited": 100 * node["files_remote"] / max(other, 1)}

        sides = []
        for name, extra in SIDES.items():
            if ctx.quick and name not in ("plain", "both"):
                continue
            side = hosts.nodes(dataset, ("--report", report, *extra))
            side.name = name
            sides.append(side)
        Side("staging", "", sides[0].prefix).run(["true"])
        for workers in (2, 0):
            got = ctx.interleave(sides, lambda side, number, w=workers, one=one: one(side, number, w))
            where = "%s Gbit/s, %d workers, " % (rate[:-4], workers)
            for key, what, unit in (("waited", "reads that waited", "% of the other host's files"),
                                    ("stalls", "stalls", "% of the steps"), ("wait", "steps waited", "ms an epoch"),
                                    ("seconds", "the epoch", "s")):
                ctx.row(where + what, unit, {n: v[key] for n, v in got.items()}, of="both", to="plain")
        hosts.remove()
