# SPDX-License-Identifier: BSD-3-Clause
"""What the case files of this directory share. Each is a program: FILE.py BASE SCRATCH [CASE...]. It runs its cases,
which read below BASE and write below SCRATCH only, and prints a line "=== NAME" and what the case has shown for each
(the two directories' names as @ and %): what harness.bash calls `many`. Exit status 0 unless it was killed."""
import errno
import gc
import hashlib
import os
import re
import shutil
import sys
import traceback

CASES = []
BASE = SCRATCH = ""


def case(function):
    """Decorator: the function is a case; its own name is the case's."""
    CASES.append(function)
    return function


def digest(data):
    return hashlib.md5(data).hexdigest()


def text(value):
    """Printable, short, and without what differs between any two runs."""
    if isinstance(value, (bytes, bytearray, memoryview)) and len(value) > 80:
        return f"{len(value)} bytes {digest(value)}"
    value = value if isinstance(value, str) else repr(value)
    for path, sign in ((BASE, "@"), (SCRATCH, "%")):
        value = value.replace(path, sign)
    value = re.sub(r"\b0x[0-9a-f]{6,}\b|\b[0-9a-f]{32}(?=\.partial)", "..", value)
    value = value.encode("utf-8", "backslashreplace").decode()
    return value if len(value) < 4000 else f"{len(value)} characters {digest(value.encode())}"


def show(*values):
    print(*map(text, values), flush=True)


def failure(e):
    if isinstance(e, OSError) and e.errno:
        return f"{type(e).__name__} {errno.errorcode.get(e.errno, e.errno)} {text(str(e))}"
    return f"{type(e).__name__} {text(str(e))}"


def attempt(function, *args, **kwargs):
    """The result, or the exception in words."""
    try:
        return function(*args, **kwargs)
    except Exception as e:  # pylint: disable=broad-except
        return failure(e)


def base(*parts):
    return os.path.join(BASE, *parts)


def scratch(*parts):
    return os.path.join(SCRATCH, *parts)


def read(*parts):
    with open(base(*parts), "rb") as f:
        return f.read()


def main():
    set_directories(sys.argv[1], sys.argv[2])
    for function in CASES:
        if sys.argv[3:] and function.__name__ not in sys.argv[3:]:
            continue
        shutil.rmtree(SCRATCH, ignore_errors=True)
        os.makedirs(SCRATCH)
        print("===", function.__name__, flush=True)
        try:
            function()
        except Exception as e:  # pylint: disable=broad-except
            where = traceback.extract_tb(e.__traceback__)[-1]
            show("raised in", os.path.basename(where.filename), where.lineno, failure(e))
        gc.collect()
        os.chdir("/")
    shutil.rmtree(SCRATCH)


def set_directories(base_directory, scratch_directory):
    global BASE, SCRATCH  # pylint: disable=global-statement
    BASE, SCRATCH = base_directory, scratch_directory
