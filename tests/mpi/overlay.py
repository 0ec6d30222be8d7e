# SPDX-License-Identifier: BSD-3-Clause
"""Names of a dataset that programs take, with --overlay: overlay.py CASE DIRECTORY NODES. `ops` prints what changes come to, the
same below a mount and in a plain directory (NODES 0); the other cases are for a mount, and assert."""
import json
import os
import signal
import sys
import time

from nodes import Nodes, daemon, equal, finish, step

case, top, nodes = sys.argv[1], sys.argv[2], int(sys.argv[3])
last = max(nodes - 1, 0)

# What a program sees of a directory: names, types, permissions, contents, and the times that are old.
PRELUDE = r"""
import json, mmap, shutil, stat, subprocess, zlib
os.umask(0o022)
os.chdir(work)
def look(path):
    s = os.lstat(path)
    old = s.st_mtime_ns if s.st_mtime < 1e9 else "new"
    if stat.S_ISLNK(s.st_mode): return ["link", os.readlink(path)]
    if stat.S_ISDIR(s.st_mode): return ["dir"]
    with open(path, "rb") as f: data = f.read()
    assert len(data) == s.st_size == os.stat(path).st_size, (path, len(data), s.st_size)
    return [stat.filemode(s.st_mode), old, len(data), zlib.crc32(data)]
others = {f"h{i:02}" for i in range(40)} | {f"u{i:02}" for i in range(30)}  # of other cases: listed only
def tree():
    seen = {}
    for d, dirs, files in os.walk("."):
        names = os.listdir(d)
        assert len(set(names)) == len(names) and sorted(names) == sorted(e.name for e in os.scandir(d)), names
        for e in os.scandir(d):
            kind = stat.S_IFMT(e.stat(follow_symlinks=False).st_mode)
            assert (e.is_symlink(), e.is_dir(follow_symlinks=False)) == (kind == stat.S_IFLNK, kind == stat.S_IFDIR), e
        for n in names: seen[os.path.join(d, n)] = n in others or look(os.path.join(d, n))
    return dict(sorted(seen.items()))
def put(path, data, mode="w"):
    with open(path, mode) as f: f.write(data)
def raw(path, flags, data=b""):
    fd = os.open(path, flags, 0o640)
    if data: os.write(fd, data)
    os.close(fd)
def sh(command):
    env = {**os.environ, "LC_ALL": "C"}
    p = subprocess.run(["bash", "-c", command], capture_output=True, text=True, env=env)
    print(p.returncode, p.stdout + p.stderr)
def attempt(code):
    try: exec(code, globals())
    except OSError as e: print(errno.errorcode[e.errno])
"""
TREE = "print(json.dumps(tree()))"

