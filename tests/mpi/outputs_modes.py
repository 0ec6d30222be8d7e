# SPDX-License-Identifier: BSD-3-Clause
"""What the modes of directories and files permit, and what changes them by a descriptor or by its name: a line each, the
same on any file system.

outputs_modes.py DIRECTORY COMMAND: the directory exists and is empty. COMMAND PYTHON ARGUMENTS is a program that makes changes,
maybe on another node, between what this process does (outputs_modes.sh).
"""
import ctypes
import errno
import os
import shlex
import stat
import subprocess
import sys

root, other = sys.argv[1], shlex.split(sys.argv[2])
libc = ctypes.CDLL(None, use_errno=True)
os.umask(0o022)
os.chdir(root)


def attempt(text, call, *args, **kwargs):
    try:
        value = call(*args, **kwargs)
    except OSError as e:
        value = errno.errorcode[e.errno]
    print(text, value if isinstance(value, (str, list, bytes)) else "ok")


class Elsewhere:
    """What a program there says of names, and does to them."""

    def __init__(self):
        code = '''if True:
            import os, sys, time
            os.chdir(sys.argv[1])
            def run(code, *args):
                sys.argv[2:] = args
                exec(code)
                return "done"
            for line in sys.stdin:
                print(eval(line), flush=True)'''
        self.program = subprocess.Popen([*other, sys.executable, "-S", "-c", code, root], text=True,
                                        stdin=subprocess.PIPE, stdout=subprocess.PIPE)

    def says(self, expression):
        self.program.stdin.write(expression + "\n")
        self.program.stdin.flush()
        return self.program.stdout.readline().strip()

    def attributes(self, name):
        stamps = [f"int(s.st_{t}) if time.time() - s.st_{t} > 1000 else 'now'" for t in ("mtime", "ctime")]
        return self.says(f"(lambda s: [oct(s.st_mode), s.st_size, {', '.join(stamps)}])(os.stat({name!r}))")

    def run(self, code, *args):
        said = self.says(f"run({', '.join(map(repr, (code, *args)))})")
        assert said == "done", f"{code}: {said}"

    def end(self):
        self.program.stdin.close()
        assert self.program.wait() == 0


there = Elsewhere()
elsewhere = there.run


def make(name, data="data"):
    with open(name, "w") as f:
        f.write(data)


def opened(name, flags, *mode):
    os.close(os.open(name, flags, *mode))


def read(name):
    with open(name) as f:
        return f.read()


def mode(name):
    return oct(stat.S_IMODE(os.stat(name).st_mode))


def call(function, *args):
    if function(*args) != 0:
        raise OSError(ctypes.get_errno(), "")


def exclusively(old, new):
    """RENAME_NOREPLACE"""
    call(libc.renameat2, -100, os.fsencode(old), -100, os.fsencode(new), 1)


def changes(d):
    """What an unwritable directory refuses, and what it does not."""
    new, old, sub = f"{d}/new", f"{d}/old", f"{d}/sub"
    attempt("create", opened, new, os.O_WRONLY | os.O_CREAT, 0o644)
    attempt("create O_EXCL", opened, new, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o644)
    attempt("open old O_CREAT", opened, old, os.O_WRONLY | os.O_CREAT, 0o644)
    attempt("open old O_CREAT O_TRUNC", opened, old, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o644)
    attempt("open old O_EXCL", opened, old, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o644)
    attempt("mkdir", os.mkdir, new)
    attempt("mkdir old", os.mkdir, old)
    attempt("mkdir sub", os.mkdir, sub)
    attempt("symlink", os.symlink, "x", new)
    attempt("symlink old", os.symlink, "x", old)
    attempt("unlink", os.unlink, old)
    attempt("unlink missing", os.unlink, new)
    attempt("unlink directory", os.unlink, sub)
    attempt("rmdir", os.rmdir, sub)
    attempt("rmdir file", os.rmdir, old)
    attempt("rmdir missing", os.rmdir, new)
    attempt("rename in it", os.rename, old, new)
    attempt("rename missing", os.rename, new, old)
    attempt("rename out of it", os.rename, old, "free/moved")
    attempt("rename into it", os.rename, "free/file", new)
    attempt("rename over", os.rename, "free/file", old)
    attempt("rename directory out of it", os.rename, sub, "free/sub")
    attempt("rename to itself", os.rename, old, old)
    attempt("rename directory to itself", os.rename, sub, f"{d}/./sub/")
    attempt("rename missing to itself", os.rename, new, new)
    attempt("rename to itself with a slash", os.rename, old, old + "/")
    attempt("rename to itself RENAME_NOREPLACE", exclusively, old, old)
    attempt("rename over the one above", os.rename, f"{sub}/file", sub)
    attempt("rename over the one above RENAME_NOREPLACE", exclusively, f"{sub}/file", sub)
    attempt("rename over the one above with a slash", os.rename, f"{sub}/file", sub + "/")
    attempt("rename missing over the one above", os.rename, f"{sub}/none", sub)
    attempt("rename over the one far above", os.rename, f"{sub}/deep/in", sub)
    attempt("rename below itself", os.rename, sub, f"{sub}/deep/x")
    attempt("rename below itself, missing", os.rename, sub, f"{sub}/none/x")
    attempt("write", make, old)
    attempt("read", read, old)
    attempt("list", lambda: sorted(os.listdir(d)))
    attempt("access", lambda: [str(os.access(d, m)) for m in (os.R_OK, os.W_OK, os.X_OK)])
    attempt("chmod of a file in it", os.chmod, old, 0o644)
    attempt("utime of a file in it", os.utime, old, (1, 1))


