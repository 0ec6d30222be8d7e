# SPDX-License-Identifier: BSD-3-Clause
"""Python's open() and os.*: files and descriptors. See cases.py."""
import codecs
import errno
import fcntl
import io
import mmap
import os
import select
import selectors
import socket
import stat
import struct
import tempfile

from cases import attempt, base, case, digest, failure, main, read, scratch, show

SAMPLES = ["text/a.txt", "text/empty.txt", "text/long.txt", "bin/f0.bin", "bin/big.bin", "bin/compressible.bin"]


def opened(name, flags=os.O_RDONLY):
    return os.open(base(name), flags)


@case
def open_text():
    for name in SAMPLES[:3]:
        with open(base(name), encoding="utf-8") as f:
            lines = f.readlines()
            show(name, len(lines), digest("".join(lines).encode()), f.tell(), f.seek(0), f.read(7), f.encoding)


@case
def open_binary():
    for name in SAMPLES:
        with open(base(name), "rb") as f:
            data = f.read()
            show(name, len(data), digest(data), f.tell(), f.read(), f.seek(-min(5, len(data)), 2), f.read(), f.isatty())


@case
def open_unbuffered():
    with open(base("bin/big.bin"), "rb", buffering=0) as f:
        show(
            type(f).__name__, f.read(10), f.tell(), len(f.read(100000)), f.seek(100, 1), digest(f.readall()), f.read(1))
        show(f.mode, f.readable(), f.writable(), f.seekable(), f.closefd, f.name)
    with open(base("text/a.txt"), "rb", buffering=0) as f:
        show(f.readline(), f.readline(), f.readinto(bytearray(20)), f.tell())


@case
def open_buffer_sizes():
    for size in 1, 2, 100, 4096, 100000:
        with open(base("bin/compressible.bin"), "rb", buffering=size if size > 1 else 2) as f:
            show(size, digest(b"".join(iter(lambda f=f, size=size: f.read(size * 7), b""))), f.peek(1))
    with open(base("text/a.txt"), buffering=1, encoding="ascii") as f:
        show(f.readline(), f.readline(), f.line_buffering)


@case
def open_newlines():
    for newline in None, "", "\n", "\r", "\r\n":
        with open(base("text/crlf.txt"), newline=newline, encoding="ascii") as f:
            show(newline, f.readline(), f.readlines()[:3], f.newlines)


@case
def open_encodings():
    for name, encoding in (("utf8", "utf-8"), ("latin1", "latin-1"), ("utf16", "utf-16"), ("utf8", "utf-8-sig")):
        with open(base("text", name + ".txt"), encoding=encoding) as f:
            show(name, f.read())
    show(attempt(lambda: open(base("text/latin1.txt"), encoding="utf-8").read()))
    show(open(base("text/latin1.txt"), encoding="utf-8", errors="surrogateescape").read())
    with codecs.open(base("text/utf8.txt"), encoding="utf-8") as f:
        show(f.readline(), f.read())


@case
def open_refused():
    for mode in "r+", "w", "a", "x", "rb+", "w+", "a+b":
        show(mode, attempt(open, base("text/a.txt"), mode))
    for flags in os.O_RDWR, os.O_WRONLY, os.O_RDONLY | os.O_TRUNC, os.O_WRONLY | os.O_APPEND, os.O_CREAT | os.O_EXCL:
        show(flags, attempt(opened, "text/a.txt", flags))
    show(attempt(opened, "text", os.O_RDWR), attempt(opened, "text", os.O_WRONLY | os.O_CREAT))
    show(attempt(open, base("text")), attempt(open, base("text/none")), attempt(open, base("text/a.txt/x")))
    show(attempt(open, base("text/a.txt/")), attempt(open, base("links/loop")), attempt(open, base("links/dangling")))
    show(attempt(opened, "text/a.txt", os.O_DIRECTORY), attempt(opened, "links/file", os.O_NOFOLLOW))
    show(attempt(open, base("n" * 256)), attempt(open, base("n/" * 2100)), attempt(open, base("a\0b")))


