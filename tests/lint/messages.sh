#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# docs/troubleshooting.md has each message that the programs and the library print, and no other. A message is the format of a call that
# prints it; what is put into the format is written as an ellipsis. In the page, messages are the code spans in the first column of the
# tables, where an ellipsis stands for any text. A format with nothing but a path, an option and an error of the system needs no row.
. "$(dirname "$0")/files.sh"
need python3

mapfile -t code < <(sources 'fs-launch/*.c' 'fs-prepare/*.c' 'libfanstore/*.c' 'libfanstore/*.h' 'libfanstore/python/*.py')
while IFS= read -r line; do complain "$line"; done < <(python3 - docs/troubleshooting.md "${code[@]}" <<'PYTHON'
import re
import sys

# The calls that print, and which of their arguments is the format. In `fs_note` all arguments are one message.
FORMAT_OF = {"fs_say": 0, "fs_nodes_fail": 1, "say": 0, "fs_warn": 1, "fs_say_text": 2, "fs_daemon_fail": 1, "fs_tell_once": 1, "fs_fault": 1, "copy_bad": 2,
             "fs_progress": 0, "FS_WHY": 0, "fs_disk_say": 1, "fs_disk_end": 1, "fs_space_say": 2, "left_failed": 2, "fprintf": 1,
             "dprintf": 1, "fputs": 0, "snprintf": 2, "print": 0}
CALL = re.compile(r"\b(" + "|".join([*FORMAT_OF, "FS_NOTE"]) + r")\(")
REASON = re.compile(r"(.*->|.*\.)?(why|fail)$")  # snprintf into a variable of such a name is the reason in a message
LITERAL = re.compile(r'"((?:[^"\\]|\\.)*)"')


def arguments(text, at):
    """The arguments of the call whose parenthesis was just passed, each as source text."""
    found, depth, begin = [], 0, at
    while True:
        c = text[at]
        if c in "\"'":
            at += 1
            while text[at] != c:
                at += 2 if text[at] == "\\" else 1
        elif c in "([{":
            depth += 1
        elif c in ")]}" and depth > 0:
            depth -= 1
        elif c in ",)" and depth == 0:
            found.append(" ".join(text[begin:at].split()))
            begin = at + 1
            if c == ")":
                return found
        at += 1


def is_literal(argument):
    """True for adjacent literals and macros."""
    begins = argument.startswith('"') or re.match(r'[A-Z_]+ "', argument) or re.fullmatch("[A-Z][A-Z_]*", argument)
    return bool(begins) and not re.search("[^A-Za-z0-9_ ]", LITERAL.sub("", argument))


def joined(argument):
    parts = re.findall(r'"((?:[^"\\]|\\.)*)"|(\b[A-Za-z_]\w*)', argument)
    return "".join("…" if macro else text for text, macro in parts)


def chosen(argument, which):
    choice = re.fullmatch(r'.*\? ("(?:[^"\\]|\\.)*"|[^"?:]*) : ("(?:[^"\\]|\\.)*"|[^"?:]*)', argument)
    if choice:
        argument = choice[which + 1]
    return joined(argument) if is_literal(argument) else "…"


def plain(text):
    text = re.sub(r"%(\.?\*|[-0-9. ])*(ll|z|h|l)?([a-zA-Z]|(?=…))", "…", text.replace("%%", "\2")).replace("\2", "%")
    text = text.replace("\\n", "").replace('\\"', '"').replace("\1", '"')
    return re.sub("…+", "…", text).strip()


def messages(path):
    text = re.sub(r"//.*", "", open(path, encoding="utf-8").read()) if path.endswith(".c") else open(path, encoding="utf-8").read()
    for call in CALL.finditer(text):
        name, given = call[1], arguments(text, call.end())
        line = text.count("\n", 0, call.start()) + 1
        if name == "FS_NOTE":
            for which in 0, 1:  # of a choice between two literals
                yield plain("".join(chosen(a, which) for a in given)), f"{path}:{line}"
            continue
        which = FORMAT_OF[name]
        if name == "print":
            given[0] = (LITERAL.match(given[0]) or [""])[0]
        if len(given) <= which or not is_literal(given[which]):
            continue
        if name == "snprintf" and not REASON.match(given[0]):
            continue
        if name == "fprintf" and given[0] != "stderr" or name == "dprintf" and given[0] != "STDERR_FILENO":
            continue
        if name == "fputs" and given[1] != "stderr" or name == "print" and "stderr" not in given[-1]:
            continue
        if path.startswith("fs-launch/doctor") and name != "fs_say":
            continue
        yield plain(joined(given[which])), f"{path}:{line}"


def telling(message):
    return re.search("[a-z]{3}", re.sub(r"--[a-z-]+|^warning:|/index|fanstored|fanstore-static", "", message))


def rows(page):
    for number, line in enumerate(open(page, encoding="utf-8"), 1):
        if line.startswith("| `"):
            for span in re.findall("`([^`]+)`", line.split(" | ")[0]):
                yield span, number


page, *files = sys.argv[1:]
patterns = [(p, n, re.compile(".*".join(map(re.escape, p.split("…"))))) for p, n in rows(page)]
if len(patterns) < 50:
    print(f"{page} has {len(patterns)} messages: its tables are not read")
used, count = set(), 0
for file in files:
    for message, where in messages(file):
        if not telling(message):
            continue
        count += 1
        fits = [p for p, _, regex in patterns if regex.fullmatch(message)]
        used.update(fits)
        if not fits:
            print(f"{where}: {page} does not have: {message}")
for p, number, _ in patterns:
    if p not in used:
        print(f"{page}:{number}: nothing prints this: {p}")
if count < 150:
    print(f"only {count} messages were found in the source")
PYTHON
)
verdict
