# SPDX-License-Identifier: BSD-3-Clause
"""Runs a page of docs: pages.py PAGE [--write]. Its blocks ```sh are run in order, by one shell, in the current directory. A block
```output shows what the block before it prints. There `…` stands for any text, a line `…` for any lines, and a number of seconds for any
other one. A percentage, or a size such as 1.5 MiB, stands for one that differs by a quarter at most. The page says /home/ada for the
directory, and `myhost` for this host. mpirun may put a line of one process into another's: so a page that prints other lines is run
again, once, in a new directory. --write puts the present outputs into the page where the old ones do not match."""
import os
import re
import subprocess
import sys

FENCE = re.compile(r"^```(\w*) *$")


def blocks(lines):
    """(language, number of the first line, lines) of each fenced block."""
    inside = None
    for number, line in enumerate(lines):
        fence = FENCE.match(line)
        if fence and inside is None:
            inside = (fence[1], number + 1, [])
        elif fence:
            yield inside
            inside = None
        elif inside:
            inside[2].append(line)


def run(commands, timeout):
    """Runs the blocks in one shell. Returns what each has printed; what fails shows in the output."""
    script = ["here=$PWD"]
    for n, text in enumerate(commands):
        with open(f".{n}.sh", "w", encoding="utf-8") as f:
            f.write(text)
        script.append(f'. "$here/.{n}.sh" >"$here/.{n}.out" 2>&1')
    subprocess.run(["bash", "-c", "\n".join(script)], stdin=subprocess.DEVNULL, timeout=timeout, check=False)
    shown = []
    for n, _ in enumerate(commands):
        with open(f".{n}.out", encoding="utf-8", errors="replace") as f:
            shown.append(f.read())
    return shown


def as_shown(text):
    text = text.replace(os.getcwd(), "/home/ada")
    host = os.uname().nodename
    return re.sub(r"\b" + re.escape(host) + r"\b", "myhost", text).rstrip("\n").split("\n")


SECONDS = re.compile(r"[0-9]+(\.[0-9]+)?(?= s\b)|[0-9.]+ [KMGT]i?B/s")
ABOUT = re.compile(r"[0-9]+\.[0-9]+(?=%| [KMGT]i?B\b(?!/))")


def pattern(lines):
    """A pattern for the lines, and the values of its groups, which may differ by a quarter."""
    parts, values = [], []
    for line in lines:
        if line == "…":
            parts.append(r"(?:.*\n)*?")
            continue
        text = SECONDS.sub("\1", line)
        values += map(float, ABOUT.findall(text))
        text = re.escape(ABOUT.sub("\2", text)).replace("…", ".*")
        text = text.replace("\1", "[0-9.]+(?: [KMGT]i?B/s)?").replace("\2", "([0-9]+[.][0-9]+)")
        parts.append(text + r"\n")
    return re.compile("".join(parts)), values


def fits(expected, got):
    form, values = pattern(expected)
    match = form.fullmatch("\n".join(got) + "\n")
    return match is not None and all(abs(float(g) - v) <= v / 4 for g, v in zip(match.groups(), values))


def attempt(page, found):
    """Runs the page's blocks in the current directory. Returns the outputs that do not fit: the block, and what was printed."""
    commands = [i for i, b in enumerate(found) if b[0] == "sh"]
    shown = run(["\n".join(found[i][2]) + "\n" for i in commands], 120)
    wrong = []
    for i, text in zip(commands, shown):
        got = as_shown(text)
        output = found[i + 1] if i + 1 < len(found) and found[i + 1][0] == "output" else ("", 0, [])
        if fits(output[2] or [""], got):
            continue
        print(f"{page}:{found[i][1]}: this block prints other lines than the page shows:", *got, sep="\n")
        wrong.append((output, got))
    print(f"{os.path.basename(page)}: {len(commands)} blocks were run")
    return wrong if commands else [(("", 0, []), [])]


def main():
    page, write = os.path.abspath(sys.argv[1]), "--write" in sys.argv
    with open(page, encoding="utf-8") as f:
        lines = f.read().split("\n")
    found = [b for b in blocks(lines) if b[0] in ("sh", "output")]
    wrong = attempt(page, found)
    if wrong and not write:
        again = os.getcwd() + "-again"
        os.mkdir(again)
        os.chdir(again)
        wrong = attempt(page, found)
    if write:
        for (_, at, old), got in reversed([w for w in wrong if w[0][1]]):
            lines[at:at + len(old)] = got
        with open(page, "w", encoding="utf-8") as f:
            f.write("\n".join(lines))
    return 1 if wrong else 0


sys.exit(main())