@case
def open_opener():
    directory = opened("text", os.O_RDONLY | os.O_DIRECTORY)
    with open("a.txt", "rb", opener=lambda path, flags: os.open(path, flags, dir_fd=directory)) as f:
        show(f.read(12), f.name)
    os.close(directory)
    with open(base("text/a.txt"), "rb", opener=lambda path, flags: os.open(path, flags | os.O_NOATIME)) as f:
        show(f.read(12))


@case
def open_flags():
    for name in "O_RDONLY O_CLOEXEC O_NONBLOCK O_NOATIME O_SYNC O_DSYNC O_NOCTTY O_CREAT O_ASYNC".split():
        fd = attempt(opened, "text/a.txt", getattr(os, name))
        if isinstance(fd, int):
            flags = fcntl.fcntl(fd, fcntl.F_GETFL)
            show(name, oct(flags), os.get_inheritable(fd), os.get_blocking(fd), os.read(fd, 5))
            os.close(fd)
        else:
            show(name, fd)


@case
def open_path_only():
    fd = opened("text/a.txt", os.O_PATH)
    show(stat.S_IFMT(os.fstat(fd).st_mode), os.fstat(fd).st_size, attempt(os.read, fd, 4), attempt(os.lseek, fd, 0, 0))
    show(oct(fcntl.fcntl(fd, fcntl.F_GETFL)), attempt(mmap.mmap, fd, 10, prot=mmap.PROT_READ))
    with open(f"/proc/self/fd/{fd}", "rb") as f:
        show(f.read(8))
    os.close(fd)
    fd = opened("links/file", os.O_PATH | os.O_NOFOLLOW)
    show(stat.S_ISLNK(os.fstat(fd).st_mode), os.readlink("", dir_fd=fd))
    os.close(fd)


@case
def os_read():
    fd = opened("bin/big.bin")
    show(len(os.read(fd, 100)), digest(os.read(fd, 1 << 20)), os.lseek(fd, 0, 1), os.lseek(fd, -10, 2),
         os.read(fd, 100))
    show(os.read(fd, 100), os.lseek(fd, 1 << 40, 0), os.read(fd, 1), attempt(os.lseek, fd, -1, 0),
         attempt(os.lseek, fd, 0, 99))
    show(attempt(os.read, fd, -1), os.read(fd, 0), attempt(os.write, fd, b"x"), attempt(os.ftruncate, fd, 1))
    show(attempt(os.fsync, fd), attempt(os.fdatasync, fd), attempt(os.fchmod, fd, 0o600), os.isatty(fd))
    os.close(fd)
    show(attempt(os.read, fd, 1), attempt(os.close, fd), attempt(os.fstat, fd))


@case
def os_pread():
    data = read("bin/big.bin")
    fd = opened("bin/big.bin")
    for n, at in ((10, 0), (100, 4090), (4096, 262144 - 5), (1, len(data) - 1), (10, len(data)), (10, len(data) + 5),
                  (0, 0)):
        show(n, at, os.pread(fd, n, at) == data[at:at + n], len(os.pread(fd, n, at)))
    show(attempt(os.pread, fd, 1, -1), os.lseek(fd, 0, 1))
    buffers = [bytearray(3), bytearray(0), bytearray(5000)]
    show(os.preadv(fd, buffers, 77), bytes(buffers[0]), digest(buffers[2]), os.preadv(fd, buffers, 77, os.RWF_HIPRI))
    show(os.preadv(fd, buffers, len(data) - 4), bytes(buffers[0]), buffers[2][:3], attempt(os.preadv, fd, buffers, -1))
    show(os.readv(fd, buffers), bytes(buffers[0]), digest(buffers[2]), os.lseek(fd, 0, 1))
    show(attempt(os.pwrite, fd, b"x", 0), attempt(os.writev, fd, [b"x"]), attempt(os.pwritev, fd, [b"x"], 0))
    show(attempt(os.preadv, fd, [bytearray(1)] * 2000, 0))
    os.close(fd)


@case
def os_lseek_data():
    for name in "text/a.txt", "text/empty.txt", "bin/big.bin":
        fd = opened(name)
        size = os.fstat(fd).st_size
        for at in 0, 1, max(size - 1, 0), size, size + 1:
            show(name, at, attempt(os.lseek, fd, at, os.SEEK_DATA), attempt(os.lseek, fd, at, os.SEEK_HOLE),
                 os.lseek(fd, 0, 1))
        os.close(fd)


