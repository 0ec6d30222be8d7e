# SPDX-License-Identifier: BSD-3-Clause
"""Room for outputs: outputs_space.py STEP MOUNT NODES ARGUMENT. Steps: limit and late (ARGUMENT: it), room (ARGUMENT: a directory on
the nodes' storage), none, full0 and full1 (that node's storage has some MB)."""
import errno
import os
import shutil
import subprocess
import sys
import time

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from nodes import Nodes, equal, finish, start, step  # noqa: E402

segment, mount, nodes, argument = sys.argv[1], sys.argv[2], int(sys.argv[3]), sys.argv[4]
MIB = 1 << 20
on = Nodes(mount, """
def error(call, *args):
    try:
        call(*args)
    except OSError as e:
        return errno.errorcode[e.errno]
    return 'ok'
def put(fd, n, size=1 << 16):
    while n > 0:
        n -= os.write(fd, os.urandom(min(n, size)))
os.chdir(work)
""").on


def wait_for(what, condition):
    end = time.monotonic() + 60
    while not condition():
        assert time.monotonic() < end, what
        time.sleep(0.05)


def free(path):
    s = os.statvfs(path)
    return s.f_bavail * s.f_frsize


# Writes until it is refused; the error comes from this call, and nothing more is written by any other.
FILL = """
fd = os.open(sys.argv[2], os.O_WRONLY | os.O_CREAT)
done, end = 0, time.monotonic() + 30
while True:
    e = error(os.write, fd, os.urandom(1 << 14))
    if e != 'ok' or time.monotonic() > end:
        break
    done += 1 << 14
    time.sleep(0.001)
import fcntl
others = [error(os.pwrite, fd, b'x', 5), error(os.writev, fd, [b'x', b'y']), error(os.ftruncate, fd, 1 << 30),
          error(os.posix_fallocate, fd, 0, 1 << 24), error(os.open, 'another', os.O_WRONLY | os.O_CREAT),
          error(os.open, 'refused', os.O_WRONLY | os.O_CREAT | os.O_APPEND)]
for name in sys.argv[3], sys.executable:
    with open(name, 'rb') as f:
        others += [error(os.sendfile, fd, f.fileno(), 0, 100), error(os.copy_file_range, f.fileno(), fd, 100)]
read = os.open(sys.argv[2], os.O_RDONLY)
os.fsync(fd), os.ftruncate(fd, done - 5), os.ftruncate(fd, done - 10)
print(e, ' '.join(others), done, os.fstat(fd).st_size == done - 10, len(os.pread(read, 100, 0)))
os.close(fd)
"""


# Appends on node 1 to a file of node 0's, which has no room, by kernel files: programs get the error from close and fsync.
# bash (6 bytes) and dash (7 bytes) do not look; the daemon says what is lost (outputs_space.sh).
APPEND = """
cd "$1" && errors=$(mktemp) || exit
for i in 1 2 3 4; do (for k in 1 2 3; do /bin/echo "$k" >>"$2" && echo silent; done) 2>>"$errors" & done
wait
{
  /bin/printf 'x\n' >>"$2" && echo silent printf
  "$3" -c 'import os; os.write(1, b"xx"); os.close(1)' >>"$2" && echo silent close
  "$3" -c 'import os; os.write(1, b"xx"); os.fsync(1)' >>"$2" && echo silent fsync
  exec 5>>"$2"
  /bin/echo x >&5 && echo silent inherited
  exec 5>&-
} 2>>"$errors"
echo 5byte >>"$2"
dash -c 'echo 6bytes >>"$1"' - "$2"
grep -o "$4" "$errors" | wc -l # several programs' messages may share a line
rm "$errors"
"""
# A stream that the program opens itself is not a kernel file: fflush gets the error.
STREAM = r"""
import ctypes
libc = ctypes.CDLL(None, use_errno=True)
libc.fopen.restype = ctypes.c_void_p
f = ctypes.c_void_p(libc.fopen(sys.argv[2].encode(), b'a'))
put, flushed = libc.fputs(b'x\n', f), libc.fflush(f)
closed = libc.fclose(f)
print(put > 0, flushed, closed, errno.errorcode[ctypes.get_errno()])
"""


def appended(name, error, text):
    was = on(0, f"print(os.path.getsize('{name}'))")
    equal("appended by programs", "16", shell(1, APPEND, name, sys.executable, text))
    equal("by a stream", f"True -1 0 {error}", on(1, STREAM, name))
    equal("nothing of it is there", was, on(0, f"print(os.path.getsize('{name}'))"))


