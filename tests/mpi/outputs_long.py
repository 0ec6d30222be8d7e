# SPDX-License-Identifier: BSD-3-Clause
"""What each call by name says of names that are too long: the same lines on any file system.

outputs_long.py make DIRECTORY: makes there what the calls must not touch.
outputs_long.py calls DIRECTORY OTHER OUTSIDE: the calls below DIRECTORY, which exists; in OTHER, a directory that is not
changed; and by symlinks that lead there from OUTSIDE. A line for each place of the name: the answers, and how many calls
gave them. outputs.sh compares the lines of plain directories with those below a mount.
outputs_long.py refused DIRECTORY: a caller that can change names and not make them. Each call is ENAMETOOLONG.
"""
import ctypes
import errno
import os
import platform
import sys

libc = ctypes.CDLL(None, use_errno=True)
libc.opendir.restype = libc.fopen.restype = libc.realpath.restype = ctypes.c_void_p
libc.canonicalize_file_name.restype = libc.freopen.restype = ctypes.c_void_p
libc.truncate.argtypes = [ctypes.c_char_p, ctypes.c_long]
libc.truncate64.argtypes = libc.truncate.argtypes
CWD, REMOVEDIR = -100, 0x200
MADE = os.O_CREAT | os.O_WRONLY
room = ctypes.create_string_buffer(8192)
times = (ctypes.c_long * 4)(1, 0, 1, 0)
how = (ctypes.c_ulong * 3)(0, 0, 0)
how_made = (ctypes.c_ulong * 3)(MADE, 0o600, 0)
words = (ctypes.c_char_p * 2)(b"x", None)
root = os.fsencode(sys.argv[2])


def pointer(call):
    return lambda *args: 0 if call(*args) else -1


def fd_of(call):
    def close(*args):
        fd = call(*args)
        if fd >= 0:
            os.close(fd)
        return fd
    return close


def raw(number, *rest):
    """The system call; PATH stands for the path, and DIR before it for a directory."""
    def call(d, p, other):
        put = {"PATH": p, "OTHER": other, "DIR": d}
        args = [ctypes.c_long(number)]
        for a in rest:
            a = put.get(a, a) if isinstance(a, str) else a
            args.append(ctypes.c_long(a) if isinstance(a, int) else a)
        return libc.syscall(*args)
    return call


def here(d, call):
    """A call without a directory: the path is from the current one."""
    return lambda _, p, other: call(p, other)


