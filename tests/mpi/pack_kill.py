# SPDX-License-Identifier: BSD-3-Clause
"""Ends a pack over emulated nodes: pack_kill.py WHOM WHEN COMMAND...

WHOM: lead, rank, mpirun or launch are killed with -9; int interrupts it. WHEN: c, when it makes a
checkpoint; 0.4, so many seconds after the ranks have opened their directories. DATASET is the last word. Waits until
all its processes have ended. Prints "killed", or if the pack was faster "ended" and how many milliseconds it took from then on."""
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


def victims(processes):
    ranks = sorted((rank, pid) for pid, name, rank in processes if name == b"fanstore-pack")
    if whom == "lead":
        return [pid for rank, pid in ranks if rank == 0]
    if whom == "rank":
        return [random.choice(ranks[1:])[1]] if len(ranks) > 1 else []
    if whom == "mpirun":
        return [pid for pid, name, _ in processes if name in (b"mpirun", b"prterun", b"orterun")][:1]
    return [pack.pid]


def opened(pid):
    """Returns true if this rank has its directory open."""
    try:
        return any("/.pack-" in os.readlink("/proc/%d/fd/%s" % (pid, fd)) for fd in os.listdir("/proc/%d/fd" % pid))
    except OSError:
        return False


def journal():
    """Returns the size of the journal; without a checkpoint it has 32 bytes."""
    return max([32] + [os.path.getsize(f) for f in glob.glob(os.path.join(os.path.dirname(dataset), ".%s.partial-*/journal" % os.path.basename(dataset)))])


def ready():
    if when == "c":
        return journal() > first
    return any(opened(pid) for pid, name, _ in below(pack.pid) if name == b"fanstore-pack")


first = journal()
pack = subprocess.Popen(command, preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL))
until = time.monotonic() + 30
while pack.poll() is None and not ready() and time.monotonic() < until:
    time.sleep(0.005)
opened_at = time.monotonic()
while when != "c" and pack.poll() is None and time.monotonic() < opened_at + float(when):
    time.sleep(0.005)
processes = below(pack.pid)
killed = False
for pid in victims(processes) if pack.poll() is None else []:
    os.kill(pid, signal.SIGINT if whom == "int" else signal.SIGKILL)
    killed = True
status = pack.wait()
while any(os.path.exists("/proc/%d/exe" % pid) for pid, _, _ in processes) and time.monotonic() < until:
    time.sleep(0.005)
print("killed" if killed and status != 0 else "ended %d" % ((time.monotonic() - opened_at) * 1000))