OPS = r"""
put("f00", "new")
put("f01", b"more", "ab")
with open("f02", "r+b") as f: f.seek(10); f.write(b"0123456789")
with open("big", "r+b") as f: f.seek(2 << 20); f.write(b"x" * 100)
with open("f03", "w+b") as f: f.write(b"abc"); f.seek(1); print(f.read())
with open("f04", "a+") as f: f.write("end"); f.seek(0); print(len(f.read()))
raw("f05", os.O_WRONLY, b"head")
raw("f06", os.O_RDWR | os.O_TRUNC)
raw("f07", os.O_RDONLY | os.O_TRUNC)
raw("f08", os.O_WRONLY | os.O_CREAT, b"head")
raw("f09", os.O_WRONLY | os.O_CREAT | os.O_EXCL)
raw("f09", os.O_RDONLY | os.O_CREAT)
raw("none/x", os.O_WRONLY | os.O_CREAT)
raw("f09/", os.O_WRONLY)
os.truncate("f10", 7)
with open("f11", "r+") as f: f.truncate(9000)
os.chmod("f12", 0o600)
os.utime("f12", (10**8, 10**8))
os.utime("f13", (10**8 + 1, 10**8 + 1))
os.utime("f14")
os.utime("link", (10**8 + 1, 10**8 + 1), follow_symlinks=False)
os.utime("link", (10**8 + 2, 10**8 + 2))
os.mkdir("f15")
os.symlink("x", "f15")
os.unlink("f15")
print(os.path.exists("f15"), os.path.lexists("f15"), os.access("f15", os.F_OK))
open("f15")
os.unlink("f15")
os.rename("f15", "new")
os.rename("sub/x", "f15/y")
put("f15", "again")
os.unlink("f15")
raw("f15", os.O_WRONLY | os.O_CREAT | os.O_EXCL, b"mine")
raw("f15", os.O_WRONLY | os.O_CREAT | os.O_EXCL, b"mine")
os.unlink("f15"); os.mkdir("f15"); put("f15/in", "in"); os.symlink("in", "f15/l")
os.rmdir("f15")
print(open("f15/l").read())
os.rename("f15", "moved")
print(os.path.exists("f15"))
os.rename("moved", "f15")
shutil.rmtree("f15")
os.symlink("f16", "f15")
put("f15", "through")
os.unlink("f15")
put("new", "n"); os.rename("new", "f17")
os.rename("f17", "f18")
os.rename("f18", "f17")
os.rename("f19", "f19")
os.rename("f19", "other")
os.rename("other", "f19")
os.rename("f20", "sub/x")
os.rename("sub/y", "f20")
os.rename("sub/z", "sub/w")
os.rename("f21", "sub")
os.mkdir("d"); os.rename("d", "f21")
os.unlink("f21"); os.rename("d", "f21")
os.rmdir("f21")
os.rename("none", "f22")
os.link("none", "f22")
os.unlink("sub")
os.rmdir("f22")
os.rename("link", "sub/link")
os.rename("sub/link", "link")
os.unlink("link2"); os.symlink("f23", "link2"); put("link2", "by a new link", "a")
put("link3", "by the dataset's link")
os.unlink("link3"); os.mkdir("link3"); put("link3/x", "x")
print(open("dirlink/v").read()[:3]); put("dirlink/v", "below a link")
os.unlink("dirlink"); os.symlink("f15", "dirlink")
print(os.access("f24", os.W_OK), os.access("ro", os.W_OK))
put("ro", "x")
os.chmod("ro", 0o644); put("ro", "writable now")
os.chmod("f24", 0o444); print(os.stat("f24").st_mode)
os.unlink("f24")
with open("f25", "r+b") as f, mmap.mmap(f.fileno(), 0) as m: m[:4] = b"mmap"; m.flush()
os.open("f26", os.O_WRONLY | os.O_DIRECTORY)
with open("f26", "r+b") as f: os.fchmod(f.fileno(), 0o601); os.utime(f.fileno(), (10**8, 10**8))
shutil.copyfile("f27", "f28")
shutil.copy2("f29", "f28")
shutil.move("f28", "f30")
sh("mv f31 f31.bak && cp f31.bak f31 && rm f31.bak && cat f31 | wc -c")
sh("echo line >f32; echo line >>f33; tee -a f34 <<<tee; : >f35; cat <f36 >f37; printf x | dd of=f38 conv=notrunc status=none")
sh("touch f39; touch -d @1000 f40; truncate -s 5 f41; chmod 700 f42; rm f43; rm f43; rm -f f43; ls f43")
sh("sed -i s/^/sed/ text; sed -n 1p text; sed -i.orig s/^/again/ text; ls text*; sort -o text text")
sh("cp text f44; cp -a f45 f46; mv -n f45 f47; mv -f f45 f47; mv f48 sub/; ls sub; install -m 600 text f49")
sh("ln -sf f49 link4; ln -sfn sub link5; readlink link4 link5; find . -name 'f5*' -delete; ls f5*; ls | wc -l")
sh("tar -cf /dev/null . && tar -cf - text big | (mkdir t && cd t && tar -xf -) && tar -C t -cf - . | tar -xf - && rm -r t; ls -d t")
import tempfile; fd, p = tempfile.mkstemp(dir="."); os.write(fd, b"cache"); os.close(fd); os.replace(p, "labels.cache")
import pickle; pickle.dump([1], open("labels.cache.tmp", "wb")); os.replace("labels.cache.tmp", "labels.cache"); print(pickle.load(open("labels.cache", "rb")))
[(os.replace(shutil.copyfile("sub/v", "tmp"), "sub/v"), put("sub/v", "x", "a")) for _ in os.scandir("sub") for _ in range(2)]
"""


def ops():
    job, was = Nodes(top, PRELUDE, forks=True), {}
    for i, code in enumerate(OPS.strip().splitlines()):
        print(">>>", code)
        print(job.on(i % nodes if nodes else 0, "attempt(sys.argv[2])", code))
        trees = [job.on(n, TREE) for n in range(max(nodes, 1))]
        assert len(set(trees)) == 1, f"{code}: {trees}"
        now = json.loads(trees[0])
        print(*(f"{p} {now.get(p)}" for p in sorted({*now, *was}) if now.get(p) != was.get(p)), sep="\n")
        was = now


# ---- what only a mount can show ----
LONG = """
held = {}
for line in sys.stdin:
    try: print(repr(eval(line)), flush=True)
    except OSError as e: print(errno.errorcode[e.errno], flush=True)
"""


class Long:
    """A process on a node that lives on, and evaluates what it is sent."""

    def __init__(self, job, node):
        self.p = job.start(node, LONG)

    def __call__(self, code):
        self.p.stdin.write(code + "\n"), self.p.stdin.flush()
        return self.p.stdout.readline().strip()


