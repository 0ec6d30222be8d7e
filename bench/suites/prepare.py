# SPDX-License-Identifier: BSD-3-Clause
"""The commands of fs-prepare that read or write a whole dataset, next to cat, cp and tar on the same bytes: verify, unpack, verify
--repair-from with one damaged partition, place; and pack of many small files next to cp -r. Every side ends with a sync."""
import glob
import os
import shutil
import subprocess
import time

from fsb.jobs import files, halves
from fsb.peers import Failed, Missing, Side, call, need

CODECS = ("raw", "auto")
SMALL, SMALL_COUNT = 4096, 20000
SIZE, COUNT = 131072, 2000
PARTITIONS = 8


def parts_of(dataset):
    return sorted(glob.glob(os.path.join(dataset, "part-*")))


def bytes_of(paths):
    return sum(map(os.path.getsize, paths))


def clear(*paths):
    """Removes what the last round has made. Nobody pays for what others left."""
    for path in paths:
        shutil.rmtree(path, ignore_errors=True)
        if os.path.exists(path):
            os.unlink(path)
    os.sync()


def drop(paths):
    """Takes files out of the page cache. Fails if more than a hundredth of their bytes is still there."""
    need("fincore")
    for path in paths:
        with open(path, "rb") as f:
            os.posix_fadvise(f.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)
    left = sum(map(int, call(["fincore", "--bytes", "--noheadings", "--output", "RES", *paths]).split()))
    if left > bytes_of(paths) / 100:
        raise Failed("not cold: %d bytes" % left)


def timed(*commands):
    began = time.monotonic()
    for command in commands:
        with open(os.devnull, "wb") as null:
            done = subprocess.run(command, stdin=subprocess.DEVNULL, stdout=null, stderr=subprocess.PIPE, check=False)
        if done.returncode != 0:
            raise Failed("%s: status %d\n%s" % (" ".join(command), done.returncode, done.stderr.decode(errors="replace")[-4000:]))
    os.sync()
    return time.monotonic() - began


def compared(ctx, what, size, sides, one, of, targets):
    """A row for each of the sides that `of` is compared with. targets: {side: how many times as fast, or None}."""
    got = ctx.interleave([Side(name, "") for name in sides], one)
    rates = {name: size / 1e6 / values["s"] for name, values in got.items()}
    for to, target in targets.items():
        ctx.row(what, "MB/s", rates, of=of, to=to, better="higher", target=target)


def verify(ctx, dataset, codec):
    parts = parts_of(dataset)
    commands = {codec: [ctx.bin("fs-prepare"), "verify", dataset], "cat": ["cat", *parts]}

    def warm(side, _):
        return {"s": timed(commands[side.name])}

    def cold(side, _):
        drop(parts)
        return {"s": timed(commands[side.name])}

    warm(Side("cat", ""), 0)
    compared(ctx, "verify, %s, warm" % codec, bytes_of(parts), commands, warm, codec, {"cat": None})
    try:
        compared(ctx, "verify, %s, cold" % codec, bytes_of(parts), commands, cold, codec, {"cat": 0.9})
    except Missing as e:
        ctx.skip("verify, %s, cold" % codec, str(e))


def unpack(ctx, source, datasets):
    archive, out = os.path.join(ctx.work, "source.tar"), os.path.join(ctx.work, "restored")
    call(["tar", "-cf", archive, "-C", source, "."])
    commands = {codec: [ctx.bin("fs-prepare"), "unpack", dataset, out] for codec, dataset in datasets.items()}
    commands.update({"tar": ["tar", "-xf", archive, "-C", out], "cp -r": ["cp", "-r", source, out]})

    def one(side, _):
        clear(out)
        if side.name == "tar":
            os.mkdir(out)
        return {"s": timed(commands[side.name])}

    got = ctx.interleave([Side(name, "") for name in commands], one)
    rates = {name: SIZE * ctx.count / 1e6 / values["s"] for name, values in got.items()}
    for codec in datasets:
        for to, target in (("cp -r", 1), ("tar", 0.9)):
            ctx.row("unpack, files of 128 KiB, %s" % codec, "MB/s", rates, of=codec, to=to, better="higher", target=target)
    clear(out, archive)


def repair(ctx, source, dataset, codec):
    """Next to what a repair cannot leave out: reading all partitions and writing one. With a codec it also encodes again."""
    parts, copy = parts_of(dataset), os.path.join(ctx.work, "copy")

    def one(side, _):
        clear(copy)
        if side.name == "cat and cp":
            return {"s": timed(["cat", *parts], ["cp", parts[0], copy])}
        with open(parts[0], "r+b") as f:
            f.seek(os.path.getsize(parts[0]) // 2)
            f.write(b"damage" * 1000)
        os.sync()
        return {"s": timed([ctx.bin("fs-prepare"), "verify", "--repair-from", source, dataset])}

    compared(ctx, "verify --repair-from, one partition of %d, %s" % (len(parts), codec), bytes_of(parts), [codec, "cat and cp"],
             one, codec, {"cat and cp": 0.5 if codec == "raw" else None})
    clear(copy)


def place(ctx, dataset):
    local, parts = os.path.join(ctx.work, "placed"), parts_of(dataset)
    command = [ctx.bin("fs-prepare"), "place", "--local-dir", local, dataset]

    def one(side, _):
        clear(local)
        os.mkdir(local)
        if side.name == "start":  # all that place does but for the copying
            timed(command)
        return {"s": timed(["cp", *parts, local] if side.name == "cp" else command)}

    got = ctx.interleave([Side(name, "") for name in ("raw", "cp", "start")], one)
    start, size = got.pop("start")["s"], bytes_of(parts) / 1e6
    ctx.row("place", "MB/s", {name: size / values["s"] for name, values in got.items()}, of="raw", to="cp", better="higher",
            note="%.2f s of it without any copying" % start)
    ctx.row("place without its start", "MB/s", {"raw": size / max(got["raw"]["s"] - start, 1e-3), "cp": size / got["cp"]["s"]},
            of="raw", to="cp", better="higher", target=0.9)
    clear(local)


def small_files(ctx):
    count = SMALL_COUNT // 20 if ctx.quick else SMALL_COUNT
    source, _ = files(ctx, "small", SMALL, count, fill=halves)
    out = os.path.join(ctx.work, "stored")
    commands = {codec: [ctx.bin("fs-prepare"), "pack", "--codec", codec, source, out] for codec in CODECS}
    commands.update({"tar": ["tar", "-cf", out, "-C", source, "."], "cp -r": ["cp", "-r", source, out]})

    def one(side, _):
        clear(out)
        return {"s": timed(commands[side.name])}

    got = ctx.interleave([Side(name, "") for name in commands], one)
    rates = {name: SMALL * count / 1e6 / values["s"] for name, values in got.items()}
    for codec in CODECS:
        for to, target in (("cp -r", 3), ("tar", None)):
            ctx.row("pack, files of 4 KiB, %s" % codec, "MB/s", rates, of=codec, to=to, better="higher", target=target)
    clear(out, source)


def run(ctx):
    small_files(ctx)
    ctx.count = COUNT // 20 if ctx.quick else COUNT
    source, _ = files(ctx, "source", SIZE, ctx.count, fill=halves)
    datasets = {codec: ctx.pack(source, "whole-" + codec, codec=codec, partitions=PARTITIONS) for codec in CODECS}
    for codec, dataset in datasets.items():
        verify(ctx, dataset, codec)
    unpack(ctx, source, datasets)
    for codec, dataset in datasets.items():
        repair(ctx, source, dataset, codec)
    place(ctx, datasets["raw"])