def directories():
    os.mkdir("free")
    make("free/file")
    for bits in (0o555, 0o333, 0o666, 0o444, 0o000, 0o100, 0o311, 0o755):
        d = f"d{bits:03o}"
        os.mkdir(d)
        make(f"{d}/old")
        os.makedirs(f"{d}/sub/deep/in")
        make(f"{d}/sub/file")
        os.chmod(f"{d}/sub", bits)
        os.chmod(d, bits)
        print("--", d, mode(d))
        changes(d)
        attempt("chdir", os.chdir, d)
        os.chdir(root)
        attempt("stat below", lambda: oct(os.stat(f"{d}/sub").st_mode))
        attempt("missing below", lambda: oct(os.stat(f"{d}/sub/x/y").st_mode))
        os.chmod(d, 0o755)
        attempt("again", changes, d)


def between_nodes():
    """A mode that changes under somebody who has been there, by path, by descriptor and as current directory."""
    os.makedirs("seen/deep")
    make("seen/old")
    here, cwd = os.open("seen", os.O_RDONLY | os.O_DIRECTORY), os.getcwd()
    os.chdir("seen")
    for bits in ("0o555", "0o755", "0o666", "0o700"):
        elsewhere("os.chmod('seen', int(sys.argv[2], 0))", bits)
        print("--", bits)
        attempt("by path", opened, f"{cwd}/seen/x", os.O_WRONLY | os.O_CREAT, 0o644)
        attempt("by descriptor", lambda: os.close(os.open("x1", os.O_WRONLY | os.O_CREAT, 0o644, dir_fd=here)))
        attempt("in it", opened, "x2", os.O_WRONLY | os.O_CREAT, 0o644)
        attempt("below it", lambda: oct(os.stat("deep").st_mode))
        attempt("access", lambda: [str(os.access(p, os.W_OK)) for p in (f"{cwd}/seen", ".")])
        attempt("list", lambda: sorted(os.listdir(".")))
        attempt("list the descriptor's", lambda: sorted(os.listdir(here)))
        attempt("fstat", lambda: oct(os.fstat(here).st_mode))
    os.chdir(cwd)
    os.close(here)


