#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Files of another node whose writer makes no further call: seen_asleep.py MOUNT NODES. It sleeps, is stopped or killed, or has forked.
All nodes see the bytes, and they are published once: what another node has written since stays."""
import os, signal, sys, time

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from nodes import Nodes, ask as tell  # noqa: E402

mount, nodes = sys.argv[1], int(sys.argv[2])
last = nodes - 1
LATE = 2.5  # s; the machine may be busy
work = os.path.join(mount, "asleep")
os.mkdir(work)
on = Nodes(work, "import signal\n").start

# Lines: put OFFSET TEXT, get OFFSET LENGTH, size, sync, fork, stop; the end of its input is the end of its sleep.
WRITER = """
fd = os.open(work + '/' + sys.argv[2], os.O_RDWR)
def put(off, text): return os.pwrite(fd, text.encode(), int(off))
def get(off, n): return os.pread(fd, int(n), int(off)).decode()
def size(): return os.fstat(fd).st_size
def sync(): return os.fsync(fd)
def fork():
    global fd
    if os.fork() > 0: os.close(fd), os.write(1, b'parent\\n'), os.wait(), os._exit(0)
def stop(): print('stops', flush=True), os.kill(os.getpid(), signal.SIGSTOP)
for line in sys.stdin:
    name, *args = line.split()
    os.write(1, f'{globals()[name](*args)}\\n'.encode()) # one call: a fork writes beside it
os.close(fd)
"""
# Reads by its name, and by a descriptor that is open all the time. On the home that is one of the kernel's, which reads the home's bytes.
READER = """
fds = {}
for line in sys.stdin:
    name, off, n = line.split()
    new = os.open(work + '/' + name, os.O_RDONLY)
    if sys.argv[2] == '0': fds[name] = new
    if name not in fds: fds[name] = os.open(work + '/' + name, os.O_RDONLY)
    print(*(os.pread(fd, int(n), int(off)).decode() or '-' for fd in (new, fds[name])), flush=True)
    os.close(new)
