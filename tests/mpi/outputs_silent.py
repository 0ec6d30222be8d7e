# SPDX-License-Identifier: BSD-3-Clause
"""Programs that start when their node's daemon is stopped, or dead: outputs_silent.py MOUNT NODES LOCAL_DIR DATASET read-only|outputs|stalls."""
import os
import signal
import subprocess
import sys
import time

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from nodes import Nodes, daemon, equal, finish, start, step  # noqa: E402

mount, count, local, dataset, outputs = sys.argv[1], int(sys.argv[2]), sys.argv[3], sys.argv[4], sys.argv[5] != "read-only"
victim = count - 1
PRELUDE = """
import hashlib
def ends(call, *args):
    try:
        r = call(*args)
        return 'None' if r is None else 'ok'
    except OSError as e:
        return errno.errorcode[e.errno]
def write(name):
    with open(f'{work}/{name}', 'w') as f:
        f.write(name)
def read(name):
    with open(f'{work}/{name}', 'rb') as f:
        return f.read()
def sums(names):
    return hashlib.sha256(b''.join(read(n) for n in names)).hexdigest()
"""
nodes = Nodes(mount, PRELUDE)
on = nodes.on

# All that could be an output, and what is none: in two lines.
LOOK = """
    print(*[f'{what}={ends(*call)}' for what, call in {
        'own': (read, 'own'), 'other': (read, 'other'), 'below': (os.stat, f'{work}/run/c'), 'none': (read, 'none'),
        'in-dataset': (os.stat, f'{work}/d00/none'), 'list': (os.listdir, work), 'list-dataset': (os.listdir, f'{work}/d00'),
        'elsewhere': (os.stat, f'{work}/d01/none'), 'list-elsewhere': (os.listdir, f'{work}/d01'), 'write-elsewhere': (write, 'd01/new'),
        'list-output': (os.listdir, f'{work}/run'), 'write': (write, 'new'), 'mkdir': (os.mkdir, f'{work}/newdir'),
        'unlink': (os.unlink, f'{work}/own'), 'rename': (os.rename, f'{work}/own', f'{work}/moved'),
        'symlink': (os.symlink, 'x', f'{work}/link'), 'truncate': (os.truncate, f'{work}/own', 0)}.items()])
    print(sums(sys.argv[2:]))
"""
CALLS = ("own other below none in-dataset list list-dataset elsewhere list-elsewhere write-elsewhere list-output write mkdir unlink rename symlink "
         "truncate").split()
# Where no output has been made so far.
ELSEWHERE = {"elsewhere": "ENOENT", "list-elsewhere": "ok"}


def told(node, code, *args):
    """A program's lines on stdout, and on stderr."""
    p = nodes.start(node, code, *args, stderr=subprocess.PIPE)
    out, err = p.communicate(timeout=120)
    assert p.returncode == 0, err
    return out.splitlines(), err.splitlines()


def until(what, wanted, call):
    end = time.monotonic() + 60
    seen = call()
    while seen != wanted and time.monotonic() < end:
        time.sleep(0.1)
        seen = call()
    equal(what, wanted, seen)


def lost(why):
    (ends, sums), err = told(victim, LOOK, *names)
    equal(why, " ".join(f"{c}={ELSEWHERE.get(c, 'EIO')}" for c in CALLS), ends)
    equal(f"{why}: the dataset", want, sums)
    equal(f"{why}: lines", 1, len(err))
    assert f"the daemon of node {victim}, this program's own, {why};" in err[0], err


names = [os.path.relpath(os.path.join(at, f), mount) for at, _, files in os.walk(mount) for f in files]
assert len(names) > 10
want = on(0, "print(sums(sys.argv[2:]))", *names)
pid = daemon(victim, local)

if not outputs:
    os.kill(pid, signal.SIGKILL)
    (seen, sums), err = told(victim, LOOK, *names)
    assert not err, err
    equal("read-only", "own=ENOENT other=ENOENT below=ENOENT none=ENOENT in-dataset=ENOENT list=ok list-dataset=ok "
          "elsewhere=ENOENT list-elsewhere=ok write-elsewhere=EROFS list-output=ENOENT write=EROFS mkdir=EROFS unlink=EROFS rename=EROFS symlink=EROFS truncate=ENOENT", seen)
    equal("read-only: the dataset", want, sums)
    step("read-only: a dead daemon is not missed")
    sys.exit()

on(0, "os.mkdir(f'{work}/run'); write('other')")
on(victim, "write('own'); write('run/c'); write('d00/c')")
REMOVED = [f"run/{what}{i}" for what in ("stopped", "killed") for i in range(4)]
on(victim, "for name in sys.argv[2:]: write(name)", *REMOVED)

