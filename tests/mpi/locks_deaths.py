# SPDX-License-Identifier: BSD-3-Clause
"""Locks of outputs when a daemon dies: locks_deaths.py MOUNT DEADLINE CASE, with the deadline in seconds. Node 0 is the file's home; a program
of node 1 has the locks, and one of node 2 waits for them. It has an answer within 2 deadlines."""
import os
import signal
import sys
import time

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from nodes import Nodes, daemon, equal, finish, rest, step  # noqa: E402

mount, deadline, case = sys.argv[1], float(sys.argv[2]), sys.argv[3]
work = os.path.join(mount, "locks")
programs = Nodes(work, """
import fcntl, struct
def attempt(call, *args):
    try:
        return call(*args) or 'ok'
    except OSError as e:
        return errno.errorcode[e.errno]
def say(*what):
    print(*what, flush=True)
fd = os.open(work + '/file', os.O_RDWR)
""")
start = programs.start
os.mkdir(work)
with open(os.path.join(work, "file"), "w") as f:
    f.write("bytes")
KEEP = """
    fcntl.flock(fd, fcntl.LOCK_EX)
    fcntl.lockf(fd, fcntl.LOCK_EX)
    say('held')
    sys.stdin.readline()
    say(attempt(fcntl.flock, fd, fcntl.LOCK_SH), attempt(fcntl.lockf, fd, fcntl.LOCK_UN))
    say(attempt(os.pwrite, fd, b'late', 0) == 'EIO' or attempt(os.fsync, fd), attempt(os.pread, fd, 10, 0))
"""
keeper = start(1, KEEP)
equal("the keeper", "held\n", keeper.stdout.readline())
waiter = start(2, """
    say('waits')
    say(attempt(fcntl.flock, fd, fcntl.LOCK_EX), attempt(fcntl.lockf, fd, fcntl.LOCK_EX), attempt(os.pread, fd, 10, 0))
""")
equal("the waiter", "waits\n", waiter.stdout.readline())
time.sleep(0.3)
begin = time.monotonic()
of_holder = case in ("holder", "stopped")
stops = case in ("stopped", "home-stopped")
victim = daemon(1 if of_holder else 0, mount)
os.kill(victim, signal.SIGSTOP if stops else signal.SIGKILL)
gets = case not in ("home", "home-stopped")
equal("the waiter", "ok ok b'bytes'" if gets else "EIO EIO EIO", finish(waiter))
took = time.monotonic() - begin
assert took < 2 * deadline, f"{case}: the waiter has its answer after {took:.1f} s"
if stops:
    os.kill(victim, signal.SIGCONT)
    time.sleep(1.5 * deadline)  # in which it finds out
keeper.stdin.write("go\n")
seen = rest(keeper, 60).split("\n")
equal("what the keeper still can do", ["EIO EIO", "True EIO", ""], seen)
step("%s: seen by the waiter after %.1f s, and by the keeper" % (
    {"holder": "the daemon of the holder's node was killed", "home": "the home's daemon was killed",
     "home-stopped": "the home's daemon stood still, and went on",
     "stopped": "the daemon of the holder's node stood still, and went on",
     "replicas": "the home's daemon was killed, and another node has the file"}[case], took))
