# SPDX-License-Identifier: BSD-3-Clause
"""report_keys.py REPORT [EXAMPLE]: compares the keys of a report with docs/report.md and docs/internals/messages.md.

Prints what is not described, what is described and not there, and, of EXAMPLE, what it has more or less than REPORT."""
import os
import re
import sys

from report import Report

root = os.path.join(os.path.dirname(os.path.abspath(__file__)), "../..")


def table(path, heading):
    """The cells of the rows of the first table after the heading."""
    with open(os.path.join(root, path)) as f:
        text = f.read().split(heading, 1)[1]
    rows = []
    for line in text.splitlines():
        if line.startswith("|"):
            rows.append([cell.strip() for cell in line.strip("|").split("|")])
        elif rows:
            break
    return rows[2:]


def described():
    """For each group of the report its keys; the group '' has the keys of the top."""
    groups, now = {"": set()}, [""]
    for group, keys, *_ in table("docs/report.md", "## The JSON"):
        if group:
            now = re.findall(r"`(\w+)`", group)
            groups[""].update(now)
        for name in now:
            groups.setdefault(name, set()).update(re.findall(r"`([\w*]+)`", keys))
    counters = {"ms"}
    for keys, *_ in table("docs/internals/messages.md", "### stats"):
        for key in keys.split(", "):
            counters.update([key] if "_X" not in key else
                            [key[:-1] + place for place in ("local", "cache", "remote", "shared")])
    groups["nodes"] |= counters - {"ms"}
    groups["total"] = counters
    return groups


def present(data):
    """The same of a report: keys of its objects, and of the objects in its lists."""
    groups = {"": set(data)}
    for name, value in data.items():
        for o in value if isinstance(value, list) else [value]:
            if isinstance(o, dict):
                groups.setdefault(name, set()).update(o)
    return groups


def expand(keys, there):
    """`bytes_*` stands for all that are there."""
    return {k for key in keys for k in ([key] if "*" not in key else
                                        [t for t in there if re.fullmatch(key.replace("*", r"\w+"), t)])}


bad = []
words, real = described(), present(Report(sys.argv[1]).data)
for group, there in real.items():
    named = expand(words.get(group, set()), there)
    bad += ["not described: %s %s" % (group, k) for k in sorted(there - named)]
    if group != "total":
        bad += ["described, but not in the report: %s %s" % (group, k) for k in sorted(named - there)]
bad += ["described, but not in the report: %s" % g for g in sorted(words[""] - real[""])]
if len(sys.argv) > 2:
    example = present(Report(sys.argv[2]).data)
    for group in sorted(set(real) | set(example)):
        a, b = real.get(group, set()), example.get(group, set())
        if group in real and group in example:
            bad += ["only in the example: %s %s" % (group, k) for k in sorted(b - a)]
            bad += ["not in the example: %s %s" % (group, k) for k in sorted(a - b)]
print("\n".join(bad), end="\n" if bad else "")
sys.exit(bool(bad))
