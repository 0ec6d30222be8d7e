# SPDX-License-Identifier: BSD-3-Clause
"""Locks of outputs, between nodes: locks.py MOUNT NODES SECONDS. Node 0 is the home of the files."""
import os
import sys
import time

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from locking import PRELUDE, said, tell, together  # noqa: E402
from nodes import Nodes, equal, finish, step  # noqa: E402

mount, nodes, seconds = sys.argv[1], int(sys.argv[2]), float(sys.argv[3])
work = os.path.join(mount, "locks")
programs = Nodes(work, PRELUDE)
start, on = programs.start, programs.on
away = nodes - 1
KINDS = ("by_flock", "by_fcntl", "by_ofd", "by_lockf")


def free_soon(what, node, kind, name, seconds):
    """The lock is free in so many seconds, as a program on that node sees it."""
    equal(what, "ok", on(node, f"""
        fd = os.open(work + '/{name}', os.O_RDWR)
        end = time.monotonic() + {seconds}
        while attempt({kind}, fd, EX | NB) != 'ok' and time.monotonic() < end:
            time.sleep(0.01)
        print(attempt({kind}, fd, EX | NB))
    """))


# ---- a counter: no count is lost, and each program gets on ----

on(0, "os.mkdir(work)\nfor name in ('counter', 'held', 'shared'): open(work + '/' + name, 'w').write('00000000')")
COUNT = """
    kind, seconds = globals()[sys.argv[2]], float(sys.argv[3])
    fd = os.open(work + '/counter', os.O_RDWR)
    say('ready')
    wait()
    turns, end = 0, time.monotonic() + seconds
    while time.monotonic() < end:
        kind(fd, EX)
        n = int(os.pread(fd, 8, 0))
        os.pwrite(fd, b'%08d' % (n + 1), 0)
        kind(fd, UN)
        turns += 1
    print(turns)
"""
SHARE = 50  # No program makes less than one such part of the mean. On a busy machine the least seen is 1/14.
total = 0
for kind in KINDS:
    turns = [int(n) for n in together([start(n, COUNT, kind, seconds) for n in [0, *range(nodes)]])]
    total += sum(turns)
    for node in range(nodes):
        equal(f"{kind}, the count on node {node}", "%08d" % total, on(node, "print(open(work + '/counter').read())"))
    assert min(turns) * len(turns) * SHARE >= sum(turns), f"{kind}: one program does not get on: {turns}"
    step("%s: a counter for %g s, turns of two programs of the home and one of each other node: %s" % (kind, seconds, turns))

# ---- shared and exclusive, ranges, tests ----

for holder, other in ((0, away), (away, 0), (away, away)):
    for kind in KINDS:
        held = start(holder, f"""
            fd = os.open(work + '/held', os.O_RDWR)
            {kind}(fd, SH if {kind} != by_lockf else EX)
            say(os.getpid())
            wait()
            {kind}(fd, EX)
            say('exclusive')
            wait()
            {kind}(fd, UN)
            say('free')
            wait()
        """)
        pid = said(held)
        TRY = f"fd = os.open(work + '/held', os.O_RDWR); print(attempt({kind}, fd, SH | NB), attempt({kind}, fd, EX | NB))"
        seen = on(other, TRY)
        equal(f"{kind}, shared on {holder}, {other}", "EAGAIN EAGAIN" if kind == "by_lockf" else "ok EAGAIN", seen)
        if kind == "by_fcntl" and holder != other:
            equal("F_GETLK of a shared lock", f"read 0+0 {pid if other else -1} free",
                  on(other, "fd = os.open(work + '/held', os.O_RDWR); print(asked(fd, fcntl.F_GETLK), asked(fd, fcntl.F_GETLK, fcntl.F_RDLCK))"))
        tell(held)
        equal("upgraded", "exclusive", said(held))
        equal(f"{kind}, exclusive on {holder}, {other}", "EAGAIN EAGAIN", on(other, TRY))
        tell(held)
        equal("unlocked", "free", said(held))
        equal(f"{kind}, unlocked on {holder}, {other}", "ok ok", on(other, TRY))
        tell(held)
        finish(held)
step("shared and exclusive, upgraded, unlocked: home and others, others and home, two programs of another node")

