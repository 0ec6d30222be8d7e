# SPDX-License-Identifier: BSD-3-Clause
"""What programs do with files that they make, and what comes of it, a line each: the same on any file system.

outputs_ops.py DIRECTORY: which exists and is empty. outputs.sh compares the lines of a plain directory with those of one
below a mount. Inode and device numbers, link counts of directories, and the order of listings are left out.
"""
import ctypes
import errno
import fcntl
import mmap
import os
import shutil
import stat
import subprocess
import sys
import tempfile

root = sys.argv[1]
os.chdir("/")
os.umask(0o027)


def show(text, value=None):
    print(text, "" if value is None else value)


def attempt(text, call, *args, **kwargs):
    """The call's result, or its error."""
    try:
        value = call(*args, **kwargs)
    except OSError as e:
        show(text, errno.errorcode[e.errno])
        return None
    show(text, value if isinstance(value, (int, str, bytes, list)) and text[:4] != "open" else "ok")
    return value


def path(name):
    return os.path.join(root, name)


def contents(name):
    with open(path(name), "rb") as f:
        return f.read()


def attributes(name, call=os.stat):
    s = call(path(name))
    size = s.st_size if stat.S_ISREG(s.st_mode) else "-"
    links = s.st_nlink if stat.S_ISREG(s.st_mode) else "-"
    return f"{stat.filemode(s.st_mode)} {size} {links} {s.st_uid} {s.st_gid}"


def make(name, data=b"data"):
    with open(path(name), "wb") as f:
        f.write(data)


def opening():
    for name, flags in (("O_WRONLY", os.O_WRONLY), ("O_CREAT", os.O_CREAT | os.O_WRONLY), ("again", os.O_CREAT | os.O_RDWR),
                        ("O_EXCL", os.O_CREAT | os.O_EXCL | os.O_WRONLY), ("O_DIRECTORY", os.O_DIRECTORY),
                        ("O_NOFOLLOW", os.O_NOFOLLOW), ("O_PATH", os.O_PATH), ("O_TRUNC", os.O_WRONLY | os.O_TRUNC)):
        fd = attempt("open " + name, os.open, path("a"), flags, 0o666)
        if fd is not None:
            attempt("  write", os.write, fd, name.encode())
            os.close(fd)
        if name != "O_WRONLY":
            show("  has", contents("a"))
    show("mode", attributes("a"))
    attempt("open a slash", os.open, path("a/"), os.O_RDONLY)
    attempt("open new slash", os.open, path("n/"), os.O_CREAT | os.O_WRONLY)
    attempt("open in a file", os.open, path("a/b"), os.O_CREAT | os.O_WRONLY)
    attempt("open in nothing", os.open, path("no/b"), os.O_CREAT | os.O_WRONLY)
    attempt("open long", os.open, path("x" * 256), os.O_CREAT | os.O_WRONLY)
    fd = attempt("open longest", os.open, path("x" * 255), os.O_CREAT | os.O_WRONLY)
    os.close(fd)
    os.unlink(path("x" * 255))
    fd = attempt("open read only, made", os.open, path("r"), os.O_CREAT | os.O_RDONLY, 0o600)
    attempt("  write", os.write, fd, b"x")
    os.close(fd)
    show("its mode", attributes("r"))
    attempt("open directory for writing", os.open, root, os.O_WRONLY)
    attempt("open directory to be made", os.open, root, os.O_CREAT | os.O_WRONLY)


def writing():
    make("w", b"0123456789")
    fd = os.open(path("w"), os.O_RDWR)
    attempt("pwrite", os.pwrite, fd, b"AB", 3)
    attempt("writev", os.writev, fd, [b"x", b"yz"])
    attempt("lseek end", os.lseek, fd, 0, os.SEEK_END)
    attempt("write", os.write, fd, b"end")
    attempt("ftruncate", os.ftruncate, fd, 20)
    attempt("fallocate", os.posix_fallocate, fd, 0, 30)
    attempt("fsync", os.fsync, fd)
    attempt("fdatasync", os.fdatasync, fd)
    show("fstat", os.fstat(fd).st_size)
    attempt("pread", os.pread, fd, 100, 0)
    with mmap.mmap(fd, 30) as m:
        m[0:3] = b"map"
        m.flush()
    os.close(fd)
    show("contents", contents("w"))
    fd = os.open(path("w"), os.O_WRONLY | os.O_APPEND)
    other = os.open(path("w"), os.O_WRONLY | os.O_APPEND)
    os.write(fd, b"1"), os.write(other, b"2"), os.write(fd, b"3")
    os.close(fd), os.close(other)
    show("appended", contents("w")[-3:])
    attempt("truncate", os.truncate, path("w"), 4)
    show("truncated", contents("w"))
    attempt("truncate nothing", os.truncate, path("no"), 4)
    attempt("truncate directory", os.truncate, root, 4)


