# SPDX-License-Identifier: BSD-3-Clause
"""Small files of other nodes, opened by batches: outputs_batch.py MOUNT NODES STEPS [SEED].

One process makes files, so that their ids are neighbours, and others go through them in order. An open must not sleep for most of
them. Then a process on each node changes or reads files at random. Each step is over before the next begins, so each read must give
what the last change has left.
"""
import errno
import fcntl
import json
import os
import random
import resource
import subprocess
import sys
import threading
import time

from nodes import Agents

FILES = 48
WAYS = ("pwrite", "write", "writev", "append", "truncate", "allocate", "stream")


def changed(data, how, byte, n):
    """What Agent.change leaves of a file."""
    if how == "truncate":
        return data[:n].ljust(n, b"\0")
    if how == "allocate":
        return data.ljust(n, b"\0")
    return data + bytes([byte]) * n if how == "append" else bytes([byte]) * n + data[n:]


# ---- an agent ----

class Agent:
    def __init__(self, work):
        self.work, self.fds = work, {}

    def path(self, r):
        return os.path.join(self.work, r["name"])

    def write(self, r):
        """Writes the whole file anew, a part of it, or behind its end."""
        fd = os.open(self.path(r), {"anew": os.O_WRONLY | os.O_TRUNC | os.O_CREAT, "part": os.O_RDWR,
                                    "append": os.O_WRONLY | os.O_APPEND}[r["how"]], 0o644)
        data = bytes([r["byte"]]) * r["n"]
        assert (os.pwrite(fd, data, r["off"]) if r["how"] == "part" else os.write(fd, data)) == r["n"]
        if r["how"] == "append" and r["open"]:
            self.fds[r["open"]] = fd
        else:
            os.close(fd)

    def replace(self, r):
        with open(self.path(r) + ".new", "wb") as f:
            f.write(bytes([r["byte"]]) * r["n"])
        os.rename(self.path(r) + ".new", self.path(r))

    def truncate(self, r):
        os.truncate(self.path(r), r["n"])

    def chmod(self, r):
        os.chmod(self.path(r), r["mode"])

    def walk(self, r):
        """Reads neighbours in order: [[size by fstat, mode, bytes], ...]"""
        said = []
        for name in r["names"]:
            try:
                fd = os.open(os.path.join(self.work, name), r["flags"])
            except OSError as e:
                said.append(errno.errorcode[e.errno])
                continue
            data, st = os.read(fd, 4096), os.fstat(fd)
            data += b"".join(iter(lambda: os.read(fd, 4096), b""))
            os.close(fd)
            said.append([st.st_size, st.st_mode & 0o777, data.hex()])
        return said

    def open(self, r):
        self.fds[r["key"]] = os.open(self.path(r), r["flags"])

    def close(self, r):
        os.close(self.fds.pop(r["key"]))

    def unlink(self, r):
        os.unlink(self.path(r))

    def pread(self, r):
        fd = self.fds[r["key"]]
        return [os.pread(fd, 1 << 20, 0).hex(), os.fstat(fd).st_nlink]

    def child(self, r):
        """By a forked child, and by a program that inherits the descriptor."""
        fd, (ours, theirs) = self.fds[r["key"]], os.pipe()
        pid = os.fork()
        if pid == 0:
            os.write(theirs, os.pread(fd, 1 << 20, 0))
            os._exit(0)
        os.close(theirs)
        with os.fdopen(ours, "rb") as f:
            forked = f.read().hex()
        os.waitpid(pid, 0)
        os.lseek(fd, 0, os.SEEK_SET)
        return [forked, subprocess.run(["cat"], stdin=fd, stdout=subprocess.PIPE, check=True).stdout.hex()]

    def change(self, r):
        """Changes an open file in one of the ways that there are, and reads it."""
        fd, data = self.fds[r["key"]], bytes([r["byte"]]) * r["n"]
        if r["how"] == "pwrite":
            assert os.pwrite(fd, data, 0) == len(data)
        elif r["how"] == "write":
            assert os.write(fd, data) == len(data)
        elif r["how"] == "writev":
            assert os.writev(fd, [data[:3], data[3:]]) == len(data)
        elif r["how"] == "append":
            fcntl.fcntl(fd, fcntl.F_SETFL, os.O_APPEND)
            assert os.write(fd, data) == len(data)
        elif r["how"] == "truncate":
            os.ftruncate(fd, r["n"])
        elif r["how"] == "allocate":
            os.posix_fallocate(fd, 0, r["n"])
        elif r["how"] == "stream":
            with os.fdopen(os.dup(fd), "r+b", buffering=0) as f:
                f.write(data)
        return os.pread(fd, 1 << 20, 0).hex()

    def changed_by_many(self, r):
        """Threads write to a removed file at once, each by a copy of the descriptor.
        [bytes, mode, number of files, errors of flock before and after]"""
        fds = [self.fds[r["key"]]]
        fds += [os.dup(fds[0]) for _ in range(11)]
        said = [self.lock(fds[0])]
        begin = threading.Barrier(len(fds))

        def one(i):
            begin.wait()
            os.pwrite(fds[i], bytes([i]), i)
        threads = [threading.Thread(target=one, args=(i,)) for i in range(len(fds))]
        for t in threads:
            t.start()
        for t in threads:
            t.join()
        data, st = os.pread(fds[0], 1 << 20, 0).hex(), [os.fstat(fd) for fd in fds]
        said.append(self.lock(fds[0]))
        for fd in fds[1:]:
            os.close(fd)
        return [data, st[0].st_mode & 0o777, len({s.st_ino for s in st}), said]

    def lock(self, fd):
        try:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as e:
            return errno.errorcode[e.errno]
        return ""

    def sleeps(self, r):
        """How often the process sleeps while it opens and reads all files."""
        before = resource.getrusage(resource.RUSAGE_SELF).ru_nvcsw
        for name in r["names"]:
            fd = os.open(os.path.join(self.work, name), r["flags"])
            assert len(os.read(fd, 4096)) == 4096
            os.close(fd)
        return resource.getrusage(resource.RUSAGE_SELF).ru_nvcsw - before

    def serve(self):
        for line in sys.stdin:
            r = json.loads(line)
            print(json.dumps(getattr(self, r["do"])(r)), flush=True)


