# SPDX-License-Identifier: BSD-3-Clause
"""Compares what a group's cases said on the plain directory and on the mount, for harness.bash:
compare.py GROUP WORK KNOWN MODES COUNTS-FILE. One line a case; the last is the counts. Exit status 1 on a difference that
is not in KNOWN, on one there that is gone, and on a case that does not do natively what its kind says."""
import difflib
import fnmatch
import os
import re
import sys

GOOD, BAD = (lambda s: s == 0), (lambda s: s not in (0, 124, 137))
STATUS = {"try": GOOD, "many": GOOD, "fails": BAD, "refused": BAD}
CRASH = r"terminating with default action of signal (4|6|7|8|11)\b"
PARTS = ("status", "out", "err", "files")


def read(path):
    with open(path, "rb") as f:
        return f.read()


class Known:
    """Lines of KNOWN: GROUP/CASE MODE REASON; CASE may be a pattern, MODE is alone, two, both (asan as well), valgrind or asan."""

    def __init__(self, path, group):
        self.lines = []
        with open(path) as f:
            for line in f:
                if line.strip() and not line.startswith("#"):
                    case, mode, reason = line.split(None, 2)
                    if case.startswith(group + "/"):
                        self.lines.append((case, mode, reason.strip()))
        self.seen, self.used = set(), set()

    def reason(self, case, mode, differs):
        for line in self.lines:
            if fnmatch.fnmatchcase(case, line[0]) and (line[1] == mode or line[1] == "both" and mode != "valgrind"):
                self.seen.add(line)
                if differs:
                    self.used.add(line)
                return line[2]
        return None


def sections(result, kind):
    """{name of the sub-case, or '': {part: bytes}}"""
    parts = {part: read("%s.%s" % (result, part)) for part in PARTS}
    if kind != "many":
        return {"": parts}
    found = {"rest": {p: parts[p] for p in PARTS if p != "out"}}
    pieces = re.split(rb"^=== (.*)\n", parts["out"], flags=re.M)
    found["rest"]["out"] = pieces[0]
    for name, text in zip(pieces[1::2], pieces[2::2]):
        name = re.sub(r"[^\w.+-]", "-", name.decode(errors="replace"))
        found[name] = {"out": found[name]["out"] + text if name in found else text}
    return found


def difference(native, mount, mode):
    """None, or lines that tell it. Valgrind starts programs by their whole path, which they print."""
    lines = []
    for part in PARTS:
        a, b = native.get(part), (mount or {}).get(part)
        if mode == "valgrind" and b is not None:
            b = re.sub(rb"(?m)^/usr/bin/", b"", b)
        if a != b:
            if b is None:
                lines.append("%s: nothing" % part)
                continue
            text = [x.decode(errors="backslashreplace").splitlines() for x in (a, b)]
            lines += list(difflib.unified_diff(*text, part + " of the directory", part + " of the mount", "", "", 0, ""))[:24]
    return lines or None


def broken(native, kind):
    """What is wrong with the case itself, natively."""
    status = int(native["status"])
    if not STATUS[kind](status):
        return "exit status %d on the directory" % status
    if b"command not found" in native["err"]:
        return "a command is missing"
    if kind == "try" and not any(native[p] for p in PARTS[1:]):
        return "it says nothing on the directory"
    return None


def valgrind_errors(logs):
    """The errors in valgrind's logs that are the library's: one of its functions is near the top. That a system call
    gets bytes which the program never wrote is the program's affair. Then crashes, whoever's."""
    for name in sorted(os.listdir(logs)):
        text = re.sub(r"(?m)^==\d+== ?", "", read(os.path.join(logs, name)).decode(errors="replace"))
        for error in re.split(r"\n\s*\n", text):
            where = "".join(re.findall(r"   (?:at|by) .*", error)[:4])
            if ("libfanstore" in where and "Syscall param" not in error) or re.search(CRASH, error):
                yield error


def main():
    group, work, known_path, modes, counts_path = sys.argv[1:]
    modes = modes.split()
    known = Known(known_path, group)
    count = {"cases": 0, "comparisons": 0, "different": 0, "known": 0, "broken": 0}
    for result in sorted(n[:-7] for n in os.listdir(work + "/result.native") if n.endswith(".status")):
        case, kind = result.split("-", 1)[1].rsplit(".", 1)
        native = sections("%s/result.native/%s" % (work, result), kind)
        wrong = broken({**native.get("rest", {}), **native.get("", {})}, kind)
        if wrong:
            print("WRONG  %s/%s: %s" % (group, case, wrong))
            print(*("    " + line for line in read("%s/result.native/%s.err" % (work, result))
                    .decode(errors="replace").splitlines()[-8:]), sep="\n")
            count["broken"] += 1
        mounts = {m: sections("%s/result.%s/%s" % (work, m, result), kind) for m in modes}
        for m in modes:
            for extra in mounts[m].keys() - native.keys():
                native[extra] = {"out": b""}
        for sub in native:
            name = "%s/%s%s" % (group, case, "/" + sub if sub else "")
            count["cases"] += 1
            notes = []
            for m in modes:
                count["comparisons"] += 1
                lines = difference(native[sub], mounts[m].get(sub), m)
                reason = known.reason(name, m, lines)
                if lines and reason:
                    count["known"] += 1
                    notes.append("known  %s (%s): %s" % (name, m, reason))
                    if os.environ.get("FS_CLIENTS_SHOW"):
                        notes += ["    " + line for line in lines]
                elif lines:
                    count["different"] += 1
                    notes += ["DIFF   %s (%s)" % (name, m)] + ["    " + line for line in lines]
            print("\n".join(notes) if notes else "same   " + name, flush=True)
        times = [int(read("%s/result.%s/%s.ms" % (work, m, result))) for m in ["native"] + modes]
        if max(times[1:]) > 5000 and max(times[1:]) > 5 * times[0]:
            print("slow   %s/%s: %d ms on the directory, %s on the mount" % (group, case, times[0], times[1:]))
    for line in sorted(known.seen - known.used):
        print("GONE   %s %s is in known.txt and does not differ" % line[:2])
        count["broken"] += 1
    for block in valgrind_errors(work + "/valgrind"):
        print("ERROR  of valgrind:\n" + block)
        count["broken"] += 1
    print("%s: %d cases, %d comparisons, %d differences, %d known ones%s" % (
        group, count["cases"], count["comparisons"], count["different"], count["known"],
        ", %d faults of the cases" % count["broken"] if count["broken"] else ""))
    if counts_path:
        with open(counts_path, "a") as f:
            f.write("%(cases)d %(comparisons)d %(different)d %(known)d\n" % count)
    sys.exit(1 if count["different"] or count["broken"] else 0)


main()
