# SPDX-License-Identifier: BSD-3-Clause
"""Reads all files of a directory in a given order, in this process and in two children, as a DataLoader's workers do."""
import mmap
import os
import sys

top = sys.argv[1]
names = sorted(os.path.join(top, d, name) for d in os.listdir(top) for name in os.listdir(os.path.join(top, d)))


def read(names):
    for name in names:
        os.stat(name)
        with open(name, "rb") as f:
            f.read(1000)
            f.seek(0)
            f.read()


children = []
for k in range(2):
    pid = os.fork()
    if pid == 0:
        read(names[k::2])
        os._exit(0)
    children.append(pid)
for pid in children:
    os.waitpid(pid, 0)
with open(names[0], "rb") as f:
    with mmap.mmap(f.fileno(), 0, access=mmap.ACCESS_READ) as m:
        m[:]
try:
    open(os.path.join(top, "none"))
except FileNotFoundError:
    pass
with open(os.path.join(top, "out"), "w") as f:
    f.write("x")
