#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""The program of prefetch.sh: hints by fadvise, readahead or api, then reads; or a read behind 10,000 hints."""
import ctypes, os, sys, time

how, mnt = sys.argv[1], sys.argv[2]
u64 = ctypes.c_uint64


class Stats(ctypes.Structure):
    _fields_ = [("size", ctypes.c_uint32), ("clients", ctypes.c_uint32), ("opens", u64), ("stats", u64),
                ("files", u64 * 4), ("bytes", u64 * 4), ("blocks", u64 * 4), ("fallbacks", u64), ("errors", u64),
                ("materialized", u64), ("served", u64), ("served_bytes", u64), ("fetched", u64),
                ("fetched_bytes", u64), ("prefetched", u64), ("waiting", u64), ("evictions", u64), ("timeouts", u64),
                ("checksum_errors", u64)]


PROCESS, NODE = 0, 1
CACHE, REMOTE = 1, 2
lib = ctypes.CDLL(None)
lib.fanstore_prefetch.restype = ctypes.c_int64
lib.readahead.argtypes = [ctypes.c_int, ctypes.c_int64, ctypes.c_size_t]


def stats(whose):
    s = Stats(size=ctypes.sizeof(Stats))
    assert lib.fanstore_stats(whose, ctypes.byref(s)) == 0 and s.size == ctypes.sizeof(Stats)
    return s


def hint(paths):
    done = 0
    while done < len(paths):
        rest = (ctypes.c_char_p * (len(paths) - done))(*map(os.fsencode, paths[done:]))
        n = lib.fanstore_prefetch(rest, ctypes.c_size_t(len(rest)), None)
        assert n >= 0
        done += n


def read(path):
    with open(path, "rb", buffering=0) as f:
        while f.read(1 << 20):
            pass


def quiet():
    """Waits until nothing is waiting or under way, by counters that are 100 ms old at most."""
    before = -1
    for _ in range(400):
        s = stats(NODE)
        if s.waiting == 0 and s.fetched == before and s.fetched >= s.prefetched:
            return s
        before = s.fetched
        time.sleep(0.25)
    raise SystemExit("the queue does not become empty")


names = sorted(os.path.join(d, f) for d, _, fs in os.walk(mnt) for f in fs if f != "large")
remote = [p for p in names if os.getxattr(p, "user.fanstore.place") == b"remote"]
assert len(names) == 10400 and 2000 < len(remote) < 9000, len(remote)
if how == "overtake":
    # Each reply is held back for 40 ms and at most 32 are under way: the queue is not empty before 6 s.
    last = remote.pop()
    hint(remote + [p for p in names if p != last])
    read(last)
    assert stats(PROCESS).blocks[REMOTE] == 1, list(stats(PROCESS).blocks)
    for _ in range(100):  # until the counters have been renewed once
        s = stats(NODE)
        if s.blocks[REMOTE] == 1:
            break
        time.sleep(0.01)
    print("of", len(remote), "blocks", s.prefetched, "were begun,", s.waiting, "waited when the read was done")
    assert s.waiting > 0
    s = quiet()
    assert s.prefetched == len(remote), (s.prefetched, len(remote))
else:
    files = remote[:1500] + [mnt + "/large"]
    if how == "api":
        hint(files)
    for i, p in enumerate(files if how != "api" else []):
        fd = os.open(p, os.O_RDONLY)
        if how == "fadvise":
            os.posix_fadvise(fd, 0, 0, os.POSIX_FADV_WILLNEED)
        else:
            assert lib.readahead(fd, 0, 1 << 30) == 0
        os.close(fd)
        if i % 500 == 499:
            quiet()  # these calls never wait for room in the queue
    hinted = quiet()
    assert hinted.prefetched >= 1500, hinted.prefetched
    for p in files:
        read(p)
    s = stats(PROCESS)
    assert s.blocks[CACHE] >= 1500 and s.blocks[REMOTE] == 0, list(s.blocks)
    time.sleep(0.3)
    assert stats(NODE).fetched == hinted.fetched
s = stats(NODE)
assert s.fallbacks == 0 and s.errors == 0 and s.timeouts == 0
