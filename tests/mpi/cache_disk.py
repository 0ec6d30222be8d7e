# SPDX-License-Identifier: BSD-3-Clause
"""Reads all files once an epoch, in a new order each time: cache_disk.py DIRECTORY FIRST-EPOCH EPOCHS. Prints how many files it
read, and the CRC-32 of all of them in the order of their names."""
import os
import random
import sys
import zlib

top, first, count = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
names = sorted(os.listdir(top))
for epoch in range(first, first + count):
    sums, order = {}, names[:]
    random.Random(epoch).shuffle(order)
    for name in order:
        with open(os.path.join(top, name), "rb") as f:
            sums[name] = zlib.crc32(f.read())
    print(len(sums), zlib.crc32(repr([sums[n] for n in names]).encode()))