"""
readers = [on(n, READER, str(n)) for n in range(nodes)]


def seen(name, off, text, late=LATE):
    """All nodes see the text. Returns how long that took."""
    began = time.monotonic()
    for node, r in enumerate(readers):
        while (got := tell(r, name, off, len(text))) != f"{text} {text}":
            assert time.monotonic() - began < late, f"{name}: node {node} sees {got} at {off} instead of {text}"
            time.sleep(0.02)
    return time.monotonic() - began


def make(name, n=100):
    with open(work + "/" + name, "w") as f:
        f.write("a" * n)
    seen(name, 0, "a" * 10)


def overwrite(name, off, text):
    """Another node writes. From then on the bytes are these."""
    with open(work + "/" + name, "r+b", buffering=0) as f:
        os.pwrite(f.fileno(), text.encode(), off)
    seen(name, off, text, 0.1)


# It sleeps.
make("slept")
longest = 0
w = on(last, WRITER, "slept")
for i in range(3):
    tell(w, "put", 50, "b" * 10), tell(w, "put", 200, "c" * 10)
    longest = max(longest, seen("slept", 50, "b" * 10), seen("slept", 200, "c" * 10))
    assert tell(w, "get", 50, 10) == "b" * 10 and tell(w, "size") == "210"
    overwrite("slept", 55, "X")
    assert tell(w, "get", 50, 10) == "bbbbbXbbbb"
    time.sleep(0.3 * i)
tell(w, "put", 60, "d" * 5), tell(w, "sync")
seen("slept", 50, "bbbbbXbbbbddddd", 0.1)
tell(w, "put", 70, "e" * 5)
w.stdin.close(), w.wait()
seen("slept", 50, "bbbbbXbbbbdddddaaaaaeeeee", 0.1)
time.sleep(1.5)
seen("slept", 50, "bbbbbXbbbbdddddaaaaaeeeee", 0.1)
print(f"ok - a writer that sleeps: {longest:.1f} s at the latest")

# It is stopped.
make("stopped")
w = on(last, WRITER, "stopped")
tell(w, "put", 95, "b" * 10), tell(w, "stop")
seen("stopped", 95, "b" * 10)
overwrite("stopped", 96, "X")
w.send_signal(signal.SIGCONT), w.stdout.readline()
w.stdin.close(), w.wait()
seen("stopped", 95, "bXbbbbbbbb", 0.1)
print("ok - a writer that is stopped")

# It is killed after two seconds: all nodes have seen what it had written by then.
make("killed")
w = on(last, WRITER, "killed")
tell(w, "put", 10, "b" * 10), time.sleep(2), tell(w, "put", 300, "c" * 10)
w.kill(), w.wait()
seen("killed", 10, "b" * 10, 0.1)
overwrite("killed", 10, "X")
time.sleep(1.2)
seen("killed", 10, "X" + "b" * 9, 0.1)
print("ok - a writer that is killed")

# It is killed at once, and the file is emptied and written anew: none of its bytes come later.
for i in range(20):
    name, node = f"succeeded{i}", (0, last)[i % 2]
    make(name)
    w = on(last, WRITER, name)
    tell(w, "put", 10, "b" * 400)
    w.kill(), w.wait()
    s = on(node, "f = open(work + '/' + sys.argv[2], 'w')\nf.write('N' * 20)\nf.close()\nprint('done', flush=True)", name)
    assert s.stdout.readline() == "done\n"
    s.wait()
    for late in (0, 0.05):
        time.sleep(late)
        got = open(f"{work}/{name}").read()
        assert got == "N" * 20, f"after the death of a writer, a file that was written anew by node {node} has {got}"
print("ok - a file that is written anew after its writer was killed")

# It forks: what the parent has written is published once, and the child's bytes too.
make("forked")
w = on(last, WRITER, "forked")
tell(w, "put", 10, "b" * 10)
told = [tell(w, "fork"), w.stdout.readline().strip()]
assert sorted(told) == ["None", "parent"], told
tell(w, "put", 30, "c" * 10)
seen("forked", 10, "b" * 10), seen("forked", 30, "c" * 10)
overwrite("forked", 10, "X"), overwrite("forked", 30, "X")
tell(w, "put", 50, "d" * 10)
w.stdin.close(), w.wait()
time.sleep(1.2)
seen("forked", 10, "X" + "b" * 9, 0.1), seen("forked", 30, "X" + "c" * 9, 0.1), seen("forked", 50, "d" * 10, 0.1)
print("ok - a writer that forks")

# More files than the channel has places for.
MANY = """
fds = [os.open(work + f'/many{i}', os.O_RDWR) for i in range(70)]
for line in sys.stdin:
    for fd in fds: os.pwrite(fd, line.strip().encode(), 5)
    print('done', flush=True)
"""
for i in range(70):
    with open(work + f"/many{i}", "w") as f:
        f.write("a" * 10)
w = on(last, MANY)
for text in "bbb", "ccc":
    tell(w, text)
    for i in range(70):
        seen(f"many{i}", 5, text)
w.stdin.close(), w.wait()
print("ok - more files than places")

# It reads what it has just written, whoever has published it, while the home writes other bytes of the file.
BUSY = """
fd, end, n = os.open(work + '/busy', os.O_RDWR), time.monotonic() + 5, 0
while time.monotonic() < end:
    n += 1
    off = 2 * random.randrange(2000)
    text = b'%02d' % (n % 100)
    os.pwrite(fd, text, off)
    if n % 3 == 0: time.sleep(random.random() / 50)
    assert (got := os.pread(fd, 2, off)) == text, (n, off, got, text)
    if n % 7 == 0: assert os.fstat(fd).st_size >= off + 2
    if n % 50 == 0: os.pwrite(fd, b'z', 9000 + n); assert os.fstat(fd).st_size > 9000 + n and os.pread(fd, 1, 9000 + n) == b'z'
os.close(fd)
print(n)
"""
make("busy", 1000)
busy = [on(last, BUSY)]
with open(work + "/busy", "r+b", buffering=0) as f:
    for i in range(40):
        os.pwrite(f.fileno(), b"Y" * 10, 5000 + 10 * i)
        time.sleep(0.1)
out, _ = busy[0].communicate()
assert busy[0].returncode == 0
seen("busy", 5000, "Y" * 400, 0.1)
print(f"ok - a writer reads its own bytes, {out.strip()} times")