def copying():
    make("from", bytes(range(256)) * 1000)
    with open(path("from"), "rb") as a, open(path("to"), "wb") as b:
        show("sendfile", os.sendfile(b.fileno(), a.fileno(), 0, 1 << 20))
    with open(path("from"), "rb") as a, open(path("to2"), "wb") as b:
        show("copy_file_range", os.copy_file_range(a.fileno(), b.fileno(), 1 << 20))
    shutil.copy2(path("from"), path("to3"))
    show("same", [contents(n) == contents("from") for n in ("to", "to2", "to3")])
    show("times", os.stat(path("to3")).st_mtime_ns == os.stat(path("from")).st_mtime_ns)


def rename_new(old, new):
    """As mv does it."""
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.renameat2(-100, os.fsencode(old), -100, os.fsencode(new), 1) != 0:
        raise OSError(ctypes.get_errno(), "renameat2")


def rename_directories():
    """To another parent, with somebody in it."""
    for name in ("m", "m/in", "m/in/deep", "m/empty", "m/full", "m/full/x"):
        os.mkdir(path(name))
    make("m/in/deep/f", b"deep")
    deep, inside = os.open(path("m/in/deep"), os.O_DIRECTORY), os.open(path("m/in"), os.O_DIRECTORY)
    os.chdir(path("m/in/deep"))
    attempt("rename directory elsewhere", os.rename, path("m/in"), path("d3/in"))
    show("  was", sorted(os.listdir(path("m"))))
    show("  has", contents("d3/in/deep/f"))
    show("  is", os.path.relpath(os.getcwd(), path("")))
    show("  above", sorted(os.listdir("../..")))
    show("  above its descriptor", os.listdir(os.open("..", os.O_DIRECTORY, dir_fd=deep)))
    show("  alike", os.path.samestat(os.stat("..", dir_fd=inside), os.stat(path("d3"))))
    show("  named", [os.path.relpath(os.readlink(f"/proc/self/fd/{fd}"), path("")) for fd in (deep, inside)])
    os.close(deep), os.close(inside)
    os.chdir("/")
    attempt("rename into itself", os.rename, path("d3"), path("d3/d3"))
    attempt("rename below itself", os.rename, path("d3"), path("d3/in/deep/d3"))
    attempt("rename over the one above", os.rename, path("d3/in/deep"), path("d3"))
    attempt("rename file over the one above", os.rename, path("d3/in/deep/f"), path("d3/in"))
    attempt("rename file over the one right above", os.rename, path("d3/old"), path("d3"))
    attempt("rename over empty directory elsewhere", os.rename, path("d3/in"), path("m/empty"))
    attempt("rename over full directory elsewhere", os.rename, path("m/empty"), path("m/full"))
    attempt("rename directory over file elsewhere", os.rename, path("m/full"), path("d3/old"))
    attempt("rename file over directory elsewhere", os.rename, path("d3/old"), path("m/full"))
    attempt("rename directory to no directory", os.rename, path("m/full"), path("no/full"))
    show("  left", [sorted(os.listdir(path(name))) for name in ("d3", "m", "m/empty")])
    shutil.rmtree(path("m"))


