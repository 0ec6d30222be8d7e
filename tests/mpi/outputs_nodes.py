# SPDX-License-Identifier: BSD-3-Clause
"""Output files between nodes: outputs_nodes.py MOUNT NODES. Each step runs programs on two of the nodes, or all."""
import os
import sys
import time

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from nodes import Nodes, equal, finish, step  # noqa: E402

mount, nodes = sys.argv[1], int(sys.argv[2])
work = os.path.join(mount, "between")
programs = Nodes(work, "import mmap, signal\n", forks=True)
start, on = programs.start, programs.on

on(0, "os.mkdir(work)")
last = nodes - 1

# A file of 20 MB, written here, read there in three ways.
on(0, """
    import random
    data = random.Random(5).randbytes(20_000_001)
    with open(work + '/big', 'wb') as f:
        f.write(data)
""")
READ = """
    import random
    data = random.Random(5).randbytes(20_000_001)
    path = work + '/big'
    assert os.stat(path).st_size == len(data)
    assert open(path, 'rb').read() == data
    with open(path, 'rb') as f:
        assert mmap.mmap(f.fileno(), 0, prot=mmap.PROT_READ)[12_345_678:12_345_778] == data[12_345_678:12_345_778]
        for off in range(0, len(data), 1_234_567):
            assert os.pread(f.fileno(), 5000, off) == data[off:off + 5000]
        assert os.lseek(f.fileno(), 0, os.SEEK_END) == len(data)
        with open('/dev/null', 'wb') as n:
            assert os.sendfile(n.fileno(), f.fileno(), 100, 1 << 20) == 1 << 20
    try:
        os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY)
        assert False
    except FileExistsError:
        pass
"""
for node in range(nodes):
    on(node, READ)
step("20 MB by read, pread, mmap and sendfile, from each node")

# Not seen before close or fsync; then as it is; and followed.
writer = start(0, """
    f = open(work + '/log', 'w')
    print('ready', flush=True)
    for line in sys.stdin:
        if line.startswith('sync'):
            os.fsync(f.fileno())
        else:
            f.write(line), f.flush()
        print('done', flush=True)
""")


def tell(line):
    writer.stdin.write(line + "\n"), writer.stdin.flush()
    assert writer.stdout.readline() == "done\n"


assert writer.stdout.readline() == "ready\n"
tell("one")
equal("on its own node", "one", on(0, "print(open(work + '/log').read())"))
LOOK = "print(os.path.exists(work + '/log'), 'log' in os.listdir(work), os.stat(work + '/log').st_size, open(work + '/log').read())"
equal("elsewhere, neither closed nor synced", "True True 4 one", on(last, LOOK))
tell("sync")
equal("after fsync", "one", on(last, "print(open(work + '/log').read())"))
follower = start(last, """
    f = open(work + '/log')
    for line in sys.stdin:
        print(f.read().replace('\\n', ' '), os.fstat(f.fileno()).st_size, flush=True)
""")


def followed():
    follower.stdin.write("look\n"), follower.stdin.flush()
    return follower.stdout.readline().strip()


equal("followed", "one  4", followed())
tell("two")
tell("three")
tell("sync")
equal("followed on", "two three  14", followed())
finish(writer)
equal("closed", "14", on(last, "print(os.stat(work + '/log').st_size)"))
finish(follower)
step("seen after fsync, followed while it grows")

# Of a file of several writers what was synced is read by whoever has read there before, and has had it open all the time.
SIZE = 1 << 16
ROUNDS = 12 * nodes
TELLING = """
    f = os.open(work + sys.argv[2], os.O_RDWR)
    for line in sys.stdin:
        how, at, size, byte = line.split()
        if how == 'write':
            assert os.pwrite(f, bytes([int(byte)]) * int(size), int(at)) == int(size)
            os.fsync(f)
        elif how == 'cut':
            os.ftruncate(f, int(at))
        print(sorted(set(os.pread(f, int(size), int(at)))) if how == 'read' else 'done', flush=True)
"""


def begin(name, byte, home=last, other=0):
    """SIZE * ROUNDS of this byte, by its home, and some from another node: programs of all that have it open."""
    on(home, f"f = os.open(work + '{name}', os.O_CREAT | os.O_RDWR); os.pwrite(f, {byte} * {SIZE * ROUNDS} + b'x', 0)")
    on(other, f"f = os.open(work + '{name}', os.O_RDWR); os.pwrite(f, b'y', {SIZE * ROUNDS + 1})")
    return [start(n, TELLING, name) for n in range(nodes)]


