# SPDX-License-Identifier: BSD-3-Clause
"""What comes out of a run: a table on stdout, result.json, and plots."""
import json
import os
import platform
import shutil
import subprocess
import time


def machine(directory, kind):
    model, memory = platform.machine(), 0
    with open("/proc/cpuinfo") as f:
        for line in f:
            if line.startswith("model name"):
                model = line.split(":", 1)[1].strip()
                break
    with open("/proc/meminfo") as f:
        memory = int(f.readline().split()[1])
    return {"cpu": model, "cpus": len(os.sched_getaffinity(0)), "memory_gib": round(memory / 2**20, 1),
            "kernel": platform.release(), "file_system": kind, "date": time.strftime("%Y-%m-%d"),
            "load_before": os.getloadavg()[0]}


def number(value):
    if value is None:
        return "-"
    if value == 0 or abs(value) >= 1000:
        return "%.0f" % value
    return "%.3g" % value


def verdict(row):
    if row["ratio"] is None:
        if row["met"] is None:
            return "" if row["target"] is None else "not compared with %s" % row["to"]
        return "met" if row["met"] else "MISSED"
    text = "%sx %s" % (number(row["ratio"]), row["to"])
    if row["target"] is not None:
        text += ", %s (>= %s)" % ("met" if row["met"] else "MISSED", number(row["target"]))
    return text


def table(rows):
    """Each suite with its own columns: the sides in the order in which they appear. Rows that only compare the same figures
    with another side are one line."""
    for suite in dict.fromkeys(row["suite"] for row in rows):
        mine = [row for row in rows if row["suite"] == suite]
        names = list(dict.fromkeys(name for row in mine for name in row["values"]))
        width = max(len(row["what"] + row["unit"]) for row in mine) + 3
        print("\n%-*s" % (width, suite) + "".join("%12s" % name for name in names))
        lines = {}
        for row in mine:
            text = "%-*s" % (width, "%s, %s" % (row["what"], row["unit"]))
            text += "".join("%12s" % (number(row["values"][n]) if n in row["values"] else "") for n in names)
            lines.setdefault(text, []).append(verdict(row) + (" (%s)" % row["note"] if row["note"] else ""))
        for text, verdicts in lines.items():
            print(text + "  " + "; ".join(filter(None, verdicts)))


def quoted(text):
    return '"%s"' % text.replace("\\", "\\\\").replace('"', '\\"')


def bars(plot):
    series = plot["series"]
    labels = list(dict.fromkeys(label for points in series.values() for label in points))
    data = "\n".join(quoted(label) + " " + " ".join(str(points.get(label, "NaN")) for points in series.values())
                     for label in labels)
    bits = ["using %d:xtic(1) title %s" % (i + 2, quoted(name)) for i, name in enumerate(series)]
    return ("set style data histogram\nset style histogram clustered gap 1\nset style fill solid 0.8 noborder\n"
            "set xtics rotate by -30 noenhanced\n$d << E\n%s\nE\nplot %s\n" % (data, ", ".join("$d " + b for b in bits)))


def lines(plot):
    text, bits = "", []
    for i, (name, points) in enumerate(plot["series"].items()):
        text += "$d%d << E\n%s\nE\n" % (i, "\n".join("%s %s" % point for point in points))
        bits.append("$d%d using 1:2 with linespoints pt 7 ps 0.6 lw 2 title %s" % (i, quoted(name)))
    return text + "plot " + ", ".join(bits) + "\n"


def across(plot):
    """One bar a label, from 1 to the left or to the right."""
    text = "set yrange [%d:-1]\nset style fill solid 0.8 noborder\nset grid xtics\nset ytics noenhanced (%s)\n" % (
        sum(len(points) for points in plot["series"].values()),
        ", ".join("%s %d" % (quoted(label), at) for points in plot["series"].values() for label, (at, _) in points.items()))
    bits = []
    for i, (name, points) in enumerate(plot["series"].items()):
        if points:
            text += "$d%d << E\n%s\nE\n" % (i, "\n".join("%s %s" % (at, value) for at, value in points.values()))
            bits.append("$d%d using ($2<1?$2:1):1:($2<1?$2:1):($2<1?1:$2):($1-0.35):($1+0.35) with boxxyerror lc rgb %s title %s" %
                        (i, quoted("#2a7fb8" if name == "met" else "#d62728"), quoted(name)))
    return text + "plot " + ", ".join(bits) + "\n"


def draw(plot, out):
    path = os.path.join(out, plot["name"] + ".svg")
    height = 540 if plot["kind"] != "across" else 160 + 18 * sum(len(points) for points in plot["series"].values())
    script = "set terminal svg size 1100,%d dynamic background rgb 'white' font 'sans,13'\n" % height
    script += "set output %s\nset title %s noenhanced\n" % (quoted(path), quoted(plot["title"]))
    script += "set key outside right top noenhanced\nset grid ytics\n"
    for key in ("xlabel", "ylabel"):
        if key in plot:
            script += "set %s %s noenhanced\n" % (key, quoted(plot[key]))
    for axis in "xy":
        if plot.get("log" + axis):
            script += "set logscale %s\n" % axis
        elif axis == "y" and plot["kind"] != "across":
            script += "set yrange [0:*]\n"
    script += {"bars": bars, "lines": lines, "across": across}[plot["kind"]](plot)
    done = subprocess.run(["gnuplot"], input=script, text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, check=False)
    return path if done.returncode == 0 else "%s: %s" % (path, done.stdout.strip())


def ratios(rows):
    """The plot of all rows that have a target, as parts of the target."""
    series, at = {"met": {}, "missed": {}}, 0
    for row in rows:
        if row["ratio"] is not None and row["target"]:
            label = "%s: %s / %s" % (row["suite"], row["what"], row["to"])
            series["met" if row["met"] else "missed"][label] = (at, max(row["ratio"] / row["target"], 0.01))
            at += 1
    return series


def finish(ctx, about, out):
    about["load_after"] = os.getloadavg()[0]
    print("%(cpu)s, %(cpus)d CPUs, %(memory_gib)s GiB, Linux %(kernel)s, %(file_system)s, %(date)s, load "
          "%(load_before).1f to %(load_after).1f" % about)
    if ctx.quick:
        print("--quick: these figures mean nothing")
    table(ctx.rows)
    for left in ctx.skipped:
        print("left out: %s: %s: %s" % (left["suite"], left["what"], left["why"].strip()))
    os.makedirs(out, exist_ok=True)
    with open(os.path.join(out, "result.json"), "w") as f:
        json.dump({"machine": about, "quick": ctx.quick, "rounds": ctx.rounds, "rows": ctx.rows,
                   "skipped": ctx.skipped, "plots": ctx.plots}, f, indent=1)
    if not shutil.which("gnuplot"):
        print("no plots: gnuplot is not installed")
        return
    if any(ratios(ctx.rows).values()):
        ctx.plot("targets", "across", "Ratio reached, as a part of its target", ratios(ctx.rows), logx=True)
    for plot in ctx.plots:
        print(draw(plot, out))