held = start(away, """
    fd = os.open(work + '/held', os.O_RDWR)
    by_fcntl(fd, EX, 10, 10)
    by_ofd(fd, SH, 100, 0)
    os.lseek(fd, 5, 0)
    os.lockf(fd, os.F_LOCK, 3)
    say(os.getpid())
    wait()
    by_fcntl(fd, UN, 12, 2)
    say('hole')
    wait()
""")
pid = said(held)
RANGES = """
    fd = os.open(work + '/held', os.O_RDWR)
    print(*[attempt(by_fcntl, fd, EX | NB, *r) for r in ((0, 5), (7, 1), (8, 2), (10, 1), (19, 1), (20, 80), (99, 2))], sep=' ')
    by_fcntl(fd, UN)
    print(asked(fd, fcntl.F_GETLK, start=12, len=1), asked(fd, OFD_GETLK, start=50, len=200), asked(fd, fcntl.F_GETLK, fcntl.F_RDLCK, 100, 0),
          attempt(os.lockf, fd, os.F_TEST, 5), attempt(os.lockf, fd, os.F_TEST, 6), sep=', ')
"""
for node in range(nodes):
    holder = pid if node else -1
    equal(f"ranges on node {node}", f"ok EAGAIN ok EAGAIN EAGAIN ok EAGAIN\nwrite 10+10 {holder}, read 100+0 -1, free, ok, EACCES"
          if node != away else f"ok EAGAIN ok EAGAIN EAGAIN ok EAGAIN\nwrite 10+10 {holder}, read 100+0 -1, free, ok, EACCES", on(node, RANGES))
tell(held)
equal("a hole", "hole", said(held))
for node in range(nodes):
    equal("a range with a hole", "ok EAGAIN", on(node, "fd = os.open(work + '/held', os.O_RDWR); print(attempt(by_fcntl, fd, EX | NB, 12, 2), attempt(by_fcntl, fd, EX | NB, 13, 2))"))
finish(held)
equal("odd calls", "EINVAL EINVAL EINVAL EBADF EBADF EINVAL ok", on(away, """
    fd, r, w = (os.open(work + '/held', how) for how in (os.O_RDWR, os.O_RDONLY, os.O_WRONLY))
    print(attempt(fcntl.fcntl, fd, OFD_SETLK, record(fcntl.F_WRLCK, pid=1)), attempt(by_fcntl, fd, EX, -1, 1), attempt(by_fcntl, fd, EX, 1, -2),
          attempt(by_fcntl, r, EX), attempt(by_fcntl, w, SH), attempt(fcntl.flock, fd, 3), attempt(fcntl.flock, r, EX))
"""))
step("ranges, F_GETLK, F_TEST, odd calls")

# ---- whose a lock is: close, dup, fork, exec, exit, kill ----

WHOSE = """
    def other(kind):
        fd = os.open(work + '/held', os.O_RDWR)
        return attempt(kind, fd, EX | NB)
    def elsewhere(kind):
        # Another process of this node: its own locks do not exclude those of this one.
        r, w = os.pipe()
        if os.fork() == 0:
            os.write(w, other(kind).encode())
            os._exit(0)
        os.close(w)
        os.wait()
        with os.fdopen(r) as f:
            return f.read()
    fd = os.open(work + '/held', os.O_RDWR)
    by_fcntl(fd, EX)
    seen = [elsewhere(by_fcntl)]
    os.close(os.open(work + '/held', os.O_RDONLY))
    seen.append(elsewhere(by_fcntl))  # any close ends a process's locks
    for kind in (by_flock, by_ofd):
        kind(fd, EX)
        copy = os.dup(fd)
        os.close(os.open(work + '/held', os.O_RDONLY))
        os.close(fd)
        seen.append(elsewhere(kind))
        if os.fork() == 0:  # the child has the same description, and gives the lock back
            kind(copy, UN)
            os._exit(0)
        os.wait()
        seen.append(elsewhere(kind))
        kind(copy, EX)
        seen.append(elsewhere(kind))
        os.close(copy)
        end = time.monotonic() + 20
        while elsewhere(kind) != 'ok' and time.monotonic() < end:
            time.sleep(0.01)
        seen.append(elsewhere(kind))
        fd = os.open(work + '/held', os.O_RDWR)
    by_fcntl(fd, EX)
    if os.fork() == 0:  # a process's lock is not inherited
        os._exit(attempt(by_fcntl, fd, EX | NB) != 'EAGAIN')
    seen.append(os.wait()[1])
    print(*seen)
"""
for node in (0, away):
    equal(f"whose locks are on node {node}", "EAGAIN ok EAGAIN ok EAGAIN ok EAGAIN ok EAGAIN ok 0", on(node, WHOSE))
step("close, dup and fork")

equal("a child keeps the lock", "held", said(parent := start(away, """
    fd = os.open(work + '/held', os.O_RDWR)
    by_flock(fd, EX)
    if os.fork() == 0:
        wait()
        os._exit(0)
    say('held')
    os._exit(0)
""")))
TRY = "fd = os.open(work + '/held', os.O_RDWR); print(attempt(by_flock, fd, EX | NB))"
parent.wait()
for _ in range(3):
    time.sleep(0.15)
    equal("the child keeps the lock", "EAGAIN", on(0, TRY))