def names():
    attempt("mkdir", os.mkdir, path("d"))
    attempt("mkdir again", os.mkdir, path("d"))
    attempt("mkdir mode", os.mkdir, path("d2"), 0o700)
    show("modes", [attributes("d"), attributes("d2")])
    make("d/f")
    attempt("rmdir full", os.rmdir, path("d"))
    attempt("rmdir file", os.rmdir, path("d/f"))
    attempt("unlink directory", os.unlink, path("d")) if os.getuid() == 0 else None
    attempt("unlink nothing", os.unlink, path("d/no"))
    attempt("rename", os.rename, path("d/f"), path("d/g"))
    attempt("rename nothing", os.rename, path("d/f"), path("d/h"))
    attempt("rename elsewhere", os.rename, path("d/g"), path("d2/g"))
    make("d/old", b"old")
    attempt("rename over", os.rename, path("d2/g"), path("d/old"))
    show("  has", contents("d/old"))
    attempt("rename file over directory", os.rename, path("d/old"), path("d2"))
    os.mkdir(path("d/dd")), attempt("rename directory over file", os.rename, path("d/dd"), path("d/old")), os.rmdir(path("d/dd"))
    attempt("rename directory", os.rename, path("d"), path("e"))
    show("  has", contents("e/old"))
    attempt("rename over itself", os.rename, path("e/old"), path("e/old"))
    for name in ("e", "e/old"):
        attempt("rename to itself, not replacing", rename_new, path(name), path(name))
    attempt("rename over full directory", os.rename, path("d2"), path("e"))
    attempt("rename over empty directory", os.rename, path("e"), path("d2"))
    attempt("rename with slash", os.rename, path("d2/"), path("d3/"))
    attempt("rename file with slash", os.rename, path("d3/old/"), path("d3/o"))
    rename_directories()
    attempt("symlink", os.symlink, "old", path("d3/s"))
    attempt("symlink again", os.symlink, "x", path("d3/s"))
    attempt("readlink", os.readlink, path("d3/s"))
    attempt("readlink file", os.readlink, path("d3/old"))
    show("through it", contents("d3/s"))
    show("lstat", stat.filemode(os.lstat(path("d3/s")).st_mode))
    os.symlink("nowhere", path("d3/dangling"))
    attempt("stat dangling", os.stat, path("d3/dangling"))
    attempt("open dangling excl", os.open, path("d3/dangling"), os.O_CREAT | os.O_EXCL | os.O_WRONLY)
    fd = attempt("open dangling made", os.open, path("d3/dangling"), os.O_CREAT | os.O_WRONLY)
    if fd is not None:
        os.close(fd)
    os.symlink(".", path("d3/here"))
    show("by a link", contents("d3/here/here/old"))
    show("dots", contents("d3/../d3/./old"))
    os.symlink("loop", path("d3/loop"))
    attempt("loop", os.stat, path("d3/loop"))
    show("listing", sorted(os.listdir(path("d3"))))
    show("types", sorted((e.name, e.is_dir(follow_symlinks=False), e.is_symlink()) for e in os.scandir(path("d3"))))
    attempt("rmdir dot", os.rmdir, path("d3/."))
    attempt("rmdir dots", os.rmdir, path("d3/.."))
    attempt("unlink slash", os.unlink, path("d3/old/"))
    attempt("access w", os.access, path("d3/old"), os.W_OK)
    attempt("access no", os.access, path("d3/no"), os.F_OK)
    attempt("access directory", os.access, path("d3"), os.W_OK)


def open_while_gone():
    make("gone", b"still here")
    f = open(path("gone"), "r+b")
    os.unlink(path("gone"))
    show("removed", os.path.exists(path("gone")))
    f.seek(0, 2), f.write(b"!"), f.flush(), f.seek(0)
    show("read", f.read())
    make("gone", b"another")
    f.seek(0)
    show("still", f.read())
    f.close()
    show("new", contents("gone"))
    f = open(path("gone"), "rb")
    make("tmp", b"replaced")
    os.replace(path("tmp"), path("gone"))
    show("old one", f.read())
    show("new one", contents("gone"))
    f.close()


def attributes_set():
    make("m")
    attempt("chmod", os.chmod, path("m"), 0o640)
    show("mode", attributes("m"))
    attempt("utime", os.utime, path("m"), ns=(10**18, 123456789012345678))
    show("mtime", os.stat(path("m")).st_mtime_ns)
    attempt("chown", os.chown, path("m"), os.getuid(), os.getgid())
    os.mkdir(path("md"))
    attempt("chmod directory", os.chmod, path("md"), 0o711)
    attempt("utime directory", os.utime, path("md"), ns=(10**18, 10**18 + 5))
    show("directory", [attributes("md"), os.stat(path("md")).st_mtime_ns])
    os.symlink("md", path("ml"))
    for name in ("m", "md", "ml"):  # as tar does
        try:
            attempt(f"fchmodat {name}, not followed", os.chmod, path(name), 0o750, follow_symlinks=False)
        except NotImplementedError:
            show("not this one")  # EOPNOTSUPP
        show("mode", attributes(name))
    fd = os.open(path("m"), os.O_WRONLY)
    attempt("fchmod", os.fchmod, fd, 0o600)
    attempt("futimens", os.utime, fd, ns=(1, 2))
    os.close(fd)
    show("now", [attributes("m"), os.stat(path("m")).st_mtime_ns])


