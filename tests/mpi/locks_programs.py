# SPDX-License-Identifier: BSD-3-Clause
"""Programs that lock outputs, on two nodes of several: locks_programs.py MOUNT NODES ROUNDS. Node 0 makes the files."""
import importlib.util
import os
import sys

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from locking import PRELUDE, said, tell, together  # noqa: E402
from nodes import Nodes, equal, finish, step  # noqa: E402

mount, nodes, rounds = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
work = os.path.join(mount, "programs")
start, on = (programs := Nodes(work, PRELUDE)).start, programs.on
away = nodes - 1

on(0, """
    import sqlite3
    os.mkdir(work)
    open(work + '/shared', 'w').write('00000000')
    db = sqlite3.connect(work + '/db')
    db.execute('pragma journal_mode=delete')
    db.execute('create table t (n integer)')
    db.execute('insert into t values (0)')
    db.commit()
""")
ADD = """
    import sqlite3
    say('ready')
    wait()
    db = sqlite3.connect(work + '/db', isolation_level=None, timeout=60)
    for i in range(int(sys.argv[2])):
        db.execute('begin immediate')
        db.execute('update t set n = n + 1')
        db.execute('commit')
    print(db.execute('pragma integrity_check').fetchone()[0])
"""
writers = [start(n, ADD, rounds) for n in (0, away, away)]
for said_last in together(writers):
    equal("the database", "ok", said_last)
for node in range(nodes):
    equal(f"the rows on node {node}", f"({3 * rounds},) ok", on(node, """
        import sqlite3
        db = sqlite3.connect(work + '/db')
        print(db.execute('select n from t').fetchone(), db.execute('pragma integrity_check').fetchone()[0])
    """))
WAL = """
    import sqlite3
    try:
        db = sqlite3.connect(work + '/wal', isolation_level=None, timeout=1)
        print(db.execute('pragma journal_mode=wal').fetchone()[0])
        db.execute('create table if not exists t (n integer)')
        db.execute('insert into t values (1)')
        print(db.execute('select count(*) from t').fetchone()[0])
        if len(sys.argv) > 2:
            say('has it')
            wait()
    except sqlite3.Error as e:
        print(e)
"""
held = start(0, WAL, "keep")
equal("WAL on the home", "wal 1 has it", " ".join(said(held) for _ in range(3)))
refused = on(away, WAL)
assert "1" not in refused.split(), refused
tell(held)
finish(held)
equal("WAL on the home, later", "wal\n2", on(0, WAL))
step("SQLite: %d increments by 3 programs, none is lost; WAL on another node: %s" % (3 * rounds, refused.replace("\n", ", ")))

# A file lock as programs have it: a file that is made to be locked, and removed by who has the lock.
LOCKED = """
    def enter(path):
        while True:
            fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_TRUNC)
            fcntl.flock(fd, EX)
            try:
                if os.path.samestat(os.fstat(fd), os.stat(path)):
                    return fd
            except FileNotFoundError:
                pass
            os.close(fd)
    say('ready')
    wait()
    for i in range(int(sys.argv[2])):
        fd = enter(work + '/its.lock')
        with open(work + '/guarded') as f:
            n = int(f.read())
        with open(work + '/guarded.new', 'w') as f:
            f.write(str(n + 1))
        os.rename(work + '/guarded.new', work + '/guarded')
        os.unlink(work + '/its.lock')
        os.close(fd)
"""
on(0, "open(work + '/guarded', 'w').write('0')")
lockers = [start(n, LOCKED, rounds) for n in (0, away, away)]
together(lockers)
for node in range(nodes):
    equal("guarded", str(3 * rounds), on(node, "print(open(work + '/guarded').read())"))
step("a lock file that comes and goes")

# A file that has segments, because a program wrote it without a lock: who locks it sees all bytes, and writes to be seen.
on(away, "fd = os.open(work + '/shared', os.O_RDWR); os.pwrite(fd, b'00000000', 0); os.close(fd)")
SEGMENTS = """
    fd = os.open(work + '/shared', os.O_RDWR)
    say('ready')
    wait()
    for i in range(int(sys.argv[2])):
        by_flock(fd, EX)
        n = int(os.pread(fd, 8, 0))
        os.pwrite(fd, b'%08d' % (n + 1), 0)
        by_flock(fd, UN)
"""
lockers = [start(n, SEGMENTS, rounds) for n in (0, away, away)]
together(lockers)
for node in range(nodes):
    equal("a file of several writers", "%08d" % (3 * rounds), on(node, "print(open(work + '/shared').read())"))
