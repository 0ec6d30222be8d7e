# SPDX-License-Identifier: BSD-3-Clause
"""The context that a suite is run with: sides (peers.py), turns, and the rows of the table."""
import os
import random
import statistics
import subprocess
import sys

from .peers import Failed, Missing, Peers, Side, call


class Context(Peers):
    def __init__(self, build, work, quick=False, rounds=None, seed=1):
        self._start(work, build)
        self.quick, self.rounds, self.random = quick, rounds or (1 if quick else 3), random.Random(seed)
        self.suite, self.rows, self.skipped, self.plots = "", [], [], []

    def say(self, text):
        print("  %s" % text, file=sys.stderr, flush=True)

    def files(self, name, count, size, ratio=1, per_directory=500):
        """A directory of files that every run makes alike; lz4 makes their bytes about `ratio` times smaller."""
        path = os.path.join(self.work, name)
        call([self.tool("makefiles"), "-r", str(ratio), "-d", str(per_directory), path, str(count), str(size)])
        return path

    def limit(self, name, directory):
        """What is no file system, but the same program doing only one step on the files of a directory."""
        return Side(name, directory)

    def fsbench(self, side, number, operations, *options):
        """build/bench/fsbench on a side, as a function for interleave(); times in us."""
        got = side.run([self.tool("fsbench"), "-o", operations, "-s", number + 1, *options, side.directory])
        return {k: v / 1000 if k in operations.split(",") else v for k, v in got.items()}

    def interleave(self, sides, fn, rounds=None):
        """fn(side, round) -> dict, all sides in each round in random order: for each side the medians of what is a number.
        What is a string (a sum of the bytes that were read) must be the same for all."""
        results, texts = {side.name: [] for side in sides}, {}
        os.sync()  # what was just made is not written out while the first is timed
        for number in range(rounds or self.rounds):
            for side in self.random.sample(sides, len(sides)):
                got = fn(side, number)
                for key, value in got.items():
                    if isinstance(value, str) and texts.setdefault(key, value) != value:
                        raise Failed("%s: %s is %s, not %s" % (side.name, key, value, texts[key]))
                results[side.name].append(got)
        return {name: {key: statistics.median(got[key] for got in all_of_it)
                       for key, value in all_of_it[0].items() if isinstance(value, (int, float))}
                for name, all_of_it in results.items()}

    def row(self, what, unit, values, of="1 node", to="ext4", target=None, better="lower", note=""):
        """One line of the table: {side: value}. With of and to: how many times as good `of` is as `to`, and whether that
        reaches the target. A target is a ratio (better="lower" or "higher": what of the values is better). Next to the
        plain directory the target is 1 if none is given: nothing is to be slower. Other rows without one have a limit beside."""
        ratio, met, to = None, None, self.base if to == "ext4" else to
        target = 1 if target is None and to == self.base else target
        if values.get(of) and values.get(to):
            ratio = values[to] / values[of] if better == "lower" else values[of] / values[to]
            met = None if target is None else ratio >= target
        self.rows.append({"suite": self.suite, "what": what, "unit": unit, "values": values, "of": of, "to": to,
                          "ratio": ratio, "target": target, "met": met, "better": better, "note": note})
        return ratio

    def bound(self, what, unit, value, limit, note=""):
        """One line of the table for a figure that must not exceed a limit."""
        self.rows.append({"suite": self.suite, "what": what, "unit": unit, "values": {"measured": value, "limit": limit},
                          "of": "measured", "to": "limit", "ratio": limit / value if value else None, "target": 1,
                          "met": value <= limit, "better": "lower", "note": note})

    def skip(self, what, why):
        self.skipped.append({"suite": self.suite, "what": what, "why": why})
        self.say("%s: left out: %s" % (what, why))

    def plot(self, name, kind, title, series, **options):
        """An SVG under build/bench (report.py): kind "bars": series {name: {label: y}}; "lines": {name: [(x, y)]}.
        options: xlabel, ylabel, logx, logy."""
        self.plots.append({"name": name, "kind": kind, "title": title, "series": series, **options})

    def run_suite(self, name, function):
        """Its rows; a suite that fails is an error of the run, but not the end of it."""
        self.suite = name
        try:
            function(self)
            return True
        except Missing as e:
            self.skip("the rest", str(e))
            return True
        except (Failed, OSError, subprocess.SubprocessError) as e:
            self.skip("suite " + name, "failed: %s" % e)
            return False
        finally:
            self.take_away()


def make_files(top, size, count, seed=0, per_directory=500, fill=None):
    """Files of random bytes (or of fill(rng, size)) that every run makes alike."""
    rng = random.Random(seed or size)
    for i in range(count):
        directory = os.path.join(top, "dir%04d" % (i // per_directory))
        if i % per_directory == 0:
            os.makedirs(directory)
        with open(os.path.join(directory, "file%07d" % i), "wb") as f:
            f.write(fill(rng, size) if fill else rng.randbytes(size))
