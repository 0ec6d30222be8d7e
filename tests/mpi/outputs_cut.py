# SPDX-License-Identifier: BSD-3-Clause
"""Files of several writers that are cut while they are read, and published into: outputs_cut.py MOUNT [many]. They have no
zeros at any time. Home's daemon takes 0.2 s for each cut; with `many` all nodes write and cut one file as fast as they can."""
import os
import sys
import time

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from nodes import Nodes, finish, step  # noqa: E402

NODES, HOME, OTHER, SIZE = 3, 1, 0, 3_000_000
job = Nodes(sys.argv[1], forks=True)
# Some blocks for the first time while the file is cut; then all of it, again and again.
READ = """
name, wait = sys.argv[2], float(sys.argv[3])
fd = os.open(f"{work}/{name}", os.O_RDONLY)

def read(off):
    data = os.pread(fd, 1000, off)
    if 0 in data:
        print(f"{data.count(0)} zeros at {off + data.index(0)}")
        sys.exit()
    return len(data)

print("open", flush=True)
end, reads = time.monotonic() + wait, 0
for off in random.sample(range(0, 3_000_000, 250_000), 12):
    read(off)
    time.sleep(0.03)
while time.monotonic() < end:
    off = got = 0
    while got := read(off):
        off += got
    reads += 1
print("ok" if reads > 0 else "never read it all")
"""


def make(name):
    job.on(HOME, f"open(f'{{work}}/{name}', 'wb').write(b'h' * {SIZE})")
    job.on(OTHER, f"fd = os.open(f'{{work}}/{name}', os.O_WRONLY); os.pwrite(fd, b'o' * 2000, 1000)")


def readers(name, wait):
    started = [job.start(node, READ, name, wait) for node in range(NODES)]
    for p in started:
        assert p.stdout.readline() == "open\n"
    return started


def seen(what, started):
    said = [finish(p) for p in started]
    assert said == ["ok"] * NODES, f"{what}: {said}"


WRITE = """
name, wait, byte = sys.argv[2], float(sys.argv[3]), sys.argv[4].encode()
path, end = f"{work}/{name}", time.monotonic() + float(sys.argv[3])
while time.monotonic() < end:
    how, size = random.choice(("anew", "over", "append", "cut", "both")), random.choice((1, 1000, 40_000, 262_144, 700_000))
    if how == "cut":
        os.truncate(path, 0)
        continue
    fd = os.open(path, os.O_RDWR | {"anew": os.O_TRUNC, "append": os.O_APPEND}.get(how, 0))
    if how == "both":
        os.ftruncate(fd, 0)
    for _ in range(5 if how == "append" else 0):
        os.write(fd, byte * min(size, 15_000))
    if how != "append":
        os.pwrite(fd, byte * size, 0)
    os.close(fd)
    time.sleep(random.random() / 100)
print("ok")
"""


def many():
    """What they write begins at the file's begin, or is appended: nothing is a hole."""
    for i in range(2):
        make(f"many{i}")
        writing = [job.start(node, WRITE, f"many{i}", 3, "abc"[node]) for node in range(NODES)]
        seen("written by all", readers(f"many{i}", 3))
        for p in writing:
            assert finish(p) == "ok"
    step("one that all nodes write and cut while they read it: the same")


if len(sys.argv) > 2:
    many()
    sys.exit()
for i in range(3):
    make(f"anew{i}")
    reading = readers(f"anew{i}", 1)
    time.sleep(0.1 * i)
    job.on(OTHER, f"fd = os.open(f'{{work}}/anew{i}', os.O_WRONLY | os.O_TRUNC); os.write(fd, b'n' * 20_000)")
    seen("written anew", reading)
    assert job.on(HOME, f"print(open(f'{{work}}/anew{i}').read() == 'n' * 20_000)") == "True"
step("a file that is written anew while all nodes read it: never a zero")

for i in range(3):
    make(f"cut{i}")
    reading = readers(f"cut{i}", 1)
    time.sleep(0.1 * i)
    job.on(OTHER, f"os.truncate(f'{{work}}/cut{i}', 500_000)")
    seen("cut", reading)
    assert job.on(OTHER, f"print(os.stat(f'{{work}}/cut{i}').st_size)") == "500000"
step("one that is cut while they read it: the same")

for i in range(4):
    make(f"both{i}")
    writer = job.start(OTHER, f"""
fd = os.open(f"{{work}}/both{i}", os.O_WRONLY)
os.write(fd, b"n" * 20_000)
print("written", flush=True)
sys.stdin.readline()
os.close(fd)""")
    assert writer.stdout.readline() == "written\n"
    cutter = job.start(2, f"""
fd = os.open(f"{{work}}/both{i}", os.O_WRONLY)
print("open", flush=True)
sys.stdin.readline()
os.ftruncate(fd, 0)""")
    assert cutter.stdout.readline() == "open\n"
    cutter.stdin.write("go\n"), cutter.stdin.flush()
    time.sleep(0.03 * (i + 1))
    writer.stdin.write("go\n"), writer.stdin.flush()
    finish(cutter), finish(writer)
    said = job.on(HOME, f"data = open(f'{{work}}/both{i}', 'rb').read(); print(len(data), data.count(b'n'))")
    assert said in ("0 0", "20000 20000"), f"length, and how many of the bytes are there: {said}"
step("one that is cut while a writer publishes: what was written, or nothing")

CUT = """
import threading
fd = os.open(f"{work}/without_end", os.O_WRONLY)
print("open", flush=True)
threading.Thread(target=sys.stdin.readline).start()
while threading.active_count() > 1:
    os.ftruncate(fd, 0)
print("ok")"""
make("without_end")
cutters = [job.start(node, CUT) for node in (OTHER, 2) * 3]
for p in cutters:
    assert p.stdout.readline() == "open\n"
WRITE = """
for i in range(3):
    fd = os.open(f"{work}/without_end", os.O_WRONLY)
    os.write(fd, b"n" * 2000)
    os.close(fd)
print("ok")"""
said = [finish(p) for p in [job.start(node, WRITE) for node in range(NODES)]]
for p in cutters:
    p.stdin.write("enough\n"), p.stdin.flush()
assert said + [finish(p) for p in cutters] == ["ok"] * (NODES + len(cutters)), said
step("one that six cut all the time: who publishes, and who opens it, comes in between")
