# SPDX-License-Identifier: BSD-3-Clause
"""pack --codec auto on the data of kinds.py: how small it makes each kind next to lz4hc, SquashFS and tar, how fast it packs next
to mksquashfs, tar and cp, and how fast what it packed is read by two hosts over links of 1, 2.5 and 10 Gbit/s next to raw. 2.5
Gbit/s is what one of four readers has of a link of 10: `--decode-budget` allows for that by default."""
import json
import os
import shutil
import subprocess
import sys
import time

from fsb.jobs import Hosts, read
from fsb.peers import Failed, Missing, Side, call, need

HERE = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
# How many times smaller than lz4hc:9 auto must be (small text), and than the plain bytes (the kinds of FanStore's paper).
THAN_LZ4HC = {"json": 1.5, "csv": 1.5, "notes": 1.5}
# What is compressed already can only stay as large as it is, and two thirds of the bits of field64 look like noise.
THAN_PLAIN = {"json": 2, "csv": 2, "notes": 2, "text": 2, "source": 2, "level32": 2, "field32": 2, "count16": 2, "int32": 2,
              "hdf5": 2, "sparse16": 8, "field64": 1.4, "png": 1, "jpeg": 1}
BUDGETS = {"auto, 10%": ("--decode-budget", "10%"), "auto, 2GB/s": ("--decode-budget", "2GB/s"), "auto": (),
           "auto, 1000%": ("--decode-budget", "1000%")}
LINKED = ("json", "source", "text", "level32", "field32")
LINKS = {"1gbit": 125, "1gbit:2500": 125, "2.5gbit": 312.5, "10gbit": 1250}  # MB/s
ALWAYS = 125  # two processors can fill this link, so auto has its target whatever raw reads use of it
LIMITS = 0.8  # of a faster link, raw reads that use so much have it as their limit; else nothing is shown, and there is no target


def bytes_below(top):
    return sum(os.path.getsize(os.path.join(d, n)) for d, _, names in os.walk(top) for n in names)


def info(ctx, dataset):
    return json.loads(call([ctx.bin("fs-prepare"), "info", "--json", dataset]))


def squashed(ctx, source, *options):
    path = os.path.join(ctx.work, "image.sqfs")
    call(["mksquashfs", source, path, "-b", "256K", "-noappend", "-no-progress", "-quiet", *options])
    return os.path.getsize(path)


def sizes(ctx, top, kinds):
    for kind in kinds:
        source = os.path.join(top, kind)
        plain = bytes_below(source)
        archive = os.path.join(ctx.work, "kind.tar")
        call(["tar", "-cf", archive, "-C", source, "."])
        smaller = {"tar": plain / os.path.getsize(archive)}
        for name, extra in {"lz4hc:9": ("--codec", "lz4hc:9"), **BUDGETS}.items():
            smaller[name] = plain / info(ctx, ctx.pack(source, "kind", codec="auto", extra=extra))["stored_bytes"]
        try:
            need("mksquashfs")
            smaller["squashfs, lz4 -Xhc"] = plain / squashed(ctx, source, "-comp", "lz4", "-Xhc")
            smaller["squashfs, zstd 6"] = plain / squashed(ctx, source, "-comp", "zstd", "-Xcompression-level", "6")
        except Missing as e:
            ctx.skip(kind + ", squashfs", str(e))
        ctx.row(kind + ", times smaller than plain", "", smaller, of="auto", to="lz4hc:9", better="higher",
                target=THAN_LZ4HC.get(kind))
        for to in ("squashfs, lz4 -Xhc", "squashfs, zstd 6"):
            ctx.row(kind + ", times smaller than plain", "", smaller, of="auto, 2GB/s" if "lz4" in to else "auto", to=to, better="higher")
        if kind in THAN_PLAIN:
            ctx.row(kind + ", auto next to plain", "", {"plain": 1, "auto": smaller["auto"]}, of="auto", to="plain",
                    better="higher", target=THAN_PLAIN[kind])


def list_files(source, listed):
    names = sorted(os.path.relpath(os.path.join(d, n), source) for d, _, found in os.walk(source) for n in found)
    with open(listed, "w", encoding="ascii") as f:
        f.write("".join(n + "\n" for n in names))
    return names


