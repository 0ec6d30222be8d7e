# SPDX-License-Identifier: BSD-3-Clause
"""live.py RUN [KEY=VALUE...]: a process that `fs-launch jobs` takes for a job's, with the run directory RUN.

It holds the directory's lock and replaces RUN/live each `every` seconds. Counters grow in proportion to the time, so
each rate is known: node K opens 100 * (K + 1) files a second. It removes RUN and ends when SIGTERM comes.

nodes=N every=S state=STATE host=NAME command=TEXT warning=TEXT busy=PATH
"""
import ctypes
import fcntl
import os
import shutil
import signal
import sys
import time

run = sys.argv[1]
options = dict(word.split("=", 1) for word in sys.argv[2:])
nodes, every = int(options.get("nodes", 2)), float(options.get("every", 0.25))
state = options.get("state", "running")


def escape(text):
    return "".join("%%%02X" % b if b <= 32 or b in b"%\x7f" else chr(b) for b in os.fsencode(text)).encode("latin-1")


def sample(node, s):
    """What a node has counted after so many seconds."""
    f, mb = 100 * (node + 1) * s, 1000000 * s
    return {
        "opens": f, "stats": 2 * f, "files_local": f / 2, "files_cache": f / 4, "files_remote": f / 4, "files_shared": 0,
        "bytes_local": 50 * mb, "bytes_cache": 30 * mb, "bytes_remote": 15 * mb, "bytes_shared": 5 * mb,
        "blocks_local": f / 2, "blocks_cache": f / 4, "blocks_remote": f / 4, "blocks_shared": 0,
        "errors": 0, "fallbacks": 0, "timeouts": 0, "checksum_errors": 0,
        "served": f / 4, "served_bytes": 15 * mb, "cache_used": 512 << 20, "cache_size": 1 << 30, "queue": 3 + node,
        "processes": 4, "cpu_ms": 100 * s, "host_busy": 60 + node, "outputs": 2 * s, "output_written": 4 * mb,
        "wait_ms": 4 * 1000 * s * 0.10, "wait_worst": 70 + node, "decodes": f / 4, "decode_ms": 50 * s, "decode_saved": 20 * mb,
        "of_a_newer_version": 7,
    }


def live(start, now):
    s = now - start
    lines = [b"fanstore-live 1",
             b"job %s pid=%d user=me started=%d state=%s nodes=%d command=%s" %
             (escape(os.path.basename(run)), os.getpid(), start * 1000, state.encode(), nodes,
              escape(options.get("command", "python3 train.py --epochs 9")))]
    if state == "staging":
        lines.append(b"progress done=%d total=%d" % (3 << 30, 12 << 30))
    for k in range(nodes if state in ("running", "finishing") else 0):
        pairs = b" ".join(b"%s=%d" % (key.encode(), value) for key, value in sample(k, s).items())
        lines.append(b"node %d host=%s ms=%d %s" % (k, escape(options.get("host", "node%d" % k)), now * 1000, pairs))
        # bucket 72: 32.8 us to 36.9 us; bucket 112: 1.05 ms to 1.18 ms
        lines.append(b"latency %d read remote n=1 p50=1 p90=1 p99=1 max=1 counts=72:%d,112:%d" % (k, 980 * s, 20 * s))
        lines.append(b"latency %d open local n=1 p50=1 p90=1 p99=1 max=1 counts=0:%d" % (k, 10 * s))
    if "busy" in options:
        lines.append(b"busy remote node=1 reads=70 bytes=9 us=350000 longest_us=12000 path=" + escape(options["busy"]))
        lines.append(b"busy nowhere node=1 reads=70 path=x")
    if "warning" in options:
        lines.append(b"warning " + escape(options["warning"]))
    return b"\n".join(lines) + b"\n"


def stop(*_):
    shutil.rmtree(run, ignore_errors=True)
    os._exit(0)


ctypes.CDLL(None).prctl(15, b"fs-launch", 0, 0, 0)  # PR_SET_NAME
os.makedirs(run, mode=0o700)
lock = open(run + "/launch.lock", "w")
fcntl.flock(lock, fcntl.LOCK_EX)
signal.signal(signal.SIGTERM, stop)
began = time.time() - 100
while True:
    with open(run + "/live.new", "wb") as f:
        f.write(live(began, time.time()))
    os.rename(run + "/live.new", run + "/live")
    time.sleep(every)
