# SPDX-License-Identifier: BSD-3-Clause
"""The benchmarks (bench/README.md): runs the suites of bench/suites one after the other, prints one table, and writes
result.json and plots to build/bench. Run by `make bench`."""
import argparse
import importlib
import os
import shutil
import signal
import sys
import tempfile
import time

from fsb import report
from fsb.core import Context
from fsb.peers import file_system_of

HERE = os.path.dirname(os.path.abspath(__file__))
BUILD = os.path.abspath(os.environ.get("FS_BUILD", os.path.join(os.path.dirname(HERE), "build")))
# In this order; what is not named here comes after these.
ORDER = ["loader", "local", "metadata", "lz4", "codecs", "cold", "remote", "prefetch", "links", "pack", "prepare", "launch", "scale", "entries", "memory", "idle", "outside", "ior"]


def suites():
    names = sorted(n[:-3] for n in os.listdir(os.path.join(HERE, "suites")) if n.endswith(".py") and n[0] != "_")
    return [n for n in ORDER if n in names] + [n for n in names if n not in ORDER]


def arguments():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", help="these suites, separated by commas")
    parser.add_argument("--rounds", type=int, help="turns that each side has (default: 3)")
    parser.add_argument("--quick", action="store_true", help="few files and one round: does it work at all?")
    parser.add_argument("--dir", help="where the files are made (default: TMPDIR)")
    parser.add_argument("--out", default=os.path.join(BUILD, "bench"), help="where result.json and the plots go")
    parser.add_argument("--list", action="store_true", help="name the suites and end")
    options = parser.parse_args()
    if options.rounds is not None and options.rounds < 1:
        parser.error("--rounds: at least 1")
    return options


def stop(number, _):
    for other in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(other, signal.SIG_IGN)  # the next one would leave things behind
    sys.exit(128 + number)


def main():
    options = arguments()
    if options.list:
        print("\n".join(suites()))
        return 0
    chosen = options.only.split(",") if options.only else suites()
    unknown = set(chosen) - set(suites())
    if unknown:
        print("no suite %s" % ", ".join(sorted(unknown)), file=sys.stderr)
        return 2
    failed = []
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):  # so that what was mounted is taken away
        signal.signal(number, stop)
    try:
        os.stat(os.path.join(BUILD, "bench/fsbench"))
        os.makedirs(options.out, exist_ok=True)
        work = tempfile.mkdtemp(prefix="fs-bench.", dir=options.dir)
    except OSError as e:
        print("run.py: %s: %s" % (e.filename, e.strerror), file=sys.stderr)
        return 2
    about = report.machine(work, file_system_of(work))
    ctx = Context(BUILD, work, options.quick, options.rounds)
    try:
        for name in chosen:
            began = time.monotonic()
            ctx.work = os.path.join(work, name)
            os.makedirs(ctx.work)
            if not ctx.run_suite(name, importlib.import_module("suites." + name).run):
                failed.append(name)
            shutil.rmtree(ctx.work, ignore_errors=True)
            ctx.say("%s: %.0f s" % (name, time.monotonic() - began))
    finally:
        ctx.take_away()
        shutil.rmtree(work, ignore_errors=True)
    report.finish(ctx, about, options.out)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