tell(parent)
free_soon("the child has ended", 0, "by_flock", "held", 20)
equal("a lock of a program with an inherited descriptor", "0\n0\n1", on(away, """
    lock = work + '/held'
    print(subprocess.run(['bash', '-c', '(flock -n 9 || exit 3; flock -n "$0" true && exit 4; exit 0) 9>>"$0"', lock]).returncode)
    print(subprocess.run(['bash', '-c', '(flock 9; echo line >&9; sleep 0.5; flock -n "$0" true && exit 4; exit 0) 9>>"$0"', lock]).returncode)
    print(subprocess.run(['bash', '-c', 'exec 9>>"$0"; flock 9; sleep 0.3; flock -n "$0" true; echo $?', lock], stdout=subprocess.PIPE).stdout.decode().strip())
"""))
free_soon("the shell has ended", 0, "by_flock", "held", 20)
for how in ("os.posix_spawn('/bin/sleep', ['sleep', '2'], os.environ)", "subprocess.Popen(['sleep', '2'], pass_fds=[fd])",
            "subprocess.Popen(['sleep', '2'], close_fds=False)"):
    equal(f"a lock that a child has inherited by {how}", "EAGAIN ok", on(away, f"""
        fd = os.open(work + '/held', os.O_RDWR)
        os.set_inheritable(fd, True)
        by_flock(fd, EX)
        child = {how}
        os.close(fd)
        fd = os.open(work + '/held', os.O_RDWR)
        seen = attempt(by_flock, fd, EX | NB)
        end = time.monotonic() + 20
        while attempt(by_flock, fd, EX | NB) != 'ok' and time.monotonic() < end:
            time.sleep(0.05)
        print(seen, attempt(by_flock, fd, EX | NB))
    """))
for kind in KINDS:
    for holder, other in ((0, away), (away, 0)):
        held = start(holder, f"fd = os.open(work + '/held', os.O_RDWR)\n{kind}(fd, EX)\nsay('held')\nwait()")
        equal("a holder", "held", said(held))
        waits = start(other, f"fd = os.open(work + '/held', os.O_RDWR)\nsay('waits')\n{kind}(fd, EX)\nsay('got')")
        equal("a waiter", "waits", said(waits))
        held.kill()
        equal(f"{kind}: the holder on node {holder} was killed", "got", finish(waits))
        held.wait()
step("children, shells, kill -9")

# ---- signals ----

SIGNALS = """
    rang = []
    def ring(*_):
        rang.append(1)
    class Alarm(Exception):
        pass
    def throw(*_):
        raise Alarm
    fd = os.open(work + '/held', os.O_RDWR)
    seen = []
    for kind in (by_flock, by_fcntl, by_ofd, by_lockf):
        signal.signal(signal.SIGALRM, throw)
        begin = time.monotonic()
        signal.setitimer(signal.ITIMER_REAL, 0.2, 1)  # again: the first one may come just before the wait
        try:
            kind(fd, EX)
            seen.append('locked')
        except Alarm:
            seen.append('EINTR' if 0.15 < time.monotonic() - begin < 2 else time.monotonic() - begin)
        signal.setitimer(signal.ITIMER_REAL, 0)
    signal.signal(signal.SIGALRM, ring)
    signal.siginterrupt(signal.SIGALRM, False)
    signal.setitimer(signal.ITIMER_REAL, 0.05, 0.05)
    print(*seen, flush=True)
    by_fcntl(fd, EX)
    signal.setitimer(signal.ITIMER_REAL, 0)
    print(len(rang) > 3)
"""
held = start(0, "fd = os.open(work + '/held', os.O_RDWR)\nby_flock(fd, EX)\nby_fcntl(fd, EX)\nsay('held')\nwait()")
equal("a holder", "held", said(held))
waits = start(away, SIGNALS)
equal("interrupted", "EINTR EINTR EINTR EINTR", said(waits))
time.sleep(1)
tell(held)
finish(held)
equal("not interrupted", "True", finish(waits))
free_soon("a lock whose wait was interrupted", 0, "by_flock", "held", 20)
step("a signal ends a wait (EINTR), or does not (SA_RESTART)")

# ---- what was written under a lock ----

