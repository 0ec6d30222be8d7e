# SPDX-License-Identifier: BSD-3-Clause
"""Files that several nodes write at once: outputs_beside.py MOUNT NODES FILE. Stripes, of which each node has its own, are never
older than they were seen before, or published (FILE has that) when they are read; what is appended, by two programs of each
node, is there once, in one piece and in order."""
import os
import sys

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from nodes import Nodes, equal, finish, step  # noqa: E402

NODES, PUBLISHED = int(sys.argv[2]), sys.argv[3]
job = Nodes(sys.argv[1], "import array, mmap, struct, zlib\nSTRIPE, STRIPES = 47_008, 40  # no whole blocks, nor pages\n")
# Each number of a stripe is that of the write that it is of.
STRIPES = """
path, me, nodes = f"{work}/stripes", int(sys.argv[2]), int(sys.argv[3])
mine, seen, number = dict.fromkeys(range(me, STRIPES, nodes), 1), [1] * STRIPES, 1
published = memoryview(mmap.mmap(os.open(sys.argv[4], os.O_RDWR), 4 * STRIPES)).cast("I")

def read(fd, first, count):
    known = list(published)
    data = os.pread(fd, STRIPE * count, STRIPE * first)
    for i in range(first, first + count):
        least, most = min(a := array.array("I", data[STRIPE * (i - first):STRIPE * (i + 1 - first)])), max(a)
        if i in mine:
            assert least == most == mine[i], f"own stripe {i}: {least} to {most} instead of {mine[i]}"
        assert max(seen[i], known[i]) <= least, f"stripe {i}: {least} to {most}; {seen[i]} was seen, {known[i]} published"
        seen[i] = least

def tell():
    for i in mine:
        published[i] = mine[i]

def write():
    global number
    number += 1
    for i in random.sample(sorted(mine), random.choice((1, 1, 3))):
        assert os.pwrite(fd, struct.pack("I", number) * (STRIPE // 4), i * STRIPE) == STRIPE
        mine[i] = number
    if random.random() < 0.5:
        os.fsync(fd)
        tell()

fd, end = os.open(path, os.O_RDWR), time.monotonic() + 3
while time.monotonic() < end:
    how = random.random()
    if how < 0.5:
        write()
    elif how < 0.6:
        os.close(fd)
        tell()
        fd = os.open(path, os.O_RDWR)
    elif how < 0.75:
        read(fd, random.randrange(STRIPES), 1)
    elif how < 0.9:
        read(fd, 0, STRIPES)
    else:
        other = os.open(path, os.O_RDONLY)
        read(other, random.randrange(STRIPES), 1)
        os.close(other)
os.close(fd)
print(mine)
"""
STRIPES_SEEN = """
data = open(f"{work}/stripes", "rb").read()
print({i: numbers.pop() for i in range(STRIPES) if len(numbers := {*array.array("I", data[i * STRIPE:(i + 1) * STRIPE])}) == 1})
"""
APPEND = """
path, me, count = f"{work}/records", int(sys.argv[2]), 0
fd, end = os.open(path, os.O_WRONLY | os.O_APPEND), time.monotonic() + 3
while time.monotonic() < end:
    body = bytes([random.randrange(1, 256)]) * random.choice((1, 100, 5000, 15_900, 40_000, 200_000))
    record = struct.pack("<4sIIII", b"This", me, count, len(body), zlib.crc32(body)) + body
    assert os.write(fd, record) == len(record)
    count += 1
    how = random.random()
    if how < 0.1:
        os.fsync(fd)
    elif how < 0.3:
        os.close(fd)
        fd = os.open(path, os.O_WRONLY | os.O_APPEND)
    time.sleep(random.random() / 50)
os.close(fd)
print(count)
"""
APPENDED = """
data, at, counts = open(f"{work}/records", "rb").read(), 0, [0] * int(sys.argv[2])
while at < len(data):
    word, who, number, n, crc = struct.unpack_from("<4sIIII", data, at)
    at += 20 + n
    assert (word, number, crc) == (b"This", counts[who], zlib.crc32(data[at - n:at])), f"at {at}: {word} {who} {number} {n}"
    counts[who] += 1
print(counts)
"""

job.on(1, "open(f'{work}/stripes', 'wb').write(struct.pack('I', 1) * (STRIPE // 4 * STRIPES))")
job.on(0, "os.pwrite(os.open(f'{work}/stripes', os.O_WRONLY), struct.pack('I', 1), 0)")
with open(PUBLISHED, "wb") as f:
    f.write(bytes(4 * 40))
written = {}
for p in [job.start(node, STRIPES, node, NODES, PUBLISHED) for node in range(NODES)]:
    written.update(eval(finish(p)))
for node in range(NODES):
    equal(f"stripes at the end, node {node}", dict(sorted(written.items())), eval(job.on(node, STRIPES_SEEN)))
step("stripes written and read by all nodes at once")

job.on(1, "open(f'{work}/records', 'wb')")
counts = [int(finish(p)) for p in [job.start(i // 2, APPEND, i) for i in range(2 * NODES)]]
for node in range(NODES):
    equal(f"records, node {node}", str(counts), job.on(node, APPENDED, len(counts)))
step("records appended by two programs of each node at once")
