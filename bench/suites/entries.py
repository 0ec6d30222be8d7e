# SPDX-License-Identifier: BSD-3-Clause
"""fs-prepare pack of ten million small files: time, and peak memory for each file. They come from a tar file that is made
here and compressed as it is made, so that it needs no room for a block of each."""
import os
import shutil
import subprocess

from fsb.jobs import timed
from fsb.peers import Failed, call, need

COUNT, EACH = 10000000, 1000  # files, and how many have one directory
SIZE = 72  # bytes of a file: what lz4 makes of them is a third
MOST = 200  # bytes of memory for a file
CODECS = ("raw", "auto")


def octal(digits, number):
    return b"%0*o\0" % (digits, number)


def members(directory, names):
    """The members of one directory. A file's bytes are those of no other one."""
    before = octal(7, 0o644) + 2 * octal(7, 0) + octal(11, SIZE) + octal(11, 1700000000)
    after = (b"0" + bytes(100) + b"ustar\x0000").ljust(356, b"\0")
    path = b"class_%03d/n%08d/" % (directory // 50, directory)  # with the name 38 bytes, as in ImageNet
    known = sum(before) + sum(b" " * 8) + sum(after) + sum(path)
    content = b"%016d" % directory
    for i, name in enumerate(names):
        head = (path + name).ljust(100, b"\0") + before + b"%06o\0 " % (known + sum(name)) + after
        yield head + (content + b"%016d" % i).ljust(SIZE, b"-").ljust(512, b"\0")


def make(archive, count):
    names = [b"image_%08d.jpg" % i for i in range(EACH)]
    with subprocess.Popen(["zstd", "-1", "-q", "-f", "-o", archive], stdin=subprocess.PIPE) as process:
        for directory in range(count // EACH):
            process.stdin.write(b"".join(members(directory, names)))
        process.stdin.write(bytes(1024))
    if process.returncode != 0:
        raise Failed("zstd: status %d" % process.returncode)


def raw_files(ctx, dataset, count):
    """How many are stored as they are."""
    out = call([ctx.bin("fs-prepare"), "info", dataset])
    files = next(line.split() for line in out.splitlines() if line.startswith("files"))
    if int(files[1]) != count:
        raise Failed("%s files of %d" % (files[1], count))
    return int(files[2].lstrip("("))


def run(ctx):
    need("zstd")
    count = COUNT // 100 if ctx.quick else COUNT
    archive, dataset = os.path.join(ctx.work, "entries.tar.zst"), os.path.join(ctx.work, "entries")
    make(archive, count)
    for codec in CODECS:
        got = timed([ctx.bin("fs-prepare"), "pack", "--codec", codec, "--mount", "/bench/entries", archive, dataset])
        if raw_files(ctx, dataset, count) != (count if codec == "raw" else 0):
            raise Failed("not all files are stored as %s" % codec)
        what = "pack of {:,} files, {}".format(count, codec)
        ctx.row(what, "s", {"time": got["s"], "processor": got["cpu"]}, of="", to="")
        ctx.row(what + ", peak", "MiB", {"all": got["rss"]}, of="", to="")
        if not ctx.quick:  # with few files, what does not depend on them is more
            ctx.bound(what + ", peak for each", "B", got["rss"] * 2**20 / count, MOST)
        shutil.rmtree(dataset)
