#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Files that are open for writing, as other nodes see them: seen.py MOUNT NODES. No call publishes them: they are not closed and not
synced. Their size and bytes are at most two seconds old, whoever has them open, and a file that does not change costs nothing."""
import os, sys, time

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from nodes import Nodes, ask  # noqa: E402

mount, nodes = sys.argv[1], int(sys.argv[2])
last = nodes - 1
LATE = 2.5  # s; the machine may be busy
work = os.path.join(mount, "seen")
os.mkdir(work)
on = Nodes(work).start
WRITER = """
f = open(work + '/' + sys.argv[2], sys.argv[3])
if len(sys.argv) > 4 and os.fork() > 0: os._exit(0)  # the child has it then
for line in sys.stdin:
    f.write(line), f.flush()
    print('done', flush=True)
"""
READER = """
for line in sys.stdin:
    name = work + '/' + line.strip()
    try: print(os.stat(name).st_size, len(open(name).read()), line.strip() in os.listdir(work), flush=True)
    except FileNotFoundError: print('no', flush=True)
"""
readers = [on(n, READER) for n in range(nodes)]


def look(node, name):
    return ask(readers[node], name)


def tell(w, text):
    assert ask(w, text) == "done"


def seen_by_all(name, size):
    """Returns how long the last node took."""
    began = time.monotonic()
    for node in range(nodes):
        while look(node, name) != f"{size} {size} True":
            assert time.monotonic() - began < LATE, f"{name}: node {node} sees {look(node, name)} instead of {size}"
            time.sleep(0.02)
    return time.monotonic() - began


longest = 0
for mode, forks in (("w", []), ("a", []), ("a", ["fork"])):  # made; made before; written by a child of who opened it
    writer = on(0, WRITER, "log", mode, *forks)
    at = 0 if mode == "w" else os.stat(work + "/log").st_size
    if mode == "w":
        while look(0, "log") == "no":
            time.sleep(0.01)
        assert look(last, "log") == "0 0 True", look(last, "log")
    for i in range(4):
        tell(writer, "x" * 9)
        at += 10
        longest = max(longest, seen_by_all("log", at))
        time.sleep(0.1 * i)  # so that it is written at other times of the second, too
    writer.stdin.close()
    writer.wait()
    assert look(last, "log") == f"{at} {at} True"
print(f"ok - seen while it is written: {longest:.1f} s at the latest")

# Writers that end without a close: the bytes are there.
writer = on(0, WRITER, "killed", "w")
tell(writer, "y" * 99)
writer.kill(), writer.wait()
assert look(last, "killed") == "100 100 True"
print("ok - a writer that is killed")

# A file of another node is published by the next write after a second.
writer = on(last, WRITER, "log", "r+")
began, written = time.monotonic(), []
while time.monotonic() < began + 4:
    tell(writer, "w" * 9)
    written.append(time.monotonic())
    time.sleep(0.1)
    seen = open(work + "/log").read().count("w" * 9)
    least = sum(t < time.monotonic() - LATE for t in written)
    assert seen >= least, f"{seen} of {least} lines that were written {LATE} s ago"
writer.stdin.close(), writer.wait()
print("ok - a file of another node is seen while it is written")

# Who reads sees what was written before somebody told it to read.
writer = on(last, WRITER, "other", "w")
for i in range(1, 100):
    tell(writer, "z" * 9)
    if i % 3 == 0:
        continue
    size = int(look(0, "other").split()[1])
    assert size == 10 * i, f"{size} of {10 * i} bytes"
writer.stdin.close()
print("ok - readers get all that is written")

# A close says nothing if the file did not change while it was open. Each change is seen after the close, also one of the same
# size within the same tick of the file system's clock, whoever made it, and if its time was set back.
REWRITER = """
import mmap
name = work + '/same'
def new(fd, text): os.pwrite(fd, text, 0)
def set_back(fd, text):
    was = os.fstat(fd)
    os.pwrite(fd, text, 0), os.utime(fd, ns=(was.st_atime_ns, was.st_mtime_ns))
def mapped(fd, text):
    with mmap.mmap(fd, 9) as m: m[:] = text
def other(fd, text):
    with open(name, 'r+b', buffering=0) as f: f.write(text)
def child(fd, text):
    if os.fork() == 0: os.pwrite(fd, text, 0), os._exit(0)
    os.wait()
def at_once(fd, text):
    for i in range(20):
        with open(name, 'r+b', buffering=0) as f: f.write(b'%09d' % i)
    with open(name, 'r+b', buffering=0) as f: f.write(text)
for line in sys.stdin:
    way, text = line.split()
    fd = os.open(name, os.O_RDWR)
    globals()[way](fd, text.encode())
    os.close(fd)
    print(text, os.stat(name).st_mtime_ns, flush=True)
