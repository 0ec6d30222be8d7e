# SPDX-License-Identifier: BSD-3-Clause
"""Outputs written, cut, replaced and read in a random order from all nodes: outputs_random.py MOUNT NODES STEPS [SEED].

A process on each node does what it is told, and keeps files open. Each step is over before the next begins, but for reads that
go on while something is written. Of each file it is known what it was after every write: each byte that is read must be of the
version that was published when the descriptor was opened, or looked at by fstat, or of a later one, and the length as well.
"""
import ctypes
import errno
import json
import mmap
import os
import random
import sys
import threading

import numpy

from nodes import Agents

BLOCK = 1 << 18


# ---- an agent ----

def runs(data):
    """[[byte, how many], ...]"""
    a = numpy.frombuffer(data, numpy.uint8)
    at = numpy.flatnonzero(numpy.diff(a, prepend=a[:1] ^ 1)) if len(a) else []
    return [[int(a[i]), int(j - i)] for i, j in zip(at, [*at[1:], len(a)])]


def answer(what, r):
    try:
        return what(r)
    except OSError as e:
        return {"error": errno.errorcode[e.errno]}


class Agent:
    def __init__(self, work):
        self.work, self.fds = work, {}
        self.lib = ctypes.CDLL(None)
        self.lib.fanstore_prefetch.restype = ctypes.c_int64

    def path(self, name):
        return os.path.join(self.work, name)

    def write(self, r):
        """Pieces [where, byte, how many] by one descriptor, which is then synced, closed, or left open as it is."""
        fd = self.fds.get(r["key"])
        if fd is None:
            fd = os.open(self.path(r["name"]), r["flags"], 0o640)
        for off, byte, n in r["pieces"]:
            data = bytes([byte]) * n
            if off is None:
                while data:
                    data = data[os.write(fd, data):]
            elif n:
                assert os.pwrite(fd, data, off) == n
            else:
                os.ftruncate(fd, off)
            if off is not None and r["flags"] & os.O_RDWR:
                assert os.pread(fd, n, off) == data
        if r["then"] == "fsync":
            os.fsync(fd)
        if r["then"] == "close":
            os.close(fd)
            self.fds.pop(r["key"], None)
        else:
            self.fds[r["key"]] = fd

    def open(self, r):
        self.fds[r["key"]] = os.open(self.path(r["name"]), os.O_RDONLY)

    def close(self, r):
        os.close(self.fds.pop(r["key"]))

    def size(self, r):
        return os.fstat(self.fds[r["key"]]).st_size

    def stat(self, r):
        return os.stat(self.path(r["name"])).st_size

    def pread(self, r):
        return runs(os.pread(self.fds[r["key"]], r["n"], r["off"]))

    def child(self, r):
        """The same by a forked child that has inherited the descriptor."""
        ours, theirs = os.pipe()
        pid = os.fork()
        if pid == 0:
            try:
                os.write(theirs, json.dumps(answer(self.pread, r)).encode())
            finally:
                os._exit(0)
        os.close(theirs)
        with os.fdopen(ours) as f:
            said = f.read()
        os.waitpid(pid, 0)
        return json.loads(said)

    def all(self, r):
        """From the beginning to the end, by a descriptor of its own, in steps."""
        fd = os.open(self.path(r["name"]), os.O_RDONLY)
        data = b"".join(iter(lambda: os.read(fd, r["n"]), b""))
        os.close(fd)
        return runs(data)

    def threads(self, r):
        said = []
        threads = [threading.Thread(target=lambda: said.append(self.all(r))) for _ in range(3)]
        for t in threads:
            t.start()
        for t in threads:
            t.join()
        assert len(said) == 3
        return said

    def mapped(self, r):
        with open(self.path(r["name"]), "rb") as f:
            return runs(mmap.mmap(f.fileno(), 0, prot=mmap.PROT_READ)[:] if os.fstat(f.fileno()).st_size else b"")

    def hint(self, r):
        if r["key"] in self.fds:
            os.posix_fadvise(self.fds[r["key"]], r["off"], r["n"], os.POSIX_FADV_WILLNEED)
        else:
            paths = (ctypes.c_char_p * 1)(self.path(r["name"]).encode())
            assert self.lib.fanstore_prefetch(paths, ctypes.c_size_t(1), None) == 1

    def truncate(self, r):
        os.truncate(self.path(r["name"]), r["n"])

    def rename(self, r):
        os.rename(self.path(r["name"] + ".tmp"), self.path(r["name"]))

    def unlink(self, r):
        os.unlink(self.path(r["name"]))

    def serve(self):
        for line in sys.stdin:
            r = json.loads(line)
            print(json.dumps(answer(getattr(self, r["do"]), r)), flush=True)


