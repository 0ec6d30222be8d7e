# SPDX-License-Identifier: BSD-3-Clause
# What programs do with files of an earlier job (stage_in.sh): `list DIR` prints names, attributes and bytes; `change DIR
# NODE...` changes them in all ways, each by a process of the next of these nodes, so that a plain directory ends up the
# same; `corners DIR` and `gone DIR` try what cannot be compared.
import errno, hashlib, mmap, os, signal, stat, sys, time

from nodes import ask, finish, start


def lines(top):
    for path, dirs, files in os.walk(top):
        dirs.sort()
        for name in sorted(dirs + files):
            full = os.path.join(path, name)
            st = os.lstat(full)
            what = [os.path.relpath(full, top), stat.filemode(st.st_mode)]
            if stat.S_ISLNK(st.st_mode):
                what.append(os.readlink(full))
            elif stat.S_ISREG(st.st_mode):
                assert os.stat(full).st_size == st.st_size
                what += [str(st.st_size), hashlib.md5(open(full, "rb").read()).hexdigest()]
                if not name.startswith("now"):
                    what.append(str(st.st_mtime_ns))
            yield " ".join(what)


def write(path, flags, data, mode=0o666):
    fd = os.open(path, flags, mode)
    while data:
        data = data[os.write(fd, data) :]
    os.close(fd)


def at(path, off, data):
    fd = os.open(path, os.O_RDWR)
    assert os.pread(fd, 5, 0) == open(path, "rb").read()[:5]
    os.pwrite(fd, data, off)
    os.fsync(fd)
    os.close(fd)


def map_write(path, data):  # by a process of the file's node only
    with open(path, "r+b") as f:
        m = mmap.mmap(f.fileno(), 0)
        m[: len(data)] = data
        m.flush()
        m.close()


def replace(path, data):
    with open(path + ".tmp", "wb") as f:
        f.write(data)
        os.fsync(f.fileno())
    os.rename(path + ".tmp", path)


def times(path):
    os.utime(path, ns=(10**18, 1234567890123456789))


CHANGES = [
    lambda t: write(t + "/run/now-log", os.O_WRONLY | os.O_APPEND, b"one more\n"),
    lambda t: write(t + "/run/now-log", os.O_WRONLY | os.O_APPEND, b"another\n" * 1000),
    lambda t: write(t + "/run/now-over", os.O_WRONLY | os.O_TRUNC, b"new"),
    lambda t: write(t + "/run/now-creat", os.O_WRONLY | os.O_CREAT | os.O_TRUNC, b"newer" * 100),
    lambda t: write(t + "/run/now-keep", os.O_WRONLY | os.O_CREAT, b"begin"),
    lambda t: at(t + "/run/now-middle", 300000, b"in the middle"),
    lambda t: at(t + "/run/now-middle", 700000, b"beyond the end"),
    lambda t: os.truncate(t + "/run/now-cut", 77),
    lambda t: os.truncate(t + "/run/now-long", 2000000),
    lambda t: os.chmod(t + "/run/mode", 0o604),
    lambda t: times(t + "/run/times"),
    lambda t: os.chmod(t + "/run/modes", 0o750),
    lambda t: os.rename(t + "/run/name", t + "/name"),
    lambda t: replace(t + "/run/now-replaced", b"replaced" * 1000),
    lambda t: (os.rename(t + "/run/last", t + "/run/before"), write(t + "/run/last", os.O_WRONLY | os.O_CREAT, b"last"))
    and os.utime(t + "/run/last", ns=(0, 0)),
    lambda t: os.unlink(t + "/run/deep/er/gone"),
    lambda t: os.rmdir(t + "/run/empty"),
    lambda t: (os.unlink(t + "/run/latest"), os.symlink("last", t + "/run/latest")),
    lambda t: os.rename(t + "/run/deep/er", t + "/run/deep/est"),
    lambda t: os.mkdir(t + "/run/deep/new"),
    lambda t: write(t + "/run/deep/new/now-f", os.O_WRONLY | os.O_CREAT | os.O_EXCL, b"f"),
    lambda t: write(t + "/run/empty-file", os.O_WRONLY | os.O_APPEND, b""),
]


def forks(top):
    """Makes each change whose number it reads in a child: without the time that Python takes to start."""
    while line := sys.stdin.readline():
        if (child := os.fork()) == 0:
            CHANGES[int(line)](top)
            return
        print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), flush=True)