def ways():
    """Directories that change above a file which was reached a moment ago by the same path."""
    changes = (
        ("nothing", "pass", "pass"),
        ("renamed", "os.rename('w/a/b', 'w/a/x')", "os.rename('w/a/x', 'w/a/b')"),
        ("renamed above", "os.rename('w/a', 'w/x')", "os.rename('w/x', 'w/a')"),
        ("exchanged", "os.rename('w/a/b', 'w/x'), os.rename('w/e', 'w/a/b'), os.rename('w/x', 'w/e')",
         "os.rename('w/a/b', 'w/x'), os.rename('w/e', 'w/a/b'), os.rename('w/x', 'w/e')"),
        ("a link", "os.rename('w/a/b', 'w/x'), os.symlink('../e', 'w/a/b')", "os.unlink('w/a/b'), os.rename('w/x', 'w/a/b')"),
        ("a file", "os.rename('w/a/b', 'w/x'), open('w/a/b', 'w').close()", "os.unlink('w/a/b'), os.rename('w/x', 'w/a/b')"),
        ("another link", "os.unlink('w/l'), os.symlink('e', 'w/l')", "os.unlink('w/l'), os.symlink('a/b', 'w/l')"),
        ("not to be searched", "os.chmod('w/a', 0o600)", "os.chmod('w/a', 0o755)"),
        ("the last not to be searched", "os.chmod('w/a/b', 0o600)", "os.chmod('w/a/b', 0o755)"),
        ("removed", "os.rename('w/a/b/f', 'w/f'), os.rename('w/a/b/d', 'w/d'), os.rmdir('w/a/b')",
         "os.mkdir('w/a/b'), os.rename('w/f', 'w/a/b/f'), os.rename('w/d', 'w/a/b/d')"))
    for d, data in (("w/a/b/d", "of b"), ("w/e/d", "longer: of e")):
        os.makedirs(d)
        make(os.path.dirname(d) + "/f", data)
    os.symlink("a/b", "w/l")
    paths = [top + way for top in (root + "/", "") for way in
             ("w/a/b/f", "w//a/./b/f", "w/a/../a/b/f", "w/l/f", "w/l/../b/f", "w/e/../a/b/f", "w/a/b/d/../f", "w/a/b/d/",
              "w/a/b/d/..", "w/a/b/none", "w/a/b/f/f")]

    def look(text):
        for path in paths:
            attempt(f"{text} {path.removeprefix(root)}",
                    lambda: [oct(os.stat(path).st_mode), str(os.path.isdir(path) or read(path))])

    for text, there_first, there_then in changes:
        for by in (exec, elsewhere):
            for change in (there_first, there_then):
                look("before")
                print("--", text, by.__name__)
                by(change)
                look("after")
    if os.getuid() != 0:
        return
    for d in ("w", "w/a", "w/a/b"):
        os.chmod(d, 0o600)
        look("as root")
        os.seteuid(1)
        look("as another")
        os.seteuid(0)
        look("as root")
        os.chmod(d, 0o755)


def files():
    for bits in (0o000, 0o200, 0o400, 0o444, 0o644):
        for node, maker in (("own", lambda name: make(name)), ("other", lambda name: elsewhere(
                "open(sys.argv[2], 'w').write('data')", name))):
            name = f"{node}{bits:03o}"
            maker(name)
            os.chmod(name, bits)
            print("--", name, mode(name))
            attempt("read", read, name)
            attempt("O_WRONLY", opened, name, os.O_WRONLY)
            attempt("O_RDWR", opened, name, os.O_RDWR)
            attempt("O_CREAT", opened, name, os.O_WRONLY | os.O_CREAT, 0o644)
            attempt("O_APPEND", opened, name, os.O_WRONLY | os.O_APPEND)
            attempt("O_RDONLY O_TRUNC", opened, name, os.O_RDONLY | os.O_TRUNC)
            attempt("truncate", os.truncate, name, 2)
            attempt("access", lambda: [str(os.access(name, m)) for m in (os.R_OK, os.W_OK, os.X_OK)])
            attempt("faccessat", lambda: [str(os.access(name, m, effective_ids=True)) for m in (os.R_OK, os.W_OK)])
            attempt("size", lambda: str(os.stat(name).st_size))
            os.unlink(name)


def by_descriptor():
    """Attributes by a descriptor, by its name and by "" below it: of a directory, a file, and one of another node."""
    os.mkdir("dir")
    make("file")
    elsewhere("open('remote', 'w').write('data')")
    for name, flags in (("dir", os.O_RDONLY), ("file", os.O_RDONLY), ("file", os.O_RDWR), ("remote", os.O_RDONLY),
                        ("remote", os.O_RDWR), ("dir", os.O_PATH), ("remote", os.O_PATH)):
        fd = os.open(name, flags)
        print("--", name, flags)

        def set_mode(text, change):
            os.chmod(name, 0o777)
            attempt(text, change)
            print(mode(name), oct(stat.S_IMODE(os.fstat(fd).st_mode)))

        def set_time(text, change):
            os.utime(name, (5, 5))
            attempt(text, change)
            print(int(os.stat(name).st_mtime), int(os.fstat(fd).st_mtime))

        set_mode("fchmod", lambda: os.chmod(fd, 0o750))
        set_time("futimens", lambda: os.utime(fd, (9, 9)))
        attempt("fchown", lambda: os.chown(fd, os.getuid(), -1))
        attempt("fchown to another", lambda: os.chown(fd, 0 if os.getuid() else -1, -1))
        attempt("fchownat", lambda: call(libc.fchownat, fd, b"", os.getuid(), -1, 0x1000))
        set_mode("fchmodat2", lambda: call(libc.syscall, 452, fd, b"", 0o700, 0x1000))
        times = (ctypes.c_long * 4)(7, 0, 7, 0)
        set_time("utimensat", lambda: call(libc.syscall, 280, fd, None, times, 0))
        set_time("utimensat empty", lambda: call(libc.utimensat, fd, b"", times, 0x1000))
        for path in (f"/proc/self/fd/{fd}", f"/dev/fd/{fd}"):
            short = os.path.dirname(path)
            set_mode(f"chmod {short}", lambda: os.chmod(path, 0o740))
            set_mode(f"fchmodat {short}", lambda: call(libc.fchmodat, -100, path.encode(), 0o640, 0))
            set_time(f"utime {short}", lambda: os.utime(path, (6, 6)))
            attempt(f"chown {short}", os.chown, path, os.getuid(), -1)
            attempt(f"access {short}", lambda: [str(os.access(path, m)) for m in (os.R_OK, os.W_OK)])
        os.close(fd)