# ---- what there must be ----

class File:
    def __init__(self, home):
        self.home = home
        # Has another node written it; and published bytes that are not in home's own file? Home's descriptors from before
        # are the kernel's, which know of nothing that others write.
        self.shared = self.segments = self.told = False
        self.was = [numpy.zeros(0, numpy.uint8)]  # after each write
        self.published = 0                        # of these
        self.pending = None                       # who has written since

    def now(self):
        return len(self.was) - 1

    def put(self, off, byte, n):
        a = self.was[-1]
        if off is None:
            self.put(len(a), 0, n)  # home may make room first
            off = len(a)
        elif n == 0:
            # While a file is cut, Linux may show zeros up to the page's end, with the old length.
            zeros = min(max(0, len(a) - off), -off % 4096)
            if zeros:
                self.was.append(numpy.concatenate([a[:off], numpy.zeros(zeros, numpy.uint8), a[off + zeros:]]))
            self.was.append(numpy.concatenate([a[:off], numpy.zeros(max(0, off - len(a)), numpy.uint8)]))
            return
        a = numpy.concatenate([self.was[-1], numpy.zeros(max(0, off + n - len(self.was[-1])), numpy.uint8)])
        a[off:off + n] = byte
        self.was.append(a)

    def lengths(self, least):
        seen = [len(a) for a in self.was[least:]]
        return min(seen), max(seen)

    def check(self, got, off, n, least):
        a = numpy.repeat(numpy.array([b for b, _ in got], numpy.uint8), [m for _, m in got])
        low, high = (min(max(0, m - off), n) for m in self.lengths(least))
        assert low <= len(a) <= high, f"{len(a)} bytes instead of {low} to {high}"
        good = numpy.zeros(len(a), bool)
        for was in reversed(self.was[least:]):
            segment = was[off:off + len(a)]
            good[:len(segment)] |= segment == a[:len(segment)]
            if good.all():
                return
        bad = numpy.flatnonzero(~good)
        values = [int(w[off + bad[0]]) for w in self.was if len(w) > off + bad[0]]
        raise AssertionError(f"byte {off + bad[0]} ({len(bad)} such) is {a[bad[0]]}; it was {values[-9:]}, from {least} of {len(self.was)}")


class Fd:
    def __init__(self, node, file, key, writes):
        self.node, self.file, self.key, self.writes = node, file, key, writes
        self.least = file.published