def held():
    """Who has the dataset's file open goes on reading it; who opens it now has the new one, at once, on each node."""
    job = Nodes(top, PRELUDE)
    on = [Long(job, n) for n in range(nodes)]
    names = [f"h{i:02}" for i in range(40)]
    for node in on:
        for n in names:
            assert node(f"held.setdefault({n!r}, os.open({n!r}, os.O_RDONLY)) > 0") == "True"
        assert node(f"held.setdefault('map', mmap.mmap(held['h00'], 0, prot=mmap.PROT_READ))[:4]") == "b'h00 '"
    changes = ["put({0!r}, {0!r} * 2)", "os.unlink({0!r})", "os.replace(shutil.copyfile('text', {0!r} + '.t'), {0!r})",
               "os.rename({0!r}, {0!r} + '.r')", "put({0!r}, 'xx', 'r+')"]
    sees = [lambda n: repr(n * 2), lambda n: "ENOENT", lambda n: None, lambda n: "ENOENT", None]
    for i, n in enumerate(names):
        kind = i % len(changes)
        said = on[i % nodes](changes[kind].format(n))
        assert not said.startswith("E"), (n, said)
        for node in on:
            now = node(f"open({n!r}).read()")
            if sees[kind] and sees[kind](n): equal(n, sees[kind](n), now)
            if kind == 4: assert now.startswith("'xx"), now
            equal(f"{n} is listed", str(kind not in (1, 3)), node(f"{n!r} in os.listdir('.')"))
            equal(f"{n} is there", str(kind not in (1, 3)), node(f"os.path.exists({n!r})"))
            equal(f"{n}, held", f"b'{n} '", node(f"os.pread(held[{n!r}], 4, 0)"))
    for node in on:
        equal("a mapping", "b'h00 '", node("held['map'][:4]"))
        equal("a descriptor of the dataset's file", "EROFS", node("os.fchmod(held['h00'], 0o600)"))
        equal("an attribute", "ENOTSUP", node("os.setxattr('text', 'user.k', b'v')"))
        equal("an attribute, removed", "ENOTSUP", node("os.removexattr('text', 'user.k')"))
        equal("it is not copied for that", "True", node("len(os.getxattr('text', 'user.fanstore.dataset')) > 0"))
        node.p.stdin.close()
        assert node.p.wait() == 0
    step("open files stay as they were, and names are new at once on each node")


def race():
    """Several programs of each node at once."""
    job = Nodes(top, PRELUDE)
    appenders = [job.start(i % nodes, "for i in range(20): raw('race', os.O_WRONLY | os.O_APPEND, b'%03d\\n' % int(sys.argv[2]))", i)
                 for i in range(6)]
    for p in appenders: finish(p)
    lines = open(f"{top}/race").read().splitlines()
    assert lines[:-120] == ["line"] * 1000, lines[:2]
    equal("appended", sorted([f"{i:03}" for i in range(6)] * 20), sorted(lines[-120:]))
    step("a file that many programs append to is copied up once")
    code = """
won = 0
for i in range(30):
    try: os.unlink(f"u{i:02}"); won += 1
    except FileNotFoundError: pass
    assert not os.path.exists(f"u{i:02}")
print(won)"""
    equal("removed", 30, sum(int(finish(p)) for p in [job.start(i % nodes, code) for i in range(4)]))
    assert not [n for n in os.listdir(top) if n[0] == "u"]
    step("each name is removed by one program")
    # Half of the programs are never idle: a second of each loop in `make check`, three in the rest.
    until = f"time.monotonic() + {3 if os.environ.get('FS_HALF') else 1}"
    writer = f"end = {until}" + """
while time.monotonic() < end:
    put(f"tmp.{os.getpid()}", f"{os.getpid()} " * 1000)
    os.replace(f"tmp.{os.getpid()}", "swap")"""
    reader = f"end = {until}" + """
seen = new = 0
while time.monotonic() < end:
    with open("swap") as f: words = f.read().split(" ")
    assert len(set(words[:-1])) == 1 and len(words) == 1001, words[:3]
    assert new == 0 or words[0] != "old", "the dataset's file is back"
    new, seen = words[0] != "old", seen + 1
print(seen)"""
    readers = [job.start(i % nodes, reader) for i in range(2 * nodes)]
    time.sleep(0.2)
    writers = [job.start(i % nodes, writer) for i in range(nodes)]
    for p in writers + readers: finish(p)
    step("a replaced file is one or the other, and never the dataset's again")
    code = f"end = {until}" + """
while time.monotonic() < end:
    try:
        os.rename("there", "sub/back"); os.rename("sub/back", "there")
        put("away", "x"); os.unlink("away")
    except FileNotFoundError: pass"""
    look = f"end = {until}" + """
new = False
while time.monotonic() < end:
    try: data = open("away").read()
    except FileNotFoundError: new = True
    else:
        assert data in ("", "x") or not new, "the dataset's file is back"
        new = data in ("", "x")
    try: data = open("there").read()
    except FileNotFoundError: pass
    else: assert data == "there " * 1000, data[:10]
"""
    movers = [job.start(0, code)] + [job.start(n, look) for n in range(nodes)]
    for p in movers: finish(p)
    step("a removed name does not come back while others make and remove it")


