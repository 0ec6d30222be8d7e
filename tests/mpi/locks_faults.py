# SPDX-License-Identifier: BSD-3-Clause
"""Programs of four nodes hold and wait for locks while daemons are killed and stopped: locks_faults.py MOUNT DEADLINE, in
seconds. Node 0 is the home of the files, and goes on. Who is in a section is marked in a plain directory."""
import os
import random
import signal
import sys
import time

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from locking import PRELUDE, said, tell  # noqa: E402
from nodes import Nodes, daemon, finish, rest, step  # noqa: E402

mount, deadline = sys.argv[1], float(sys.argv[2])
work, marks = os.path.join(mount, "faults"), os.path.join(os.environ["TMPDIR"], "marks")
seed = int(os.environ.get("FS_SEED", time.time_ns() % 100000))
random.seed(seed)
print("-- FS_SEED=%d" % seed, flush=True)
NODES, KINDS = 4, ("by_flock", "by_fcntl")
start, on = (programs := Nodes(work, PRELUDE)).start, programs.on
os.mkdir(marks)
on(0, "os.mkdir(work)\nfor kind in ('by_flock', 'by_fcntl'): open(work + '/' + kind, 'w').write('0')")

# Until a line comes. The sections of a dead node's program end when its mark says `dead-NODE`: its lock is given away then.
TURNS = """
    import select
    class Late(Exception):
        pass
    def late(*_):
        raise Late
    kind, marks, node, seed = sys.argv[2:6]
    lock, mark = globals()[kind], marks + '/' + kind
    random.seed(seed)
    signal.signal(signal.SIGALRM, late)
    fd = os.open(work + '/' + kind, os.O_RDWR)
    def enter():
        try:
            os.link(own, mark)
        except FileExistsError:
            try:
                other = open(mark).read()
            except FileNotFoundError:
                return enter()
            assert os.path.exists(marks + '/dead-' + other), f'node {node} and node {other} have the lock {kind}'
            os.replace(own + '.new', mark)
    own = f'{mark}.{node}.{os.getpid()}'
    turns, longest, waited_out, ended = 0, 0.0, 0, False
    say('ready')
    wait()
    while not select.select([0], [], [], 0)[0]:
        for path in (own, own + '.new'):
            open(path, 'w').write(node)
        begin = time.monotonic()
        signal.setitimer(signal.ITIMER_REAL, random.choice((0.05, 100)), 1)
        try:
            lock(fd, EX)
            signal.setitimer(signal.ITIMER_REAL, 0)
        except Late:
            signal.setitimer(signal.ITIMER_REAL, 0)
            lock(fd, UN)  # the alarm may have come just after the lock
            waited_out += 1
            continue
        finally:
            longest = max(longest, time.monotonic() - begin)
        enter()
        time.sleep(random.random() / 50)
        os.unlink(mark)
        lock(fd, UN)
        turns += 1
        time.sleep(random.random() / 100)
    print(turns, round(longest, 2), waited_out)
"""
running = {(n, kind, i): start(n, TURNS, kind, marks, n, random.random()) for n in range(NODES) for kind in KINDS for i in range(2)}
for p in running.values():
    assert said(p) == "ready"
for p in running.values():
    tell(p)
victims, stopped = random.sample(range(1, NODES), 2), []
for victim in victims:
    time.sleep(0.5 + random.random())
    pid, how = daemon(victim, mount), random.choice((signal.SIGKILL, signal.SIGSTOP))
    print("-- node %d: %s" % (victim, how.name), flush=True)
    open(f"{marks}/dead-{victim}", "w").close()
    os.kill(pid, how)
    stopped += [pid] if how == signal.SIGSTOP else []
    time.sleep(2.5 * deadline)
for pid in stopped:
    os.kill(pid, signal.SIGCONT)
time.sleep(deadline)  # the locks go from program to program again
seen = {}
for who, p in running.items():
    try:
        tell(p)
    except BrokenPipeError:
        assert who[0] in victims, who
for who, p in running.items():
    if who[0] in victims:
        rest(p)
    else:
        turns, longest, late = finish(p).split()
        seen[who] = int(turns), float(longest), int(late)
assert min(turns for turns, _, _ in seen.values()) > 0, seen
assert max(longest for _, longest, _ in seen.values()) < 3 * deadline, seen
for n in set(range(NODES)) - set(victims):
    for kind in KINDS:
        on(n, f"fd = os.open(work + '/{kind}', os.O_RDWR)\nassert attempt({kind}, fd, EX | NB) == 'ok'")
step("locks beside the faults of two nodes: %d turns, the longest wait took %.1f s, %d waits were given up" % (
    sum(t for t, _, _ in seen.values()), max(w for _, w, _ in seen.values()), sum(x for _, _, x in seen.values())))
