# SPDX-License-Identifier: BSD-3-Clause
"""Makes what mpi_cases.py reads: make_mpi.py DIRECTORY."""
import os
import random
import sys

top = sys.argv[1]
rng = random.Random(11)
os.makedirs(os.path.join(top, "many"))
for name, size in ("small.bin", 1000), ("large.bin", 3_000_000), ("empty.bin", 0):
    with open(os.path.join(top, name), "wb") as f:
        f.write(rng.randbytes(size))
with open(os.path.join(top, "text.bin"), "wb") as f:
    f.write(b"".join(b"%07d\n" % i for i in range(100000)))
for i in range(40):
    with open(os.path.join(top, f"many/{i}.bin"), "wb") as f:
        f.write(rng.randbytes(1000 + 777 * i))
