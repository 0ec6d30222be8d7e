# SPDX-License-Identifier: BSD-3-Clause
"""Names of one node, for node_local.sh: node_local.py CASE MOUNT [ARGUMENT...]. `calls DIRECTORY` prints what the calls
by name say of sockets and FIFOs, in a plain directory and below a mount; the other cases assert."""
import ctypes, errno, fcntl, mmap, os, select, shutil, socket, stat, subprocess, sys, threading


def err(f, *args, **more):
    try:
        return f(*args, **more)
    except OSError as e:
        return errno.errorcode[e.errno]


def show(what, value):
    print(what, value)


def kind(path):
    return oct(os.lstat(path).st_mode)


# ---- as in a plain directory ----
def names(top):
    os.umask(0o022)
    os.mkdir(top + "/d")
    d = os.open(top + "/d", os.O_RDONLY | os.O_DIRECTORY)
    open(top + "/d/file", "w").close()
    os.symlink("fifo", top + "/d/link")
    show("mkfifo", err(os.mkfifo, top + "/d/fifo", 0o640))
    show("mkfifo again", err(os.mkfifo, top + "/d/fifo"))
    show("mkfifo over a file", err(os.mkfifo, top + "/d/file"))
    show("mkfifo in nothing", err(os.mkfifo, top + "/d/none/fifo"))
    show("mkfifo with a slash", err(os.mkfifo, top + "/d/other/"))
    show("mkfifoat", err(os.mkfifo, "at", dir_fd=d))
    show("mknod fifo", err(os.mknod, top + "/d/node", stat.S_IFIFO | 0o600))
    show("mknod socket", err(os.mknod, "sock", stat.S_IFSOCK | 0o600, dir_fd=d))
    show("modes", [kind(top + "/d/" + n) for n in ("fifo", "at", "node", "sock")])
    show("stat by link", oct(os.stat(top + "/d/link").st_mode))
    show("list", sorted(os.listdir(top + "/d")))
    show("types", sorted((e.name, e.is_file(), e.is_symlink(), oct(stat.S_IFMT(e.stat().st_mode)))
                         for e in os.scandir(top + "/d")))
    show("access", [os.access(top + "/d/fifo", m) for m in (os.F_OK, os.R_OK, os.W_OK)])
    show("open O_EXCL", err(os.open, top + "/d/fifo", os.O_CREAT | os.O_EXCL | os.O_WRONLY))
    show("mkdir", err(os.mkdir, top + "/d/fifo"))
    show("symlink", err(os.symlink, "x", top + "/d/fifo"))
    show("open nonblocking", err(os.open, top + "/d/fifo", os.O_WRONLY | os.O_NONBLOCK))
    show("open a socket", err(os.open, top + "/d/sock", os.O_RDWR))
    show("opendir", err(os.listdir, top + "/d/fifo"))
    show("rmdir of one", err(os.rmdir, top + "/d/fifo"))
    show("rmdir above", err(os.rmdir, top + "/d"))
    show("below", err(os.stat, top + "/d/fifo/x") in ("ENOTDIR", "ENOENT"))
    show("slash", err(os.stat, top + "/d/fifo/"))
    os.chmod(top + "/d/fifo", 0o604)
    os.utime(top + "/d/fifo", ns=(10 ** 18, 10 ** 18 + 5))
    show("set", (kind(top + "/d/fifo"), os.stat(top + "/d/fifo").st_mtime_ns))
    show("rename", err(os.rename, top + "/d/at", top + "/d/moved"))
    show("rename over one", err(os.rename, top + "/d/moved", top + "/d/node"))
    show("rename of nothing", err(os.rename, top + "/d/at", top + "/d/node"))
    show("rename to nowhere", err(os.rename, top + "/d/node", top + "/none/node"))
    os.mkdir(top + "/e")
    show("rename to a directory", err(os.rename, top + "/d/node", top + "/e/node"))
    show("list after", (sorted(os.listdir(top + "/d")), os.listdir(top + "/e")))
    show("realpath", os.path.realpath(top + "/d/fifo") == os.path.realpath(top) + "/d/fifo")
    show("unlink", err(os.unlink, top + "/d/fifo"))
    show("unlink again", err(os.unlink, top + "/d/fifo"))
    show("unlinkat", err(os.unlink, "sock", dir_fd=d))
    show("many", [os.mkfifo("%s/d/m%03d" % (top, i)) for i in range(60)] and
         sorted(os.listdir(top + "/d")) == sorted(["file", "link"] + ["m%03d" % i for i in range(60)]))
    shutil.rmtree(top + "/d")
    os.mkdir(top + "/new")
    os.rename(top + "/e/node", top + "/e/moved")
    show("rename over one with names", err(os.rename, top + "/new", top + "/e"))
    show("to itself", err(os.rename, top + "/e", top + "/e/../e"))
    show("names are there", os.listdir(top + "/e"))
    os.unlink(top + "/e/moved")
    show("rename over an empty one", err(os.rename, top + "/new", top + "/e"))
    show("new", (os.listdir(top + "/e"), os.path.exists(top + "/new")))
    shutil.rmtree(top + "/e")
    show("rmtree", os.listdir(top))
    show("through one", through(top + "/pipe"))
    show("shell", subprocess.run("mkfifo p; (echo hello >p &); cat p; test -p p; echo $?; ls -l p | cut -c1-10; rm p; ls",
                                 shell=True, cwd=top, stdout=subprocess.PIPE).stdout)