programs_of_all = begin("/striped", b"\0")


def have(node, how, at, size, byte=0):
    programs_of_all[node].stdin.write(f"{how} {at} {size} {byte}\n"), programs_of_all[node].stdin.flush()
    return programs_of_all[node].stdout.readline().strip()


for turn in range(ROUNDS):
    for node in range(nodes):
        equal(f"stripe {turn} before", "[0]", have(node, "read", turn * SIZE, SIZE))
    equal("written", "done", have(turn % nodes, "write", turn * SIZE, SIZE, turn + 1))
    for node in range(nodes):
        equal(f"stripe {turn} of node {turn % nodes}, on node {node}", f"[{turn + 1}]", have(node, "read", turn * SIZE, SIZE))
half = ROUNDS // 2 * SIZE
equal("cut", "done", have(last, "cut", half, 0))
for node in range(nodes):
    equal("what was left", f"[{ROUNDS // 2}]", have(node, "read", half - SIZE, SIZE))
    seen = have(node, "read", half, SIZE)
    if seen not in ("[]", "[0]"):
        sys.exit(f"node {node} reads {seen} of what was cut off")
for p in programs_of_all:
    finish(p)
step("stripes of all nodes, by descriptors that were open all the time")

# The same of one node's, beside what is in the same blocks, and over it; and when it is cut and made longer again.
programs_of_all = begin("/packed", b"a", 0, last)
for turn in range(8):
    equal("written", "done", have(last, "write", turn * SIZE, SIZE, turn + 1))
    for node in range(nodes):
        for at in range(max(turn - 3, 0), turn + 1):
            equal(f"stripe {at} at {turn}, on node {node}", f"[{at + 1}]", have(node, "read", at * SIZE, SIZE))
        equal(f"what is not written at {turn}, on node {node}", "[97]", have(node, "read", (turn + 1) * SIZE, 4 * SIZE))
for turn in range(4):
    equal("written over", "done", have(last, "write", turn * SIZE, SIZE, 100 + turn))
    for node in range(nodes):
        equal(f"stripe {turn} written over, on node {node}", f"[{100 + turn}]", have(node, "read", turn * SIZE, SIZE))
for size in 0, SIZE * ROUNDS:
    equal("cut", "done", have(last, "cut", size, 0))
for node in range(nodes):
    equal(f"cut and longer, on node {node}", "[0]", have(node, "read", 0, SIZE * ROUNDS))
for p in programs_of_all:
    finish(p)
step("stripes of one node, by descriptors that were open all the time")

# A name is made once, whoever comes first.
RACE = """
    won = 0
    for i in range(200):
        try:
            os.close(os.open(f'{work}/race.{i}', os.O_CREAT | os.O_EXCL | os.O_WRONLY))
            won += 1
        except FileExistsError:
            pass
        try:
            os.mkdir(f'{work}/raced.{i}')
            won += 1
        except FileExistsError:
            pass
    print(won)
"""
racers = [start(n % nodes, RACE) for n in range(max(4, nodes))]
equal("names made", 400, sum(int(finish(r)) for r in racers))
for node in range(nodes):
    equal("names seen", "400", on(node, "print(sum(n.startswith('race') for n in os.listdir(work)))"))
step("O_EXCL and mkdir are atomic over all nodes")