# ---- what there must be ----

class Job(Agents):
    def __init__(self, work, nodes, seed):
        super().__init__(work, nodes)
        self.rng = random.Random(seed)
        self.files, self.key, self.hits = {}, 0, 0

    def number(self):
        self.key += 1
        return str(self.key)

    def check_walk(self, node):
        at, flags = self.rng.randrange(FILES), self.rng.choice((os.O_RDONLY, os.O_RDWR))
        names = [f"f{i}" for i in range(at, min(at + 12, FILES))]
        for name, said in zip(names, self.ask(node, do="walk", names=names, flags=flags)):
            data, mode = self.files[name]
            assert said == [len(data), mode, data.hex()], f"{name}, node {node}: {said[0]} bytes, {said[1]:o}, " \
                f"{bytes.fromhex(said[2])[:9]} instead of {len(data)}, {mode:o}, {data[:9]}"

    def change(self, node):
        rng, name = self.rng, f"f{self.rng.randrange(FILES)}"
        data, mode = self.files[name]
        how, byte, n = rng.choice(("anew", "anew", "part", "append", "replace", "truncate", "chmod")), rng.randrange(1, 256), \
            rng.choice((1, len(data), 4096, 9000))
        if how == "chmod":
            mode = rng.choice((0o644, 0o600, 0o640))
            self.ask(node, do="chmod", name=name, mode=mode)
        elif how == "truncate":
            n = rng.randrange(9000)
            self.ask(node, do="truncate", name=name, n=n)
            data = data[:n].ljust(n, b"\0")
        elif how == "replace":
            self.ask(node, do="replace", name=name, byte=byte, n=n)
            data, mode = bytes([byte]) * n, 0o644
        elif n > 0:
            off = {"anew": 0, "part": rng.randrange(len(data) + 1), "append": len(data)}[how]
            self.ask(node, do="write", name=name, how=how, byte=byte, n=n, off=off, open="")
            data = (b"" if how == "anew" else data[:off] + bytes([byte]) * n + data[off + n:]) or bytes([byte]) * n
        self.files[name] = (data, mode)

    def bring(self, node, name):
        """Most likely the node then has a batch with the file as it is now."""
        for _ in range(2):
            self.ask(node, do="walk", names=[f"f{int(name[1:]) ^ 1}", name], flags=os.O_RDONLY)
            time.sleep(0.06)

    def kept(self, node):
        """A file that is removed while it is open stays as it was, for this process, its children and their programs."""
        name, flags = f"f{self.rng.randrange(FILES)}", self.rng.choice((os.O_RDONLY, os.O_RDWR))
        data, mode = self.files[name]
        key = self.number()
        self.bring(node, name)
        self.ask(node, do="open", name=name, key=key, flags=flags)
        self.ask(self.rng.randrange(self.nodes), do="unlink", name=name)
        said = self.ask(node, do="pread", key=key)
        assert said[0] == data.hex(), f"{name} was removed: {len(said[0]) // 2} of {len(data)} bytes"
        if flags == os.O_RDWR:
            how = self.rng.choice(WAYS)
            n = 9000 if how == "allocate" else 10
            if self.rng.random() < 0.3:
                said, new = self.ask(node, do="changed_by_many", key=key), bytes(range(12)) + data[12:]
                # A file that is open at its home can be locked, a copy that only this process has cannot.
                assert said[:3] == [new.hex(), mode, 1] and said[3] in (["", ""], ["ENOLCK", "ENOLCK"]), \
                    f"{name} was removed and written by many: {said}"
                data = new
            said = self.ask(node, do="change", key=key, how=how, byte=7, n=n)
            assert said == changed(data, how, 7, n).hex(), f"{name} was removed and written ({how}): {said[:40]}"
        for one in self.ask(node, do="child", key=key) if flags == os.O_RDONLY else ():  # a forwarder is not read
            assert one == data.hex(), f"{name} was removed: a child has {len(one) // 2} of {len(data)} bytes"
        self.ask(node, do="close", key=key)
        self.ask(self.rng.randrange(self.nodes), do="replace", name=name, byte=5, n=100)
        self.files[name] = (b"\5" * 100, 0o644)

    def written(self, node):
        """A file that is opened to be written, and is: this process sees it at once, the others after close."""
        name, key, byte = f"f{self.rng.randrange(FILES)}", self.number(), self.rng.randrange(1, 256)
        data, mode = self.files[name]
        self.bring(node, name)
        self.ask(node, do="open", name=name, key=key, flags=os.O_RDWR)
        how = self.rng.choice(WAYS)
        new = changed(data, how, byte, 10)
        said = self.ask(node, do="change", key=key, how=how, byte=byte, n=10)
        assert said == new.hex(), f"{name} was written on node {node} ({how}): {said[:40]}"
        self.ask(node, do="close", key=key)
        self.files[name] = (new, mode)

    def appended(self, node):
        """What a program of this node has appended is there for its other programs before it is published."""
        name, key = f"f{self.rng.randrange(FILES)}", self.number()
        data, mode = self.files[name]
        self.bring(node, name)
        self.ask(node, do="write", name=name, how="append", byte=65, n=7, off=0, open=key)
        code = f"print(open({os.path.join(sys.argv[1], 'batch', name)!r}, 'rb').read().hex())"
        said = subprocess.run([sys.executable, "-c", code], env={**os.environ, "FANSTORE_NODE": str(node)}, check=True,
                              stdout=subprocess.PIPE, text=True).stdout.strip()
        self.ask(node, do="close", key=key)
        self.files[name] = (data + b"A" * 7, mode)
        assert said == self.files[name][0].hex(), f"{name} was appended to on node {node}: {len(said) // 2} bytes"

    def step(self):
        node = self.rng.randrange(self.nodes)
        what = self.rng.random()
        if what < 0.5:
            self.check_walk(node)
        elif what < 0.9:
            self.change(node)
        else:
            self.rng.choice((self.kept, self.written, self.appended))(node)