def change(top, nodes):
    processes = [start(node, sys.executable, "-S", __file__, "forks", top) for node in nodes]
    for i in range(int(os.environ.get("CHANGE_FROM", 0)), len(CHANGES)):
        assert ask(processes[i % len(nodes)], i) == "0", "change %d" % i
    for p in processes:
        finish(p)


def refused(err, call, *args):
    try:
        call(*args)
    except OSError as e:
        assert e.errno in err, "%s: %s" % (call, e)
        return
    raise AssertionError("%s was not refused" % call)


def corners(top):
    mine = None
    for i in range(12):
        path = "%s/run/small%d" % (top, i)
        fd = os.open(path, os.O_RDONLY | os.O_NOFOLLOW)
        refused([errno.EINVAL], os.readlink, path)
        with mmap.mmap(fd, 0, prot=mmap.PROT_READ) as m:
            assert m[:] == os.read(fd, 100) == b"small %d\n" % i
        if "/earlier/" in os.readlink("/proc/self/fd/%d" % fd):  # the kernel's own
            mine = path
            copy, path_only = os.dup(fd), os.open(path, os.O_PATH)
            refused([errno.EROFS], os.open, f"/proc/self/fd/{path_only}", os.O_WRONLY)
            os.close(path_only)
            for one in (fd, copy):
                refused([errno.EROFS], os.fchmod, one, 0o600)
                refused([errno.EROFS], os.utime, one)
                refused([errno.EROFS], os.fchown, one, os.getuid(), os.getgid())
                refused([errno.EOPNOTSUPP], os.setxattr, one, "user.k", b"v")
                for again in (f"/proc/self/fd/{one}", f"/dev/fd/{one}", f"/proc/{os.getpid()}/fd/{one}"):
                    refused([errno.EROFS], os.open, again, os.O_RDWR)
                    refused([errno.EROFS], os.open, again, os.O_RDONLY | os.O_TRUNC)
                    refused([errno.EROFS], os.truncate, again, 1)
                    refused([errno.EROFS], os.chmod, again, 0o600)
                    refused([errno.EROFS], os.utime, again)
                    refused([errno.EOPNOTSUPP], os.setxattr, again, "user.k", b"v")
                    os.close(os.open(again, os.O_RDONLY))
            os.close(copy)
        os.close(fd)
    assert mine, "none is this node's"
    refused([errno.EOPNOTSUPP], os.setxattr, mine, "user.k", b"v")
    refused([errno.ENODATA], os.getxattr, mine, "user.k")
    refused([errno.EEXIST], os.open, mine, os.O_CREAT | os.O_EXCL | os.O_WRONLY)
    # What was open before goes on to read what it was, as with an overlay.
    old = open(mine, "rb")
    with open(mine, "ab") as f:
        f.write(b"more\n")
    assert open(mine, "rb").read().endswith(b"\nmore\n") and not old.read().endswith(b"more\n")
    map_write(mine, b"mapped")
    assert b"mapped" in open(mine, "rb").read()
    fd = os.open(mine, os.O_RDONLY)
    os.fchmod(fd, 0o600)
    assert stat.S_IMODE(os.stat(mine).st_mode) == 0o600


# Somebody else removes and changes the files: at once an error, or what is there now.
def gone(top):
    for i in range(6):
        begin = time.monotonic()
        refused([errno.ENOENT, errno.EIO], open, "%s/run/small%d" % (top, i))
        refused([errno.ENOENT, errno.EIO], open, "%s/run/small%d" % (top, i), "r+")
        assert time.monotonic() - begin < 10
    for i in range(6, 12):
        data = open("%s/run/small%d" % (top, i), "rb").read()
        assert data == b"other bytes here\n", data


def interrupted(path, entered):
    class Alarm(Exception):
        pass

    def ring(*_):
        raise Alarm

    signal.signal(signal.SIGALRM, ring)
    signal.setitimer(signal.ITIMER_REAL, 2)
    begin = time.monotonic()
    try:
        open(path, "r+b")
        raise AssertionError("it was copied at once")
    except Alarm:
        assert 1.5 < time.monotonic() - begin < 8
    assert os.path.exists(entered)


if sys.argv[1] == "list":
    print("\n".join(lines(sys.argv[2])))
elif sys.argv[1] == "one":
    CHANGES[int(sys.argv[3])](sys.argv[2])
elif sys.argv[1] == "forks":
    forks(sys.argv[2])
elif sys.argv[1] == "change":
    change(sys.argv[2], sys.argv[3:])
elif sys.argv[1] == "interrupted":
    interrupted(*sys.argv[2:])
else:
    {"corners": corners, "gone": gone}[sys.argv[1]](sys.argv[2])
