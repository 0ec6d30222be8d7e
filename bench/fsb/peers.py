# SPDX-License-Identifier: BSD-3-Clause
"""The sides of a comparison: ways to reach the same files, and how each is set up and taken away again."""
import json
import os
import shutil
import subprocess
import tempfile
import time


class Missing(Exception):
    """This side cannot be had here; its text says why."""


class Failed(Exception):
    """A program failed, or did not read what the others read."""


class Side:
    """One way to reach the same files: a directory, and what a program needs to be started with to see it."""

    def __init__(self, name, directory, prefix=(), env=None):
        self.name, self.directory, self.prefix, self.env = name, directory, list(prefix), env or {}

    def command(self, argv):
        return self.prefix + [str(a) for a in argv]

    def environment(self):
        clean = {k: v for k, v in os.environ.items() if k != "LD_PRELOAD" and not k.startswith("FANSTORE_")}
        return {**clean, **self.env}

    def run(self, argv, timeout=600, **more):
        """Runs the program to its end; the last line of JSON that it printed, or {}."""
        command = self.command(argv)
        done = subprocess.run(command, env=self.environment(), stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                              stderr=subprocess.PIPE, text=True, timeout=timeout, **more)
        if done.returncode != 0:
            raise Failed("%s: %s: status %d\n%s%s" % (self.name, " ".join(command), done.returncode,
                                                      done.stdout[-2000:], done.stderr[-4000:]))
        lines = [line for line in done.stdout.splitlines() if line.startswith("{")]
        return json.loads(lines[-1]) if lines else {}


def call(command, **more):
    done = subprocess.run(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                          **more)
    if done.returncode != 0:
        raise Failed("%s: status %d\n%s" % (" ".join(command), done.returncode, done.stdout[-4000:]))
    return done.stdout


def file_system_of(path):
    best, kind = "", "?"
    with open("/proc/self/mounts") as f:
        for line in f:
            where, what = line.split()[1:3]
            where = where.encode().decode("unicode_escape")
            if (os.path.realpath(path) + "/").startswith(where.rstrip("/") + "/") and len(where) >= len(best):
                best, kind = where, what
    return kind


def mount_or_missing(command, what):
    try:
        call(command)
    except (Failed, OSError) as e:
        raise Missing("%s: %s" % (what, str(e).strip().splitlines()[-1])) from e


def unmount(path):
    subprocess.run(["umount", path], stderr=subprocess.DEVNULL, check=False)
    if os.path.ismount(path):
        subprocess.run(["umount", "-l", path], stderr=subprocess.DEVNULL, check=False)


def need(*programs):
    for program in programs:
        if not shutil.which(program):
            raise Missing("%s is not installed" % program)


class Peers:
    """Makes sides below a scratch directory, and takes away what was mounted. A part of the Context."""

    def _start(self, work, build):
        self.work, self.build, self._undo, self._images = work, build, [], {}
        self.base = "ext4"  # the name of the side that the others are compared with

    def bin(self, name):
        return os.path.join(self.build, "bin", name)

    def tool(self, name):
        return os.path.join(self.build, "bench", name)

    def dir(self, name):
        path = os.path.join(self.work, name)
        os.makedirs(path, exist_ok=True)
        return path

    def pack(self, source, name, codec="raw", partitions=4, extra=()):
        dataset = os.path.join(self.dir("datasets"), name)
        call([self.bin("fs-prepare"), "pack", "--force", "--codec", codec, "--partitions", str(partitions), *extra, source,
              dataset])
        return dataset

    def plain(self, directory):
        self.base = file_system_of(directory)
        return Side(self.base, directory)

    def tmpfs(self, source):
        """A copy of the source in memory: on a tmpfs of its own, or else in /dev/shm."""
        size = int(call(["du", "-s", "-B1", source]).split()[0])
        with open("/proc/meminfo") as f:
            free = next(int(line.split()[1]) * 1024 for line in f if line.startswith("MemAvailable"))
        if free < 2 * size + (1 << 30):
            raise Missing("tmpfs: not enough memory for a copy")
        top = tempfile.mkdtemp(prefix="tmpfs.", dir=self.work)
        try:
            mount_or_missing(["mount", "-t", "tmpfs", "-o", "size=%d,nr_inodes=0" % (2 * size + (64 << 20)), "tmpfs", top],
                             "tmpfs")
            self._undo.append(lambda: unmount(top))
        except Missing:
            top = tempfile.mkdtemp(prefix="fs-bench.", dir="/dev/shm")
            self._undo.append(lambda: shutil.rmtree(top, ignore_errors=True))
        copy = os.path.join(top, "copy")
        call(["cp", "-a", source, copy])
        return Side("tmpfs", copy)

    def image(self, source):
        """A SquashFS image of the source, by lz4 at its usual level, made once."""
        need("mksquashfs")
        if source not in self._images:
            path = os.path.join(self.dir("images"), "%d.sqfs" % len(self._images))
            call(["mksquashfs", source, path, "-comp", "lz4", "-b", "128K", "-noappend", "-no-progress", "-quiet"])
            self._images[source] = path
        return self._images[source]

    def squashfs(self, source):
        image, where = self.image(source), tempfile.mkdtemp(prefix="squashfs.", dir=self.work)
        mount_or_missing(["mount", "-t", "squashfs", "-o", "loop,ro", image, where], "kernel SquashFS")
        self._undo.append(lambda: unmount(where))
        return Side("squashfs", where)

    def squashfuse(self, source):
        need("squashfuse_ll")
        image, where = self.image(source), tempfile.mkdtemp(prefix="squashfuse.", dir=self.work)
        mount_or_missing(["squashfuse_ll", image, where], "squashfuse")
        self._undo.append(lambda: unmount(where))
        deadline = time.monotonic() + 10
        while not os.path.ismount(where):
            if time.monotonic() > deadline:
                raise Missing("squashfuse: not mounted after 10 s")
            time.sleep(0.01)
        return Side("squashfuse", where)

    def mount_of(self, dataset):
        return os.path.join(self.work, "mnt", os.path.basename(dataset))  # no directory is there

    def library(self, dataset):
        mount = self.mount_of(dataset)
        return Side("library", mount, env={"LD_PRELOAD": os.path.join(self.build, "lib/libfanstore.so"),
                                           "FANSTORE_DATASET": dataset, "FANSTORE_MOUNT": mount})

    def nodes(self, dataset, n, extra=()):
        """The mount under fs-launch on n emulated nodes (1: this host alone). The partitions stay staged."""
        mount = self.mount_of(dataset)
        local = os.path.join(self.dir("local"), "%s-%d" % (os.path.basename(dataset), n))
        launch = [self.bin("fs-launch"), "--dataset", dataset, "--mount", mount, "--local-dir", local]
        launch += ["--emulate", str(n)] if n > 1 else []
        return Side("%d node%s" % (n, "" if n == 1 else "s"), mount, launch + [str(e) for e in extra] + ["--"])

    def peers(self, *makers):
        """The sides that can be had; for each of the others a line says why not. makers: functions without arguments."""
        sides = []
        for maker in makers:
            try:
                sides.append(maker())
            except Missing as e:
                self.skip(str(e).split(":")[0], str(e))
        return sides

    def undo(self, fn):
        """To be called when the sides are taken away."""
        self._undo.append(fn)

    def take_away(self):
        for undo in reversed(self._undo):
            undo()
        self._undo, self._images = [], {}

    def clear(self):
        """Takes all sides away and removes all files: between the cases of a suite."""
        self.take_away()
        for name in os.listdir(self.work):
            shutil.rmtree(os.path.join(self.work, name), ignore_errors=True)