@case
def os_dup():
    fd = opened("text/a.txt")
    other = os.dup(fd)
    show(os.read(fd, 5), os.read(other, 5), os.lseek(fd, 0, 1), os.get_inheritable(other), os.get_inheritable(fd))
    third = os.dup2(fd, 200)
    show(third, os.read(200, 4), os.get_inheritable(200), os.dup2(fd, 201, inheritable=False), os.get_inheritable(201))
    os.close(fd)
    show(os.read(other, 3), os.lseek(200, 0, 0), os.read(201, 4), os.dup2(200, 200), attempt(os.dup2, fd, 202))
    os.set_inheritable(other, True)
    show(os.get_inheritable(other), os.get_blocking(other), os.set_blocking(other, False), os.get_blocking(201))
    fourth = fcntl.fcntl(other, fcntl.F_DUPFD, 300)
    show(fourth, fcntl.fcntl(other, fcntl.F_DUPFD_CLOEXEC, 300), fcntl.fcntl(301, fcntl.F_GETFD), os.read(301, 3))
    real = os.open("/dev/null", os.O_RDONLY)
    os.dup2(real, 200)
    show(os.read(200, 3), os.read(201, 3))
    os.closerange(200, 302)
    show(attempt(os.read, 201, 1), attempt(os.fstat, 300), os.read(other, 3))
    os.close(real)
    os.close(other)


@case
def os_fdopen():
    fd = opened("text/a.txt")
    os.read(fd, 7)
    with os.fdopen(fd, "rb") as f:
        show(f.tell(), f.readline())
    fd = opened("text/a.txt")
    with open(fd, "r", encoding="ascii", closefd=False) as f:
        show(f.readline())
    show(os.lseek(fd, 0, 2))
    show(attempt(lambda: os.fdopen(os.dup(fd), "w").write("x")),
         attempt(lambda: os.fdopen(os.dup(fd), "r+b", buffering=0).write(b"x")))
    os.close(fd)
    directory = opened("text")
    show(attempt(os.fdopen, directory).replace(str(directory), "N"))
    os.close(directory)


@case
def os_stat_of_descriptors():
    for name in SAMPLES + ["text", "links/file", "modes/400", "modes/755"]:
        fd = opened(name)
        a, b = os.fstat(fd), os.stat(base(name))
        show(name, oct(a.st_mode), a.st_size if not stat.S_ISDIR(a.st_mode) else "", a.st_mtime_ns, a == b or (a, b))
        with open(base(name) if not stat.S_ISDIR(a.st_mode) else "/dev/null", "rb") as other:
            show(os.path.sameopenfile(fd, other.fileno()))
        show(os.path.samestat(a, b), a.st_dev == os.stat(base()).st_dev, os.stat(fd) == a)
        os.close(fd)


@case
def os_advice_and_locks():
    fd = opened("bin/big.bin")
    for advice in "NORMAL", "SEQUENTIAL", "RANDOM", "NOREUSE", "WILLNEED", "DONTNEED":
        show(advice, os.posix_fadvise(fd, 0, 0, getattr(os, "POSIX_FADV_" + advice)))
    show(attempt(os.posix_fadvise, fd, 0, 0, 77), attempt(os.posix_fallocate, fd, 0, 10))
    show(fcntl.flock(fd, fcntl.LOCK_SH | fcntl.LOCK_NB), fcntl.flock(fd, fcntl.LOCK_UN),
         fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB))
    show(fcntl.lockf(fd, fcntl.LOCK_SH | fcntl.LOCK_NB), attempt(fcntl.lockf, fd, fcntl.LOCK_EX | fcntl.LOCK_NB))
    lock = fcntl.fcntl(fd, fcntl.F_GETLK, struct.pack("hhqqi4x", fcntl.F_RDLCK, 0, 0, 0, 0))
    show(struct.unpack("hhqqi4x", lock)[:4], attempt(os.lockf, fd, os.F_TEST, 10))
    show(attempt(fcntl.ioctl, fd, 0x541B, b"\0" * 4), attempt(fcntl.ioctl, fd, 0x5401, b"\0" * 60))
    os.close(fd)


