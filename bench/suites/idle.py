# SPDX-License-Identifier: BSD-3-Clause
"""Processor time of the daemons while a program does something else: nothing, or it computes on all processors, or it computes
and reads a small file now and then. The busiest daemon of two nodes counts, as a share of one processor."""
import os
import subprocess
import sys
import time

LIMIT = 1.5  # percent of a processor, if nobody reads
READS = 50  # a second
COMPUTE = [sys.executable, "-c", "while True: pass"]


def run(ctx):
    seconds = 1 if ctx.quick else 10
    source = ctx.files("source", 2 * READS * seconds, 4096)
    side = ctx.nodes(ctx.pack(source, "idle"), 2)
    for what, mode in (("nobody reads", "idle"), ("nobody reads, all processors compute", "busy"),
                       ("%d reads a second, all processors compute" % READS, "reads")):
        got = side.run([sys.executable, __file__, mode, str(seconds), side.directory])
        if mode == "reads":
            ctx.row("daemon, " + what, "% of a processor", {"1 node": got["percent"]}, to="", note="no target: reads are work")
        else:
            ctx.bound("daemon, " + what, "% of a processor", got["percent"], LIMIT)


def daemons_ns():
    """Inside the job: what each of its daemons has run, by process id."""
    job, ran = os.path.basename(os.environ["FANSTORE_RUN"]).encode(), {}
    for pid in filter(str.isdigit, os.listdir("/proc")):
        try:
            with open("/proc/%s/cmdline" % pid, "rb") as f:
                words = f.read().split(b"\0")
            if os.path.basename(words[0]) != b"fanstored" or job not in words:
                continue
            tasks = ["/proc/%s/task/%s/schedstat" % (pid, t) for t in os.listdir("/proc/%s/task" % pid)]
            ran[pid] = sum(int(open(t, encoding="ascii").read().split()[0]) for t in tasks)
        except OSError:
            continue
    return ran


def inside(mode, seconds, directory):
    names = sorted(os.path.join(d, n) for d, _, files in os.walk(directory) for n in files)
    with open(names[0], "rb") as f:
        f.read()
    computing = [subprocess.Popen(COMPUTE) for _ in range(os.cpu_count() if mode != "idle" else 0)]
    time.sleep(1.5)
    begin, before = time.monotonic(), daemons_ns()
    while mode == "reads" and time.monotonic() < begin + seconds and len(names) > 1:
        with open(names.pop(), "rb") as f:
            f.read()
        time.sleep(1 / READS)
    time.sleep(max(begin + seconds - time.monotonic(), 0))
    took, after = time.monotonic() - begin, daemons_ns()
    for p in computing:
        p.kill()
    print('{"percent": %.2f}' % max((after[p] - before[p]) / took / 1e7 for p in before))


if __name__ == "__main__":
    inside(sys.argv[1], float(sys.argv[2]), sys.argv[3])