def through(path):
    os.mkfifo(path)
    child = os.fork()
    if child == 0:
        with open(path, "wb") as f:
            f.write(b"x" * 100000)
        os._exit(0)
    with open(path, "rb") as f:
        got = len(f.read())
    os.waitpid(child, 0)
    os.unlink(path)
    return got


def small(s, room):
    """What getsockname stores of an address where there is little room, and the length that it tells."""
    buf, n = ctypes.create_string_buffer(b"-" * 20), ctypes.c_uint(room)
    ctypes.CDLL(None).getsockname(s.fileno(), buf, ctypes.byref(n))
    return buf.raw[:min(room, n.value)], n.value


def sockets(top):
    os.chdir(top)
    long = top + "/" + "n" * max(1, 100 - len(top.encode()) - 1)
    for path in ("short", "./dots", top + "/whole" if len(top) < 100 else "whole", long if len(long) < 108 else "long"):
        with socket.socket(socket.AF_UNIX) as s, socket.socket(socket.AF_UNIX) as c:
            shown = path.replace(top, "TOP")[:8]
            show("connect to nothing", err(c.connect, path))
            s.bind(path)
            show("bound", (shown, s.getsockname() == path, kind(path)))
            show("bind again", err(socket.socket(socket.AF_UNIX).bind, path))
            show("no listener", err(c.connect, path))
            s.listen(1)
            os.chmod(path, 0o600)
            c.bind("client")
            show("little room", [small(s, n) for n in (1, 2, 10)] if path == "short" else None)
            c.connect(path)
            a, of = s.accept()
            show("accepted", (of, a.getpeername(), c.getpeername() == path, c.getsockname()))
            a.sendall(b"hello")
            show("received", c.recv(10))
            a.close()
            os.unlink(path)
            os.unlink("client")
            show("connect to what is gone", err(socket.socket(socket.AF_UNIX).connect, path))
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as s, socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as c:
        s.bind("s")
        c.bind("c")
        c.sendto(b"one", "s")
        show("recvfrom", s.recvfrom(10))
        c.sendmsg([b"two"], [], 0, "s")
        show("recvmsg", s.recvmsg(10))
        show("sendto nothing", err(c.sendto, b"x", "none"))
        c.connect("s")
        show("peer", c.getpeername())
        c.send(b"three")
        show("recvfrom_into", s.recvfrom_into(bytearray(10)))
    with socket.socket(socket.AF_UNIX) as c:
        open("file", "w").close()
        show("a file is none", err(c.connect, "file"))
        show("bind a file", err(c.bind, "file"))
        show("bind in nothing", err(c.bind, "none/x"))
        show("unnamed", c.getsockname())
        c.bind(b"\0abstract%d" % os.getpid())
        show("abstract", c.getsockname()[:9])
    show("listen", sorted(os.listdir(top)))
    for n in os.listdir(top):
        os.unlink(n)