def main():
    work, nodes, steps = os.path.join(sys.argv[1], "batch"), int(sys.argv[2]), int(sys.argv[3])
    seed = int(sys.argv[4]) if len(sys.argv) > 4 else random.randrange(10**6)
    print(f"seed {seed}", flush=True)
    os.mkdir(work)
    job = Job(work, nodes, seed)
    many = [f"m{i}" for i in range(800)]
    for name in many:
        job.ask(0, do="write", name=name, how="anew", byte=1, n=4096, off=0, open="")
    for i in range(FILES):
        data = bytes([i + 1]) * job.rng.choice((0, 1, 100, 4096, 8192))
        job.ask(1, do="write", name=f"f{i}", how="anew", byte=i + 1, n=len(data), off=0, open="")
        job.files[f"f{i}"] = (data, 0o644)
    time.sleep(1)  # the home publishes what was closed
    for how, flags, names in ("read", os.O_RDONLY, many[:400]), ("write", os.O_RDWR, many[400:]):
        said = job.ask(1, do="sleeps", names=names, flags=flags)
        assert said < len(names) // 3, f"{said} sleeps while {len(names)} files are opened to {how}"
        print(f"ok - most small files are opened to {how} without a question: {said} sleeps for {len(names)}")
    for i in range(steps):
        try:
            job.step()
        except BaseException:
            print(f"FAILED at step {i} of seed {seed}", flush=True)
            raise
    job.end()
    print(f"ok - {steps} steps")


if __name__ == "__main__":
    Agent(sys.argv[2]).serve() if sys.argv[1] == "agent" else main()
