#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Makes the archives of sources.sh in the current directory: odd ones that tar also reads, and hostile ones."""

import gzip
import io
import os
import random
import tarfile
import zipfile


class Tar:
    """A tar archive that is written member by member."""

    def __init__(self, name, **options):
        self.tar = tarfile.open(name, "w", **options)

    def add(self, name, data=b"", **fields):
        member = tarfile.TarInfo(name)
        member.size = len(data)
        member.mtime = 1000000000
        for key, value in fields.items():
            setattr(member, key, value)
        self.tar.addfile(member, io.BytesIO(data))
        return self

    def close(self):
        self.tar.close()


def header(name, size, kind=tarfile.REGTYPE):
    member = tarfile.TarInfo(name)
    member.size = size
    member.type = kind
    return member.tobuf(tarfile.GNU_FORMAT)


def odd():
    """Names and members that tar extracts, too."""
    t = Tar("odd.tar", format=tarfile.PAX_FORMAT)
    t.add("./").add("a/b/deep", b"parents have no member\n")
    t.add("twice", b"first\n").add("link", type=tarfile.LNKTYPE, linkname="twice").add("twice", b"second\n", mode=0o600)
    t.add("sym", type=tarfile.SYMTYPE, linkname="a/b/deep").add("symhard", type=tarfile.LNKTYPE, linkname="link")
    t.add("empty").add("dir", type=tarfile.DIRTYPE, mode=0o750).add("dir/./x//y", b"slashes\n")
    t.add("e\u0301", b"decomposed\n").add("\u00e9", b"composed\n").add("raw\udcff", b"no UTF-8\n").add("n" * 200, b"long\n")
    t.add("half", b"h", mtime=1.5).add("old", b"o", mtime=-1000)
    t.add("big", bytes(random.Random(1).randbytes(1500000)) + bytes(3000000))
    t.close()


def hostile():
    Tar("dotdot.tar").add("ok", b"1").add("a/../../out", b"2").add("..", type=tarfile.DIRTYPE).close()
    Tar("absolute.tar").add("/abs/file", b"absolute\n").close()
    t = Tar("devices.tar").add("ok", b"1").add("null", type=tarfile.CHRTYPE, devmajor=1, devminor=3)
    t.add("disk", type=tarfile.BLKTYPE).add("pipe", type=tarfile.FIFOTYPE).close()
    Tar("links.tar").add("none", type=tarfile.LNKTYPE, linkname="later").add("later", b"1").close()
    Tar("below.tar").add("f", b"1").add("f/x", b"2").add("s", type=tarfile.SYMTYPE, linkname="/tmp").add("s/x", b"3").close()
    t = Tar("many.tar")
    for i in range(15):
        t.add(f"../m{i:02}", b"x")
    t.close()
    whole = Tar("cut.tar").add("first", b"1" * 3000).add("second", b"2" * 30000)
    whole.close()
    with open("cut.tar", "r+b") as f:
        f.truncate(12000)
    with open("bomb.tar", "wb") as f:
        f.write(header("huge", 1 << 62) + b"x" * 512)
    with gzip.open("bomb.tar.gz", "wb") as f:
        f.write(header("small", 1) + b"x" * 512 + header("huge", 1 << 62) + b"x" * 5120)
    random_bytes = random.Random(2).randbytes(100000)
    t = Tar("cut.tgz", format=tarfile.GNU_FORMAT).add("first", b"1" * 3000).add("second", random_bytes)
    t.close()
    data = gzip.compress(open("cut.tgz", "rb").read())
    open("cut.tgz", "wb").write(data[:-20000])
    flipped = bytearray(data)
    flipped[len(data) // 2] ^= 1  # in a block that deflate stores as it is
    open("flip.tgz", "wb").write(flipped)
    with zipfile.ZipFile("bomb.zip", "w", zipfile.ZIP_DEFLATED) as z:
        z.writestr("zeros", bytes(1000))
    data = open("bomb.zip", "rb").read()
    size = (1000).to_bytes(4, "little")
    open("bomb.zip", "wb").write(data.replace(size, (0xFFFFFFF0).to_bytes(4, "little")))
    with zipfile.ZipFile("crc.zip", "w") as z:
        z.writestr("good", b"good\n")
        z.writestr("bad", b"checksum\n")
    data = open("crc.zip", "rb").read()
    open("crc.zip", "wb").write(data.replace(b"checksum\n", b"Checksum\n"))
    with zipfile.ZipFile("names.zip", "w") as z:
        for name in ("\u00e9-composed", "e\u0301-decomposed", "\u30c7\u30fc\u30bf/", "\u30c7\u30fc\u30bf/\u732b.jpg"):
            z.writestr(name, b"" if name.endswith("/") else name)
    noise = random.Random(4).randbytes(1500000)
    with zipfile.ZipFile("hurt.zip", "w", zipfile.ZIP_DEFLATED) as z:
        for name, text in (("first", b"first\n"), ("large", noise.hex().encode()), ("last", b"last\n")):
            z.writestr(name, text)
    data = bytearray(open("hurt.zip", "rb").read())
    data[len(data) // 2:len(data) // 2 + 8] = bytes(8)
    open("hurt.zip", "wb").write(data)
    pax = {"format": tarfile.PAX_FORMAT}
    for name, options in (("header", {}), ("pax", pax), ("described", pax)):
        t = Tar(f"{name}.tar", **options)
        for member, text in (("first", b"1\n" * 2000), ("second", noise[:3000]), ("last", b"last\n")):
            t.add(member, text, mtime=1.5 if options else 1)  # pax keeps the half second in a header of its own
        t.close()
        data = bytearray(open(f"{name}.tar", "rb").read())
        at = data.index(b"second")
        if name == "described":  # the header with the half second
            at = data.rindex(b"@PaxHeader", 0, at)
        data[at + 10] = 1
        open(f"{name}.tar", "wb").write(data)
        open(f"{name}.tar.gz", "wb").write(gzip.compress(data))
    open("noise.tar", "wb").write(random_bytes)


def shards(n):
    """WebDataset shards, compressed, and the same as plain tar archives."""
    noise = random.Random(3)
    for s in range(n):
        for name, options in ((f"shard-{s:03}.tar", {}), (f"zipped-{s:03}.tar.gz", {"compresslevel": 1})):
            t = tarfile.open(name, "w:gz" if options else "w", **options)
            state = noise.getstate()
            for k in range(20):
                for ending, data in (("jpg", noise.randbytes(30000 + 1000 * k)), ("cls", b"%d\n" % k), ("json", b'{"k": 1}\n' * 60)):
                    member = tarfile.TarInfo(f"{s:03}{k:05}.{ending}")
                    member.size = len(data)
                    t.addfile(member, io.BytesIO(data))
            t.close()
            if not options:
                noise.setstate(state)


os.makedirs("odd", exist_ok=True)
odd()
hostile()
shards(6)