def descriptors():
    make("fd", b"")
    fd = os.open(path("fd"), os.O_RDWR | os.O_APPEND)
    copy = os.dup(fd)
    os.write(fd, b"one "), os.write(copy, b"two ")
    os.dup2(copy, fd)
    os.close(copy)
    os.write(fd, b"three ")
    if os.fork() == 0:
        os.write(fd, b"child ")
        os._exit(0)
    os.wait()
    os.write(fd, b"parent")
    show("all", contents("fd"))
    fcntl.flock(fd, fcntl.LOCK_EX)
    fcntl.lockf(fd, fcntl.LOCK_EX)
    fcntl.lockf(fd, fcntl.LOCK_UN)
    show("fcntl", fcntl.fcntl(fd, fcntl.F_GETFL) & (os.O_ACCMODE | os.O_APPEND))
    os.close(fd)
    at = os.open(root, os.O_RDONLY | os.O_DIRECTORY)
    fd = os.open("rel", os.O_CREAT | os.O_WRONLY, dir_fd=at)
    os.write(fd, b"relative"), os.close(fd)
    os.mkdir("reld", dir_fd=at)
    os.rename("rel", "reld/rel2", src_dir_fd=at, dst_dir_fd=at)
    show("relative", [os.stat("reld/rel2", dir_fd=at).st_size, sorted(os.listdir(at))])
    deep = os.open("reld", os.O_RDONLY | os.O_DIRECTORY, dir_fd=at)
    show("deeper", [os.listdir(deep), os.stat("rel2", dir_fd=deep).st_size, os.stat("../fd", dir_fd=deep).st_size])
    os.close(deep), os.close(at)
    os.chdir(path("reld"))
    show("here", [os.getcwd() == os.path.realpath(path("reld")), os.listdir("."), open("rel2").read()])
    with open("made-here", "w") as f:
        f.write("x")
    show("made", os.stat("made-here").st_size)
    show("up", os.path.exists("../fd"))
    show("child's", subprocess.run(["cat", "rel2"], capture_output=True).stdout)
    show("child's directory", os.path.basename(subprocess.run(["pwd"], capture_output=True).stdout.decode().strip()))
    show("realpath", os.path.relpath(os.path.realpath("rel2"), os.path.realpath(root)))
    os.chdir("/")
    with open(path("redirected"), "w") as f:
        subprocess.run(["sh", "-c", "echo out; echo err >&2"], stdout=f, stderr=f)
    show("redirected", contents("redirected"))
    subprocess.run(["sh", "-c", 'echo a > "$0"; echo b >> "$0"; cat < "$0"', path("sh")], check=True)
    show("shell", contents("sh"))


def spawn(script, *actions):
    actions = [(os.POSIX_SPAWN_OPEN, fd, path(name), flags, 0o640) for fd, name, flags in actions]
    return os.waitstatus_to_exitcode(os.waitpid(os.posix_spawn("/bin/sh", ["sh", "-c", script], os.environ, file_actions=actions), 0)[1])


def spawning():
    made = os.O_WRONLY | os.O_CREAT
    for name, flags in (("new", made), ("append", os.O_WRONLY | os.O_APPEND), ("again", made | os.O_TRUNC), ("excl", made | os.O_EXCL)):
        attempt(f"spawn {name}", spawn, "echo one; echo two", (1, "spawned", flags))
        show("  left", [contents("spawned"), attributes("spawned")])
    attempt("spawn from and to", spawn, "cat; echo err >&2", (0, "spawned", os.O_RDONLY), (1, "to-1", made), (2, "to-2", made | os.O_EXCL))
    show("  left", [contents("to-1"), contents("to-2")])
    for name in ("no/directory", "d3", "text/x"):
        attempt(f"spawn {name}", spawn, "true", (1, name, made))


def libraries():
    with open(path("text"), "w", buffering=1) as f:
        f.write("line\n" * 3)
    with open(path("text"), "a+") as f:
        f.write("more\n"), f.seek(0)
        show("text", f.read())
    with open(path("text"), "r+") as f:
        f.write("LINE")
    show("r+", contents("text")[:9])
    fd, name = tempfile.mkstemp(dir=root, suffix=".t")
    show("mkstemp", [stat.filemode(os.fstat(fd).st_mode), name.endswith(".t")])
    os.close(fd)
    with tempfile.NamedTemporaryFile(dir=root) as f:
        f.write(b"x"), f.flush()
        show("named", os.path.getsize(f.name))
    with tempfile.TemporaryDirectory(dir=root) as d:
        os.makedirs(os.path.join(d, "x/y/z"))
        open(os.path.join(d, "x/y/f"), "w").close()
        show("walk", [(len(dirs), files) for _, dirs, files in sorted(os.walk(d))])
    show("gone", os.path.exists(d))
    shutil.copytree(path("d3"), path("copy"), symlinks=True)
    show("copytree", sorted(os.listdir(path("copy"))))
    shutil.move(path("copy/old"), path("moved"))
    shutil.rmtree(path("copy"))
    show("moved", contents("moved"))
    for n in range(300):
        make(f"many.{n}", b"%d" % n)
    show("many", sorted(os.listdir(root))[:5] + [len(os.listdir(root))])
    show("their sum", sum(int(contents(f"many.{n}")) for n in range(300)))


for part in (opening, writing, copying, names, open_while_gone, attributes_set, descriptors, spawning, libraries):
    print("==", part.__name__)
    part()
