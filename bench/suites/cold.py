# SPDX-License-Identifier: BSD-3-Clause
"""Every file once, in random order, with nothing in the page cache; next to reading the same partitions with O_DIRECT."""
import os
import sys

from fsb.jobs import ROOT, files, halves, read, staged
from fsb.peers import Failed, Missing, Side, call

SETS = {"4 KiB": (4096, 20000), "128 KiB": (131072, 2500), "1 MiB": (1 << 20, 400)}
CHUNK = 2 << 20  # what FanStore reads at once around a small file (docs/internals/read-path.md)
KINDS = ("text", "json", "field32", "source")  # of bench/kinds.py
READERS = {"": (), ", four": ("-j", 4, "-P")}


def cold_list(ctx, name, paths):
    path = os.path.join(ctx.work, "cold-" + name)
    with open(path, "w") as f:
        f.write("".join(p + "\n" for p in paths))
    return path


def below(source):
    return [os.path.join(top, n) for top, _, names in os.walk(source) for n in names]


def proved(ctx, got):
    if got["resident"] > got["pages"] / 100:
        raise Failed("not cold: %d of %d pages" % (got["resident"], got["pages"]))
    ctx.proof = max(ctx.proof, got["resident"] / got["pages"])
    return got


def cold_read(ctx, side, number, listed, cold, readers, source):
    """One pass, and the proof that it was cold. Compares all bytes in the first round."""
    check = ["-v", source] if number == 0 and side.directory != source else []
    got = read(ctx, side, listed, "-s", number + 1, "-d", cold[side.name], *readers, *check)
    ctx.dropped = min(ctx.dropped, got["dropped"])
    return proved(ctx, got)


def compare(ctx, what, size, sides, one, also=None, **row):
    got = ctx.interleave(sides, one)
    rates = {name: size / values["first"] * 1000 for name, values in got.items()}
    note = "at most %.2g %% resident before%s" % (100 * ctx.proof, "" if ctx.dropped else ", metadata warm")
    ctx.row(what, "MB/s", rates, better="higher", note=note, **row)
    for title, name in also.items() if also else ():
        ctx.row("%s, and %s" % (what, title), "MB/s", rates, better="higher", to=name)
    return rates


def past_page_cache(ctx, dataset):
    side = ctx.nodes(dataset, 1, ["--local-io", "direct"])
    side.name = "direct"
    return side


