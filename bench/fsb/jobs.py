# SPDX-License-Identifier: BSD-3-Clause
"""What the suites on cold and remote files share: lists of files, the reader, two hosts, and MPI as a side."""
import glob
import os
import shutil
import subprocess
import sys

from .core import make_files
from .peers import Failed, Missing, Side, need

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))


def halves(rng, size, pool={}):  # pylint: disable=dangerous-default-value
    """Data of which lz4 saves half: 26 bytes of chance in 64. Cut out of one pool, which is larger than lz4 sees."""
    if "data" not in pool:
        bits = (rng.randbytes(26) for _ in range(1 << 18))
        pool["data"] = b"".join(b + b + b[:12] for b in bits)
    data = pool["data"]
    at = rng.randrange(len(data))
    out = data[at:at + size]
    while len(out) < size:
        out += data[:size - len(out)]
    return rng.randbytes(8) + out[8:]  # no two files are alike


def files(ctx, name, size, count, fill=None):
    """A directory of files and the file that lists them."""
    source = ctx.dir("source-" + name)
    make_files(source, size, count, fill=fill)
    listed = os.path.join(ctx.work, "list-" + name)
    with open(listed, "w") as f:
        for top, _, names in sorted(os.walk(source)):
            for n in sorted(names):
                f.write(os.path.relpath(os.path.join(top, n), source) + "\n")
    return source, listed


def read(ctx, side, listed, *options):
    return side.run([ctx.tool("reader"), *options, side.directory, listed])


# A process has at least the memory of the one that started it, until it has called exec: so a small one starts it.
START = """import json, resource, subprocess, sys, time
began = time.monotonic()
status = subprocess.call(sys.argv[1:], stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL)
took, used = time.monotonic() - began, resource.getrusage(resource.RUSAGE_CHILDREN)
print(json.dumps({"s": took, "cpu": used.ru_utime + used.ru_stime, "rss": used.ru_maxrss / 1024}))
sys.exit(status)"""


def timed(command):
    """Seconds, seconds of the processor, and the most memory that the process had, MiB."""
    return Side(command[1], "").run([sys.executable, "-IS", "-c", START, *command])


def staged(ctx, dataset, side, n=1):
    """The partitions in the local directory of a side of ctx.nodes(), after a job that staged them."""
    side.run(["true"])
    local = os.path.join(ctx.work, "local", "%s-%d" % (os.path.basename(dataset), n))
    return sorted(glob.glob(local + "/**/part-?????", recursive=True))


def mpirun(extra):
    """As fs-launch starts the daemons: the same transports."""
    need("mpirun")
    found = subprocess.run(["ompi_info", "--parsable", "--param", "pml", "ucx"], stdout=subprocess.PIPE, text=True, check=False)
    command = ["mpirun", "--bind-to", "none", "--map-by", "node", "--oversubscribe"]
    command += ["--allow-run-as-root"] if os.geteuid() == 0 else []
    if "mca:pml:ucx:" in found.stdout:
        command += ["--mca", "pml", "ucx", "--mca", "pml_ucx_tls", "any", "--mca", "pml_ucx_devices", "any", "--mca", "btl",
                    "self"]
    else:
        command += ["--mca", "pml", "ob1", "--mca", "btl", "self,tcp", "--mca", "mpi_event_tick_rate", "1"]
    return command + extra + ["-np", "2"]


def mpi_here():
    return Side("MPI", "", mpirun(["--mca", "oob_tcp_if_include", "lo", "--mca", "btl_tcp_if_include", "lo", "-x",
                                   "UCX_TLS=tcp,self", "-x", "UCX_NET_DEVICES=lo"]))


class Hosts:
    """Two hosts of their own (bench/hosts.sh) with a link of a given rate."""

    def __init__(self, ctx, rate):
        need("ip", "tc", "unshare")
        self.ctx, self.work = ctx, ctx.dir("hosts")
        self.prefix = [os.path.join(ROOT, "bench/hosts.sh"), self.work, rate]
        try:
            Side("hosts", "", self.prefix).run(["true"])
        except Failed as e:
            raise Missing("two hosts: %s" % str(e).strip().splitlines()[-1]) from e

    def nodes(self, dataset, extra=()):
        net = os.path.join(self.work, "net")
        mount = self.ctx.mount_of(dataset)
        return Side("2 nodes", mount, self.prefix + [
            self.ctx.bin("fs-launch"), "--dataset", dataset, "--mount", mount, "--local-dir", net + "/local", "--hostfile",
            net + "/hostfile", *extra, "--"])

    def mpi(self):
        return Side("MPI", "", self.prefix + mpirun(["--hostfile", self.work + "/net/hostfile"]))

    def remove(self):
        shutil.rmtree(self.work, ignore_errors=True)
