# SPDX-License-Identifier: BSD-3-Clause
"""The first benchmark (bench/README.md): build/bench/fsbench on a plain directory and on FanStore mounts of the same
files, taking turns in one run. Prints medians and ratios and writes build/bench/result.json. Run by `make bench`."""
import argparse
import json
import os
import platform
import random
import shutil
import statistics
import subprocess
import sys
import tempfile
import time

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
BUILD = os.environ.get("FS_BUILD", os.path.join(ROOT, "build"))
SETS = {"4 KiB": (4096, 10000), "128 KiB": (131072, 1500)}
OPERATIONS = (("stat", "stat"), ("read", "open+fstat+read+close"), ("readdir", "readdir, a name"))


def make_files(top, size, count):
    """Random bytes, so that no side gains by compression; 500 files a directory."""
    rng = random.Random(size)
    for i in range(count):
        directory = os.path.join(top, "dir%03d" % (i // 500))
        if i % 500 == 0:
            os.makedirs(directory)
        with open(os.path.join(directory, "file%06d" % i), "wb") as f:
            f.write(rng.randbytes(size))


def file_system_of(path):
    best, kind = "", "?"
    with open("/proc/self/mounts") as f:
        for line in f:
            where, what = line.split()[1:3]
            where = where.encode().decode("unicode_escape")
            if (path + "/").startswith(where.rstrip("/") + "/") and len(where) >= len(best):
                best, kind = where, what
    return kind


def machine():
    model = "?"
    with open("/proc/cpuinfo") as f:
        for line in f:
            if line.startswith("model name"):
                model = line.split(":", 1)[1].strip()
                break
    return {"cpu": model, "cpus": len(os.sched_getaffinity(0)), "kernel": platform.release(),
            "date": time.strftime("%Y-%m-%d"), "load": os.getloadavg()[0]}


class Side:
    """One way to reach the same files; run() gives fsbench's JSON."""

    def __init__(self, name, directory, prefix=(), env=None):
        self.name, self.directory, self.prefix, self.env = name, directory, list(prefix), env or {}

    def run(self, passes, seed):
        command = self.prefix + [os.path.join(BUILD, "bench/fsbench"), "-c", "-p", str(passes), "-s", str(seed),
                                 self.directory]
        done = subprocess.run(command, env={**os.environ, **self.env}, stdin=subprocess.DEVNULL,
                              stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, timeout=600)
        lines = [line for line in done.stdout.splitlines() if line.startswith("{")]
        if done.returncode != 0 or not lines:
            sys.exit("%s: status %d\n%s%s" % (self.name, done.returncode, done.stdout, done.stderr))
        return json.loads(lines[-1])


def sides_of(source, work, name):
    dataset = os.path.join(work, "dataset-" + name)
    mount = os.path.join(work, "mnt", name)  # no directory is there
    subprocess.run([os.path.join(BUILD, "bin/fs-prepare"), "pack", "--codec", "raw", "--partitions", "4", source,
                    dataset], check=True, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
    launch = [os.path.join(BUILD, "bin/fs-launch"), "--dataset", dataset, "--mount", mount, "--local-dir",
              os.path.join(work, "local")]
    return [
        Side(file_system_of(source), source),
        Side("library", mount, env={"LD_PRELOAD": os.path.join(BUILD, "lib/libfanstore.so"),
                                    "FANSTORE_DATASET": dataset, "FANSTORE_MOUNT": mount}),
        Side("1 node", mount, launch + ["--"]),
        Side("2 nodes", mount, launch + ["--emulate", "2", "--"]),
    ]


def measure(sides, rounds, passes):
    results = {side.name: [] for side in sides}
    for number in range(rounds):
        for side in sides if number % 2 == 0 else reversed(sides):
            results[side.name].append(side.run(passes, number + 1))
    first = results[sides[0].name][0]
    for name, list_of_results in results.items():
        for r in list_of_results:
            if any(r[k] != first[k] for k in ("files", "bytes", "sum")):
                sys.exit("%s: did not read the same files: %s, not %s" % (name, r, first))
    return {name: {op: statistics.median(r[op] for r in rs) for op, _ in OPERATIONS} for name, rs in results.items()}


def table(results):
    names = list(next(iter(results.values())))
    base = names[0]
    print("%-32s %10s" % ("us (times as fast as %s)" % base, base) + "".join("%18s" % n for n in names[1:]))
    for op, title in OPERATIONS:
        for label, result in results.items():
            line = "%-32s %10.2f" % ("%s, %s" % (title, label), result[base][op] / 1000)
            for n in names[1:]:
                line += "%18s" % ("%.2f (%.1fx)" % (result[n][op] / 1000, result[base][op] / result[n][op]))
            print(line)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--passes", type=int, default=3)
    parser.add_argument("--quick", action="store_true", help="few files and rounds: does it work at all?")
    parser.add_argument("--dir", default=None, help="where the files are made (default: TMPDIR)")
    options = parser.parse_args()
    if options.quick:
        options.rounds, options.passes = 1, 1
    work = tempfile.mkdtemp(prefix="fs-bench.", dir=options.dir)
    results = {}
    try:
        for label, (size, count) in SETS.items():
            name = label.replace(" ", "")
            source = os.path.join(work, "source-" + name)
            make_files(source, size, count // 10 if options.quick else count)
            results[label] = measure(sides_of(source, work, name), options.rounds, options.passes)
    finally:
        shutil.rmtree(work, ignore_errors=True)
    about = machine()
    print("%(cpu)s, %(cpus)d CPUs, Linux %(kernel)s, %(date)s" % about)
    table(results)
    out = os.path.join(BUILD, "bench")
    os.makedirs(out, exist_ok=True)
    with open(os.path.join(out, "result.json"), "w") as f:
        json.dump({"machine": about, "rounds": options.rounds, "passes": options.passes, "ns": results}, f, indent=1)


if __name__ == "__main__":
    main()