def stored_raw(ctx, label, size, count):
    name = "raw%d" % size
    source, listed = files(ctx, name, size, count)
    dataset = ctx.pack(source, name)
    plain, node, past = ctx.plain(source), ctx.nodes(dataset, 1), past_page_cache(ctx, dataset)
    parts = staged(ctx, dataset, node)
    direct, copied, buffered, chunks = [Side(n, "") for n in ("O_DIRECT", "copied", "pread", "O_DIRECT by chunks")]
    huge = Side("huge pages", "")
    small, chunk = size * 16 <= CHUNK, CHUNK // 8 if ctx.quick else CHUNK  # a quick dataset's partitions are smaller
    cold = {plain.name: cold_list(ctx, name + "-plain", below(source)), node.name: cold_list(ctx, name, parts)}
    cold[past.name] = cold[node.name]
    for title, readers in READERS.items():
        def one(side, number, how=readers):
            if side in (direct, copied, huge):
                also = ["-c"] if side is copied else ["-H"] if side is huge else []
                return side.run([ctx.tool("limit_direct"), *also, *how[:2], size, count, number + 1, *parts])
            if side is chunks:
                got = side.run([ctx.tool("limit_direct"), *how[:2], chunk, size * count // chunk, number + 1, *parts])
                return {**got, "first": got["first"] * size / chunk}
            if side is buffered:
                return proved(ctx, side.run([ctx.tool("limit_direct"), "-b", *how[:2], size, count, number + 1, *parts]))
            return cold_read(ctx, side, number, listed, cold, how, source)

        also = {"copied": "copied", "buffered": "pread", **({"by chunks": chunks.name} if small else {})}
        what = "raw, %s%s" % (label, title)
        sides = [plain, node, past, direct, huge, copied, buffered, *([chunks] if small else [])]
        rates = compare(ctx, what, size, sides, one, to="O_DIRECT", target=None if title else 0.9, also=also)
        for to, title_of in (("O_DIRECT", "O_DIRECT"), (huge.name, "O_DIRECT into huge pages"), (node.name, "cached")):
            ctx.row("%s, direct, and %s" % (what, title_of), "MB/s", rates, better="higher", of=past.name, to=to,
                    target=0.9 if to == "O_DIRECT" and not title and not small else None)


def stored_lz4(ctx, label, size, count):
    name = "lz4-%d" % size
    source, listed = files(ctx, name, size, count, fill=halves)
    dataset = ctx.pack(source, name, codec="lz4")
    node = ctx.nodes(dataset, 1)
    sides = ctx.peers(lambda: ctx.plain(source), lambda: node, lambda: ctx.squashfs(source))
    parts, steps = staged(ctx, dataset, node), Side("steps", "")
    cold = {sides[0].name: cold_list(ctx, name + "-plain", below(source)),
            node.name: cold_list(ctx, name, parts)}
    if any(side.name == "squashfs" for side in sides):
        cold["squashfs"] = cold_list(ctx, name + "-image", [ctx.image(source)])

    def one(side, number):
        if side is steps:
            sample = min(below(source))
            return side.run([ctx.tool("limit_direct"), "-z", sample, size, count, number + 1, *parts])
        return cold_read(ctx, side, number, listed, cold, (), source)

    compare(ctx, "lz4 2x, %s" % label, size, [*sides, steps], one, to="squashfs", target=3 if size == 131072 else None,
            also={"reading, then decoding": "steps"})


def stored_auto(ctx, kind, mebibytes):
    """What auto has packed next to raw. Where the disk is the limit, decoding must not cost more than a tenth."""
    top = ctx.dir("kinds")
    call([sys.executable, os.path.join(ROOT, "bench/kinds.py"), top, str(mebibytes), kind])
    source, sides, cold = os.path.join(top, kind), [], {}
    paths = sorted(below(source))
    listed = cold_list(ctx, kind, [os.path.relpath(p, source) for p in paths])
    for codec in ("raw", "auto"):
        dataset = ctx.pack(source, "%s-%s" % (kind, codec), codec=codec)
        side = ctx.nodes(dataset, 1)
        side.name = codec
        cold[codec] = cold_list(ctx, "%s-%s" % (kind, codec), staged(ctx, dataset, side))
        sides.append(side)
    size = sum(map(os.path.getsize, paths)) / len(paths)
    for title, readers in READERS.items():
        def one(side, number, how=readers):
            return cold_read(ctx, side, number, listed, cold, how, source)

        compare(ctx, "auto, %s%s" % (kind, title), size, sides, one, of="auto", to="raw", target=0.9)


def limited(ctx, bytes_):
    """A control group of so much memory: the prefix of a command that runs in it."""
    for top in ("/sys/fs/cgroup/memory", "/sys/fs/cgroup"):
        group = os.path.join(top, "fs-bench.%d" % os.getpid())
        try:
            os.mkdir(group)
        except OSError:
            continue
        ctx.undo(lambda group=group: os.rmdir(group))
        for name in ("memory.max", "memory.limit_in_bytes"):
            try:
                with open(os.path.join(group, name), "r+") as f:
                    f.write(str(bytes_))
                return ["sh", "-c", 'echo $$ >"$0/cgroup.procs" && exec "$@"', group]
            except OSError:
                pass
    raise Missing("less memory than partitions: no control group can be made")


def short_of_memory(ctx, label, size, count):
    """Epochs after the first where memory has room for two thirds of the bytes."""
    name = "short%d" % size
    source, listed = files(ctx, name, size, count)
    dataset = ctx.pack(source, name)
    sides = {"ext4": ctx.plain(source)}
    for how in ("cached", "auto", "direct"):
        sides[how] = ctx.nodes(dataset, 1, ["--local-io", how])
        sides[how].name = how
    parts = staged(ctx, dataset, sides["auto"])
    paths = {side.name: cold_list(ctx, name, parts) for side in sides.values()}
    paths[sides["ext4"].name] = cold_list(ctx, name + "-plain", below(source))
    prefix = limited(ctx, max(size * count * 2 // 3, 300 << 20))  # the programs themselves are in it, too
    for side in sides.values():
        side.prefix = prefix + side.prefix
    for title, readers in READERS.items():
        def one(side, number, how=readers):
            return read(ctx, side, listed, "-s", number + 1, "-r", "-p", 3, "-d", paths[side.name], *how)

        rates = {name: size / values["again"] * 1000 for name, values in ctx.interleave(list(sides.values()), one).items()}
        for how in ("ext4", "cached"):
            ctx.row("raw, %s%s, memory for 2/3, later epochs, auto and %s" % (label, title, how), "MB/s", rates, better="higher",
                    of=sides["auto"].name, to=sides[how].name)


def run(ctx):
    for label, (size, count) in list(SETS.items())[:2 if ctx.quick else None]:
        for suite in (stored_raw, stored_lz4):
            ctx.proof, ctx.dropped = 0, 1
            suite(ctx, label, size, count // 10 if ctx.quick else count)
    for kind in KINDS[:1] if ctx.quick else KINDS:
        ctx.proof, ctx.dropped = 0, 1
        stored_auto(ctx, kind, 0.5 if ctx.quick else 32)
    try:
        short_of_memory(ctx, "128 KiB", 131072, 400 if ctx.quick else 4000)
    except Missing as e:
        ctx.skip("short of memory", str(e))
