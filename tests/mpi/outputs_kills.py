# SPDX-License-Identifier: BSD-3-Clause
"""Writers that are killed at random moments: outputs_kills.py MOUNT NODES ROUNDS [SEED].

On each node is an agent, which runs writers in children of its own, kills them, and says what files are. A writer counts what
was done (a write, an fsync or a rename that returned) in memory that its agent shares, so that the check knows what must be
there: of each file what a local file system would have, the same on every node.
"""
import hashlib
import json
import mmap
import os
import random
import signal
import sys
import time

from nodes import Agents

BLOCK = 4096
PATIENCE = 20  # seconds for what the daemons hear of late to be seen everywhere; after that it is wrong


def block(owner, number):
    return (b"%08d:%08d\n" % (owner, number)) * (BLOCK // 18) + b"." * (BLOCK % 18)


# ---- writers: count(n) says that n steps are done ----

def write_new(path, r, count):
    """One file from its beginning on, blocks of several sizes, closed at the end or not."""
    fd = os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY)
    done, end = 0, r["end"]
    while done < end:
        n = min(end - done, 1 + (done * 7) % 16)
        data = b"".join(block(r["seed"], done + i) for i in range(n))
        assert os.write(fd, data) == len(data)
        done += n
        count(done)
    os.close(fd)
    count(done + 1)


def write_replaced(path, r, count):
    """A temporary name, fsync, rename: how checkpoints are made."""
    for version in range(1, 10000):
        fd = os.open(path + ".tmp", os.O_CREAT | os.O_TRUNC | os.O_WRONLY)
        for i in range(1 + version % 40):
            os.write(fd, block(version, i))
        os.fsync(fd)
        os.close(fd)
        os.rename(path + ".tmp", path)
        count(version)


def write_appended(path, r, count):
    """Lines at the end of a file that is there, opened anew for each few of them, or kept open."""
    done = 0
    while done < 100000:
        fd = os.open(path, os.O_WRONLY | os.O_APPEND)
        for _ in range(1 + r["seed"] % 50):
            assert os.write(fd, block(r["seed"], done)) == BLOCK
            done += 1
            count(done)
        os.close(fd)


def write_ranges(path, r, count):
    """Every so-manieth block of a file that others write, too; an fsync now and then. What is counted was published."""
    fd = os.open(path, os.O_CREAT | os.O_WRONLY)
    for done in range(r["end"]):
        assert os.pwrite(fd, block(r["who"], done), (done * r["of"] + r["who"]) * BLOCK) == BLOCK
        if done % r["sync"] == r["sync"] - 1:
            os.fsync(fd)
            count(done + 1)
    os.close(fd)
    count(r["end"])


WRITERS = {"new": write_new, "replaced": write_replaced, "appended": write_appended, "ranges": write_ranges}


# ---- an agent ----

def show(path):
    """What the file is now: size and digest; or None. An error is one that programs would see."""
    try:
        with open(path, "rb") as f:
            data = f.read()
            size = os.fstat(f.fileno()).st_size
    except FileNotFoundError:
        return None
    return [size, len(data), hashlib.sha1(data).hexdigest()]


def agent(work):
    shared = mmap.mmap(-1, 4096)
    for line in sys.stdin:
        r = json.loads(line)
        path = os.path.join(work, r["name"])
        if r["do"] == "show":
            said = show(path)
        elif r["do"] == "list":
            said = sorted(os.listdir(path))
        elif r["do"] == "blocks":
            with open(path, "rb") as f:
                said = f.read().hex()
        elif r["do"] == "pass":  # a call to the daemon, behind all that were posted before
            try:
                os.rmdir(path + ".no such")
            except FileNotFoundError:
                said = None
        elif r["do"] == "remove":
            os.unlink(path)
            said = None
        elif r["do"] == "make":
            with open(path, "wb") as f:
                f.write(b"".join(block(r["seed"], i) for i in range(r["end"])))
            said = None
        else:
            shared[:8] = bytes(8)

            def count(n):
                shared[:8] = n.to_bytes(8, "little")

            child = os.fork()
            if child == 0:
                status = 1
                try:
                    WRITERS[r["do"]](path, r, count)
                    status = 0
                finally:
                    os._exit(status)
            if r["delay"] is not None:
                time.sleep(r["delay"])
                os.kill(child, signal.SIGKILL)
            _, status = os.waitpid(child, 0)
            said = [int.from_bytes(shared[:8], "little"), os.WIFSIGNALED(status), os.waitstatus_to_exitcode(status)]
        print(json.dumps(said), flush=True)


# ---- rounds ----