def made(node, name, data="data", times=1):
    if node == "own":
        make(name, data * times)
    else:
        elsewhere("open(sys.argv[2], 'w').write(sys.argv[3] * int(sys.argv[4]))", name, data, str(times))
    os.utime(name, (5, 5))


def seen_at_once():
    """Attributes that are set by who cannot write: by descriptors and their names, seen from the other node."""
    times = (ctypes.c_long * 4)(7, 0, 7, 0)
    for node in ("own", "other"):
        for how, flags in (("O_RDONLY", os.O_RDONLY), ("O_PATH", os.O_PATH)):
            name = f"seen-{node}-{how}"
            made(node, name)
            fd = os.open(name, flags)
            path = f"/proc/self/fd/{fd}"
            print("--", name, there.attributes(name))
            for text, change in (
                    ("fchmod", lambda: os.chmod(fd, 0o751)),
                    ("futimens", lambda: os.utime(fd, (9, 9))),
                    ("fchmodat2", lambda: call(libc.syscall, 452, fd, b"", 0o701, 0x1000)),
                    ("utimensat", lambda: call(libc.syscall, 280, fd, None, times, 0)),
                    ("utimensat empty", lambda: call(libc.utimensat, fd, b"", times, 0x1000)),
                    ("chmod its name", lambda: os.chmod(path, 0o740)),
                    ("utime its name", lambda: os.utime(path, (6, 6))),
                    ("truncate its name", lambda: os.truncate(path, 2)),
                    ("utime", lambda: os.utime(name, (4, 4)))):
                attempt(text, change)
                print(there.attributes(name))
            os.close(fd)


SETS = '''if True:
    import ctypes, os, sys
    def tell(text, call, *args):
        try:
            call(*args)
            text += " ok"
        except OSError as e:
            text += " " + str(e.errno)
        s = os.stat(sys.argv[1])
        print(text, oct(s.st_mode), s.st_size, int(s.st_mtime) if s.st_mtime < 1000 else "now", file=sys.stderr)
    libc = ctypes.CDLL(None)
    fd = int(sys.argv[2])
    os.write(fd, b"first")
    tell("futimens", os.utime, fd, (9, 9))
    tell("fchmod", os.chmod, fd, 0o751)
    for path in ("/dev/stdout", f"/proc/self/fd/{fd}"):
        tell("chmod", os.chmod, path, 0o740)
        tell("utime", os.utime, path, (7, 7))
        tell("chown", os.chown, path, os.getuid(), -1)
    tell("fchmodat2", libc.syscall, 452, fd, b"", 0o701, 0x1000)
    times = (ctypes.c_long * 4)(8, 0, 8, 0)
    tell("utimensat", libc.syscall, 280, fd, None, times, 0)
    times[2] = 6
    tell("utimensat empty", libc.utimensat, fd, b"", times, 0x1000)
    tell("truncate", os.truncate, "/dev/stdout", 3)
    again = os.open("/dev/stdout", os.O_WRONLY)
    tell("ftruncate", os.ftruncate, again, 20)
    os.utime(fd, (6, 6))
    os.close(again)
    tell("close", os.fstat, fd)
'''


