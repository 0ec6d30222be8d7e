# SPDX-License-Identifier: BSD-3-Clause
"""Files of several writers: outputs_shared.py MOUNT PLAIN NODES [later]. Processes on all nodes write each below MOUNT,
and the same in the plain directory PLAIN, so that whatever becomes of MOUNT's can be compared; later: once more."""
import os
import random
import subprocess
import sys

mount, plain, nodes = sys.argv[1], sys.argv[2], int(sys.argv[3])
WRITE = """
import os, random, sys
path, seed, flags = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
fd = os.open(path, os.O_WRONLY | os.O_CREAT | flags, 0o640)
data = random.Random(seed).randbytes(1 << 20)
for piece in sys.argv[4:]:
    off, length = map(int, piece.split("+"))
    if flags & os.O_APPEND:
        os.write(fd, data[off:off + length])
    else:
        for at in range(0, length, 1 << 20):
            os.pwrite(fd, data[:min(length - at, 1 << 20)], off + at)
os.close(fd)
"""


def write(node, name, pieces, flags=0):
    seed = random.randrange(1 << 30)
    for path, env in ((f"{mount}/{name}", {**os.environ, "FANSTORE_NODE": str(node)}), (f"{plain}/{name}", os.environ)):
        os.makedirs(os.path.dirname(path), exist_ok=True)
        subprocess.run([sys.executable, "-c", WRITE, path, str(seed), str(flags), *(f"{o}+{n}" for o, n in pieces)],
                       env=env, check=True)


if sys.argv[4:] == ["later"]:
    write(1, "over", [(77_000, 3_000)])
    sys.exit()
random.seed(nodes)
# Strided, in pieces that are no whole blocks, by all nodes; the first is home.
for node in range(nodes):
    write(node, "d/strided", [(i * nodes * 47008 + node * 47008, 47008) for i in range(30)])
# Home has a little of it, in the middle; the last bytes are another node's, after a hole of 64 MiB.
write(0, "sparse", [(5_000_000, 1_000)])
write(nodes - 1, "sparse", [(0, 3_000_000), (70_000_000, 12_345)])
# One over the other, twice from one node.
write(0, "over", [(0, 2_000_000)])
for node in [*range(1, nodes), 0, 1]:
    write(node, "over", [(node * 300_000 + random.randrange(1000), 700_000 + random.randrange(1000))])
# A log of all nodes, and one that became shorter than what others had written.
for node in range(nodes):
    write(node, "log", [(0, 100), (5, 30_000)], os.O_APPEND)
write(0, "cut", [(0, 10)])
write(1, "cut", [(100, 500_000)])
for top in (mount, plain):
    os.truncate(top + "/cut", 200_000)
# Home has nothing of it, and it has a new name.
write(0, "moved.tmp", [])
write(nodes - 1, "moved.tmp", [(0, 4 << 20)])
for top in (mount, plain):
    os.rename(top + "/moved.tmp", top + "/d/moved")