"""
READ = """
for line in sys.stdin: print(open(work + '/same').read(), os.stat(work + '/same').st_mtime_ns, flush=True)
"""
with open(work + "/same", "w") as f:
    f.write("%09d" % 0)
rewriter, reader = on(0, REWRITER), on(last, READ)
for i in range(1, 121):
    way = ("new", "set_back", "mapped", "other", "child", "at_once")[i % 6]
    rewriter.stdin.write("%s %09d\n" % (way, i)), rewriter.stdin.flush()
    done = rewriter.stdout.readline()
    reader.stdin.write("\n"), reader.stdin.flush()
    assert (line := reader.stdout.readline()) == done, f"{i}, {way}: {line} instead of {done}"
    if i // 6 % 2 == 0:
        time.sleep(0.03)  # otherwise the file is opened in the tick of its last change
rewriter.stdin.close(), reader.stdin.close(), rewriter.wait(), reader.wait()
print("ok - a change of the same size is seen after the close")

# A program that has just read a file to its end, by one descriptor, sees at once what was published since: size, bytes, name. Both
# nodes do so in turn, faster than a known answer of the home gets old.
READ_ON = """
for line in sys.stdin:
    way, name, n = line.split()
    if way == 'open':
        fd = os.open(work + '/' + name, os.O_RDONLY)
    got = os.pread(fd, 1 << 20, 0)
    assert os.fstat(fd).st_size == len(got) and os.pread(fd, 1, len(got)) == b''
    print(len(got), got[:1].decode(), os.fstat(fd).st_nlink, flush=True)
    if way == 'close': os.close(fd)
"""
CHANGER = """
for line in sys.stdin:
    way, name, n = line.split()
    if way == 'append':
        with open(work + '/' + name, 'ab') as f: f.write(b'b' * int(n))
    elif way == 'over':
        with open(work + '/' + name, 'r+b') as f: f.write(b'c')
    elif way == 'line': # it stays open
        logs = globals().setdefault('logs', {})
        logs.setdefault(name, os.open(work + '/' + name, os.O_WRONLY | os.O_APPEND))
        os.write(logs[name], b'b' * int(n))
    elif way == 'cut': os.truncate(work + '/' + name, int(n))
    elif way == 'sync':
        fd = os.open(work + '/' + name, os.O_WRONLY | os.O_APPEND)
        os.write(fd, b'b' * int(n)), os.fsync(fd)
        os.write(fd, b''), os.close(fd)
    elif way == 'remove': os.unlink(work + '/' + name)
    print('done', flush=True)
"""


for changes in (0, last):  # at the file's home; on the reader's node
    changer, reader = on(changes, CHANGER), on(last, READ_ON)
    quick = 0
    for i in range(40):
        name, size = f"on{changes}.{i}", 100
        with open(f"{work}/{name}", "wb") as f:
            f.write(b"a" * size)
        time.sleep(0.03)  # it is published
        first = "a"
        assert ask(reader, "open", name, 0) == f"{size} a 1"
        # Who reads on the writer's node sees appends at once, too.
        line = (("line", 5), ("line", 6)) if changes == last else ()
        for way, n in (*line, ("append", 7), ("over", 0), ("sync", 9), ("cut", 3), ("append", 1 << 17), ("cut", 50)):
            began = time.monotonic()
            size, first = n if way == "cut" else size + n, "c" if way in ("over", "cut") else first
            assert ask(changer, way, name, n) == "done"
            got = ask(reader, "read", name, 0)
            quick += time.monotonic() - began < 0.004
            assert got == f"{size} {first} 1", f"{way} {n}: {got} instead of {size} {first} 1"
        assert ask(changer, "remove", name, 0) == "done"
        assert ask(reader, "close", name, 0) == f"{size} c 0"
    print(f"# {quick} changes were looked at within 4 ms")
    changer.stdin.close(), reader.stdin.close(), changer.wait(), reader.wait()
print("ok - a reader at the end of a file sees each publication")

# Threads of one process: who has appended sees it, whoever asks the home at that moment.
THREADS = """
import threading
fd, rd = os.open(work + '/both', os.O_RDWR | os.O_APPEND), os.open(work + '/both', os.O_RDONLY)
stop = False
def reads():
    while not stop: os.pread(rd, 4096, max(os.fstat(rd).st_size - 10, 0))
t = threading.Thread(target=reads)
t.start()
size = os.fstat(fd).st_size
for i in range(600):
    size += os.write(fd, b'x' * 7)
    got = os.fstat(fd).st_size, os.lseek(fd, 0, os.SEEK_END), len(os.pread(rd, 7, size - 7))
    if got != (size, size, 7): break
stop = True
t.join()
print('fine' if got == (size, size, 7) else f'append {i}: {got} instead of {size}', flush=True)
"""
with open(work + "/both", "w") as f:
    f.write("a" * 10)
time.sleep(0.1)
said = on(last, THREADS).communicate()[0].strip()
assert said == "fine", said
print("ok - threads that append and read")
