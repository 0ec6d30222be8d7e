# SPDX-License-Identifier: BSD-3-Clause
"""What the library costs calls and programs that have nothing to do with a dataset (bench/README.md): build/bench/overhead
and build/bench/startup, with no mount, with one and with sixteen. Run by `make bench-overhead`."""
import argparse
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
BUILD = os.environ.get("FS_BUILD", os.path.join(ROOT, "build"))
LIB = os.path.join(BUILD, "lib/libfanstore.so")
MOUNTS = (0, 1, 16)


def run(command, env=None, **options):
    done = subprocess.run(command, env={**os.environ, **(env or {})}, stdin=subprocess.DEVNULL, text=True,
                          stdout=subprocess.PIPE, stderr=subprocess.PIPE, timeout=600, **options)
    if done.returncode != 0:
        sys.exit("%s: status %d\n%s%s" % (" ".join(command), done.returncode, done.stdout, done.stderr))
    return done.stdout


def mounts(work, dataset, n):
    """Variables for n mounts that begin as the measured directory does, where no directory is."""
    paths = [os.path.join(work, "mnt", "dataset-%02d" % i) for i in range(n)]
    return {"LD_PRELOAD": LIB, "FANSTORE_DATASET": ":".join([dataset] * n), "FANSTORE_MOUNT": ":".join(paths)}


def using(work, n):
    """Arguments that make the program open a dataset's file first, where there is one."""
    return ["-m", os.path.join(work, "mnt", "dataset-00", "file")] if n > 0 else []


def counted(overhead, env, side, directory, work):
    """Instructions per call by callgrind: whole runs of 2000 and of 1000 calls, function by function, subtracted."""
    totals = []
    for n in (1000, 2000):
        out = os.path.join(work, "callgrind.out")
        run(["valgrind", "-q", "--tool=callgrind", "--callgrind-out-file=" + out, overhead, "-s", side, "-n", str(n)] +
            using(work, len(env.get("FANSTORE_MOUNT", ""))) + [directory], env)
        listing = run(["callgrind_annotate", "--inclusive=yes", "--threshold=100", "--tree=none", out])
        totals.append({})
        for count, name in re.findall(r"^ *([\d,]+) .*:call_(\w+)", listing, re.M):
            totals[-1][name] = max(totals[-1].get(name, 0), int(count.replace(",", "")))
    return {name: (totals[1][name] - totals[0].get(name, 0)) / 1000 for name in totals[1]}


def system_calls(overhead, env, name, side, directory, work):
    """Of one call: runs of 20 and of 10, subtracted. None where strace cannot trace."""
    totals = []
    for n in (10, 20):
        out = os.path.join(work, "strace.out")
        command = ["strace", "-f", "-o", out] + ["-E%s=%s" % pair for pair in env.items()]
        try:
            run(command + [overhead, "-s", side, "-n", str(n), "-c", name] + using(work, 1) + [directory])
        except FileNotFoundError:
            return None
        with open(out) as f:
            totals.append(sum(1 for line in f))
    return (totals[1] - totals[0]) / 10


def calls_table(options, work, dataset, directory):
    overhead = os.path.join(BUILD, "bench/overhead")
    sides = {n: mounts(work, dataset, n) for n in MOUNTS}
    timed = {}
    for n, env in sides.items():
        for line in run([overhead, "-r", str(options.rounds)] + using(work, n) + [directory], env).splitlines():
            name, native, added = line.split()
            timed.setdefault(name, {})[n] = (float(native), float(added))
    valgrind = shutil.which("valgrind") and shutil.which("callgrind_annotate")
    native = counted(overhead, sides[0], "native", directory, work) if valgrind else {}
    library = {n: counted(overhead, env, "library", directory, work) if valgrind else {} for n, env in sides.items()}
    results = {}
    print("%-24s %9s %27s   %33s   %s" % ("", "native,", "added, ns, with mounts:", "instructions, native and mounts:",
                                       "system calls,"))
    print("%-24s %9s" % ("", "ns") + "%9s" * 3 % ("0", "1", "16") + "   %6s" % "native" + "%9s" * 3 % ("0", "1", "16") +
          "   native, 1 mount")
    for name, by in timed.items():
        extra = [system_calls(overhead, sides[1], name, side, directory, work) for side in ("native", "library")]
        counts = [native.get(name)] + [library[n].get(name) for n in MOUNTS]
        results[name] = {"native_ns": by[1][0], "added_ns": {n: by[n][1] for n in MOUNTS}, "instructions": counts,
                         "system_calls": extra}
        print("%-24s %9.0f" % (name.replace("_", " "), by[1][0]) + "".join("%9.0f" % by[n][1] for n in MOUNTS) + "   " +
              "".join(("%9.0f" if i else "%6.0f") % c if c is not None else "        ?" for i, c in enumerate(counts)) +
              "   " + ", ".join("?" if e is None else "%g" % e for e in extra))
    return results