def directories():
    """What is refused."""
    job = Nodes(top, PRELUDE)
    for node in range(nodes):
        equal("directories", "EROFS EXDEV EXDEV EISDIR EROFS EROFS ENOTEMPTY", job.on(node, """
os.makedirs("made/in", exist_ok=True)
def err(f, *args):
    try: f(*args)
    except OSError as e: print(errno.errorcode[e.errno], end=" ")
err(os.rmdir, "sub"), err(os.rename, "sub", "sub2"), err(os.rename, "sub/deep", "made/deep")
err(os.rename, "text", "sub"), err(os.rename, "made", "sub"), err(os.rmdir, "sub/deep"), err(os.rmdir, "made")"""))
    job.on(last, "os.unlink('sub/deep/a'); assert os.listdir('sub/deep') == []")
    equal("empty", "[]", job.on(0, "print(os.listdir('sub/deep'))"))
    step("directories of the dataset stay")


def death():
    """The daemon of the last node dies: its programs get EIO for taken names, and the others see them as they were."""
    job = Nodes(top, PRELUDE)
    for i in range(20):
        job.on(i % nodes, "put(sys.argv[2], 'new') if int(sys.argv[3]) else os.unlink(sys.argv[2])", f"h{i:02}", i % 2)
    job.on(0, "[put(f'h{i:02}', 'new') for i in range(1, 20, 2)]")  # their home may be the last node, and lost
    job.on(0, "[os.replace(shutil.copyfile('text', 'tmp'), f'h{i:02}') for i in range(1, 20, 2)]")
    alive, other = Long(job, last), Long(job, 0)
    for node in alive, other: equal("before", "'lin'", node("open('h01').read(3)"))
    os.kill(daemon(last, sys.argv[4]), 9)
    end = time.monotonic() + 30
    while alive("open('h00')") != "EIO" and time.monotonic() < end: time.sleep(0.1)
    for i in range(20):
        equal(f"h{i:02} elsewhere", "'lin'" if i % 2 else "ENOENT", other(f"open('h{i:02}').read(3)"))
        equal(f"h{i:02} there", "EIO", alive(f"open('h{i:02}')"))
    equal("not taken", "'h20'", alive("open('h20').read(3)"))
    equal("new programs", "EIO h20", job.on(last, """
try: open("h01")
except OSError as e: print(errno.errorcode[e.errno], open("h20").read(3))"""))
    equal("removed after that", "h02", job.on(0, "put('h02', 'h02'); print(open('h02').read())"))
    step("a daemon's death brings nothing of the dataset back")


def evicted():
    """A daemon stands still until the others evict it. Its programs see what is taken afterwards."""
    job = Nodes(top, PRELUDE)
    job.on(0, "os.unlink('h00')")
    other = Long(job, last)
    equal("before", "ENOENT 'h01'", other("open('h00').read(3)") + " " + other("open('h01').read(3)"))
    pid = daemon(last, sys.argv[4])
    os.kill(pid, signal.SIGSTOP)
    job.on(0, "os.unlink('h01'), put('h02', 'new')")  # waits for the eviction
    os.kill(pid, signal.SIGCONT)
    end = time.monotonic() + 30
    while (seen := other("open('h01').read(3)")) != "ENOENT" and time.monotonic() < end: time.sleep(0.1)
    equal("removed", "ENOENT", seen)
    equal("replaced", "'new'", other("open('h02').read(3)"))
    equal("not taken", "'h03'", other("open('h03').read(3)"))
    job.on(0, "os.unlink('h03'), os.unlink('sub/v')")
    equal("removed later", "ENOENT ENOENT", other("open('h03').read(3)") + " " + other("open('sub/v').read(3)"))
    equal("new programs", "ENOENT new h04", job.on(last, """
try: open("h03")
except OSError as e: print(errno.errorcode[e.errno], open("h02").read(3), open("h04").read(3))"""))
    equal("listed", job.on(0, TREE), job.on(last, TREE))
    step("an evicted daemon's programs see what is taken")


{"death": death, "evicted": evicted, "ops": ops, "held": held, "race": race, "directories": directories}[case]()
