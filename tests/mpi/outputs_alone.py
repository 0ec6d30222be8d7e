# SPDX-License-Identifier: BSD-3-Clause
"""Outputs of a job of one node, while its daemon is stopped: outputs_alone.py MOUNT LOCAL_DIR NAMECLIENT."""
import os
import signal
import subprocess
import sys
import time

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from nodes import daemon, equal, step  # noqa: E402

mount, local, client = sys.argv[1:]
path, pid = f"{mount}/made", daemon(0, local)


def record():
    """Mode and size in the file's record."""
    socket = os.environ["FANSTORE_RUN"] + "/node-0.sock"
    said = subprocess.run([client, socket], env={"PATH": os.environ["PATH"]}, input="stat 1 made\n", check=True,
                          stdout=subprocess.PIPE, text=True).stdout.split()
    equal("answer", ("ok", 4), (said[0], len(said)))
    return int(said[1], 8), int(said[3])


def record_becomes(mode, size):
    end = time.monotonic() + 20
    while record() != (mode, size) and time.monotonic() < end:
        time.sleep(0.05)
    equal("record", (mode, size), record())


os.umask(0o022)
with open(path, "wb") as f:
    f.write(b"first")
record_becomes(0o100644, 5)
step("the record of a new file has its mode and size")

# The daemon has looked at the file, and looks again only because programs tell it to.
waker = subprocess.Popen(["/bin/sh", "-c", f"sleep 1.2; kill -CONT {pid}"], env={"PATH": os.environ["PATH"]})
os.kill(pid, signal.SIGSTOP)
try:
    begin = time.monotonic()
    for i in range(20):
        with open(path, "r+b") as f:
            f.write(b"%7d" % i)
        os.chmod(path, 0o600 + i % 2 * 0o40)
        equal("size, mode", (7, 0o600 + i % 2 * 0o40), (os.stat(path).st_size, os.stat(path).st_mode & 0o777))
    took = time.monotonic() - begin
finally:
    os.kill(pid, signal.SIGCONT)
    waker.wait()
assert took < 0.9, f"opening, writing and closing waited for the daemon: {took:.2f} s"
with open(path, "rb") as f:
    equal("bytes", b"     19", f.read())
step("files are opened, written and closed without the daemon")
record_becomes(0o100640, 7)
step("the record then has the last mode and size")
with open(path, "ab") as f:
    f.write(b"more")
    f.flush()
    os.fsync(f.fileno())
    equal("record after fsync", (0o100640, 11), record())
step("fsync does not leave the record to a later look")

# What the daemon was told while it stood still, it finds: removed files leave nothing.
os.unlink(path)
many = [f"{mount}/many{i}" for i in range(400)]
for name in many:
    with open(name, "wb") as f:
        f.write(b"x")
for name in many:
    with open(name, "r+b") as f:
        os.unlink(name)
        equal("links", 0, os.fstat(f.fileno()).st_nlink)
        f.write(b"y")
out = next(os.path.join(d, "out") for d, dirs, _ in os.walk(local) if "out" in dirs)
equal("backing files", [], os.listdir(out))
step("removed files leave nothing")