# ---- below a mount ----
def outputs(mount, one):
    """What has a name already keeps it; what is a name of this node keeps its kind."""
    inside, name = os.path.split(mount + "/" + one)
    assert err(os.mkfifo, mount + "/" + one) == "EEXIST"
    with socket.socket(socket.AF_UNIX) as s:
        assert err(s.bind, mount + "/" + one) == "EADDRINUSE"
        assert err(s.connect, mount + "/" + one) == "ECONNREFUSED"
    os.mkfifo(inside + "/fifo")  # beside the dataset's names
    assert sorted(os.listdir(inside)).count("fifo") == 1 and name in os.listdir(inside)
    open(inside + "/out", "w").close()
    assert err(os.rename, inside + "/fifo", inside + "/out") == "EXDEV"
    assert err(os.rename, inside + "/out", inside + "/fifo") == "EXDEV"
    assert err(os.rename, inside + "/fifo", inside + "/" + name) == "EROFS"
    assert err(os.rename, inside + "/out", inside + "/lock.mdb") == "EXDEV"
    assert err(os.link, inside + "/fifo", inside + "/second") == "EPERM"
    assert err(os.link, inside + "/fifo", os.environ["TMPDIR"] + "/second") == "EXDEV"
    assert err(os.mknod, inside + "/device", stat.S_IFCHR | 0o600, os.makedev(1, 3)) == "EPERM"
    os.mknod(inside + "/plain", stat.S_IFREG | 0o640)
    assert err(os.mknod, inside + "/plain", 0o640) == "EEXIST"
    os.umask(umask := os.umask(0))
    found = os.stat(inside + "/plain")
    assert (found.st_mode, found.st_size) == (stat.S_IFREG | (0o640 & ~umask), 0), found
    os.unlink(inside + "/plain")
    os.unlink(inside + "/out")
    os.unlink(inside + "/fifo")
    for c in "ab":
        open(inside + "/" + c + ".mdb-lock", "w").write(c)
    os.rename(inside + "/a.mdb-lock", inside + "/b.mdb-lock")
    assert open(inside + "/b.mdb-lock").read() == "a"
    assert err(os.rename, inside + "/b.mdb-lock", inside + "/b") == "EXDEV"
    assert err(os.open, inside + "/b.mdb-lock", os.O_CREAT | os.O_EXCL) == "EEXIST"
    os.unlink(inside + "/b.mdb-lock")
    os.mkdir(inside + "/c.mdb-lock")  # a directory is an output
    assert err(os.open, inside + "/c.mdb-lock", os.O_CREAT | os.O_RDWR) == "EISDIR"
    os.rmdir(inside + "/c.mdb-lock")
    print("ok - names keep their kinds")


def dataset_lock(mount, packed):
    """A dataset's file that matches: its own bytes to who reads it, a copy to who writes it."""
    path, text = mount + "/db/lock.mdb", open(packed, "rb").read()
    before = os.listdir(mount + "/db")
    assert open(path, "rb").read() == text
    assert os.access(path, os.R_OK | os.W_OK) and not os.access(path, os.X_OK)
    assert err(os.unlink, path) == "EROFS" and err(os.chmod, path, 0o600) == "EROFS"
    with open(path, "r+b") as f:
        m = mmap.mmap(f.fileno(), len(text))
        assert m[:] == text
        m[:4] = b"mine"
        m.flush()
        assert open(path, "rb").read() == b"mine" + text[4:]
        assert subprocess.run(["head", "-c4", path], stdout=subprocess.PIPE).stdout == b"mine"
        fcntl.lockf(f, fcntl.LOCK_EX | fcntl.LOCK_NB)
    assert sorted(os.listdir(mount + "/db")) == sorted(before)
    os.unlink(path)
    assert open(path, "rb").read() == text
    with open(path, "wb") as f:
        assert os.fstat(f.fileno()).st_size == 0
    assert os.stat(path).st_size == 0
    print("ok - a dataset's file is copied for who writes it")


