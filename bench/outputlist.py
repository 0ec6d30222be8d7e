#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""outputlist.py DIRECTORY COUNT TOOLS [NODE]: makes COUNT files of 1 byte in DIRECTORY/many, waits until their sizes are
known everywhere, and lists them, on node NODE of the job if one is given. Prints a JSON object: readdir (ns a name), ls and
"ls -l" (ms, the fastest of three)."""
import json
import os
import subprocess
import sys
import time

directory, count, tools = sys.argv[1], int(sys.argv[2]), sys.argv[3]
many = os.path.join(directory, "many")
os.makedirs(many)
for i in range(count):
    with open("%s/file.%07d" % (many, i), "wb", buffering=0) as f:
        f.write(b"x")
time.sleep(2)
if len(sys.argv) > 4:
    os.environ["FANSTORE_NODE"] = sys.argv[4]


def run(tool, *args):
    said = subprocess.run([os.path.join(tools, tool), *args], check=True, stdout=subprocess.PIPE, text=True).stdout
    return json.loads([line for line in said.splitlines() if line.startswith("{")][-1])


got = {"readdir": run("fsbench", "-o", "readdir", "-c", many)["readdir"]}
os.environ["LC_ALL"] = "C"
for what in ("ls", "ls -l"):
    got[what] = run("repeat", "-n", "3", *what.split(), many)["us"] / 1000
print(json.dumps(got))