@case
def os_sendfile():
    a, b = socket.socketpair()
    fd = opened("bin/big.bin")
    show(os.sendfile(a.fileno(), fd, 100, 5000), digest(b.recv(5000)), os.lseek(fd, 0, 1))
    show(os.sendfile(a.fileno(), fd, None, 3000), digest(b.recv(9000)), os.lseek(fd, 0, 1))
    show(os.sendfile(a.fileno(), fd, 1 << 40, 10), attempt(os.sendfile, fd, fd, 0, 10))
    with open(base("text/a.txt"), "rb") as f:
        show(a.sendfile(f, 10, 500), b.recv(1000)[:20], f.tell())
    with open(scratch("out"), "wb") as out:
        show(os.sendfile(out.fileno(), fd, 0, 1 << 20), out.tell())
    show(digest(open(scratch("out"), "rb").read()))
    os.close(fd)
    a.close()
    b.close()


def copied(call, fallback):
    """By the call, or, where the kernel may refuse to do it between these two, as its callers do then."""
    try:
        return call()
    except OSError as e:
        return fallback() if e.errno in (errno.EXDEV, errno.EINVAL) else failure(e)


@case
def os_copy_file_range():
    fd, out = opened("bin/big.bin"), os.open(scratch("out"), os.O_RDWR | os.O_CREAT)
    show(copied(lambda: os.copy_file_range(fd, out, 5000, 100, 0), lambda: os.pwrite(out, os.pread(fd, 5000, 100), 0)))
    show(digest(os.pread(out, 5000, 0)), os.lseek(fd, 0, 1), attempt(os.copy_file_range, out, fd, 10))
    r, w = os.pipe()
    show(copied(lambda: os.splice(fd, w, 500, 0), lambda: os.write(w, os.pread(fd, 500, 0))), os.read(r, 500))
    for f in fd, out, r, w:
        os.close(f)


def names_in_proc(f):
    return f"/proc/self/fd/{f.fileno()}", f"/dev/fd/{f.fileno()}", f"/proc/{os.getpid()}/fd/{f.fileno()}"


@case
def os_open_in_proc():
    with open(base("text/a.txt"), "rb") as f:
        f.read(10)
        for name in names_in_proc(f)[:2]:
            with open(name, "rb") as again:
                show(again.read(4), os.path.exists(name), again.read(4))
        show(str(f.fileno()) in os.listdir("/proc/self/fd"))


@case
def os_names_in_proc():
    with open(base("text/a.txt"), "rb") as f:
        for name in names_in_proc(f):
            show(os.readlink(name), os.path.realpath(name),
                 os.stat(name).st_size, os.path.samefile(name, base("text/a.txt")))
            show(open(name, "rb").read(4))


@case
def map_whole():
    for name in ("text/a.txt", "bin/f0.bin", "bin/big.bin", "bin/compressible.bin", "bin/page.bin"):
        with open(base(name), "rb") as f, mmap.mmap(f.fileno(), 0, access=mmap.ACCESS_READ) as m:
            show(name, len(m), digest(m), m[:10], m[-3:], m.find(b"7"), m.rfind(b"1"), m.size(),
                 m.readline()[:20], m.tell())
            m.seek(-4, 2)
            show(m.read(10), m[3:50:7], attempt(m.__setitem__, 0, 1), attempt(m.resize, 10), attempt(m.write, b"x"))


@case
def map_parts():
    with open(base("bin/big.bin"), "rb") as f:
        for length, offset in ((4096, 0), (10000, 8192), (1 << 20, 1 << 20), (5, 4096 * 100)):
            with mmap.mmap(f.fileno(), length, mmap.MAP_PRIVATE, mmap.PROT_READ, offset=offset) as m:
                show(length, offset, digest(m))
        show(attempt(mmap.mmap, f.fileno(), 10, access=mmap.ACCESS_READ, offset=1))
        show(attempt(mmap.mmap, f.fileno(), 1 << 30, access=mmap.ACCESS_READ))
    with open(base("text/empty.txt"), "rb") as f:
        show(attempt(mmap.mmap, f.fileno(), 0, access=mmap.ACCESS_READ))