class Job(Agents):
    def __init__(self, work, nodes, seed):
        super().__init__(work, nodes)
        self.work, self.rng = work, random.Random(seed)
        self.files, self.fds, self.key, self.last, self.done, self.left = {}, [], 0, [], {}, []

    def tell(self, node, **r):
        self.last = self.last[-400:] + [(node, r)]
        self.done[r["do"]] = self.done.get(r["do"], 0) + 1
        super().tell(node, **r)

    def hear(self, node, may=()):
        said = super().hear(node)
        if isinstance(said, dict):
            assert said["error"] in may, said
            return None
        return said

    def number(self, name=None):
        self.key += 1
        return f"{name}.{self.key}"

    # -- readers --

    def least(self, node, f):
        """What who opens the file there must see."""
        return f.now() if f.pending == node or (node == f.home and not f.shared) else f.published

    def look(self, name, also=None):
        """One way of reading; with `also`, a call of another node's while it goes on."""
        f, node = self.files[name], self.rng.randrange(self.nodes)
        others = [n for n in range(self.nodes) if n != also[0] and (n != f.home or f.told or not f.segments)] if also else []
        if also and not others:
            also[1]()
            return
        if also and node not in others:
            node = self.rng.choice(others)
        mine = [fd for fd in self.fds if fd.node == node and fd.file.name == name and (not fd.writes or fd.file.shared)]
        how = self.rng.choice(("all", "all", "threads", "mapped", "stat", "hint", "open", "size", "pread", "pread", "child", "close"))
        if how == "mapped" and also is not None:
            how = "all"  # who maps a file of the kernel's that is cut is killed, as everywhere
        fd = self.rng.choice(mine) if mine else None
        if fd is None and how in ("size", "pread", "child", "close"):
            how = "open"
        if how == "close" and fd.writes:
            how = "pread"
        f = fd.file if fd and how not in ("all", "threads", "mapped", "stat", "open") else f
        least, off, n = f.published if how == "stat" else self.least(node, f), 0, self.rng.choice((1000, 65536, BLOCK, 1 << 20))
        if how in ("pread", "child"):
            off = self.rng.randrange(len(f.was[-1]) + 1000)
            least = f.now() if node == f.home and not f.shared else f.published if how == "child" else fd.least
        key = fd.key if fd and how != "open" else self.number(name) if how == "open" else ""
        opened = Fd(node, f, key, False) if how == "open" else None
        self.tell(node, do=how, name=name, key=key, off=off, n=n)
        if also is not None:
            also[1]()
        # A file that another one replaces at that moment is the one or the other.
        said = self.hear(node, may=("ENOENT",) if also and also[2] else ())
        if also and also[2]:
            if how == "open" and said is None:
                self.tell(node, do="close", key=key)
                self.hear(node, may=("ENOENT",))
            elif how == "close":
                self.fds.remove(fd)
            return
        if how in ("all", "mapped", "pread", "child"):
            f.check(said, off, n if how in ("pread", "child") else 1 << 40, least)
        elif how == "threads":
            for one in said:
                f.check(one, 0, 1 << 40, least)
        elif how in ("size", "stat"):
            low, high = f.lengths(least)
            assert low <= said <= high, f"{how}: {said} instead of {low} to {high}"
            if how == "size":
                fd.least = max(fd.least, least)
        elif how == "open":
            opened.least = least
            self.fds.append(opened)
        elif how == "close":
            self.fds.remove(fd)

    # -- writers --

    def write(self, name, node):
        f = self.files[name]
        if f.pending is not None:
            node = f.pending
        if node != f.home and not f.shared:
            f.shared = True
            if f.pending is not None:
                self.publish(f)
        mine = [fd for fd in self.fds if fd.writes and fd.file is f and fd.node == node]
        rng, size = self.rng, len(f.was[-1])
        flags, how = os.O_RDWR, rng.choice(("pieces", "pieces", "pieces", "cut", "append", "anew"))
        pieces = []
        for _ in range(rng.choice((1, 1, 2, 5))):
            n = rng.choice((1, 100, 4096, 20000, 70000, BLOCK, 400_000))
            pieces.append([None if how == "append" else rng.randrange(min(size, 1_300_000) + 2000), rng.randrange(1, 256), n])
        if how == "anew":
            flags |= os.O_TRUNC
            pieces[0][0] = 0
        elif how == "append":
            flags |= os.O_APPEND
            pieces = pieces[:2] if size < 1_500_000 else [[None, 7, 10]]
        elif how == "cut":
            pieces.append([rng.randrange(size + 3000), 0, 0])
        mine = [fd for fd in mine if not fd.appends]
        fd = rng.choice(mine) if mine and how in ("pieces", "cut") else Fd(node, f, self.number(name), True)
        fd.appends = how == "append"
        before = f.segments
        f.segments = f.segments or (f.shared and node != f.home and any(off is not None or n > 16000 for off, _, n in pieces))
        then = rng.choice(("fsync", "close", "close", "nothing")) if fd in mine or len(mine) < 2 else "close"

        def end():
            self.hear(node)
            if flags & os.O_TRUNC:
                f.put(0, 0, 0)
            for piece in pieces:
                f.put(*piece)
            if how == "append" and before:
                self.tell_home(f)  # it publishes what the process has written before, but not its own bytes
            if then == "nothing":
                f.pending = node
            else:
                self.published(f)
            if fd in mine and then == "close":
                self.fds.remove(fd)
            elif fd not in mine and then != "close":
                self.fds.append(fd)

        self.tell(node, do="write", name=name, key=fd.key, flags=flags, pieces=pieces, then=then)
        return node, end, False

    def publish(self, f):
        fd = next(fd for fd in self.fds if fd.writes and fd.file is f and fd.node == f.pending)
        self.ask(f.pending, do="write", key=fd.key, pieces=[], then="fsync")
        self.published(f)

    def published(self, f):
        f.published, f.pending = f.now(), None
        self.tell_home(f)

    def tell_home(self, f):
        """Home knows now of the bytes that others have: its descriptors from before are not used again."""
        if f.segments and not f.told:
            f.told = True
            self.left += [fd for fd in self.fds if fd.file is f and fd.node == f.home]

    def close(self, fd):
        self.ask(fd.node, do="close", key=fd.key)
        self.fds.remove(fd)

    def truncate(self, name, node):
        f = self.files[name]
        if f.pending is not None:
            self.publish(f)
        n = self.rng.randrange(len(f.was[-1]) + 5000)

        def end():
            self.hear(node)
            f.put(n, 0, 0)
            f.published = f.now()

        self.tell(node, do="truncate", name=name, n=n)
        return node, end, False

    def make(self, name, node):
        """A new file of that name, in the old one's place if there is one."""
        f = File(node)
        f.name = name
        tmp = name + ".tmp" if name in self.files else name
        piece = [0, self.rng.randrange(1, 256), self.rng.choice((1, 5000, 300_000, 1_200_000))]
        self.ask(node, do="write", name=tmp, key=self.number(), flags=os.O_WRONLY | os.O_CREAT | os.O_EXCL, pieces=[piece], then="close")
        f.put(*piece)
        f.published = f.now()
        old = self.files.get(name)
        if old and old.pending is not None:
            self.publish(old)

        def end():
            self.hear(node)
            self.files[name] = f
            self.left += [fd for fd in self.fds if fd.file is old and fd.writes]

        if tmp == name:
            self.files[name] = f
            return None
        self.tell(node, do="rename", name=name)
        return node, end, True

    def change(self, name):
        node, f = self.rng.randrange(self.nodes), self.files[name]
        if name.startswith("alone"):
            node = f.home
        how = self.rng.choices((self.write, self.truncate, self.make), (20, 2, 2))[0]
        if len(f.was) > 200:
            how = self.make
        return how(name, node)

    def step(self):
        name = self.rng.choice(sorted(self.files))
        what = self.rng.random()
        if what < 0.6:
            self.look(name)
        elif what < 0.85:
            self.change(name)[1]()
        else:
            also = self.change(name)
            self.look(name, also)
        left, self.left = self.left + self.fds[:max(0, len(self.fds) - 60)], []
        for fd in left:
            if fd not in self.fds:
                continue
            if fd.writes and fd.file.pending is not None:
                self.publish(fd.file)
            self.close(fd)


def main():
    work, nodes, steps = os.path.join(sys.argv[1], "random"), int(sys.argv[2]), int(sys.argv[3])
    seed = int(sys.argv[4]) if len(sys.argv) > 4 else random.randrange(10**6)
    print(f"seed {seed}", flush=True)
    os.mkdir(work)
    job = Job(work, nodes, seed)
    for i in range(3):
        job.make(f"alone{i}", i % nodes)
        job.make(f"shared{i}", (i + 1) % nodes)
    for i in range(steps):
        try:
            job.step()
        except BaseException:
            for node, r in job.last:
                print(node, r)
            print(f"FAILED at step {i} of seed {seed}", flush=True)
            raise
    job.end()
    print(f"ok - {steps} steps: {job.done}")


if __name__ == "__main__":
    Agent(sys.argv[2]).serve() if sys.argv[1] == "agent" else main()