CALLS = {
    "open": lambda d, p, o: fd_of(libc.open)(p, os.O_RDONLY),
    "open64 made": lambda d, p, o: fd_of(libc.open64)(p, MADE, 0o600),
    "open excl": lambda d, p, o: fd_of(libc.open)(p, MADE | os.O_EXCL, 0o600),
    "open path": lambda d, p, o: fd_of(libc.open)(p, os.O_PATH | os.O_NOFOLLOW),
    "creat": lambda d, p, o: fd_of(libc.creat)(p, 0o600),
    "openat": lambda d, p, o: fd_of(libc.openat)(d, p, os.O_RDWR),
    "openat made": lambda d, p, o: fd_of(libc.openat)(d, p, MADE, 0o600),
    "fopen": lambda d, p, o: pointer(libc.fopen)(p, b"r"),
    "fopen w": lambda d, p, o: pointer(libc.fopen)(p, b"w"),
    "opendir": lambda d, p, o: pointer(libc.opendir)(p),
    "realpath": lambda d, p, o: pointer(libc.realpath)(p, None),
    "canonicalize": lambda d, p, o: pointer(libc.canonicalize_file_name)(p),
    "stat": lambda d, p, o: libc.stat(p, room),
    "lstat": lambda d, p, o: libc.lstat(p, room),
    "fstatat": lambda d, p, o: libc.fstatat(d, p, room, 0),
    "statx": lambda d, p, o: libc.statx(d, p, 0, 0x7ff, room),
    "access": lambda d, p, o: libc.access(p, 4),
    "euidaccess": lambda d, p, o: libc.euidaccess(p, 4),
    "faccessat": lambda d, p, o: libc.faccessat(d, p, 4, 0),
    "readlink": lambda d, p, o: libc.readlink(p, room, 100),
    "readlinkat": lambda d, p, o: libc.readlinkat(d, p, room, 100),
    "unlink": lambda d, p, o: libc.unlink(p),
    "unlinkat": lambda d, p, o: libc.unlinkat(d, p, 0),
    "unlinkat dir": lambda d, p, o: libc.unlinkat(d, p, REMOVEDIR),
    "rmdir": lambda d, p, o: libc.rmdir(p),
    "remove": lambda d, p, o: libc.remove(p),
    "mkdir": lambda d, p, o: libc.mkdir(p, 0o700),
    "mkdirat": lambda d, p, o: libc.mkdirat(d, p, 0o700),
    "symlink": lambda d, p, o: libc.symlink(b"x", p),
    "symlinkat": lambda d, p, o: libc.symlinkat(b"x", d, p),
    "rename": lambda d, p, o: libc.rename(p, o),
    "rename to": lambda d, p, o: libc.rename(o, p),
    "renameat": lambda d, p, o: libc.renameat(d, p, CWD, o),
    "renameat to": lambda d, p, o: libc.renameat(CWD, o, d, p),
    "renameat2": lambda d, p, o: libc.renameat2(d, p, CWD, o, 0),
    "renameat2 to": lambda d, p, o: libc.renameat2(CWD, o, d, p, 1),
    "chmod": lambda d, p, o: libc.chmod(p, 0o600),
    "fchmodat": lambda d, p, o: libc.fchmodat(d, p, 0o600, 0),
    "chown": lambda d, p, o: libc.chown(p, -1, -1),
    "lchown": lambda d, p, o: libc.lchown(p, -1, -1),
    "fchownat": lambda d, p, o: libc.fchownat(d, p, -1, -1, 0),
    "utime": lambda d, p, o: libc.utime(p, times),
    "utimes": lambda d, p, o: libc.utimes(p, times),
    "lutimes": lambda d, p, o: libc.lutimes(p, times),
    "utimensat": lambda d, p, o: libc.utimensat(d, p, times, 0),
    "futimesat": lambda d, p, o: libc.futimesat(d, p, times),
    "truncate": lambda d, p, o: libc.truncate(p, 0),
    "truncate64": lambda d, p, o: libc.truncate64(p, 0),
    "chdir": lambda d, p, o: libc.chdir(p),
    "statfs": lambda d, p, o: libc.statfs(p, room),
    "statvfs": lambda d, p, o: libc.statvfs(p, room),
    "pathconf": lambda d, p, o: min(libc.pathconf(p, 3), 0),
    "execve": lambda d, p, o: libc.execve(p, words, words),
    "posix_spawn": lambda d, p, o: errno_of(libc.posix_spawn(room, p, None, None, words, words)),
}
# Calls that make a name or a link, and that only a caller with outputs makes.
LINKS = {
    "link": lambda d, p, o: libc.link(p, o),
    "link to": lambda d, p, o: libc.link(o, p),
    "linkat": lambda d, p, o: libc.linkat(d, p, CWD, o, 0),
    "linkat to": lambda d, p, o: libc.linkat(CWD, o, d, p, 0),
    "mkfifo": lambda d, p, o: libc.mkfifo(p, 0o600),
    "mknod": lambda d, p, o: libc.mknod(p, 0o010600, 0),
    "mknodat": lambda d, p, o: libc.mknodat(d, p, 0o010600, 0),
    "getxattr": lambda d, p, o: libc.getxattr(p, b"user.none", room, 100),
    "lgetxattr": lambda d, p, o: libc.lgetxattr(p, b"user.none", room, 100),
    "listxattr": lambda d, p, o: libc.listxattr(p, room, 100),
    "llistxattr": lambda d, p, o: libc.llistxattr(p, room, 100),
    "setxattr": lambda d, p, o: libc.setxattr(p, b"user.none", b"x", 1, 0),
    "lsetxattr": lambda d, p, o: libc.lsetxattr(p, b"user.none", b"x", 1, 0),
    "removexattr": lambda d, p, o: libc.removexattr(p, b"user.none"),
    "lremovexattr": lambda d, p, o: libc.lremovexattr(p, b"user.none"),
    "inotify": lambda d, p, o: libc.inotify_add_watch(watches, p, 0x100),
    "mkstemp": lambda d, p, o: fd_of(libc.mkstemp)(ctypes.create_string_buffer(p + b"XXXXXX")),
    "mkdtemp": lambda d, p, o: pointer(libc.mkdtemp)(ctypes.create_string_buffer(p + b"XXXXXX")),
}
watches = libc.inotify_init()
FOLLOWS = ("open", "open64 made", "creat", "stat", "chmod", "truncate", "chdir", "raw open", "raw chmod")
SOME = FOLLOWS + ("open excl", "fopen w", "lstat", "readlink", "unlink", "rmdir", "mkdir", "symlink", "rename", "rename to",
                  "renameat2 to", "raw unlinkat", "raw rename", "raw openat made", "raw mkdirat", "raw statx")


