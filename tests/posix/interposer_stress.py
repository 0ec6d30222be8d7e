# SPDX-License-Identifier: BSD-3-Clause
"""Threads read, fork and spawn children on a mount at the same time; every byte is compared. Usage: PLAIN MOUNT SECONDS"""
import hashlib
import os
import random
import subprocess
import sys
import threading
import time

PLAIN, MOUNT, SECONDS = sys.argv[1], sys.argv[2], float(sys.argv[3])


def digest(path):
    fd = os.open(path, os.O_RDONLY)
    h = hashlib.md5()
    while data := os.read(fd, 100000):
        h.update(data)
    os.close(fd)
    return h.hexdigest()


expected = {}
for top, _, files in os.walk(PLAIN):
    for name in files:
        path = os.path.join(top, name)
        if not os.path.islink(path):
            expected[os.path.relpath(path, PLAIN)] = digest(path)
names = sorted(expected)
end = time.monotonic() + SECONDS
bad = []
done = {"read": 0, "spawn": 0, "fork": 0}


def repeat(kind, check):
    choice = random.Random(threading.get_ident())
    while time.monotonic() < end:
        name = choice.choice(names)
        if not check(name, choice):
            bad.append((kind, name))
        done[kind] += 1


def read(name, _):
    return digest(f"{MOUNT}/{name}") == expected[name]


def spawn(name, choice):
    with open(f"{MOUNT}/{name}", "rb") as f:
        cwd = MOUNT + "/d1" if choice.random() < 0.5 else None
        out = subprocess.run(["md5sum"], stdin=f, capture_output=True, cwd=cwd, check=True).stdout
    return out.split()[0].decode() == expected[name]


def fork(name, choice):
    fd = os.open(f"{MOUNT}/{name}", os.O_RDONLY)
    pid = os.fork()
    if pid == 0:
        h = hashlib.md5()
        while data := os.read(fd, 8192):
            h.update(data)
        ok = h.hexdigest() == expected[name] and all(read(choice.choice(names), choice) for _ in range(5))
        os._exit(0 if ok else 1)
    ok = os.waitpid(pid, 0)[1] == 0 and os.lseek(fd, 0, os.SEEK_CUR) == os.fstat(fd).st_size
    os.close(fd)
    return ok


threads = [threading.Thread(target=repeat, args=a) for a in [("read", read)] * 3 + [("spawn", spawn)] * 2 + [("fork", fork)]]
for t in threads:
    t.start()
for t in threads:
    t.join()
print(done, "wrong:", bad[:5])
sys.exit(1 if bad or not all(done.values()) else 0)