@case
def map_copy():
    with open(base("bin/big.bin"), "rb") as f:
        with mmap.mmap(f.fileno(), 0, access=mmap.ACCESS_COPY) as m:
            m[0:5] = b"HELLO"
            m[-1] = 7
            show(digest(m), m[:8], m.flush())
            m.move(100, 0, 50)
            show(digest(m[:200]))
        show(f.read(5) == b"HELLO", attempt(mmap.mmap, f.fileno(), 0, access=mmap.ACCESS_WRITE))
        show(attempt(mmap.mmap, f.fileno(), 0, mmap.MAP_SHARED, mmap.PROT_READ | mmap.PROT_WRITE))
        with mmap.mmap(f.fileno(), 0, mmap.MAP_SHARED, mmap.PROT_READ) as m:
            show(digest(m))
        with mmap.mmap(f.fileno(), 0, mmap.MAP_PRIVATE | mmap.MAP_POPULATE, mmap.PROT_READ | mmap.PROT_EXEC) as m:
            show(digest(m))


@case
def map_life():
    f = open(base("bin/big.bin"), "rb")
    m = mmap.mmap(f.fileno(), 0, access=mmap.ACCESS_READ)
    f.close()
    for advice in "MADV_SEQUENTIAL", "MADV_RANDOM", "MADV_WILLNEED", "MADV_DONTNEED", "MADV_NORMAL":
        m.madvise(getattr(mmap, advice))
        show(advice, digest(m))
    m.madvise(mmap.MADV_WILLNEED, 4096, 4096)
    view = memoryview(m)
    show(digest(view[1000:2000]), attempt(m.close), view.release(), m.close(), m.closed)


@case
def poll_and_select():
    with open(base("text/a.txt"), "rb") as f:
        poller = select.poll()
        poller.register(f, select.POLLIN | select.POLLOUT)
        show([e for _, e in poller.poll(0)], [len(x) for x in select.select([f], [f], [f], 0)])
        show(attempt(select.epoll().register, f), attempt(selectors.EpollSelector().register, f, selectors.EVENT_READ))
        with selectors.SelectSelector() as s:
            s.register(f, selectors.EVENT_READ)
            show([(k.fileobj is f, e) for k, e in s.select(0)])
        with selectors.PollSelector() as s:
            s.register(f, selectors.EVENT_READ, "data")
            show([(k.data, e) for k, e in s.select(0)])


@case
def memfd_and_temporary():
    fd = os.memfd_create("x")
    with open(base("bin/f1.bin"), "rb") as f:
        show(os.write(fd, f.read()), digest(os.pread(fd, 100000, 0)))
    os.close(fd)
    with tempfile.TemporaryFile(dir=scratch()) as t, tempfile.SpooledTemporaryFile(10) as s:
        t.write(read("text/a.txt"))
        s.write(read("text/a.txt"))
        show(t.tell(), s.tell())


@case
def io_classes():
    with io.BufferedReader(io.FileIO(base("text/a.txt")), 100) as f:
        show(f.read(10), f.raw.tell())
    with io.open_code(base("text/a.txt")) as f:
        show(f.read(4))
    show(io.TextIOWrapper(io.BufferedReader(io.FileIO(base("text/utf8.txt"))), encoding="utf-8").read())
    show(attempt(io.FileIO, base("text/a.txt"), "r+"), attempt(io.BufferedRandom, io.FileIO(base("text/a.txt"))))


@case
def many_descriptors():
    files = [open(base(f"bin/f{i % 60}.bin"), "rb") for i in range(600)]
    show(len({f.fileno() for f in files}), digest(b"".join(f.read(100) for f in files)))
    for f in files[::2]:
        f.close()
    show(digest(b"".join(f.read(100) for f in files[1::2])))
    for i in range(3000):
        with open(base(f"bin/f{i % 60}.bin"), "rb") as f:
            f.read(1)
    show(digest(b"".join(f.read(100) for f in files[1::2])))


if __name__ == "__main__":
    main()
