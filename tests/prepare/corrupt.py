# SPDX-License-Identifier: BSD-3-Clause
"""Damages a small dataset byte by byte: what fs-prepare and the preloaded library say must be right, or an error.

    corrupt.py FS-PREPARE LIBFANSTORE.SO SOURCE DATASET SECONDS

Each step changes one byte of one file of DATASET (or cuts the file there), looks, and restores it. The places come in
a shuffled order that is the same in every run, until SECONDS have passed; 0: all of them. SOURCE is what was packed.
"""
import os
import random
import shutil
import subprocess
import sys
import time

HEADER = 4096  # of a partition; only its first 72 bytes mean something
HEADER_USED = 72


def run(command, **env):
    """Exit status, lines of stdout, stderr. A signal or a hanging program ends the test."""
    done = subprocess.run(command, capture_output=True, timeout=60, env={**os.environ, **env}, check=False)
    if done.returncode not in (0, 1):
        raise SystemExit(f"exit status {done.returncode} of {command}: {done.stderr.decode(errors='replace')}")
    return done.returncode, done.stdout.splitlines(), done.stderr


def tree(top):
    """Everything that a program can see of a tree, for comparing."""
    seen = {}
    for directory, dirs, files in os.walk(top):
        for name in dirs + files + ["."]:
            path = os.path.join(directory, name)
            st = os.lstat(path)
            what = [st.st_mode, st.st_mtime_ns]
            if os.path.islink(path):
                what.append(os.readlink(path))
            elif os.path.isfile(path):
                with open(path, "rb") as f:
                    what += [st.st_nlink, f.read()]
            seen[os.path.relpath(path, top)] = what
    return seen


class Corrupter:
    def __init__(self, prepare, lib, source, dataset):
        self.prepare, self.lib, self.dataset = prepare, lib, dataset
        self.want = tree(source)
        self.paths = sorted(p for p in self.want if os.path.isfile(os.path.join(source, p)))
        self.out = dataset + ".unpacked"
        self.mount = dataset + ".mount"
        self.sums = dict(self.read(source)[1])
        self.counts = {"verify": 0, "unpack": 0, "mount": 0}

    def read(self, top, **env):
        """Exit status, and a pair (path, checksum) for each file that could be read."""
        command = ["md5sum", "-z", "--"] + [os.path.join(top, p) for p in self.paths]
        done = subprocess.run(command, capture_output=True, timeout=60, env={**os.environ, **env}, check=False)
        if done.returncode not in (0, 1):
            raise SystemExit(f"exit status {done.returncode} of md5sum: {done.stderr.decode(errors='replace')}")
        lines = [line.split(b"  ", 1) for line in done.stdout.split(b"\0") if line]
        return done.returncode, [(os.path.relpath(os.fsdecode(p), top), s) for s, p in lines]

    def check_mount(self):
        status, got = self.read(self.mount, LD_PRELOAD=self.lib, FANSTORE_DATASET=self.dataset,
                                FANSTORE_MOUNT=self.mount)
        for path, checksum in got:
            if self.sums[path] != checksum:
                return f"{path} has wrong contents below the mount"
        if status == 0 and len(got) != len(self.sums):
            return "a file is missing below the mount, without an error"
        self.counts["mount"] += status
        return None

    def check_unpack(self):
        status, _, err = run([self.prepare, "unpack", self.dataset, self.out])
        self.counts["unpack"] += status
        if status == 0 and tree(self.out) != self.want:
            return "unpack says nothing and restores something else"
        if status == 1 and len(err.splitlines()) != 1:
            return f"unpack does not say one line: {err}"
        shutil.rmtree(self.out, ignore_errors=True)
        return None

    def check(self, must_be_found):
        status, out, err = run([self.prepare, "verify", self.dataset])
        self.counts["verify"] += status
        if must_be_found and status == 0:
            return "verify finds it good"
        if status == 1 and not err and not out:
            return "verify says nothing"
        wrong = self.check_unpack()
        return wrong or self.check_mount()


def places(dataset):
    """(file, offset, how) in a shuffled order. The bytes of the text and of the index are worth more than data."""
    chosen = []
    for name in sorted(os.listdir(dataset)):
        size = os.path.getsize(os.path.join(dataset, name))
        step = 37 if name.startswith("part-") else 1
        chosen += [(name, at, how) for at in range(0, size, step) for how in (0x01, 0x10, 0x40, 0xff)]
        chosen += [(name, at, "cut") for at in range(0, size, max(size // 50, 1))]
        if name.startswith("part-"):
            chosen += [(name, at, how) for at in range(HEADER_USED) for how in (0x01, 0xff)]
    random.Random(1).shuffle(chosen)
    return chosen


def damage(path, good, at, how):
    with open(path, "wb") as f:
        f.write(good[:at] if how == "cut" else good[:at] + bytes([good[at] ^ how]) + good[at + 1:])


def main():
    prepare, lib, source, dataset, seconds = sys.argv[1:]
    c = Corrupter(prepare, lib, source, dataset)
    wrong = c.check(False)
    if wrong or any(c.counts.values()):
        raise SystemExit(f"before any damage: {wrong or c.counts}")
    all_places = places(dataset)
    end = time.monotonic() + float(seconds)
    done = failures = 0
    for name, at, how in all_places:
        if float(seconds) and time.monotonic() > end:
            break
        path = os.path.join(dataset, name)
        with open(path, "rb") as f:
            good = f.read()
        damage(path, good, at, how)
        zeros = name.startswith("part-") and HEADER_USED <= at < HEADER and how != "cut"
        wrong = c.check(not zeros)
        with open(path, "wb") as f:
            f.write(good)
        done += 1
        if wrong:
            failures += 1
            print(f"{name}, byte {at}, {how}: {wrong}")
    found = ", ".join(f"{k} found {n}" for k, n in c.counts.items())
    print(f"{done} of {len(all_places)} places tried: {found}")
    return 1 if failures or done == 0 else 0


sys.exit(main())
