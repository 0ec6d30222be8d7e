# SPDX-License-Identifier: BSD-3-Clause
"""For local_io.sh: what is in memory of staged partitions, and readers of a mount.

usage: local_io.py cold LOCAL-DIR               takes the partitions out of memory; fails if they stay there
       local_io.py in-memory LOCAL-DIR          prints how many of their pages are there
       local_io.py read SOURCE MOUNT            every file, compared: whole, in pieces, by threads, in forked children
"""
import ctypes
import glob
import mmap
import os
import random
import sys
import threading

PAGE = 4096


def partitions(local):
    return sorted(glob.glob(local + "/**/part-?????", recursive=True))


def in_memory(paths):
    libc = ctypes.CDLL(None, use_errno=True)
    libc.mincore.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_char_p]
    pages = 0
    for path in paths:
        size = os.path.getsize(path)
        with open(path, "rb") as f, mmap.mmap(f.fileno(), size, mmap.MAP_PRIVATE, mmap.PROT_READ | mmap.PROT_WRITE) as m:
            there = ctypes.create_string_buffer((size + PAGE - 1) // PAGE)
            at = ctypes.addressof(ctypes.c_char.from_buffer(m))
            if libc.mincore(at, size, there) != 0:
                sys.exit("mincore: errno %d" % ctypes.get_errno())
            pages += sum(b & 1 for b in there.raw)
    return pages


def drop(paths):
    for path in paths:
        fd = os.open(path, os.O_RDONLY)
        os.fsync(fd)
        os.posix_fadvise(fd, 0, 0, os.POSIX_FADV_DONTNEED)
        os.close(fd)


def whole(pair):
    with open(pair[1], "rb") as f:
        return f.read()


def pieces(pair):
    with open(pair[1], "rb", buffering=4096) as f:
        return b"".join(iter(lambda: f.read(3001), b""))


def at_random(pair):
    """Backwards and in odd lengths, into memory of its own."""
    size = os.path.getsize(pair[1])
    got, fd = bytearray(size), os.open(pair[1], os.O_RDONLY)
    for off in range((size - 1) // 70001 * 70001 if size else -1, -1, -70001):
        view = memoryview(got)[off:off + 70001]
        done = 0
        while done < len(view):
            done += os.preadv(fd, [view[done:]], off + done)
    os.close(fd)
    return bytes(got)


def check(pairs, how, seed, bad):
    pairs = pairs[:]
    random.Random(seed).shuffle(pairs)
    for pair in pairs:
        with open(pair[0], "rb") as f:
            if f.read() != how(pair):
                bad.append("%s by %s" % (pair[1], how.__name__))


def read(source, mount):
    pairs = [(os.path.join(top, n), os.path.join(mount, os.path.relpath(os.path.join(top, n), source)))
             for top, _, names in os.walk(source) for n in names]
    bad = []
    for seed, how in enumerate((whole, pieces, at_random)):
        check(pairs, how, seed, bad)
    threads = [threading.Thread(target=check, args=(pairs, (whole, pieces, at_random)[k % 3], 10 + k, bad)) for k in range(4)]
    for t in threads:
        t.start()
    children = []
    for k in range(3):
        pid = os.fork()
        if pid == 0:
            bad = []
            check(pairs, (whole, pieces, at_random)[k], 20 + k, bad)
            os._exit(len(bad) > 0)
        children.append(pid)
    for t in threads:
        t.join()
    bad += ["in a child" for pid in children if os.waitpid(pid, 0)[1] != 0]
    sys.exit("differ: %s" % bad[:10] if bad else 0)


def main():
    what, *args = sys.argv[1:]
    if what == "read":
        read(*args)
    paths = partitions(args[0])
    if what == "cold":
        drop(paths)
        if in_memory(paths) > 0:
            sys.exit("they stay in memory")
    else:
        print(in_memory(paths))


main()
