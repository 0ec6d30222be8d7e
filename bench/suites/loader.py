# SPDX-License-Identifier: BSD-3-Clause
"""An input pipeline as training has it: torchvision's ImageFolder and a DataLoader on 20,000 JPEG files of about 110 KB,
images/s and what a simulated accelerator waits for (bench/epoch.py)."""
import os
import subprocess
import sys

from fsb.peers import Failed

HERE = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
RATES = (("bytes 2", "bytes, 2 workers"), ("bytes 0", "bytes, no worker"), ("first", "bytes, 2 workers, first read"),
         ("cold", "bytes, 2 workers, cold"), ("cold early", "bytes, 2 workers, cold, first 2,048"), ("decode 2", "decoded, 2 workers"), ("decode 0", "decoded, no worker"))
STEPS = (("steps", "bytes, 50 ms a step"), ("steps first", "bytes, 50 ms a step, first read"),
         ("steps 8", "bytes, 6.25 ms a step"), ("steps decode", "decoded, 50 ms a step"))
AHEAD = "2, ahead"  # two nodes with --prefetch
QUICK = ("--count", "256", "--decode", "256", "--compute", "0.01")


def missing():
    """Why the suite cannot be run here, or nothing."""
    done = subprocess.run([sys.executable, "-c", "import numpy, PIL, torch, torchvision"], stderr=subprocess.PIPE, text=True,
                          check=False)
    return done.stderr.strip().splitlines()[-1] if done.returncode else None


def ahead(ctx, dataset):
    side = ctx.nodes(dataset, 2, ["--prefetch", "torch,idle"])
    side.name = AHEAD
    return side


def sides(ctx, source, dataset):
    """The sides, and for each what holds the bytes of its files."""
    of_nodes = {"%d node%s" % (n, "s" * (n > 1)): n for n in ((2,) if ctx.quick else (1, 2, 4))}
    makers = [lambda: ctx.plain(source)]
    if not ctx.quick:
        makers += [lambda: ctx.squashfs(source), lambda: ctx.squashfuse(source)]
    makers += [lambda n=n: ctx.nodes(dataset, n) for n in of_nodes.values()]
    of_nodes[AHEAD] = 2
    makers.append(lambda: ahead(ctx, dataset))
    all_of_them = ctx.peers(*makers)
    storage = {}
    for side in all_of_them:
        if side.name in of_nodes:
            storage[side.name] = os.path.join(ctx.dir("local"), "%s-%d" % (os.path.basename(dataset), of_nodes[side.name]))
        else:
            storage[side.name] = ctx.image(source) if side.name.startswith("squash") else source
    return all_of_them, storage


def flat(result, number):
    """What the program printed as numbers, and as strings what must be the same on all sides."""
    got = {}
    for key, value in result.items():
        if key == "sums":
            got.update({"sum of %s, round %d" % (name, number): str(total) for name, total in value.items()})
        elif isinstance(value, dict):
            got.update({"%s: %s" % (key, name): one for name, one in value.items()})
        else:
            got[key] = value
    return got


def rows(ctx, got):
    def values(key, scale=1):
        return {name: one[key] * scale for name, one in got.items() if key in one}

    ctx.row("listing of all files", "ms", values("listing", 1000))
    for key, title in RATES:
        if values(key):
            ctx.row(title, "images/s", values(key), better="higher")
    for key, title in STEPS:
        ctx.row(title + ": accelerator's use", "%", values(key + ": use", 100), better="higher")
        ctx.row(title + ": stalls", "of %d steps" % next(iter(got.values()))[key + ": steps"], values(key + ": stalls"))
        ctx.row(title + ": waited", "ms an epoch", values(key + ": wait", 1000))
    for title, chosen in (("bytes", RATES[:5]), ("decoded", RATES[5:])):
        ctx.plot("loader-" + title, "bars", "ImageFolder and DataLoader, JPEG of 110 KB, " + title,
                 {label.split(", ", 1)[1]: values(key) for key, label in chosen if values(key)}, ylabel="images/s")
    ctx.plot("loader-steps", "bars", "Simulated training, batches of 64: use of the accelerator",
             {label: values(key + ": use", 100) for key, label in STEPS}, ylabel="%")
    ctx.plot("loader-stalls", "bars", "Simulated training, batches of 64: steps that waited more than 1 ms",
             {label: {name: 100 * one[key + ": stalls"] / one[key + ": steps"] for name, one in got.items()}
              for key, label in STEPS}, ylabel="% of the steps")


def run(ctx):
    why = missing()
    if why:
        ctx.skip("all", why)
        return
    from fsb import jpegs  # pylint: disable=import-outside-toplevel
    source = ctx.dir("images")
    jpegs.make(source, 400 if ctx.quick else 20000)
    dataset = ctx.pack(source, "images")
    all_of_them, storage = sides(ctx, source, dataset)

    def program(side, number, *options):
        return side.run([sys.executable, os.path.join(HERE, "epoch.py"), "--seed", number + 1, "--storage",
                         storage[side.name], *options, side.directory])

    def cold(side, number):
        result = program(side, number, "--cold")
        if result["resident"] > 0.01:
            raise Failed("%s: %.1f %% was still in memory" % (side.name, 100 * result["resident"]))
        return flat(result, number)

    def warm(side, number):
        return flat(program(side, number, *(QUICK if ctx.quick else ())), number)

    got = ctx.interleave(all_of_them, warm, None if ctx.quick else min(ctx.rounds, 3))
    if os.geteuid() == 0 and not ctx.quick:
        # --prefetch idle reads partitions before the epoch begins: nothing would be cold
        chosen = [side for side in all_of_them if side.name != AHEAD]
        for name, result in ctx.interleave(chosen, cold, min(ctx.rounds, 2)).items():
            got[name].update({key: result[key] for key in ("cold", "cold early")})
    elif not ctx.quick:
        ctx.skip("cold", "only root can empty the kernel's caches")
    rows(ctx, got)