def errno_of(err):
    ctypes.set_errno(err)
    return -1 if err else 0


if platform.machine() == "x86_64":
    for name, number, *rest in (
            ("open", 2, "PATH", 0), ("open made", 2, "PATH", MADE, 0o600), ("stat", 4, "PATH", room), ("lstat", 6, "PATH", room),
            ("access", 21, "PATH", 4), ("truncate", 76, "PATH", 0), ("chdir", 80, "PATH"), ("rename", 82, "PATH", "OTHER"),
            ("rename to", 82, "OTHER", "PATH"), ("mkdir", 83, "PATH", 0o700), ("rmdir", 84, "PATH"), ("creat", 85, "PATH", 0o600),
            ("unlink", 87, "PATH"), ("symlink", 88, b"x", "PATH"), ("readlink", 89, "PATH", room, 100),
            ("chmod", 90, "PATH", 0o600), ("chown", 92, "PATH", -1, -1), ("lchown", 94, "PATH", -1, -1),
            ("utime", 132, "PATH", times), ("statfs", 137, "PATH", room), ("utimes", 235, "PATH", times),
            ("openat", 257, "DIR", "PATH", 0), ("openat made", 257, "DIR", "PATH", MADE, 0o600),
            ("mkdirat", 258, "DIR", "PATH", 0o700), ("fchownat", 260, "DIR", "PATH", -1, -1, 0),
            ("futimesat", 261, "DIR", "PATH", times), ("newfstatat", 262, "DIR", "PATH", room, 0),
            ("unlinkat", 263, "DIR", "PATH", 0), ("unlinkat dir", 263, "DIR", "PATH", REMOVEDIR),
            ("renameat", 264, "DIR", "PATH", CWD, "OTHER"), ("renameat to", 264, CWD, "OTHER", "DIR", "PATH"),
            ("symlinkat", 266, b"x", "DIR", "PATH"), ("readlinkat", 267, "DIR", "PATH", room, 100),
            ("fchmodat", 268, "DIR", "PATH", 0o600), ("faccessat", 269, "DIR", "PATH", 4),
            ("utimensat", 280, "DIR", "PATH", times, 0), ("renameat2", 316, "DIR", "PATH", CWD, "OTHER", 0),
            ("renameat2 to", 316, CWD, "OTHER", "DIR", "PATH", 1), ("statx", 332, "DIR", "PATH", 0, 0x7ff, room),
            ("openat2", 437, "DIR", "PATH", how, 24), ("openat2 made", 437, "DIR", "PATH", how_made, 24),
            ("faccessat2", 439, "DIR", "PATH", 4, 0)):
        call = raw(number, *rest)
        CALLS["raw " + name] = fd_of(call) if name[:4] in ("open", "crea") else call


def path(*names):
    return b"/".join((root,) + names)


def make():
    """Directories are b"/", symlinks begin with b"@"."""
    there = dict(kept())
    want = {b"sub": b"/", b"keep": b"keep", b"other": b"other"}
    for n in (254, 255):
        want[b"y" * n], want[b"z" * n] = b"%d" % n, b"/"
    for n in (255, 256, 300):
        want[b"to%d" % n], want[b"over%d" % n] = b"@" + b"y" * n, b"@" + b"q" * n + b"/../keep"
    for name in there.keys() - want.keys() | {name for name in there if want.get(name) != there[name]}:
        os.rmdir(path(name)) if there[name] == b"/" else os.unlink(path(name))
    for name in (name for name in want if want[name] != there.get(name)):
        if want[name] == b"/":
            os.mkdir(path(name))
        elif want[name][:1] == b"@":
            os.symlink(want[name][1:], path(name))
        else:
            with open(path(name), "wb") as f:
                f.write(want[name])


