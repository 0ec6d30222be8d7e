# SPDX-License-Identifier: BSD-3-Clause
"""What runs in a container, given by standard input. Any Python from 3.9 on.

sums DIRECTORY [OUTPUT]    prints a checksum of each file, and writes who it is to OUTPUT
hold FLOCK FCNTL WORD      locks two outputs, prints "locked", and waits to be killed
try FLOCK FCNTL            prints "held" or "free" for each
"""
import errno
import fcntl
import hashlib
import os
import sys
import time


def who():
    glibc = os.confstr("CS_GNU_LIBC_VERSION")
    return "written in a container by Python %d.%d, %s, user %d, process %d" % (
        *sys.version_info[:2], glibc, os.getuid(), os.getpid())


def sums(top, output=None):
    found = []
    for where, _, names in os.walk(top):
        found += [os.path.join(where, name) for name in names]
    for path in sorted(found):
        if output and os.path.relpath(path, top)[0] != "d":
            continue  # an output of another container
        with open(path, "rb") as f:
            print(os.path.relpath(path, top), hashlib.sha256(f.read()).hexdigest())
    if output:
        os.makedirs(os.path.dirname(output), exist_ok=True)
        with open(output, "w") as f:
            f.write(who() + "\n")


def lock(path, by_fcntl, flags):
    f = open(path, "a+")
    (fcntl.lockf if by_fcntl else fcntl.flock)(f, fcntl.LOCK_EX | flags)
    return f


def hold(first, second, word):
    files = [lock(first, False, 0), lock(second, True, 0)]
    files[0].write("half\n")
    files[0].flush()
    if os.fork() > 0:  # the child has the description too
        print("locked", word, flush=True)
    time.sleep(60)


def attempt(*paths):
    found = []
    for i, path in enumerate(paths):
        try:
            lock(path, i == 1, fcntl.LOCK_NB).close()
            found.append("free")
        except OSError as e:
            if e.errno not in (errno.EAGAIN, errno.EACCES):
                raise
            found.append("held")
    print(*found)


{"sums": sums, "hold": hold, "try": attempt}[sys.argv[1]](*sys.argv[2:])