# A large write, and appends, by a program of another node, to what a program of the home has open.
keeper = start(0, """
    fd = os.open(work + '/large', os.O_RDWR | os.O_CREAT)
    os.write(fd, b'a' * 1000)
    say('made')
    wait()
    by_fcntl(fd, EX)
    data = os.pread(fd, 1 << 20, 0)
    print(len(data), data[:999].count(b'a'), data[999:300999].count(b'b'), data[300999:].count(b'c'))
""")
equal("made", "made", said(keeper))
on(away, """
    fd = os.open(work + '/large', os.O_RDWR)
    by_fcntl(fd, EX)
    os.pwrite(fd, b'b' * 300000, 999)
    os.close(fd)
    fd = os.open(work + '/large', os.O_WRONLY | os.O_APPEND)
    by_fcntl(fd, EX)
    os.write(fd, b'c' * 50000)
""")
tell(keeper)
equal("what the home's program reads", "350999 999 300000 50000", finish(keeper))
step("a file of several writers; large writes under a lock are the home's at once")

GIT = """
    def git(*args):
        return subprocess.run(['git', '-c', 'user.name=a', '-c', 'user.email=a@b', *args], cwd=work + '/repo', capture_output=True, text=True)
    say('ready')
    wait()
    for i in range(int(sys.argv[3])):
        name = 'file-%s-%d' % (sys.argv[2], i)
        open(work + '/repo/' + name, 'w').write(name)
        lock = os.open(work + '/git.lock', os.O_RDWR | os.O_CREAT)
        fcntl.flock(lock, EX)  # git reads the index before it locks it, so two commits at once disturb each other anywhere
        for command in (('add', name), ('commit', '-qm', name)):
            r = git(*command)
            assert r.returncode == 0, r.stderr
        os.close(lock)
"""
on(0, "os.mkdir(work + '/repo'); r = subprocess.run(['git', 'init', '-q'], cwd=work + '/repo', capture_output=True, text=True); assert r.returncode == 0, r.stderr")
commits = max(rounds // 8, 2)
gits = [start(n, GIT, n, commits) for n in (0, away)]
together(gits)
for node in (0, away):
    equal("git", f"{2 * commits} {2 * commits} 0 ", on(node, """
        def git(*args):
            return subprocess.run(['git', *args], cwd=work + '/repo', capture_output=True, text=True)
        r = git('fsck', '--full', '--strict')
        print(len(git('log', '--format=%s').stdout.split()), len(git('ls-files').stdout.split()), r.returncode, git('status', '--short').stdout)
    """) + " ")
step("git: %d commits in one directory by two nodes, in turns" % (2 * commits))

# Without a lock around it, git excludes other gits by index.lock (O_EXCL), and by HEAD.lock: what fails is tried again.
GIT_AT_ONCE = """
    def git(*args):
        r = subprocess.run(['git', '-c', 'user.name=a', '-c', 'user.email=a@b', '-c', 'gc.auto=0', *args], cwd=work + '/at-once', capture_output=True, text=True)
        if r.returncode:
            why.append(r.stdout + r.stderr)
        return r.returncode == 0
    # The last ones: git reads the index before it locks it, on any file system. So a commit may have failed after it changed
    # HEAD, and one git may drop from the index what another has just added.
    AGAIN = ('index.lock', 'cannot lock ref', 'did not match any file', 'nothing to commit', 'nothing added to commit')
    why, end = [], time.monotonic() + 100
    say('ready')
    wait()
    for i in range(int(sys.argv[3])):
        name = 'file-%s-%d' % (sys.argv[2], i)
        open(work + '/at-once/' + name, 'w').write(name)
        while not (git('add', name) and git('commit', '-qm', name, '--', name)):
            assert time.monotonic() < end and all(any(w in out for w in AGAIN) for out in why), why
            if subprocess.run(['git', 'cat-file', '-e', 'HEAD:' + name], cwd=work + '/at-once', capture_output=True).returncode == 0:
                break
            time.sleep(random.random() / 50)
    print(sum('index.lock' in out or 'cannot lock ref' in out for out in why))
"""
on(0, "os.mkdir(work + '/at-once'); print(subprocess.run(['git', 'init', '-q'], cwd=work + '/at-once', check=True))")
at_once = max(rounds // 2, 4)
refused = sum(int(n) for n in together([start(n, GIT_AT_ONCE, n, at_once) for n in (0, away)]))
assert refused > 0, "no git has met another one's lock"
names = " ".join(sorted(f"file-{n}-{i}" for n in (0, away) for i in range(at_once)))
for node in (0, away):
    equal("git at once: commits, files, fsck", [names, names, "0"], on(node, """
        def git(*args):
            return subprocess.run(['git', *args], cwd=work + '/at-once', capture_output=True, text=True)
        for args in (('log', '--format=%s'), ('ls-tree', '--name-only', 'HEAD')):
            print(*sorted(git(*args).stdout.split()))
        print(git('fsck', '--full', '--strict').returncode)
    """).split("\n"))
step("git: %d commits in one directory by two nodes at once, refused by a lock %d times" % (2 * at_once, refused))

# What a program needs that takes its packages from the system.
PACKAGES = """
    import site
    sys.path += site.getsitepackages()
"""


def there(module):
    """Whether the module is there; if not, says what is left out."""
    if importlib.util.find_spec(module):
        return True
    print("-- left out: there is no Python module", module, flush=True)
    return False


FILELOCK = PACKAGES + """
    import filelock
    say('ready')
    wait()
    for i in range(int(sys.argv[2])):
        with filelock.FileLock(work + '/filelock.lock', timeout=100):
            with open(work + '/filelock') as f:
                n = int(f.read())
            with open(work + '/filelock', 'w') as f:
                f.write(str(n + 1))
"""
FILELOCK_HOLD = PACKAGES + """
    import filelock
    lock = filelock.FileLock(work + '/filelock.lock')
    lock.acquire()
    say('held')
    wait()
"""
FILELOCK_TRY = PACKAGES + """
    import filelock
    lock, begin = filelock.FileLock(work + '/filelock.lock'), time.monotonic()
    try:
        lock.acquire(timeout=float(sys.argv[2]))
        print('got')
    except filelock.Timeout:
        print('timeout', time.monotonic() - begin >= float(sys.argv[2]))
"""
if there("filelock"):
    on(0, "open(work + '/filelock', 'w').write('0')")
    together([start(n, FILELOCK, rounds) for n in (0, away, away)])
    for node in range(nodes):
        equal(f"filelock on node {node}", str(3 * rounds), on(node, "print(open(work + '/filelock').read())"))
    for holder, other in ((0, away), (away, 0), (away, away)):
        held = start(holder, FILELOCK_HOLD)
        equal("a holder", "held", said(held))
        equal(f"filelock, held on {holder}, on {other}", "timeout True", on(other, FILELOCK_TRY, 0.3))
        held.kill()
        equal(f"filelock, its holder on {holder} was killed, on {other}", "got", on(other, FILELOCK_TRY, 20))
        held.wait()
    step("filelock: %d increments by 3 programs, none is lost; timeout=; a killed holder" % (3 * rounds))

# LMDB on one node, which is the home of its file: two writers exclude each other, and a reader beside them sees whole transactions.
LMDB = PACKAGES + """
    import lmdb
    env = lmdb.open(work + '/lmdb', map_size=1 << 24)
    say('ready')
    wait()
    for i in range(int(sys.argv[2])):
        with env.begin(write=True) as t:
            n = int(t.get(b'a', b'0')) + 1
            t.put(b'a', b'%d' % n)
            t.put(b'b', b'%d' % n)
"""
LMDB_READ = PACKAGES + """
    import lmdb
    env = lmdb.open(work + '/lmdb', map_size=1 << 24, readonly=True)
    last, seen, goal = 0, set(), int(sys.argv[2])
    end = time.monotonic() + 100
    say('ready')
    wait()
    while last < goal and time.monotonic() < end:
        with env.begin() as t:
            a, b = (int(t.get(key, b'0')) for key in (b'a', b'b'))
        assert a == b >= last, (a, b, last)
        seen.add(last := a)
    print(last, len(seen) > 1)
"""
if there("lmdb"):
    for node in {0, away}:
        on(node, PACKAGES + """
    import lmdb, shutil
    shutil.rmtree(work + '/lmdb', ignore_errors=True)
    lmdb.open(work + '/lmdb', map_size=1 << 24).close()
""")
        programs_of_it = [start(node, LMDB_READ, 2 * rounds), *(start(node, LMDB, rounds) for _ in range(2))]
        equal(f"LMDB on node {node}", f"{2 * rounds} True", together(programs_of_it)[0])
    step("LMDB: %d transactions by two writers beside a reader, on one node" % (2 * rounds))

# HDF5 locks the whole file while it is open: a writer keeps readers away, and the other way round.
HDF5 = PACKAGES + """
    import h5py
    say('ready')
    wait()
    for i in range(int(sys.argv[2])):
        end = time.monotonic() + 60
        while True:
            try:
                f = h5py.File(work + '/numbers.h5', 'a')
                break
            except OSError as e:
                assert time.monotonic() < end and ('lock' in str(e) or 'runcated' in str(e)), e
                time.sleep(random.random() / 50)
        data = f.require_dataset('n', (1000,), 'i8')
        data[:] = data[:] + 1
        f.close()
"""
if there("h5py"):
    on(0, HDF5.replace("wait()\n", "\n"), 1)
    writers = [start(n, HDF5, commits) for n in (0, away)]
    together(writers)
    for node in range(nodes):
        equal(f"HDF5 on node {node}", str({1 + 2 * commits}), on(node, """
            import site
            sys.path += site.getsitepackages()
            import h5py
            with h5py.File(work + '/numbers.h5', 'r') as f:
                print(set(map(int, f['n'][:])))
        """))
    step("HDF5 with its locks: %d updates by two nodes" % (2 * commits))