def kept():
    """All there is, with its contents."""
    def tell(e):
        if e.is_file(follow_symlinks=False):
            with open(e.path, "rb") as f:
                return f.read()
        return b"@" + os.readlink(e.path) if e.is_symlink() else b"/" if e.is_dir() else b"?"
    return sorted((e.name, tell(e)) for e in os.scandir(root))


def answer(call, d, p):
    os.chdir(root)
    ctypes.set_errno(0)
    r = call(d, p, path(b"other"))
    return errno.errorcode[ctypes.get_errno()] if r < 0 else "ok"


def places(other, outside):
    """What, directory, path. "all": whatever the call is, the answer is the same."""
    at, there = os.open(root, os.O_RDONLY), os.open(other, os.O_RDONLY)
    for n in (256, 300):
        for c in (b"y", b"z")[:1 + (n == 256)]:
            name = c * n
            what = "all %s %d " % (c.decode(), n)
            yield what + "last", CWD, path(name)
            yield what + "relative", at, name
            yield what + "slash", CWD, path(name, b"")
            yield what + "dot", CWD, path(name, b".")
            yield what + "dots", CWD, path(name, b"..", b"keep")
            yield what + "middle", CWD, path(name, b"sub", b"keep")
            yield what + "first", at, name + b"/sub/keep"
            yield what + "after dots", CWD, path(b"sub", b"..", name)
        yield "all in a file %d" % n, CWD, path(b"keep", name)
        yield "all in nothing %d" % n, CWD, path(b"no", name)
        yield "all of a dataset %d" % n, there, os.fsencode(other) + b"/" + name
        yield "link %d" % n, CWD, path(b"to%d" % n)
        yield "through a link %d" % n, CWD, path(b"to%d" % n, b"sub")
        yield "through a link over it %d" % n, at, b"over%d" % n
        yield "from outside %d" % n, CWD, os.fsencode(outside) + b"/link%d" % n
        yield "through one from outside %d" % n, CWD, os.fsencode(outside) + b"/link%d/sub" % n
    for what, name in (("longest", b"y" * 255), ("longest directory", b"z" * 255), ("link to the longest", b"to255")):
        yield what, CWD, path(name)
        yield what + ", relative", at, name
    for n in (4095, 4096):
        for name in (b"keep", b"none", b"y" * 255):
            room = n - len(root) - 1 - len(name)
            what = "path %d %s" % (n, name[:4].decode())
            yield what, CWD, root + b"/" * (room % 2) + b"/." * (room // 2) + b"/" + name
            yield what + ", relative", at, b"./" * ((n - len(name)) // 2) + name[:1] * ((n - len(name)) % 2) + name


def tell(what, answers):
    said = {}
    for name, text in answers:
        said.setdefault(text, []).append(name)
    print(what, end=":")
    for text in sorted(said):
        names = said[text]
        print("", text, len(names) if len(names) > 40 else ",".join(names), end=";")
    print()


def calls(other, outside):
    want = kept()
    before = sorted(os.listdir(other))
    for n in (256, 300):
        link = os.path.join(os.fsencode(outside), b"link%d" % n)
        if os.path.lexists(link):
            os.unlink(link)
        os.symlink(path(b"y" * n), link)
    all_calls = {**CALLS, **LINKS}
    for what, d, p in places(other, outside):
        answers = []
        for name, call in all_calls.items():
            if what[:3] != "all" and name not in (FOLLOWS if "outside" in what else SOME):
                continue
            if what.endswith("slash") and name.split()[-1] in ("made", "excl", "creat", "w"):
                continue  # EISDIR, before the name is looked at
            answers.append((name, answer(call, d, p)))
            if what[:3] != "all":
                make()
        tell(what, answers)
        if kept() != want:
            print("TOUCHED", [a for a in want if a not in kept()], [a for a in kept() if a not in want])
            make()
    print("others' directory", sorted(os.listdir(other)) == before)


def refused():
    want = kept()
    for what, d, p in places(sys.argv[2], "/"):
        if what[:3] == "all":
            tell(what, [(name, answer(call, d, p)) for name, call in CALLS.items() if name != "posix_spawn"])
    print("kept", kept() == want)


os.umask(0o022)
{"make": make, "calls": lambda: calls(*sys.argv[3:]), "refused": refused}[sys.argv[1]]()