def standard_output():
    """By descriptors that programs have as their standard output, or input, and by their names."""
    for node in ("own", "other"):
        for how, flags in (("write", os.O_WRONLY), ("append", os.O_WRONLY | os.O_APPEND)):
            name = f"stdout-{node}-{how}"
            made(node, name, "0123456789")
            print("--", name)
            fd = os.open(name, flags)
            run = subprocess.run([sys.executable, "-S", "-c", SETS, name, "1"], stdout=fd, stderr=subprocess.PIPE, text=True)
            os.close(fd)
            print(run.returncode, run.stderr, there.attributes(name))
        for script in ("touch $0", "touch -d @9 $0", "touch -c -d @8 $0", "exec 1<>$0 && truncate -s 5 /dev/stdout",
                       "exec 1>>$0; truncate -s 5 /dev/stdout", "exec 1>>$0; echo one; echo two >/dev/stdout",
                       "exec 1<>$0 && truncate -s 20 /dev/stdout", "exec 1>$0; echo one; chmod 710 /dev/stdout; echo two",
                       "exec 0>>$0; touch -d @7 /dev/stdin", "exec 5>>$0; touch -d @6 /dev/fd/5"):
            name = f"script-{node}"
            made(node, name, "0123456789")
            run = subprocess.run(["bash", "-c", script, name], stderr=subprocess.PIPE, text=True)
            print(script, run.returncode, run.stderr, there.attributes(name), repr(read(name)))
            os.unlink(name)


def times_before_close():
    """What was set last holds: times, or those of a write."""
    for node in ("own", "other"):
        for how, flags in (("write", os.O_WRONLY), ("both", os.O_RDWR), ("append", os.O_WRONLY | os.O_APPEND)):
            for text, last in (("by descriptor", lambda: os.utime(fd, (9, 9))),
                               ("by name", lambda: os.utime(name, (9, 9))),
                               ("then written", lambda: (os.utime(fd, (9, 9)), os.write(fd, b"BB"))),
                               ("only written", lambda: None)):
                name = f"times-{node}-{how}"
                made(node, name)
                fd = os.open(name, flags)
                os.write(fd, b"AA")
                last()
                os.close(fd)
                print(name, text, there.attributes(name), repr(read(name)))
                os.unlink(name)


def whatever_the_mode():
    """An open descriptor goes on working, and a removed file is still one."""
    sixteen, times = "0123456789abcdef", 40000
    data = sixteen * times
    for node in ("own", "other"):
        for bits in (0o000, 0o200, 0o400):
            for by in ("here", "there"):
                name = f"open-{node}-{bits:03o}-{by}"
                made(node, name, sixteen, times)
                print("--", name)
                fds = [os.open(name, f) for f in (os.O_RDONLY, os.O_RDWR, os.O_WRONLY | os.O_APPEND)]
                there.says(f"globals().__setitem__('fd', os.open({name!r}, os.O_RDWR))")
                if by == "here":
                    os.chmod(name, bits)
                else:
                    there.says(f"os.chmod({name!r}, {bits})")
                attempt("read", lambda: str(os.pread(fds[0], len(data), 5) == data[5:].encode()))
                attempt("write", os.pwrite, fds[1], b"new", 1)
                attempt("append", os.write, fds[2], b"end")
                for fd in fds[1:]:
                    attempt("fsync", os.fsync, fd)
                if node == "own": # home's own descriptors see what was in no segment when they were opened
                    print("read there", there.says(f"os.pread(fd, 5, 0), os.pread(fd, 9, {len(data)})"))
                print("written there", there.says("os.pwrite(fd, b'NEW', 11), os.fsync(fd)"))
                if node == "other":
                    attempt("read again", lambda: os.pread(fds[0], 16, 0))
                attempt("ftruncate", os.ftruncate, fds[1], 20)
                attempt("fstat", lambda: [mode(name), str(os.fstat(fds[0]).st_size)])
                for fd in fds:
                    os.close(fd)
                there.says("os.close(fd)")
                print(there.attributes(name))
                os.chmod(name, 0o600)
                attempt("at last", read, name)
                os.unlink(name)
        name = f"removed-{node}"
        made(node, name)
        fd = os.open(name, os.O_RDWR)
        there.says(f"os.unlink({name!r})")
        attempt("fchmod removed", os.chmod, fd, 0o750)
        attempt("futimens removed", os.utime, fd, (9, 9))
        attempt("ftruncate removed", os.ftruncate, fd, 2)
        os.utime(fd, (9, 9))
        print(oct(os.fstat(fd).st_mode), os.fstat(fd).st_size, int(os.fstat(fd).st_mtime))
        os.close(fd)


for part in (directories, between_nodes, ways, files, by_descriptor, seen_at_once, standard_output, times_before_close,
             whatever_the_mode):
    print("==", part.__name__)
    part()
there.end()
