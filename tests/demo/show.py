# SPDX-License-Identifier: BSD-3-Clause
"""The end of the demo: show.py BUILD/demo. Compares the losses of the two trainings, sorts the reads by where they
came from, draws that in the terminal and, by gnuplot, in demo.svg and demo.png. Exit status 1 when it was not as it should
be."""
import glob
import json
import math
import os
import shutil
import statistics
import subprocess
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "setup"))
import fsindex  # noqa: E402
import report  # noqa: E402

WIDTH = 44


def load(top, kind):
    paths = sorted(glob.glob(os.path.join(top, kind + ".[0-9].json")))
    results = []
    for path in paths:
        with open(path) as f:
            results.append(json.load(f))
    return results


def check(ok, text):
    print("  %s %s" % ("ok    " if ok else "FAILED", text))
    return ok


def staged_on(top, dataset_id):
    """partition -> set of the nodes that have it on their own storage"""
    where = {}
    for node in (0, 1):
        for path in glob.glob(os.path.join(top, "local", "fanstore-node%d" % node, dataset_id, "part-[0-9]*[0-9]")):
            where.setdefault(int(path.rsplit("-", 1)[1]), set()).add(node)
    return where


def sort_reads(top, runs):
    """Times of the reads by where they must have come from: a file of the other node is fetched once, then cached."""
    index = fsindex.Index(os.path.join(top, "dataset", "index"))
    where = staged_on(top, index.dataset_id)
    partition = {path.decode(): part for path, _, part in index.files()}
    times = {"local": [], "remote": [], "cache": []}
    for run in runs:
        seen = set()
        for epoch in run["reads"]:
            for path, nanoseconds in epoch:
                if run["rank"] in where.get(partition[path], ()):
                    times["local"].append(nanoseconds)
                else:
                    times["cache" if path in seen else "remote"].append(nanoseconds)
                    seen.add(path)
    return times


def bar(value, most, mark="#"):
    return mark * max(1 if value else 0, round(WIDTH * value / most)) if most else ""


def show_costs(costs):
    print("\n  One training image, open + read + close in Python: median us (number of reads)")
    print("  Shorter is better; the bars are logarithmic")
    most = max(math.log(1 + cost) for _, _, cost, _ in costs)
    for _, name, cost, count in costs:
        print("    %-26s %7.1f (%5d) %s" % (name, cost, count, bar(math.log(1 + cost), most)))


def show_places(nodes, timed):
    print("\n  Files that each node read, by place")
    print("  (l: local, its own half; r: remote, the other node; c: cache, read from there before; s: shared storage)")
    most = max(sum(files.values()) for files in nodes)
    for number, files in enumerate(nodes):
        line = "".join(bar(files[place], most, place[0]) for place in report.PLACES)
        counts = ", ".join("%d %s" % (files[place], place) for place in report.PLACES if files[place])
        print("    node %d  %-*s  %s" % (number, WIDTH, line, counts))
    total = sum(sum(files.values()) for files in nodes)
    print("  These are %d files: %d timed reads of training images, and %d reads of validation images" % (
        total, timed, total - timed))


PLOT = """
set terminal %s size 1200,420 font ",12"
set output "%s"
set multiplot layout 1,3
set border 3; set tics nomirror; set grid y lc rgb "#dddddd"
set title "Loss of each step: the two lines are one"
set xlabel "step"; set yrange [0:*]
plot "losses.dat" using 1:2 with lines lw 5 lc rgb "#b8d4f0" title "plain directory", \\
     "losses.dat" using 1:3 with lines lw 1 lc rgb "#c03020" title "FanStore, two nodes"
set title "One image read, median us (logarithmic, shorter is better)"
set style fill solid; set boxwidth 0.6; unset key; set xlabel ""; set logscale y; set yrange [1:*]; set xrange [-0.6:]
plot "costs.dat" using 0:2:xtic(1) with boxes lc rgb "#4080c0", \\
     "costs.dat" using 0:2:(sprintf("%%.0f", $2)) with labels offset 0,0.7
unset logscale y; set yrange [0:*]
set title "Files read, by place"
set key outside bottom horizontal; set style data histograms; set style histogram rowstacked; set xrange [*:*]
plot "places.dat" using 2:xtic(1) title "local" lc rgb "#60a060", "" using 3 title "cache" lc rgb "#e0c050", \\
     "" using 4 title "remote" lc rgb "#c06040", "" using 5 title "shared storage" lc rgb "#808080"
"""


def plot(top, plain, mount, costs, nodes):
    def write(name, lines):
        with open(os.path.join(top, name), "w") as f:
            f.writelines(line + "\n" for line in lines)

    write("losses.dat", ("%d %f %f" % (i, float.fromhex(a), float.fromhex(b))
                         for i, (a, b) in enumerate(zip(plain, mount))))
    write("costs.dat", ('"%s" %f' % (short, cost) for short, _, cost, _ in costs))
    write("places.dat", ('"node %d" %d %d %d %d' % (i, n["local"], n["cache"], n["remote"], n["shared"])
                         for i, n in enumerate(nodes)))
    for terminal, name in (("svg", "demo.svg"), ("pngcairo", "demo.png")):
        subprocess.run(["gnuplot"], input=PLOT % (terminal, name), cwd=top, text=True, check=True,
                       stderr=subprocess.PIPE)
    print("\n  The same as a picture: %s" % " and ".join(
        os.path.relpath(os.path.join(top, name)) for name in ("demo.svg", "demo.png")))


def main():
    top = sys.argv[1]
    plain, mount = load(top, "plain"), load(top, "mount")
    summary = report.Report(os.path.join(top, "report.html"))
    nodes = [summary.files(node) for node in range(summary.nodes)]
    losses = [run["losses"] for run in plain + mount]
    good = check(len(plain) == len(mount) == 2 and len(losses[0]) > 0 and all(l == losses[0] for l in losses),
                 "%d losses, equal to the last bit with FanStore and without" % len(losses[0]))
    good &= check([r["accuracy"] for r in plain] == [r["accuracy"] for r in mount],
                  "accuracy on the validation images: %.1f %%, the same" % (100 * plain[0]["accuracy"][-1]))
    good &= check(len(nodes) == 2 and all(n["remote"] > 0 for n in nodes),
                  "files that a node read from the other one: %s" % " and ".join(str(n["remote"]) for n in nodes))
    good &= check(all(n["shared"] == 0 for n in nodes), "no file came from shared storage, the dataset's own directory")
    times = sort_reads(top, mount)
    times["plain"] = [t for run in plain for epoch in run["reads"] for _, t in epoch]
    good &= check(all(times.values()), "reads of each kind were timed: plain directory, own half, cache, other node")
    costs = [(key, title, statistics.median(times[key]) / 1000, len(times[key]))
             for key, title in (("plain", "plain directory"), ("local", "FanStore, local"),
                                ("cache", "FanStore, node's cache"), ("remote", "FanStore, other node")) if times[key]]
    print("\n  Both nodes share the %d processors of this machine with the training. So this shows that the data is the"
          % len(os.sched_getaffinity(0)))
    print("  same. It does not show speed: a read from the other node also waits for a free processor (docs/performance.md).")
    show_costs(costs)
    show_places(nodes, sum(len(times[kind]) for kind in ("local", "remote", "cache")))
    if shutil.which("gnuplot"):
        plot(top, losses[0], losses[-1], costs, nodes)
    if not good:
        sys.exit("The demonstration FAILED.")


if __name__ == "__main__":
    main()
