# SPDX-License-Identifier: BSD-3-Clause
"""Makes the small tree of odd files that the tests pack: tree.py DIRECTORY. Deterministic but for the owner."""
import os
import random
import sys

top = os.fsencode(sys.argv[1])
rng = random.Random(1)


def content(size, kind):
    if kind == "random":
        return rng.randbytes(size)
    line = b"the quick brown fox %d jumps over the lazy dog\n" % size
    return (line * (size // len(line) + 1))[:size]


def write(path, data, mode=0o644):
    path = os.path.join(top, path)
    os.makedirs(os.path.dirname(path), exist_ok=True)
    with open(path, "wb") as f:
        f.write(data)
    os.chmod(path, mode)


os.makedirs(top)
sizes = [0, 1, 15, 16, 511, 4095, 4096, 4097, 16383, 16384, 16385, 65536, 131072,
         262143, 262144, 262145, 524288, 1000003, 3 * 1048576 + 17]
for size in sizes:
    for kind in ("text", "random"):
        write(b"sizes/%s-%d.bin" % (kind.encode(), size), content(size, kind))
for i in range(200):
    write(b"train/class%d/image%04d.jpg" % (i % 5, i), content(rng.randrange(1000, 40000), "random"))

odd = [b"a b", b" lead", b"trail ", b"new\nline", b"tab\t", b"quote'\"", b"back\\slash", b"-dash", b"*?[x]", b"$HOME",
       b"\xff\xfe not utf-8", "größe-日本".encode(), b"n" * 255, b"...", b".hidden", b"colon:name", b"~"]
for name in odd:
    write(b"odd/" + name, b"content of " + name)
    write(b"odd dirs/" + name + b"/inside", b"inside " + name)
write(b"/".join([b"deep"] + [b"level%02d" % i for i in range(40)] + [b"bottom"]), b"bottom\n")

os.makedirs(os.path.join(top, b"empty-dir/nested-empty"))
for mode in (0o400, 0o444, 0o600, 0o640, 0o755, 0o777):
    write(b"modes/%o" % mode, b"#!/bin/sh\necho %o\n" % mode, mode)
links = os.path.join(top, b"links")
os.makedirs(links)
write(b"links/target", b"target\n")
os.symlink(b"target", os.path.join(links, b"relative"))
os.symlink(b"../sizes/text-4096.bin", os.path.join(links, b"up"))
os.symlink(b"relative", os.path.join(links, b"chain"))
os.symlink(b"../train", os.path.join(links, b"dir"))
os.symlink(b"does-not-exist", os.path.join(links, b"dangling"))
os.symlink(b"loop-b", os.path.join(links, b"loop-a"))
os.symlink(b"loop-a", os.path.join(links, b"loop-b"))
os.link(os.path.join(links, b"target"), os.path.join(links, b"hard"))
os.makedirs(os.path.join(top, b"other"))
os.link(os.path.join(top, b"sizes/random-65536.bin"), os.path.join(top, b"other/hard-65536"))
write(b"other/same-content", content(65536, "text"))

stamp = 1_000_000_000_123_456_789
for base, dirs, files in os.walk(top, topdown=False):
    for name in sorted(files + dirs):
        stamp += 86_400_000_000_007
        os.utime(os.path.join(base, name), ns=(stamp, stamp), follow_symlinks=False)
os.utime(top, ns=(stamp, stamp))
