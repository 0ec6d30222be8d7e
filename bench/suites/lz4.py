# SPDX-License-Identifier: BSD-3-Clause
"""Files that are stored as lz4, warm and local: whole, and in pieces, next to LZ4_decompress_safe alone on the same blocks and
to SquashFS with the same codec."""
import json

from fsb.peers import Failed, call

ALONE = "LZ4 alone"


def check_same_blocks(ctx, dataset, held, block, count, size):
    """The limit decodes what the dataset stores: as many bytes (the limit keeps a length of 4 bytes with each block)."""
    stored = json.loads(call([ctx.bin("fs-prepare"), "info", "--json", dataset]))["stored_bytes"]
    mine = held - 4 * count * ((size + block - 1) // block)
    if abs(stored - mine) > stored // 100:
        raise Failed("LZ4 alone: %d bytes, and not the dataset's %d" % (mine, stored))


def one_set(ctx, ratio, size, count):
    label = "%d KiB, data of %dx" % (size >> 10, ratio)
    source = ctx.files("source-%d-%d" % (ratio, size), max(count // 10, 4) if ctx.quick else count, size, ratio)
    dataset = ctx.pack(source, "z%d-%d" % (ratio, size), codec="lz4")
    info = json.loads(call([ctx.bin("fs-prepare"), "info", "--json", dataset]))
    sides = ctx.peers(lambda: ctx.plain(source), lambda: ctx.library(dataset), lambda: ctx.nodes(dataset, 1),
                      lambda: ctx.squashfs(source), lambda: ctx.squashfuse(source)) + [ctx.limit(ALONE, source)]

    def timed(side, number):
        if side.name == ALONE:
            got = ctx.fsbench(side, number, "unlz4", "-c", "-b", info["block_size"])
            if ratio > 1:
                check_same_blocks(ctx, dataset, got["held"], info["block_size"], info["files"], size)
            four = ctx.fsbench(side, number, "unlz4", "-j", 4, "-b", info["block_size"])
            return {**got, "read": got["unlz4"], "pieces": got["unlz4"], "anew": got["unlz4"], "four": four["unlz4"]}
        got = ctx.fsbench(side, number, "read,pieces,anew" if side.name != sides[0].name else "read,pieces", "-c")
        return {**got, "four": ctx.fsbench(side, number, "read", "-j", 4)["read"]}

    got = ctx.interleave(sides, timed)

    def row(key, what, to, target):
        ctx.row(what + label, "us", {n: v[key] for n, v in got.items() if key in v}, to=to,
                target=target if ratio > 1 else None)

    row("read", "whole, ", ALONE, 0.95)
    row("read", "whole, ", "squashfuse", None)
    row("anew", "whole, page cache dropped, ", "squashfuse", 4)
    row("four", "whole, 4 at once, ", ALONE, 0.95)
    row("pieces", "in 4 KiB pieces, ", ALONE, round(1 / 1.5, 3))
    return {name: v["read"] for name, v in got.items()}


def run(ctx):
    plot = {}
    for ratio, size, count in ((1, 131072, 600), (2, 131072, 600), (4, 131072, 600), (2, 1 << 20, 80)):
        for name, us in one_set(ctx, ratio, size, count).items():
            plot.setdefault(name, {})["%dx, %d KiB" % (ratio, size >> 10)] = us / (size >> 17)
        ctx.clear()
    ctx.plot("lz4", "bars", "Whole files stored as lz4, warm", plot, ylabel="us for 128 KiB")
