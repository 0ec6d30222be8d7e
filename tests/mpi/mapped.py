# SPDX-License-Identifier: BSD-3-Clause
# For mapped.sh and mapped_alone.sh: programs that map compressed files. mapped.py make DIR | CASE MOUNT PATTERN, of
# the directory where copies lie.
import ctypes
import errno
import glob
import mmap
import os
import signal
import struct
import sys
import time

MIB = 1 << 20
SIZE = 20 * MIB + 12345
LARGE = 128 * MIB + 12345  # of "whole"
FILES = "whole", "part", "killed", "forked"


def pages(first, count):
    return b"".join(struct.pack("<Q", i) * 512 for i in range(first, first + count))


def expect(off, n):
    first = off // 4096
    return pages(first, (off + n + 4095) // 4096 - first)[off % 4096 : off % 4096 + n]


def make(where):
    for name in FILES:
        with open(os.path.join(where, name), "wb") as f:
            size = LARGE if name == "whole" else SIZE
            for at in range(0, size, 4 * MIB):
                f.write(expect(at, min(4 * MIB, size - at)))


def check(what, good):
    if not good:
        sys.exit(f"mapped.py: {what}")


# Of each page the first and the last bytes.
def same(m, off=0, n=SIZE, at=None):
    at = off if at is None else at
    for i in range(0, n, 4096):
        number, last = struct.pack("<Q", (off + i) // 4096), min(n, i + 4096) & ~7
        good = m[at + i : at + i + 8] == number == m[at + last - 8 : at + last]
        check(f"bytes at {off + i}", good)


def copies(backing, ending=(".c", ".m")):
    paths = [p for p in glob.glob(os.path.join(backing, "*")) if p.endswith(ending)]
    return {p: os.stat(p).st_blocks * 512 for p in paths}


def mapped(path, n=SIZE, off=0):
    with open(path, "rb") as f:
        return mmap.mmap(f.fileno(), n, mmap.MAP_SHARED, mmap.PROT_READ, offset=off)


# Five programs begin at once; each sees every byte, and the node has one copy.
def whole(mount, backing):
    wait, go = os.pipe()
    children = []
    for _ in range(4):
        children.append(os.fork())
        if children[-1] == 0:
            os.close(go)
            os.read(wait, 1)
            same(mapped(mount + "/whole", LARGE), n=LARGE)
            os._exit(0)
    os.close(go)
    same(mapped(mount + "/whole", LARGE), n=LARGE)
    for pid in children:
        check("a program", os.waitpid(pid, 0)[1] == 0)
    have = copies(backing)
    check(f"one copy: {have}", len(have) == 1 and sum(have.values()) <= LARGE + 2 * MIB)


# A part takes no more than its chunks. What mremap shows more is filled, and so is what another one maps.
def part(mount, backing):
    before = sum(copies(backing).values())
    same(mapped(mount + "/part", 8192, 10 * MIB), 10 * MIB, 8192, 0)
    end = SIZE // MIB * MIB
    same(mapped(mount + "/part", SIZE - end, end), end, SIZE - end, 0)
    took = sum(copies(backing).values()) - before
    check(f"a part takes {took}", 0 < took <= 5 * MIB)
    libc = ctypes.CDLL(None, use_errno=True)
    for f, args in (libc.mmap, 6), (libc.mremap, 4), (libc.syscall, 5):
        f.restype = ctypes.c_void_p
    fd = os.open(mount + "/part", os.O_RDONLY)
    n = ctypes.c_size_t
    for off, raw in (4 * MIB, False), (13 * MIB, True):
        p = libc.mmap(None, n(4096), mmap.PROT_READ, mmap.MAP_SHARED, fd, ctypes.c_long(off))
        more = ctypes.c_void_p(p), n(4096), n(5 * MIB), 1
        raw = raw and os.uname().machine == "x86_64"
        q = libc.syscall(ctypes.c_long(25), *more) if raw else libc.mremap(*more)
        check("mremap", q != ctypes.c_void_p(-1).value)
        same(ctypes.string_at(q, 5 * MIB), off, 5 * MIB, 0)
    os.close(fd)
    same(mapped(mount + "/part"))


# The program that fills is killed again and again; the next one goes on.
def killed(mount, backing):
    before, times = set(copies(backing)), 0
    for i in range(6):
        pid = os.fork()
        if pid == 0:
            mapped(mount + "/killed")
            os._exit(0)
        end = time.monotonic() + 5
        while time.monotonic() < end:
            if any(b > i * 3 * MIB for p, b in copies(backing).items() if p not in before):
                break
        os.kill(pid, signal.SIGKILL)
        times += os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == -signal.SIGKILL
    check("killed in the middle", times > 0)
    begin = time.monotonic()
    same(mapped(mount + "/killed"))
    check("nobody is waited for who is dead", time.monotonic() - begin < 8)


# A child inherits the mapping of a part, and maps others beside its parent.
def forked(mount, backing):
    m = mapped(mount + "/forked", 4 * MIB, 8 * MIB)
    children = []
    for i in range(4):
        children.append(os.fork())
        if children[-1] == 0:
            same(m, 8 * MIB, 4 * MIB, 0)
            same(mapped(mount + "/forked", 4 * MIB, 4 * i * MIB), 4 * i * MIB, 4 * MIB, 0)
            os._exit(0)
    same(mapped(mount + "/forked"))
    for pid in children:
        check("a child", os.waitpid(pid, 0)[1] == 0)


# The parent ends; its child maps more of the same file, and has more of its mapping shown.
def orphan(mount, backing):
    libc = ctypes.CDLL(None, use_errno=True)
    for f in libc.mmap, libc.mremap:
        f.restype = ctypes.c_void_p
    fd = os.open(mount + "/part", os.O_RDONLY)
    n = ctypes.c_size_t
    p = libc.mmap(None, n(4096), mmap.PROT_READ, mmap.MAP_SHARED, fd, ctypes.c_long(4 * MIB))
    before = copies(backing)
    ended, end = os.pipe()
    pid = os.fork()
    if pid > 0:
        return
    try:
        os.close(end)
        os.read(ended, 1)  # the parent's end
        q = libc.mremap(ctypes.c_void_p(p), n(4096), n(5 * MIB), 1)
        check("mremap", q != ctypes.c_void_p(-1).value)
        same(ctypes.string_at(q, 5 * MIB), 4 * MIB, 5 * MIB, 0)
        same(mapped(mount + "/part"))
        check("the same copy", set(copies(backing)) == set(before))
        print("orphan: good")
    finally:
        os._exit(0)


# Says that it has mapped, and waits.
def stay(mount, backing):
    m = mapped(mount + "/part", 4 * MIB)
    print("mapped", flush=True)
    sys.stdin.read()
    same(m, 0, 4 * MIB)


# The local directory and memory have no room: ENOMEM, told once; a part still can be mapped.
def full(mount, backing):
    for _ in range(3):
        try:
            mapped(mount + "/whole", LARGE)
            check("no room", False)
        except OSError as e:
            check(f"no room: {e}", e.errno == errno.ENOMEM)
    same(mapped(mount + "/part", 8192, 10 * MIB), 10 * MIB, 8192, 0)


if sys.argv[1] == "make":
    make(sys.argv[2])
else:
    globals()[sys.argv[1]](sys.argv[2], sys.argv[3])