def not_here(mount):
    for n in ("fifo", "sock", "x.mdb-lock"):
        path = mount + "/shared/" + n
        assert err(os.lstat, path) == "ENOENT", n
    assert sorted(os.listdir(mount + "/shared")) == ["out"], os.listdir(mount + "/shared")
    with socket.socket(socket.AF_UNIX) as s:
        assert err(s.connect, mount + "/shared/sock") == "ENOENT"
    os.mkfifo(mount + "/shared/fifo")  # this node's
    os.rename(mount + "/shared", mount + "/renamed")
    assert sorted(os.listdir(mount + "/renamed")) == ["fifo", "out"]
    print("ok - other nodes do not see them")


def here(mount):
    assert sorted(os.listdir(mount + "/renamed")) == ["fifo", "out", "sock", "x.mdb-lock"]
    assert stat.S_ISSOCK(os.stat(mount + "/renamed/sock").st_mode)
    assert open(mount + "/renamed/x.mdb-lock").read() == "mine"
    print("ok - they go with their directory")


# ---- programs ----
def worker(n):
    return n * n, os.environ["FANSTORE_NODE"]


def processes(mount):
    import multiprocessing as mp
    from multiprocessing.connection import Client, Listener
    import tempfile
    assert tempfile.gettempdir().startswith(mount), tempfile.gettempdir()
    for how in ("spawn", "forkserver"):
        with mp.get_context(how).Pool(2) as pool:
            assert [r[0] for r in pool.map(worker, range(4))] == [0, 1, 4, 9]
        print("ok - multiprocessing,", how)
    with mp.get_context("spawn").Manager() as manager:
        d = manager.dict(a=1)
        d["b"] = 2
        assert dict(d) == {"a": 1, "b": 2}
    with Listener(None, "AF_UNIX") as listener:
        assert listener.address.startswith(mount)
        t = threading.Thread(target=lambda: Client(listener.address).send("hello"))
        t.start()
        with listener.accept() as c:
            assert c.recv() == "hello"
        t.join()
    print("ok - multiprocessing, Manager and Listener")


class Squares:
    def __len__(self):
        return 32

    def __getitem__(self, i):
        import torch
        return torch.full((1000,), i * i)


def loader(mount):
    import torch, torch.multiprocessing, torch.utils.data
    for sharing in ("file_descriptor", "file_system"):
        torch.multiprocessing.set_sharing_strategy(sharing)
        got = sorted(int(b[0, 0]) for b in torch.utils.data.DataLoader(Squares(), batch_size=4, num_workers=2))
        assert got == [(4 * i) ** 2 for i in range(8)], got
        print("ok - DataLoader,", sharing)


def lmdb_make(top):
    import lmdb
    with lmdb.open(top, map_size=1 << 20) as env:
        with env.begin(write=True) as t:
            for i in range(100):
                t.put(b"k%d" % i, b"v%d" % i)


def lmdb_read(*tops):
    import lmdb
    for top in tops:
        with lmdb.open(top, readonly=True, max_readers=8) as env:
            with env.begin() as t, env.begin() as u:
                assert t.get(b"k7") == b"v7" and u.stat()["entries"] == 100
                assert env.info()["num_readers"] == 2, env.info()  # lock.mdb is used
        print("ok - LMDB is read")


def hold(mount):
    os.mkdir(mount + "/shared")
    os.mkfifo(mount + "/shared/fifo")
    open(mount + "/shared/out", "w").close()
    open(mount + "/shared/x.mdb-lock", "w").write("mine")
    with socket.socket(socket.AF_UNIX) as s:
        s.bind(mount + "/shared/sock")


{"names": names, "sockets": sockets, "outputs": outputs, "dataset_lock": dataset_lock, "hold": hold,
 "not_here": not_here, "here": here, "processes": processes, "loader": loader, "lmdb_make": lmdb_make,
 "lmdb_read": lmdb_read}[sys.argv[1]](*sys.argv[2:]) if __name__ == "__main__" else None