def packers(ctx, top):
    """The commands that store the tree; each writes to ctx.work/stored."""
    out = os.path.join(ctx.work, "stored")
    squash = ["mksquashfs", top, out, "-b", "256K", "-noappend", "-no-progress", "-quiet", "-comp"]
    prepare = [ctx.bin("fs-prepare"), "pack", "--codec"]
    found = {"auto": [*prepare, "auto", top, out], "lz4": [*prepare, "lz4", top, out], "zstd:6": [*prepare, "zstd:6", top, out],
             "tar": ["tar", "-cf", out, "-C", top, "."], "cp -r": ["cp", "-r", top, out]}
    listed = os.path.join(ctx.work, "list")
    list_files(top, listed)
    for codec in ("lz4", "zstd:6"):  # what nothing can leave out, and no more
        found[codec + " steps"] = [ctx.tool("limit_pack"), codec, str(256 << 10), str(len(os.sched_getaffinity(0))), top, listed, out]
    if shutil.which("mksquashfs"):
        found.update({"mksquashfs lz4": [*squash, "lz4"], "mksquashfs zstd 6": [*squash, "zstd", "-Xcompression-level", "6"]})
    return found, out


def rates(ctx, top):
    commands, out = packers(ctx, top)
    plain = bytes_below(top)

    def one(side, _):
        shutil.rmtree(out, ignore_errors=True)
        if os.path.exists(out):
            os.unlink(out)
        os.sync()
        began = time.monotonic()
        call(commands[side.name])
        os.sync()  # fs-prepare syncs what it writes; the others must too
        return {"MB/s": plain / 1e6 / (time.monotonic() - began)}

    got = {name: v["MB/s"] for name, v in ctx.interleave([Side(name, top) for name in commands], one).items()}
    for of, to, target in (("lz4", "mksquashfs lz4", 2), ("zstd:6", "mksquashfs zstd 6", 2), ("auto", "mksquashfs zstd 6", 2),
                           ("auto", "cp -r", None), ("lz4", "cp -r", None), ("lz4 steps", "mksquashfs lz4", None),
                           ("zstd:6 steps", "mksquashfs zstd 6", None), ("zstd:6", "zstd:6 steps", None)):
        if to in got:
            ctx.row("packing all kinds, %s" % of, "MB/s", got, of=of, to=to, better="higher", target=target)


def linked_sides(ctx, hosts, source, kind):
    for codec in ("raw", "auto"):
        side = hosts.nodes(ctx.pack(source, kind + "-" + codec, codec=codec))
        side.name = codec
        side.run(["true"])  # stages it
        yield side


def over_a_link(ctx, top, link):
    hosts = Hosts(ctx, link)
    rate, _, burst = link.partition(":")
    name = "first read over %s Gbit/s%s" % (rate[:-4], ", packets delayed" if burst else "")
    for kind in LINKED[:2] if ctx.quick else LINKED:
        source, listed = os.path.join(top, kind), os.path.join(ctx.work, "list-" + kind)
        names = list_files(source, listed)
        sides = list(linked_sides(ctx, hosts, source, kind))
        for title, how in (("", ()), (", four readers", ("-j", 4, "-P"))):
            def one(side, number, listed=listed, how=how):
                got = read(ctx, side, listed, "-s", number + 1, *how)
                return {"MB/s": got["bytes"] / got["files"] / got["first"] * 1000}

            got = {name: v["MB/s"] for name, v in ctx.interleave(sides, one).items()}
            used = got["raw"] / 2 / LINKS[link]  # the other half is on this host
            ctx.row("%s, %s%s" % (kind, name, title), "MB/s", got, of="auto", to="raw",
                    better="higher", target=0.9 if LINKS[link] <= ALWAYS or used >= LIMITS else None,
                    note="raw uses %.0f %% of the link" % (100 * used))
    hosts.remove()


def run(ctx):
    top = ctx.dir("kinds")
    made = subprocess.run([sys.executable, os.path.join(HERE, "kinds.py"), top, "0.2" if ctx.quick else "8"], check=False)
    if made.returncode != 0:
        raise Failed("kinds.py: status %d" % made.returncode)
    sizes(ctx, top, sorted(os.listdir(top)))
    rates(ctx, top)
    for link in list(LINKS)[-1:] if ctx.quick else LINKS:
        over_a_link(ctx, top, link)
