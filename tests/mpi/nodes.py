# SPDX-License-Identifier: BSD-3-Clause
"""Programs on several nodes of a job, for the tests of output files: pieces of Python, each in a process on a node."""
import os
import subprocess
import sys
import textwrap

PRELUDE = "import errno, os, random, sys, time\nwork = sys.argv[1]\n"


class Nodes:
    def __init__(self, work, prelude=""):
        self.work, self.prelude = work, PRELUDE + prelude

    def start(self, node, code, *args, **kwargs):
        return start(node, sys.executable, "-S", "-c", self.prelude + textwrap.dedent(code), self.work, *map(str, args), **kwargs)

    def on(self, node, code, *args):
        return finish(self.start(node, code, *args))

    def agent(self, node):
        return Agent(self, node)


class Agent:
    """A process on a node that runs one piece after another: where many are run, and none needs a process of its own."""
    CODE = """
        import contextlib, io
        while size := sys.stdin.readline():
            with contextlib.redirect_stdout(io.StringIO()) as said:
                exec(sys.stdin.read(int(size)))
            said = said.getvalue()
            print(len(said), said, sep="\\n", end="", flush=True)
    """

    def __init__(self, nodes, node):
        self.process = nodes.start(node, self.CODE)

    def run(self, code):
        self.process.stdin.write(f"{len(code)}\n{code}"), self.process.stdin.flush()
        size = self.process.stdout.readline()
        assert size, "an agent has ended"
        return self.process.stdout.read(int(size)).strip()

    def end(self):
        finish(self.process)


def start(node, *command, **kwargs):
    env = {**os.environ, "FANSTORE_NODE": str(node)}
    return subprocess.Popen(command, env=env, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, **kwargs)


def finish(process, timeout=120):
    out, _ = process.communicate(timeout=timeout)
    assert process.returncode == 0, f"status {process.returncode}"
    return out.strip()


def daemon(rank, local):
    """The process of a daemon of the job that has this --local-dir."""
    for p in filter(str.isdigit, os.listdir("/proc")):
        try:
            with open(f"/proc/{p}/comm") as comm, open(f"/proc/{p}/cmdline") as line, open(f"/proc/{p}/environ") as env:
                if (comm.read().strip() == "fanstored" and local in line.read().split("\0") and
                        f"OMPI_COMM_WORLD_RANK={rank}" in env.read().split("\0")):
                    return int(p)
        except OSError:
            pass
    raise AssertionError(f"there is no daemon {rank}")


def equal(what, expected, seen):
    assert expected == seen, f"{what}: {seen!r} instead of {expected!r}"


def step(text):
    print("ok -", text, flush=True)