def shell(node, script, *args):
    return finish(start(node, "bash", "-c", script, "-", mount, *args))


def limit():
    size = int(argument)
    source = next(os.path.join(d, f[0]) for d, _, f in os.walk(mount) if f)
    for node in range(2):
        out = on(node, FILL, f"fill{node}", source).split()
        equal("refused", ["EDQUOT"] * 8 + ["EXDEV"] + ["EDQUOT"] * 2, out[:11])
        assert size // 2 <= int(out[11]) <= 2 * size, f"{out[11]} bytes were written"
        equal("shrunk, read", ["True", "100"], out[12:])
        assert not os.path.exists(os.path.join(mount, "another"))
        equal("free", "0", on(node, "s = os.statvfs(work); print(s.f_bavail + s.f_bfree)"))
    step("writes beyond the limit fail with EDQUOT, on each node")
    # Into another node's file: its own bytes are here, what is appended is there.
    on(nodes - 1 if nodes > 2 else 1, "os.unlink('fill1') if os.path.exists('fill1') else None")
    wait_for("room on node 1", lambda: on(1, "print(error(os.open, 'one', os.O_WRONLY | os.O_CREAT))") == "ok")
    equal("appended there", "EDQUOT", on(1, "print(error(os.write, os.open('fill0', os.O_WRONLY | os.O_APPEND), b'line'))"))
    equal("written here", "ok", on(1, "fd = os.open('fill0', os.O_RDWR); print(error(os.pwrite, fd, b'line', 0)); os.close(fd)"))
    equal("made longer there", "EDQUOT", on(1, "print(error(os.truncate, 'fill0', 1 << 30))"))
    equal("written there", "EDQUOT", on(0, "print(error(os.pwrite, os.open('one', os.O_WRONLY), b'line', 0))"))
    step("the limit of each node counts, also for the other's files")
    appended("fill0", "EDQUOT", "Disk quota exceeded")
    step("what programs append there by a kernel file is refused as they close it")
    # Until something was removed.
    on(1, "os.unlink('fill0')")
    wait_for("room again", lambda: on(0, "print(error(os.open, 'two', os.O_WRONLY | os.O_CREAT))") == "ok")
    equal("a shell", "ok", shell(1, 'cd "$1" && echo one >>two && { echo two && /bin/echo three; } >>two && echo ok'))
    equal("in it", "one two three", on(0, "print(*open('two').read().split())"))
    on(0, "fd = os.open('two', os.O_WRONLY); put(fd, 1 << 20); os.close(fd)")
    wait_for("what is left", lambda: size - 3 * MIB < free(mount) < size - MIB // 2)
    s = os.statvfs(mount)
    assert not s.f_flag & os.ST_RDONLY and s.f_bfree == s.f_bavail, s
    step("room again after a removal")
    epochs()


def late():
    """How long after a program has passed the limit, beside 40,000 files, writes are refused: the best of three."""
    best, size, files = 9.0, int(argument), 40000
    os.mkdir(f"{mount}/many")
    for i in range(files):
        os.close(os.open(f"{mount}/many/{i}", os.O_WRONLY | os.O_CREAT))
    for _ in range(3):
        fd, block, passed, written = os.open(f"{mount}/most", os.O_WRONLY | os.O_CREAT | os.O_TRUNC), bytes(MIB), 0, 0
        try:
            while passed == 0 or time.monotonic() < passed + 5:
                written += os.write(fd, block)
                passed = passed or (time.monotonic() if written >= size else 0)
                if passed:
                    time.sleep(0.01)  # so that little is written
        except OSError as e:
            assert e.errno == errno.EDQUOT, e
            best = min(best, max(0, time.monotonic() - passed) if passed else 0)
        assert written >= size // 2, written
        os.close(fd)
        os.unlink(f"{mount}/most")
        wait_for("room", lambda: free(mount) > size // 2)
    assert best < 1, f"told after {best} s"
    step("the limit holds a second after it was passed, also beside 40,000 files")


# A checkpoint of two nodes that is written anew each epoch, by the same processes or by others.
EPOCH = """
fd = os.open('checkpoint', os.O_RDWR | os.O_CREAT | (os.O_TRUNC if int(sys.argv[2]) else 0))
for epoch in range(int(sys.argv[3]), int(sys.argv[4])):
    os.pwrite(fd, bytes([epoch]) * (1 << 20), 1 << 20)
    os.close(fd)
    fd = os.open('checkpoint', os.O_RDWR | (os.O_TRUNC if int(sys.argv[2]) else 0))
    os.pwrite(fd, bytes([epoch]) * (1 << 20), 1 << 20)
    os.pwrite(fd, bytes([epoch]) * 5, 7)
    os.fsync(fd)
os.close(fd)
"""
SEEN = "b = open('checkpoint', 'rb').read(); print(len(b), set(b[1 << 20:]), list(b[6:13]))"


def epochs():
    on(0, "open('checkpoint', 'wb').close()")
    for emptied in 0, 1:
        on(1, EPOCH, emptied, 1, 10)
        for epoch in range(10, 18):
            on(1, EPOCH, emptied, epoch, epoch + 1)
        for node in range(nodes):
            equal("the last epoch", "2097152 {17} [0, 17, 17, 17, 17, 17, 0]", on(node, SEEN))
    step("a file of two nodes takes no more room each time that it is written")


def room():
    node = os.statvfs(argument)
    there, here = node.f_bavail * node.f_frsize, shutil.disk_usage(mount)
    assert abs(here.free - there) < max(64 * MIB, there // 50), (here, there)
    s = os.statvfs(mount)
    assert not s.f_flag & os.ST_RDONLY and s.f_favail > 0 and s.f_blocks >= s.f_bfree >= s.f_bavail, s
    with open(os.path.join(mount, "file"), "wb") as f:
        f.write(b"x")
    for path in (mount, os.path.join(mount, "file")):
        shown = int(subprocess.run(["df", "--output=avail", "-B1", path], check=True, stdout=subprocess.PIPE,
                                   text=True).stdout.split()[1])
        assert abs(shown - there) < max(64 * MIB, there // 50), (path, shown, there)
    fd = os.open(mount, os.O_RDONLY)
    assert os.fstatvfs(fd).f_bavail == os.statvfs(mount).f_bavail or abs(free(mount) - there) < 64 * MIB
    step("statfs, df and disk_usage show the room of the node's storage")


def none():
    s = os.statvfs(mount)
    assert s.f_flag & os.ST_RDONLY and s.f_bfree == s.f_bavail == s.f_ffree == 0, s


# Node 0 has made the file. Which of the two has no room?
def full(node):
    on(0, "open('log', 'w').write('begin')")
    fill = """
fd = os.open('log', os.O_WRONLY)
data, done, e = os.urandom(1 << 16), 5, 'ok'
while e == 'ok' and done < 1 << 26:
    e = error(os.pwrite, fd, data, done)
    done += 1 << 16
print(e, error(os.fsync, fd), error(os.close, fd))
"""
    if node == 1:  # the writer's segment
        equal("a segment", "ENOSPC ok ok", on(1, fill))
        seen = on(0, "d = open('log', 'rb').read(); print(d[:5].decode(), len(d) > 1 << 20)")
        equal("what was written", "begin True", seen)
        step("a full disk: ENOSPC at write, and what was written before is there")
        return
    equal("room after a removal", "{'ok'}", on(0, """
seen = set()
for i in range(60):
    fd = os.open('large', os.O_WRONLY | os.O_CREAT)
    seen.add(error(os.posix_fallocate, fd, 0, 3 << 20))
    os.close(fd)
    if i % 2:
        os.unlink('large')
    else:
        open('empty', 'w').close(), os.rename('empty', 'large')
print(seen)
"""))
    on(0, "fd = os.open('own', os.O_WRONLY | os.O_CREAT); print(error(put, fd, 1 << 26))")
    equal("its own", "ENOSPC", on(0, "fd = os.open('own', os.O_WRONLY | os.O_APPEND); print(error(put, fd, 1 << 22))"))
    equal("appended", "ENOSPC", on(1, "print(error(os.write, os.open('log', os.O_WRONLY | os.O_APPEND), bytes(10000)))"))
    appended("log", "ENOSPC", "No space left on device")
    shell(1, 'cd "$1" && env -u LD_PRELOAD FANSTORE_ENV_AS_IS=1 /bin/echo -n lost! >>log; true')  # told by a warning
    # The segment has room; home has none for the last byte that it has to have.
    equal("published", "ok ENOSPC ENOSPC", on(1, """
fd = os.open('log', os.O_WRONLY)
print(error(os.pwrite, fd, b'x' * 100000, 1 << 20), error(os.fsync, fd), error(os.close, fd))
"""))
    step("a full disk at home: ENOSPC from write, fsync and close")


{"limit": limit, "late": late, "room": room, "none": none, "full0": lambda: full(0), "full1": lambda: full(1)}[segment]()