# Replaced in one step: who has it open keeps the old one, who opens it gets one or the other, whole.
on(0, "open(work + '/ckpt', 'w').write('A' * 1000000)")
reader = start(last, """
    f = open(work + '/ckpt')
    first = f.read(10)
    print('open', flush=True)
    sys.stdin.readline()
    rest = f.read()
    assert set(first + rest) == {'A'} and len(rest) == 999990, (len(rest), set(rest))
    print(open(work + '/ckpt').read(1))
""")
assert reader.stdout.readline() == "open\n"
on(nodes // 2, """
    with open(work + '/tmp', 'w') as f:
        f.write('B' * 500000)
    os.replace(work + '/tmp', work + '/ckpt')
""")
reader.stdin.write("go\n")
equal("the new one", "B", finish(reader))
on(0, "open(work + '/n', 'w').write('A' * 100000); os.replace(work + '/n', work + '/ckpt')")
# Neither of the two is ever idle: a second of it in `make check`, three in the rest.
until = f"    end = time.monotonic() + {3 if os.environ.get('FS_HALF') else 1}"
watcher = start(last, until + """
    seen = set()
    while time.monotonic() < end:
        s = open(work + '/ckpt').read()
        assert len(set(s)) == 1 and len(s) == 100000 * (ord(s[0]) - 64), (len(s), set(s))
        seen.add(s[0])
    print(len(seen) > 1)
""")
changer = start(0, until + """
    n = 0
    while time.monotonic() < end:
        n += 1
        with open(work + '/n', 'w') as f:
            f.write(chr(65 + n % 26) * (100000 * (1 + n % 26)))
            os.fsync(f.fileno())
        os.replace(work + '/n', work + '/ckpt')
""")
finish(changer)
equal("several seen", "True", finish(watcher))
step("rename replaces whole files, seen from another node")

# Removed while another node has it open.
on(0, "open(work + '/short-lived', 'w').write('x' * 3000000)")
reader = start(last, """
    f = open(work + '/short-lived')
    print(len(f.read(1)), os.fstat(f.fileno()).st_nlink, flush=True)
    sys.stdin.readline()
    print(len(f.read()), os.path.exists(work + '/short-lived'))
    end = time.monotonic() + 20 # its home hears of it
    while os.fstat(f.fileno()).st_nlink != 0:
        assert time.monotonic() < end, os.fstat(f.fileno())
""")
assert reader.stdout.readline() == "1 1\n"
on(0, "os.unlink(work + '/short-lived')")
reader.stdin.write("go\n")
equal("of the removed file", "2999999 False", finish(reader))
step("removed while it is open elsewhere")

# Attributes by another node.
on(0, "open(work + '/attr', 'w').write('0123456789')")
on(last, "os.chmod(work + '/attr', 0o600); os.utime(work + '/attr', ns=(1, 10**18 + 7)); os.truncate(work + '/attr', 4)")
for node in range(nodes):
    equal("attributes", "0o100600 4 0123", on(node, """
        s = os.stat(work + '/attr')
        print(oct(s.st_mode), s.st_size, open(work + '/attr').read())
    """))
on(last, "os.utime(work + '/attr', ns=(1, 10**18 + 7))")
equal("its time", "1000000000000000007", on(0, "print(os.stat(work + '/attr').st_mtime_ns)"))
step("chmod, utimens and truncate by another node")

# Emptied by who only reads it: seen at once, as it may be killed then.
on(0, "open(work + '/cut', 'w').write('0123456789'); os.utime(work + '/cut', (1, 1))")
cutter = start(0, """
    fd = os.open(work + '/cut', os.O_RDONLY | os.O_TRUNC)
    print(len(os.read(fd, 1)), flush=True)
    sys.stdin.readline()
""")
assert cutter.stdout.readline() == "0\n"
cutter.kill()
cutter.wait()
for node in range(nodes):
    equal("emptied", "0 True ''", on(node, """
        s = os.stat(work + '/cut')
        print(s.st_size, s.st_mtime > 1, repr(open(work + '/cut').read()))
    """))
on(0, """
    open(work + '/cut', 'w').write('0123456789')
    fd = os.open(work + '/cut', os.O_RDONLY | os.O_TRUNC)
    os.utime(fd, (5, 5))
    os.close(fd)
""")
equal("emptied, with a time", "0 5.0", on(last, "s = os.stat(work + '/cut'); print(s.st_size, s.st_mtime)"))
step("O_RDONLY and O_TRUNC")

# A writer that is killed: what it wrote is there, a prefix.
for i in range(5):
    writer = start(0, """
        f = open(work + '/killed', 'wb', buffering=0)
        print('ready', flush=True)
        for i in range(100000):
            f.write(i.to_bytes(4, 'little') * 1024)
    """)
    assert writer.stdout.readline() == "ready\n"
    time.sleep(0.02 * i)
    writer.kill()
    writer.wait()
    CHECK = """
        for tries in range(200):
            if os.path.exists(work + '/killed'):
                break
            time.sleep(0.05)
        data = open(work + '/killed', 'rb').read()
        whole = b''.join(i.to_bytes(4, 'little') * 1024 for i in range(len(data) // 4096 + 1))
        assert data == whole[:len(data)]
        print(len(data))
    """
    equal("seen alike", on(0, CHECK), on(last, CHECK))
    on(last, "os.unlink(work + '/killed')")
step("a killed writer leaves a prefix, seen alike")

# Several writers of one file, by parts and strided; each reads its own before it is published, and all of it afterwards.
SHARED_WRITE = """
    rank, n, block, segments = map(int, sys.argv[2:])
    fd = os.open(work + '/shared', os.O_CREAT | os.O_RDWR)
    for s in range(segments):
        off = (s * n + rank) * block
        data = bytes([(rank * 7 + s) % 251]) * block
        assert os.pwrite(fd, data, off) == block
        assert os.pread(fd, block, off) == data
    os.fsync(fd)
    os.close(fd)
"""
SHARED_READ = """
    rank, n, block, segments = map(int, sys.argv[2:])
    path = work + '/shared'
    whole = b''.join(bytes([(r * 7 + s) % 251]) * block for s in range(segments) for r in range(n))
    assert os.stat(path).st_size == len(whole), os.stat(path).st_size
    with open(path, 'rb') as f:
        assert os.fstat(f.fileno()).st_size == len(whole)
        assert f.read() == whole
        for off in range(0, len(whole), len(whole) // 7 + 1):
            assert os.pread(f.fileno(), 1000, off) == whole[off:off + 1000]
        assert mmap.mmap(f.fileno(), 0, prot=mmap.PROT_READ)[:] == whole
"""
writers = max(4, nodes)
for block, segments in ((100_000, 10), (4096, 100), (1 << 20, 2), (777, 700)):
    for code in (SHARED_WRITE, SHARED_READ):
        for r in [start(k % nodes, code, k, writers, block, segments) for k in range(writers)]:
            finish(r)
    on(last, "os.unlink(work + '/shared')")
step("one file with a writer on each node, by parts and strided")

# One that another node made: overwritten in the middle, appended, cut, made longer, replaced.
on(0, "open(work + '/other', 'w').write('0123456789')")
on(last, """
    with open(work + '/other', 'r+') as f:
        f.seek(3), f.write('ABC'), f.seek(0)
        assert f.read() == '012ABC6789'
""")
on(0, "assert open(work + '/other').read() == '012ABC6789'")
on(last, "f = open(work + '/other', 'a'); f.write('end'); f.close()")
on(0, "f = open(work + '/other', 'a'); f.write('!'); f.close()")
for node in range(nodes):
    equal("appended", "012ABC6789end! 14", on(node, "print(open(work + '/other').read(), os.stat(work + '/other').st_size)"))
on(last, "f = open(work + '/other', 'r+'); f.truncate(5); f.seek(8); f.write('x'); f.close()")
for node in range(nodes):
    equal("cut, and longer", repr('012AB' + '\0' * 3 + 'x'), on(node, "print(repr(open(work + '/other').read()))"))
on(last, "open(work + '/other', 'w').write('new')")
for node in range(nodes):
    equal("begun anew", "new 3", on(node, "print(open(work + '/other').read(), os.stat(work + '/other').st_size)"))
appenders = [start(k % nodes, """
    with open(work + '/lines', 'a') as f:
        for i in range(50):
            f.write(f'{sys.argv[2]} line {i}\\n'), f.flush()
""", k) for k in range(writers)]
for a in appenders:
    finish(a)
equal("lines", str(50 * writers), on(last, "print(len(set(open(work + '/lines').read().splitlines())))"))
step("a file of another node is written, appended, cut")

# Others find a file that is open for writing, and their locks on it are real.
keeper = start(0, """
    fd = os.open(work + '/kept', os.O_CREAT | os.O_RDWR)
    print('ready', flush=True)
    sys.stdin.readline()
""")
assert keeper.stdout.readline() == "ready\n"
on(last, """
    import errno, fcntl
    assert os.path.getsize(work + '/kept') == 0
    os.close(os.open(work + '/kept', os.O_RDWR))
    fd = os.open(work + '/kept', os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
    os.write(fd, b'xyz')
    for at in (0, 3, 1000):
        try:
            os.pread(fd, 5, at)
            assert False
        except OSError as e:
            assert e.errno == errno.EBADF
    for lock in (fcntl.lockf, fcntl.flock):
        lock(fd, fcntl.LOCK_EX)
        lock(fd, fcntl.LOCK_UN)
    os.close(fd)
""")
keeper.stdin.write("go\n")
finish(keeper)
for node in range(nodes):
    equal("kept", "xyz", on(node, "print(open(work + '/kept').read())"))
step("opened for writing while its maker has it open")

# Bytes that a writer overwrites in its segment are seen by those who have read what was there, at their next open or fstat.
TURNS = """
    def turns(what):
        print('ready', flush=True)
        for i, line in enumerate(sys.stdin):
            print(what(i), flush=True)
"""
on(0, "open(work + '/anew', 'wb').close()")
anew = [start(last, TURNS + """
    fd = os.open(work + '/anew', os.O_WRONLY)
    def write(i):
        os.pwrite(fd, b'%d' % i * 300_000, 1000)
        os.fsync(fd)
    turns(write)
""")] + [start(node, TURNS + """
    kept = os.open(work + '/anew', os.O_RDONLY)
    def read(i):
        with open(work + '/anew', 'rb') as f:
            return sorted(set(f.read()[1000:])), sorted(set(os.pread(kept, 301_000, 1000)))
    turns(read)
""") for node in range(1, nodes)] + [start(0, TURNS + """
    def read(i):
        with open(work + '/anew', 'rb') as f:
            return [sorted(set(f.read()[1000:]))] * 2
    turns(lambda i: tuple(read(i)))
""")]
for p in anew:
    equal("anew", "ready\n", p.stdout.readline())
for i in range(4):
    for p, said in zip(anew, ["None\n"] + [f"({[48 + i]}, {[48 + i]})\n"] * nodes):
        p.stdin.write("go\n"), p.stdin.flush()
        equal(f"anew, time {i}", said, p.stdout.readline())
for p in anew:
    finish(p)
step("bytes of a segment that are written anew, by who has read the old ones")

# Who has a file open while other nodes write it sees old or new bytes, and none that it never had.
READS = """
    import itertools
    fd = os.open(work + '/open', os.O_RDONLY)
    print('ready', flush=True)
    for line in sys.stdin:
        data = os.pread(fd, 1 << 21, 0)
        print(*[f'{k:c}{len(list(g))}' for k, g in itertools.groupby(data)], os.fstat(fd).st_nlink, flush=True)
"""


def readers():
    found = [start(node, READS) for node in range(nodes)]
    for p in found:
        assert p.stdout.readline() == "ready\n"
    return found


def seen(what, processes, expected):
    for p in processes:
        p.stdin.write("go\n"), p.stdin.flush()
        equal(what, expected, p.stdout.readline().strip())


WRITE = "fd = os.open(work + '/open', os.O_WRONLY); [os.pwrite(fd, b'{0}' * n, off) for off, n in {1}]"
on(0, "open(work + '/open', 'wb').write(b'A' * 1_000_000)")
before = readers()[1:]  # home's are the kernel's descriptors
on(1, "open(work + '/open', 'wb').write(b'B' * 1_000_000)")
seen("written anew before it was read", before, "B1000000 1")
on(last, WRITE.format("C", [(0, 1000), (2000, 1000)]))
after = readers()
seen("beside a hole in a segment", before + after, "C1000 B1000 C1000 B997000 1")
on(last, WRITE.format("D", [(1000, 1000)]))
seen("what came to the segment", before + after, "C1000 D1000 C1000 B997000 1")
on(1, "os.truncate(work + '/open', 1500)")
seen("cut", before + after, "C1000 D500 1")
on(last, "os.truncate(work + '/open', 2500)")
for p in before:
    finish(p)
for p in after[1:]:
    finish(p)
on(1, "os.unlink(work + '/open')")
seen("removed, and open on its home alone", after[:1], "C1000 D500 \0" + "1000 0")
finish(after[0])
step("files that are open while other nodes write them")

# Of one process: what is appended comes after what was written and nobody knows yet; and who has been cut by others is.
on(0, "open(work + '/end', 'wb').write(b'A' * 1000)")
own = start(1, """
    fd, end = os.open(work + '/end', os.O_RDWR), os.open(work + '/end', os.O_RDWR | os.O_APPEND)
    os.pwrite(fd, b'B' * 1000, 1000)
    os.write(end, b'C' * 10)
    assert os.pread(fd, 5000, 0) == b'A' * 1000 + b'B' * 1000 + b'C' * 10
    os.pwrite(fd, b'B' * 1000, 5000)
    os.fsync(fd)
    print('written', flush=True)
    sys.stdin.readline()
    assert os.fstat(fd).st_size == 500
    os.pwrite(fd, b'D', 10)
    assert os.lseek(fd, 0, os.SEEK_END) == 500, os.lseek(fd, 0, os.SEEK_END)
    assert os.pread(fd, 5000, 0) == b'A' * 10 + b'D' + b'A' * 489
""")
assert own.stdout.readline() == "written\n"
on(last, "os.truncate(work + '/end', 500)")
finish(own)
step("the end of a file that one process writes by two descriptors")
