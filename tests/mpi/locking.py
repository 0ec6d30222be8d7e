# SPDX-License-Identifier: BSD-3-Clause
"""What the tests of locks between nodes share: PRELUDE is for the programs on the nodes (nodes.py)."""
from nodes import finish

PRELUDE = """
import fcntl, signal, struct, subprocess
OFD_GETLK, OFD_SETLK, OFD_SETLKW = 36, 37, 38
UN, SH, EX, NB = fcntl.LOCK_UN, fcntl.LOCK_SH, fcntl.LOCK_EX, fcntl.LOCK_NB
TYPE = {UN: fcntl.F_UNLCK, SH: fcntl.F_RDLCK, EX: fcntl.F_WRLCK}

def record(type, start=0, len=0, pid=0):
    return struct.pack('hhqqi4x', type, 0, start, len, pid)

def asked(fd, cmd, type=fcntl.F_WRLCK, start=0, len=0):
    type, _, start, len, pid = struct.unpack('hhqqi4x', fcntl.fcntl(fd, cmd, record(type, start, len)))
    return 'free' if type == fcntl.F_UNLCK else '%s %d+%d %d' % ('read' if type == fcntl.F_RDLCK else 'write', start, len, pid)

def by_fcntl(fd, op, start=0, len=0):
    fcntl.fcntl(fd, fcntl.F_SETLK if op & NB else fcntl.F_SETLKW, record(TYPE[op & ~NB], start, len))

def by_ofd(fd, op, start=0, len=0):
    fcntl.fcntl(fd, OFD_SETLK if op & NB else OFD_SETLKW, record(TYPE[op & ~NB], start, len))

def by_lockf(fd, op):
    os.lseek(fd, 0, 0)
    os.lockf(fd, os.F_ULOCK if op == UN else os.F_TLOCK if op & NB else os.F_LOCK, 0)

def by_flock(fd, op):
    fcntl.flock(fd, op)

def attempt(call, *args):
    try:
        call(*args)
        return 'ok'
    except OSError as e:
        return errno.errorcode[e.errno]

def say(*what):
    print(*what, flush=True)

def wait():
    return sys.stdin.readline().strip()
"""


def said(process):
    return process.stdout.readline().strip()


def tell(process, what=""):
    process.stdin.write(what + "\n")
    process.stdin.flush()


def together(processes):
    """Lets programs that are ready begin at once, and returns what they say at their end."""
    for p in processes:
        assert said(p) == "ready"
    for p in processes:
        tell(p)
    return [finish(p) for p in processes]