class Rounds(Agents):
    def __init__(self, work, nodes, seed):
        super().__init__(work, nodes)
        self.rng = random.Random(seed)
        self.killed, self.late, self.waited = 0, 0, 0.0

    def ask_all(self, **r):
        for node in range(self.nodes):
            self.tell(node, **r)
        return [self.hear(node) for node in range(self.nodes)]

    def delay(self):
        return 10 ** self.rng.uniform(-4, -1.5)

    def hear_end(self, node):
        done, killed, status = self.hear(node)
        assert killed or status == 0, f"a writer on node {node} failed"
        self.killed += killed
        return done

    def run(self, node, **r):
        self.tell(node, **r)
        done = self.hear_end(node)
        # The killed one's last call may still be on its way; the next call of the same node to the same directory is behind it.
        self.ask(node, do="pass", name=r["name"])
        return done

    def alike(self, name, good):
        """All nodes see the same of a file, and something that is right: soon, as the daemons hear of it."""
        began = time.monotonic()
        seen = self.ask_all(do="show", name=name)
        while any(s != seen[0] for s in seen) or not good(seen[0]):
            assert time.monotonic() - began < PATIENCE, f"{name}: {seen}"
            self.late += 1
            time.sleep(0.01)
            seen = self.ask_all(do="show", name=name)
        self.waited = max(self.waited, time.monotonic() - began)
        return seen[0]

    def remove(self, name):
        self.ask(self.rng.randrange(self.nodes), do="remove", name=name)
        assert self.ask_all(do="show", name=name) == [None] * self.nodes

    # Each of these is a round.

    def new(self, name, node):
        seed, end = self.rng.randrange(10**6), self.rng.choice((1, 5, 60, 2000))
        done = self.run(node, do="new", name=name, seed=seed, end=end, delay=self.delay())
        closed, least = done > end, min(done, end) * BLOCK
        whole = b"".join(block(seed, i) for i in range(end))

        def good(s):
            if s is None:
                return done == 0
            return s[0] == s[1] >= least and s[2] == hashlib.sha1(whole[:s[0]]).hexdigest()

        s = self.alike(name, good)
        assert not closed or s[0] == end * BLOCK
        if s is not None:
            self.remove(name)

    def replaced(self, name, node):
        done = self.run(node, do="replaced", name=name, delay=self.delay())

        def version(v, n=None):
            data = b"".join(block(v, i) for i in range(1 + v % 40))[:n]
            return [len(data), len(data), hashlib.sha1(data).hexdigest()]

        def good(s):
            return s in [version(v) if v > 0 else None for v in (done, done + 1)]

        s = self.alike(name, good)
        t = self.alike(name + ".tmp", lambda t: t is None or t in [version(v, t[0]) for v in (done + 1, done + 2)])
        for left, what in ((s, name), (t, name + ".tmp")):
            if left is not None:
                self.remove(what)

    def appended(self, name, node):
        seed, old = self.rng.randrange(10**6), self.rng.randrange(9)
        self.ask(self.rng.choice((node, self.rng.randrange(self.nodes))), do="make", name=name, seed=1, end=old)
        done = self.run(node, do="appended", name=name, seed=seed, delay=self.delay())
        before = b"".join(block(1, i) for i in range(old))

        def good(s):
            if s is None or s[0] != s[1] or s[0] < old * BLOCK:
                return False
            n = -(-(s[0] - old * BLOCK) // BLOCK)
            data = before + b"".join(block(seed, i) for i in range(n))
            return s[2] == hashlib.sha1(data[:s[0]]).hexdigest() and n >= done

        self.alike(name, good)
        self.remove(name)

    def ranges(self, name, node):
        """All nodes write into one file, which may be there, and one of them is killed."""
        end, sync, there = self.rng.choice((10, 100, 400)), self.rng.choice((1, 7, 50)), self.rng.randrange(2)
        if there:
            self.ask(self.rng.randrange(self.nodes), do="make", name=name, seed=99, end=end * self.nodes)
        for who in range(self.nodes):
            self.tell(who, do="ranges", name=name, who=who, of=self.nodes, end=end, sync=sync,
                      delay=self.delay() if who == node else None)
        done = [self.hear_end(who) for who in range(self.nodes)]
        s = self.alike(name, lambda s: s is not None and s[0] == s[1])
        data = bytes.fromhex(self.ask((node + 1) % self.nodes, do="blocks", name=name))
        assert len(data) == s[0] >= max((n - 1) * self.nodes + who + 1 for who, n in enumerate(done)) * BLOCK
        for i in range(-(-len(data) // BLOCK)):
            got, want = data[i * BLOCK:(i + 1) * BLOCK], block(i % self.nodes, i // self.nodes)
            # What an fsync was answered for is there; the rest of the killed one's, or what was there before.
            old = block(99, i) if there else bytes(BLOCK)
            rest = i // self.nodes >= done[i % self.nodes] and got == old[:len(got)]
            assert got == want[:len(got)] or rest, f"{name}: block {i} of {i % self.nodes}, killed: {node}"
        self.remove(name)


def main():
    work, nodes, rounds = os.path.join(sys.argv[1], "kills"), int(sys.argv[2]), int(sys.argv[3])
    seed = int(sys.argv[4]) if len(sys.argv) > 4 else random.randrange(10**6)
    print(f"seed {seed}", flush=True)
    os.mkdir(work)
    all_rounds = Rounds(work, nodes, seed)
    kinds = ("new", "replaced", "appended", "ranges")
    for i in range(rounds):
        kind = kinds[i % len(kinds)]
        getattr(all_rounds, kind)(f"{kind}.{i}", all_rounds.rng.randrange(nodes))
    assert all_rounds.ask_all(do="list", name=".") == [[]] * nodes
    all_rounds.end()
    assert all_rounds.killed > rounds / 2, all_rounds.killed
    print(f"ok - {rounds} rounds, {all_rounds.killed} writers killed; {all_rounds.late} looks were too early, "
          f"the longest wait was {all_rounds.waited:.2f} s")


if __name__ == "__main__":
    agent(sys.argv[2]) if sys.argv[1] == "agent" else main()
