# SPDX-License-Identifier: BSD-3-Clause
"""Programs on several nodes of a job, for the tests of output files: pieces of Python, each in a process on a node."""
import json
import os
import subprocess
import sys
import textwrap
import threading

PRELUDE = "import errno, os, random, sys, time\nwork = sys.argv[1]\n"


# A process that forks one for each piece of code it is sent: without the time that Python takes to start.
FORKS = """
import json
while line := sys.stdin.readline():
    code, args = json.loads(line)
    r, w = os.pipe()
    child = os.fork()
    if child == 0:
        os.dup2(w, 1), os.close(r), os.close(w)
        os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
        sys.argv[2:] = args
        random.seed()
        break
    os.close(w)
    with open(r) as f:
        said = f.read()
    print(json.dumps([os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), said]), flush=True)
else:
    sys.exit()
exec(code)
"""


class Nodes:
    """With forks, what `on` runs is a child of one process on each node; else it is a Python of its own."""

    def __init__(self, work, prelude="", forks=False):
        self.work, self.prelude, self.forks = work, PRELUDE + prelude, {} if forks else None

    def start(self, node, code, *args, **kwargs):
        return start(node, sys.executable, "-S", "-c", self.prelude + textwrap.dedent(code), self.work, *map(str, args), **kwargs)

    def on(self, node, code, *args):
        if self.forks is None:
            return finish(self.start(node, code, *args))
        parent = self.forks.get(node) or self.forks.setdefault(node, self.start(node, FORKS))
        parent.stdin.write(json.dumps([textwrap.dedent(code), [*map(str, args)]]) + "\n"), parent.stdin.flush()
        status, said = json.loads(parent.stdout.readline())
        assert status == 0, f"status {status}"
        return said.strip()


class Agents:
    """The running program again, as `PROGRAM agent WORK`, once on each node: it answers each line of JSON with one."""

    def __init__(self, work, nodes):
        self.nodes = nodes
        self.agents = [start(node, sys.executable, os.path.abspath(sys.argv[0]), "agent", work) for node in range(nodes)]

    def tell(self, node, **r):
        self.agents[node].stdin.write(json.dumps(r) + "\n")
        self.agents[node].stdin.flush()

    def hear(self, node):
        line = self.agents[node].stdout.readline()
        assert line, f"the agent on node {node} has ended: {self.agents[node].wait()}"
        return json.loads(line)

    def ask(self, node, **r):
        self.tell(node, **r)
        return self.hear(node)

    def end(self):
        for a in self.agents:
            a.stdin.close()
            assert a.wait(timeout=60) == 0


def start(node, *command, **kwargs):
    env = {**os.environ, "FANSTORE_NODE": str(node)}
    return subprocess.Popen(command, env=env, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, **kwargs)


def ask(process, *words):
    """Writes a line to a program that answers each line with one, and returns the answer."""
    process.stdin.write(" ".join(map(str, words)) + "\n"), process.stdin.flush()
    return process.stdout.readline().strip()


def rest(process, timeout=120):
    """Waits for the process's end, and returns what it has said since the last readline(). communicate() would lose what
    came with that line."""
    timer = threading.Timer(timeout, process.kill)
    timer.start()
    try:
        process.stdin.close()
    except BrokenPipeError:
        pass
    out = process.stdout.read()
    process.wait()
    timer.cancel()
    return out


def finish(process, timeout=120):
    out = rest(process, timeout)
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