def startup_table(options, work, dataset):
    empty = os.path.join(work, "empty.so")
    with open(os.path.join(work, "empty.c"), "w") as f:
        f.write("int fs_empty;\n")
    run(["cc", "-shared", "-fPIC", "-o", empty, os.path.join(work, "empty.c")])
    variants = {"an empty library": {"LD_PRELOAD": empty}, "no library": {"X": "1"}}
    for n in MOUNTS:
        variants["libfanstore.so, %d mount%s" % (n, "" if n == 1 else "s")] = mounts(work, dataset, n)
    names = [" ".join("%s=%s" % pair for pair in v.items()) for v in variants.values()]
    startup = [os.path.join(BUILD, "bench/startup"), "-r", str(options.rounds)]
    results = {}

    def show(program, names, labels):
        print("\n%-40s %10s %12s" % (program, "us", "difference"))
        for label, line in zip(labels, run(startup + ["-p", program] + names).splitlines()):
            took, more = map(float, line.split())
            results["%s, %s" % (program, label)] = {"us": took, "more_us": more}
            print("%-40s %10.0f %12.0f" % (label, took, more))

    show("/bin/true", names, variants)
    # The first use of a mount: the dataset is opened, and the daemon attached to where there is one.
    reader = os.path.join(work, "reader")
    with open(reader + ".c", "w") as f:
        f.write('#include <fcntl.h>\n#include <unistd.h>\nint main(void) { char c; int fd = open(FILE, O_RDONLY);\n'
                'return fd < 0 || read(fd, &c, 1) != 1; }\n')
    inside = os.path.join(work, "mnt", "dataset-00", "file")
    run(["cc", "-D_GNU_SOURCE", "-w", '-DFILE="%s"' % inside, "-o", reader, reader + ".c"])
    run(["cc", "-D_GNU_SOURCE", "-w", '-DFILE="%s"' % os.path.join(work, "source", "file"), "-o", reader + "-plain", reader + ".c"])
    show(reader + "-plain", names[:1], ["opens and reads a plain file, empty library"])
    show(reader, names[3:4], ["opens and reads a dataset's, no daemon"])
    launch = [os.path.join(BUILD, "bin/fs-launch"), "--dataset", dataset, "--mount",
              os.path.join(work, "mnt", "dataset-00"), "--local-dir", os.path.join(work, "local"), "--"]
    inner = ["sh", "-c", 'exec "$@" "$(env | grep -E "^(LD_PRELOAD|FANSTORE_|OMPI_|PMIX_)" | tr "\\n" " ")"', "sh"]
    lines = run(launch + inner + startup + ["-p", reader]).splitlines()
    took = float(lines[-1].split()[0])
    results["dataset's, with a daemon"] = {"us": took}
    print("%-40s %10.0f" % ("the same, attached to a daemon", took))
    return results


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=501)
    parser.add_argument("--quick", action="store_true", help="few rounds: does it work at all?")
    options = parser.parse_args()
    if options.quick:
        options.rounds = 21
    work = tempfile.mkdtemp(prefix="fs-bench.")
    try:
        directory, source, dataset = (os.path.join(work, name) for name in ("calls", "source", "dataset"))
        os.makedirs(directory)
        os.makedirs(source)
        with open(os.path.join(source, "file"), "w") as f:
            f.write("x\n")
        run([os.path.join(BUILD, "bin/fs-prepare"), "pack", source, dataset])
        results = {"calls": calls_table(options, work, dataset, directory), "startup": startup_table(options, work, dataset)}
    finally:
        shutil.rmtree(work, ignore_errors=True)
    with open(os.path.join(BUILD, "bench", "overhead.json"), "w") as f:
        json.dump(results, f, indent=1)


if __name__ == "__main__":
    main()
