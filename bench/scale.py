# SPDX-License-Identifier: BSD-3-Clause
"""find, and an epoch in which N programs read a share each: scale.py SHARE N DIRECTORY, where SHARE is build/bench/share. It
runs on a plain directory, or as COMMAND of a job with N emulated nodes, and prints JSON: time and memory of the programs,
and of the job's daemons. suites/scale.py starts it."""
import json
import os
import subprocess
import sys
import time


def status_of(pid):
    """MiB of memory of a process, by the names of /proc/PID/status."""
    with open("/proc/%s/status" % pid) as f:
        lines = (line.split() for line in f)
        return {words[0][:-1]: int(words[1]) / 1024 for words in lines if words[-1] == "kB"}


def cpu_of(pid):
    with open("/proc/%s/stat" % pid) as f:
        words = f.read().rsplit(")", 1)[1].split()
    return (int(words[11]) + int(words[12])) / os.sysconf("SC_CLK_TCK")


def waited(process):
    """Seconds of the processor and peak memory in MiB of a child that has ended well."""
    _, status, used = os.wait4(process.pid, 0)
    if status != 0:
        sys.exit("%s: status %d" % (process.args, status))
    return used.ru_utime + used.ru_stime, used.ru_maxrss / 1024


def find(directory):
    began = time.monotonic()
    with subprocess.Popen(["find", directory, "-type", "f", "-printf", "%s\n"], stdout=subprocess.PIPE) as process:
        sizes = [int(line) for line in process.stdout]
        cpu, peak = waited(process)
        process.returncode = 0
    return {"s": time.monotonic() - began, "cpu": cpu, "peak": peak, "files": len(sizes), "bytes": sum(sizes)}


def epoch(program, nodes, directory):
    """A program on each node reads its quarter. On a plain directory FANSTORE_NODE means nothing."""
    began = time.monotonic()
    readers = [subprocess.Popen([program, str(k), str(nodes), directory], stdout=subprocess.PIPE, text=True,
                                env={**os.environ, "FANSTORE_NODE": str(k)}) for k in range(nodes)]
    got = [json.loads(r.stdout.read()) for r in readers]
    used = [waited(r)[0] for r in readers]
    return {"s": time.monotonic() - began, "cpu": sum(used), "files": sum(g["files"] for g in got),
            "bytes": sum(g["bytes"] for g in got), "sum": sum(g["sum"] for g in got) % 2**64,
            "listed": [g["listed"] for g in got],
            **{key: max(g[key] for g in got) for key in ("list_s", "read_s", "anon", "tables", "peak")}}


class Daemons:
    """The daemons of the job that this process is COMMAND of."""

    def __init__(self):
        job, self.pids = os.path.basename(os.environ.get("FANSTORE_RUN", "no job")), []
        for pid in filter(str.isdigit, os.listdir("/proc")):
            try:
                with open("/proc/%s/cmdline" % pid, "rb") as f:
                    words = f.read().split(b"\0")
            except OSError:
                continue
            if os.path.basename(words[0]) == b"fanstored" and job.encode() in words:
                self.pids.append(pid)

    def look(self):
        """Their processor time in all, and the memory of the largest."""
        memory = [status_of(pid) for pid in self.pids]
        return {"n": len(self.pids), "cpu": sum(cpu_of(pid) for pid in self.pids),
                "own": max((m["RssAnon"] + m["VmPTE"] for m in memory), default=0),
                "VmHWM": max((m["VmHWM"] for m in memory), default=0)}


def steps(program, nodes, directory):
    """find and the epoch, each with what the daemons had used before it and after it. Prints JSON."""
    daemons = Daemons()
    got = {"start": time.time(), "launcher": status_of(os.getppid())["VmHWM"], "daemons": [daemons.look()]}
    for name, step in (("find", lambda: find(directory)), ("epoch", lambda: epoch(program, int(nodes), directory))):
        got[name] = step()
        got["daemons"].append(daemons.look())
    got["end"] = time.time()
    print(json.dumps(got))


if __name__ == "__main__":
    steps(*sys.argv[1:])
