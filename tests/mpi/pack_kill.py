# SPDX-License-Identifier: BSD-3-Clause
"""Ends a pack over emulated nodes: pack_kill.py WHOM WHEN COMMAND...

WHOM: all its processes at once, the lead, a rank (with WHEN "s": the one that is stopped), mpirun or launch are killed
with -9; int interrupts it. Before there are ranks or mpirun, launch is killed instead. WHEN: c, when it makes a checkpoint;
s, when a rank has stopped itself (stop_at.c); 0.4, so many seconds after its begin. DATASET is the last word. Waits until all its
processes have ended. Prints "killed", or if the pack was faster "ended" and how many milliseconds it took. If it failed by itself,
the status is 1."""
import glob
import os
import random
import signal
import subprocess
import sys
import time

whom, when, command = sys.argv[1], sys.argv[2], sys.argv[3:]
dataset = command[-1]


def read(path):
    try:
        with open(path, "rb") as f:
            return f.read()
    except OSError:
        return b""


def below(top):
    """Returns (pid, command line, rank) of all processes below this one."""
    parents = {}
    for path in glob.glob("/proc/[0-9]*/stat"):
        stat = read(path)
        if stat:
            pid = int(stat.split()[0])
            parents.setdefault(int(stat[stat.rindex(b")") + 2:].split()[1]), []).append(pid)
    found, todo = [], [top]
    while todo:
        pid = todo.pop()
        todo += parents.get(pid, [])
        rank = [e for e in read("/proc/%d/environ" % pid).split(b"\0") if e.startswith(b"OMPI_COMM_WORLD_RANK=")]
        line = read("/proc/%d/cmdline" % pid).split(b"\0")
        found.append((pid, os.path.basename(line[0]), int(rank[0].split(b"=")[1]) if rank else -1))
    return found


def runs(pid):
    """Returns true until the last thread has ended. The first one may be a zombie while another is in a call of the disk: it holds
    the locks."""
    state = read("/proc/%d/stat" % pid).rpartition(b") ")[2][:1]
    return state not in (b"", b"X", b"Z") or len(glob.glob("/proc/%d/task/*" % pid)) > 1


def is_stopped(pid):
    return read("/proc/%d/stat" % pid).rpartition(b") ")[2][:1] == b"T"


def victims(processes):
    ranks = sorted((rank, pid) for pid, name, rank in processes if name == b"fanstore-pack")
    found = []
    if whom == "all":
        found = [pid for pid, _, _ in reversed(processes)] # ranks first: mpirun would continue one that is stopped
    if whom == "lead":
        found = [pid for rank, pid in ranks if rank == 0]
    if whom == "rank" and when == "s":
        found = [pid for _, pid in ranks if is_stopped(pid)]
    elif whom == "rank" and len(ranks) > 1:
        found = [random.choice(ranks[1:])[1]]
    if whom == "mpirun":
        found = [pid for pid, name, _ in processes if name in (b"mpirun", b"prterun", b"orterun")][:1]
    return found or [pack.pid]


def journal():
    """Returns the size of the journal; without a checkpoint it has 40 bytes."""
    return max([40] + [os.path.getsize(f) for f in glob.glob(os.path.join(os.path.dirname(dataset), ".%s.partial-*/journal" % os.path.basename(dataset)))])


def ready():
    if when == "c":
        return journal() > first
    if when == "s":
        return any(is_stopped(pid) for pid, name, _ in below(pack.pid) if name == b"fanstore-pack")
    return time.monotonic() >= begun + float(when)


first = journal()
random.seed()
begun = time.monotonic()
pack = subprocess.Popen(command, preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL))
until = begun + 60
while pack.poll() is None and not ready() and time.monotonic() < until:
    time.sleep(0.005)
killed = False
processes = below(pack.pid)
for pid in victims(processes) if pack.poll() is None else []:
    try:
        os.kill(pid, signal.SIGINT if whom == "int" else signal.SIGKILL)
    except ProcessLookupError: # it has ended by itself
        continue
    killed = True
status = pack.wait()
took = time.monotonic() - begun
while any(runs(pid) for pid, _, _ in processes) and time.monotonic() < until:
    time.sleep(0.005)
if status != 0 and not killed:
    sys.exit("%s at %s: nobody killed it, and its status is %d" % (whom, when, status))
print("killed" if status != 0 else "ended %d" % (took * 1000))