GROWN = """
    fd = os.open(work + '/held', os.O_RDWR)
    seen = os.stat(work + '/held').st_size
    say('ready')
    wait()
    by_flock(fd, EX)
    size = os.stat(work + '/held').st_size
    print(size - seen, os.fstat(fd).st_size - seen, len(os.pread(fd, 1 << 20, 0)) - seen)
"""
for writer, reader in ((0, away), (away, 0), (away, away), (1, away)):
    for how in ("unlocks", "closes", "is killed"):
        sees = start(reader, GROWN)
        equal("a reader", "ready", said(sees))
        writes = start(writer, """
            fd = os.open(work + '/held', os.O_RDWR)
            by_flock(fd, EX)
            os.pwrite(fd, b'more', os.fstat(fd).st_size)
            say('written')
            if wait() == 'unlocks':
                by_flock(fd, UN)
            else:
                os.close(fd)
            say('done')
            wait()
        """)
        equal("a writer", "written", said(writes))
        if how == "is killed":
            writes.kill()
            writes.wait()
        else:
            tell(writes, how)
            equal("a writer", "done", said(writes))
        tell(sees)
        equal(f"size by name, by descriptor, bytes, on node {reader}: the writer on {writer} {how}", "4 4 4", finish(sees))
        if how != "is killed":
            tell(writes)
            finish(writes)
step("the next one sees what was written, when the writer unlocks, closes, or is killed")

mapped = start(0, """
    import mmap
    fd = os.open(work + '/shared', os.O_RDWR)
    map = mmap.mmap(fd, 8)
    by_flock(fd, EX)
    map[:8] = b'00000001'
    by_flock(fd, UN)
    say('stored')
    wait()
    by_flock(fd, EX)
    map[:8] = b'00000002'
    by_flock(fd, UN)
    say('stored')
    wait()
    by_flock(fd, EX)
    map[:8] = b'00000003'
    by_flock(fd, UN)
    say('stored')
    wait()
""")
equal("stores", "stored", said(mapped))
time.sleep(0.1)  # a file is looked at anew anyway if it was changed a moment ago
looks = start(away, """
    fd = os.open(work + '/shared', os.O_RDWR)
    time.sleep(0.2)
    say(os.pread(fd, 8, 0).decode())
    wait()
    for _ in range(2):
        by_flock(fd, SH)
        say(os.pread(fd, 8, 0).decode())
        by_flock(fd, UN)
        wait()
""")
equal("stores, read without a lock", "00000001", said(looks))
for n in (2, 3):
    tell(mapped)
    equal("stores", "stored", said(mapped))
    tell(looks)
    equal("stores through a mapping, read under a lock", f"0000000{n}", said(looks))
tell(looks)
finish(looks)
tell(mapped)
finish(mapped)
step("stores through a mapping under a lock")

held = start(0, "fd = os.open(work + '/held', os.O_RDWR)\nby_fcntl(fd, EX)\nsay('held')\nwait()\nby_fcntl(fd, UN)\nsay('free')\nwait()\nsay(attempt(by_fcntl, fd, EX | NB))")
equal("a holder", "held", said(held))
waits = start(away, """
    import threading
    fd = os.open(work + '/held', os.O_RDWR)
    thread = threading.Thread(target=by_fcntl, args=(fd, EX))
    thread.start()
    time.sleep(0.3)
    os.close(os.open(work + '/held', os.O_RDONLY))  # while it waits
    say('waits')
    thread.join()
    os.close(fd)
    say('closed')
    wait()
""")
equal("a thread", "waits", said(waits))
tell(held)
equal("a holder", "free", said(held))
equal("a thread", "closed", said(waits))
tell(held)
equal("a lock that came after another descriptor was closed ends with its own", "ok", finish(held))
tell(waits)
finish(waits)
step("a descriptor is closed while another thread waits for a lock of the process")

# ---- what is written while a lock lasts ----

for how in ("os.O_RDWR", "os.O_WRONLY | os.O_APPEND"):
    writes = start(away, f"""
        fd = os.open(work + '/held', {how})
        by_flock(fd, EX)
        say('held')
        wait()
        os.lseek(fd, 0, 2)
        os.write(fd, b'more')
        say('written')
        wait()
    """)
    equal("a writer", "held", said(writes))
    time.sleep(1.5)  # the home looked at the file when it was locked
    looks = start(away, """
        size = os.stat(work + '/held').st_size
        say('ready')
        wait()
        end = time.monotonic() + 20
        while os.stat(work + '/held').st_size == size and time.monotonic() < end:
            time.sleep(0.05)
        print(os.stat(work + '/held').st_size - size)
    """)
    equal("one that looks", "ready", said(looks))
    tell(writes)
    equal("a writer", "written", said(writes))
    tell(looks)
    equal(f"bytes of a locked file ({how}) that another process sees after a while", "4", finish(looks))
    tell(writes)
    finish(writes)
step("other programs see a locked file grow")
