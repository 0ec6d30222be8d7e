# SPDX-License-Identifier: BSD-3-Clause
"""Memory: what a client process has of its own after reading everything, and what a daemon has with a small cache."""
import os
import subprocess
import sys

SETS = (("4 KiB", 4096, 10000, 1, "raw"), ("128 KiB", 131072, 1000, 2, "lz4"), ("8 MiB", 8 << 20, 16, 1, "raw"))
CLIENT_LIMIT = 8  # MiB


def client(ctx, label, size, count, ratio, codec):
    source = ctx.files("source-%d" % size, max(count // 10, 4) if ctx.quick else count, size, ratio)
    dataset = ctx.pack(source, "m%d" % size, codec=codec)
    sides = [ctx.plain(source), ctx.library(dataset), ctx.nodes(dataset, 1), ctx.nodes(dataset, 2)]
    got = ctx.interleave(sides, lambda side, number: ctx.fsbench(side, number, "read,pieces", "-p", 1), 1)
    base = got.pop(sides[0].name)
    for name, v in got.items():
        own, tables, clean = ((v[k] - base[k]) / 1024 for k in ("private_dirty", "page_tables", "private_clean"))
        ctx.bound("client, %s %s, %s" % (label, codec, name), "MiB", own + tables, CLIENT_LIMIT,
                  "page tables %.2f; files' pages that only it has mapped %.1f" % (tables, clean))


def daemon(ctx):
    """Two nodes; node 0 reads everything, with a cache much smaller than what it has to fetch."""
    cache, count = (16, 40) if ctx.quick else (64, 400)
    source = ctx.files("source", count, 1 << 20)
    side = ctx.nodes(ctx.pack(source, "daemon"), 2, ["--cache", "%dM" % cache])
    got = side.run([sys.executable, __file__, ctx.tool("fsbench"), side.directory])
    idle = side.run([sys.executable, __file__, "true"])
    note = "%d MiB read, half of it from the other node; idle %.1f" % (count, idle["daemon_mib"])
    ctx.bound("daemon, --cache %dM, its own and shared memory" % cache, "MiB", got["daemon_mib"], cache + 32, note)


def run(ctx):
    for one in SETS:
        client(ctx, *one)
        ctx.clear()
    daemon(ctx)


def daemons_memory():
    """Inside the job: the largest of its daemons, in MiB, without what it has mapped of files."""
    job, most = os.path.basename(os.environ["FANSTORE_RUN"]), 0
    for pid in filter(str.isdigit, os.listdir("/proc")):
        try:
            with open("/proc/%s/cmdline" % pid, "rb") as f:
                words = f.read().split(b"\0")
            if os.path.basename(words[0]) != b"fanstored" or job.encode() not in words:
                continue
            with open("/proc/%s/status" % pid) as f:
                own = sum(int(line.split()[1]) for line in f if line.startswith(("RssAnon:", "RssShmem:")))
            most = max(most, own)
        except OSError:
            continue
    return most / 1024


if __name__ == "__main__":
    subprocess.run(sys.argv[1:], check=True, stdout=subprocess.DEVNULL)
    print('{"daemon_mib": %.2f}' % daemons_memory())
