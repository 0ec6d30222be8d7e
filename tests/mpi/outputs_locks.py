# SPDX-License-Identifier: BSD-3-Clause
"""Locks of output files: outputs_locks.py MOUNT DATASET-FILE. Node 0 is the home of what node 1 tries to lock."""
import os
import sys

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from locking import PRELUDE  # noqa: E402
from nodes import Nodes, equal, finish, step  # noqa: E402

mount, plain = sys.argv[1:]
work = os.path.join(mount, "locks")
programs = Nodes(work, PRELUDE + """
import ctypes, sqlite3
libc = ctypes.CDLL(None, use_errno=True)
SETLK, GETLK = fcntl.F_SETLK, fcntl.F_GETLK

def raw(number, *args):
    if libc.syscall(number, *args) < 0:
        raise OSError(ctypes.get_errno(), '')

def lock(kind):
    return struct.pack('hhqqi4x', kind, 0, 0, 0, 0)

def asked(fd):
    # Each way to ask for a lock, or after one; what none of them may grant to two.
    yield from ((fcntl.flock, fd, how) for how in (fcntl.LOCK_SH, fcntl.LOCK_EX, fcntl.LOCK_SH | 4, fcntl.LOCK_EX | 4))
    for kind in (fcntl.F_RDLCK, fcntl.F_WRLCK):
        yield from ((fcntl.fcntl, fd, c, lock(kind)) for c in (SETLK, fcntl.F_SETLKW, OFD_SETLK, OFD_SETLKW, GETLK, OFD_GETLK))
        yield raw, 72, fd, SETLK, lock(kind)
    yield from ((os.lockf, fd, c, 0) for c in (os.F_LOCK, os.F_TLOCK, os.F_TEST))
    yield raw, 73, fd, fcntl.LOCK_SH

def given_back(fd):
    yield fcntl.flock, fd, fcntl.LOCK_UN
    yield from ((fcntl.fcntl, fd, c, lock(fcntl.F_UNLCK)) for c in (SETLK, fcntl.F_SETLKW, OFD_SETLK))
    yield os.lockf, fd, os.F_ULOCK, 0

def both(fd):
    # A process's own lock and its open file description's exclude each other.
    got, back = set(), set()
    for call in asked(fd):
        got.add(attempt(*call))
        back |= {attempt(*c) for c in given_back(fd)}
    return '%s, %s' % (' '.join(sorted(got)), ' '.join(sorted(back)))
""")
start, on = programs.start, programs.on
on(0, "os.mkdir(work); open(work + '/file', 'w').write('bytes'); open(work + '/shared', 'w').write('bytes')")

# By a descriptor, a copy of it, in a forked child and in a program that inherits it; and as shells lock: the file is
# descriptor 9, standard input and standard output. The numbers of system calls above are x86-64's.
CALLS = """
    fd = os.open(work + '/file', os.O_RDWR)
    print(both(fd), both(os.dup(fd)), sep=', ', flush=True)
    if os.fork() == 0:
        print(both(fd), flush=True)
        os._exit(0)
    os.wait()
    for command in ('flock -n $2', '(flock -n 9) 9>>$1', 'flock -n 0 <$1', '(flock -n 1) >>$1', 'flock -n $1 true'):
        r = subprocess.run(['bash', '-c', command, 'x', work + '/file', str(fd)], pass_fds=[fd], stderr=subprocess.DEVNULL)
        print(r.returncode == 0)
        fcntl.flock(fd, fcntl.LOCK_UN)
"""
for node in (0, 1):
    real = node == 0  # elsewhere standard input is a copy, and standard output a forwarder: they cannot be locked
    equal(f"node {node}", f"ok, ok, ok, ok\nok, ok\nTrue\nTrue\n{real}\n{real}\nTrue", on(node, CALLS))
step("flock, fcntl, open file descriptions' locks, lockf, shells: as a kernel, on the home and on another node")

# Held on the home before another node writes; opened there afterwards, it is a file of two nodes.
keeper = start(0, """
    held = os.open(work + '/shared', os.O_RDWR)
    fcntl.flock(held, fcntl.LOCK_EX)
    print('held', flush=True)
    sys.stdin.readline()
    print(both(held), both(os.open(work + '/shared', os.O_RDWR)))
""")
equal("the keeper", "held\n", keeper.stdout.readline())
TRY = "print(attempt(fcntl.flock, os.open(work + '/shared', os.O_RDWR), fcntl.LOCK_EX | fcntl.LOCK_NB))"
equal("held on the home", "EAGAIN", on(1, TRY))
on(1, "fd = os.open(work + '/shared', os.O_RDWR); os.pwrite(fd, b'more', 5)")
equal("held on the home, by a descriptor from before another node wrote", "EAGAIN EAGAIN", on(1, TRY) + " " + on(0, TRY))
keeper.stdin.write("go\n")
equal("a file of two nodes", "ok, ok ok, ok", finish(keeper))
for node in (0, 1):
    equal("a directory; a dataset's file", "ENOLCK ok ok EBADF ok", on(node, """
        print(attempt(fcntl.flock, os.open(work, os.O_RDONLY), fcntl.LOCK_EX))
        fd = os.open(sys.argv[2], os.O_RDONLY)
        print(attempt(fcntl.flock, fd, fcntl.LOCK_EX), *[attempt(fcntl.fcntl, fd, SETLK, lock(k)) for k in (0, 1)], attempt(os.lockf, fd, 3, 0))
    """, plain).replace("\n", " "))
step("a file of two nodes, directories, a dataset's file")

# A database that the home writes is read by another node while it changes; afterwards also without locks.
writer = start(0, """
    db = sqlite3.connect(work + '/db', isolation_level=None)
    db.execute('pragma journal_mode=delete')
    db.execute('create table t (i integer, s text)')
    db.executemany('insert into t values (?, ?)', ((i, 'x' * 700) for i in range(10)))
    db.execute('pragma synchronous=off')
    print('ready', flush=True)
    turn = 0
    while not os.path.exists(work + '/enough'):
        db.execute('update t set s = ?', (chr(97 + turn % 26) * (30000 + turn),))
        turn += 1
    db.close()
""")
equal("the writer", "ready\n", writer.stdout.readline())
READER = """
    db = 'file:' + work + '/db?mode=ro'
    seen = set()
    end = time.monotonic() + 1
    while time.monotonic() < end:
        try:
            rows = sqlite3.connect(db, uri=True, timeout=0).execute('select count(*), count(distinct s) from t').fetchall()
            seen.add(str(rows))
        except sqlite3.Error as e:
            seen.add(str(e))
    open(work + '/enough', 'w')
    print(*sorted(seen))
"""
seen = on(1, READER)
assert seen in ("[(10, 1)]", "[(10, 1)] database is locked"), seen
finish(writer)
equal("the database elsewhere", "ok [(10, 1)]", on(1, """
    db = sqlite3.connect('file:' + work + '/db?mode=ro&immutable=1', uri=True)
    print(db.execute('pragma integrity_check').fetchone()[0], db.execute('select count(*), count(distinct s) from t').fetchall())
"""))
step("a database that changes is read on another node, each time as it is after a transaction")