if sys.argv[5] == "stalls":
    on(0, "write('zero')")
    for rank in (0, 1, 1):  # the first is left out by the second, which then is the only member
        stopped = daemon(rank, local)
        os.kill(stopped, signal.SIGSTOP)
        time.sleep(2)
        told(1 - rank, "print(ends(read, 'own'), ends(read, 'zero'))")
        os.kill(stopped, signal.SIGCONT)
        for node in (0, 1):
            until(f"node {node} after node {rank}'s stall", ["ok ok None"],
                  lambda: told(node, f"print(ends(read, 'own'), ends(read, 'zero'), ends(write, 'after{rank}{node}'))")[0])
    step("daemons that stood still for 2 s serve their outputs again")
    sys.exit()

# Programs that stay.
SERVE = """
    print('ready', flush=True)
    for line in sys.stdin:
        print(ends(*{'none': (os.stat, f'{work}/none'), 'own': (read, 'own'), 'write': (write, 'again')}[line.strip()]),
              flush=True)
"""


def removed_elsewhere(what):
    """What this node is the home of, another one removes and replaces, each call in the time that all calls have."""
    seen = on(0, """
        for i in range(4):
            name = f'{work}/run/{sys.argv[2]}{i}'
            if i % 2:
                write('run/new')
            begin = time.monotonic()
            how = ends(os.rename, f'{work}/run/new', name) if i % 2 else ends(os.unlink, name)
            late = time.monotonic() - begin
            print(how, ends(read, f'run/{sys.argv[2]}{i}'), 'soon' if late < 2 * 3 else late)
    """, what)
    equal(what, ["None ENOENT soon", "None ok soon"] * 2, seen.splitlines())


def server():
    s = nodes.start(victim, SERVE, stderr=subprocess.DEVNULL)
    equal("a program", "ready\n", s.stdout.readline())
    return s


def ask(s, what):
    s.stdin.write(what + "\n"), s.stdin.flush()
    return s.stdout.readline().strip()


before = server()
equal("before", ["ENOENT", "ok"], [ask(before, "none"), ask(before, "own")])
# A shell in an output directory, which becomes a program when it is asked.
inside = start(victim, "bash", "-c", 'cd "$0/run" && echo && read && exec "$@"', mount, sys.executable, "-c", nodes.prelude +
               "print(ends(open, '../new', 'w'), ends(open, 'new', 'w'), ends(os.listdir, '.'), ends(os.listdir, '..'))", mount)
equal("a shell", "\n", inside.stdout.readline())

os.kill(pid, signal.SIGSTOP)
removed_elsewhere("stopped")
step("another node's daemon is stopped: its files can be removed and replaced")
lost("does not answer")
during = server()
equal("started while it is stopped", ["EIO", "EIO", "EIO"], [ask(during, "none"), ask(during, "own"), ask(during, "write")])
until("started before that", "EIO", lambda: ask(before, "none"))
step("a daemon is stopped: what could be an output is EIO, the dataset is there, and one line says why")

(seen,), err = told(0, "print(ends(read, 'own'))")
equal("another node's file", "EIO", seen)
assert len(err) == 1 and f"node {victim} does not answer node 0;" in err[0], err
step("another node's daemon is stopped: the line names it")

os.kill(pid, signal.SIGCONT)
for s in (before, during):
    until("it goes on", "ok", lambda: ask(s, "own"))
    until("it goes on", "ENOENT", lambda: ask(s, "none"))
    until("it goes on", "None", lambda: ask(s, "write"))
equal("it goes on", "ok", on(victim, "print(ends(read, 'own'))"))
step("it goes on: so do programs that started before and meanwhile")

os.kill(pid, signal.SIGKILL)
# Its locks are held until the kernel has taken it apart: until then it is a daemon that cannot be asked.
def runs():
    try:
        return open(f"/proc/{pid}/stat").read().rsplit(")", 1)[1].split()[0] != "Z"
    except OSError:
        return False


until("killed", False, runs)
ELSEWHERE = {}  # while it was stopped it was left out: from then on it does not know where others make outputs
lost("has ended")
until("started before that", "EIO", lambda: ask(before, "none"))
equal("started in an output directory", "EIO EIO EIO EIO", ask(inside, ""))
finish(inside)
finish(before), finish(during)
# All partitions are on each node.
os.rename(dataset, dataset + ".away")
lost("has ended")
os.rename(dataset + ".away", dataset)
removed_elsewhere("killed")
step("a daemon is dead: the same, and the dataset comes from the node's own partitions")
