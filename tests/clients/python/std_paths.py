# SPDX-License-Identifier: BSD-3-Clause
"""Python's os.*, pathlib, glob and shutil: names, directories and trees. See cases.py."""
import fileinput
import filecmp
import fnmatch
import glob
import linecache
import os
import pathlib
import shutil
import stat
import tempfile

from cases import attempt, base, case, digest, main, read, scratch, show

NAMES = [
    "", "text", "text/a.txt", "walk/empty", "links/file", "links/directory", "links/dangling", "links/loop",
    "links/outside", "links/up", "none", "text/a.txt/x", "text/../text/./a.txt", "text//a.txt", "text/a.txt/", "links/",
    "links/up/text/a.txt", "links/directory/", "links/directory/../a.txt", "links/file/"
]


def attributes(s):
    """What a copy keeps and a mount must show; directories' sizes and link counts are the file system's own."""
    file = stat.S_ISREG(s.st_mode)
    return oct(
        s.st_mode), s.st_uid, s.st_gid, s.st_mtime_ns, (s.st_size,
                                                        s.st_nlink) if file else s.st_size * stat.S_ISLNK(s.st_mode)


def word(function, *args, **kwargs):
    result = attempt(function, *args, **kwargs)
    return attributes(result) if isinstance(result, os.stat_result) else result


@case
def stat_names():
    for name in NAMES:
        if name == "links/outside":
            continue
        show(name, word(os.stat, base(name)), word(os.lstat, base(name)))


@case
def access_names():
    for name in NAMES + ["modes/400", "modes/755", "exec/program", "exec/script.sh"]:
        show(name, [os.access(base(name), m) for m in (os.F_OK, os.R_OK, os.W_OK, os.X_OK, os.R_OK | os.X_OK)],
             os.access(base(name), os.R_OK, effective_ids=True), os.access(base(name), os.F_OK, follow_symlinks=False))


@case
def tests_of_names():
    for name in NAMES:
        p = base(name)
        show(name, os.path.exists(p), os.path.lexists(p), os.path.isfile(p), os.path.isdir(p), os.path.islink(p),
             os.path.ismount(p) if name else "", attempt(os.path.getmtime, p), attempt(os.readlink, p))


@case
def real_names():
    for name in NAMES:
        show(name, os.path.realpath(base(name)), attempt(os.path.realpath, base(name), strict=True),
             os.path.abspath(base(name)))
        show(attempt(pathlib.Path(base(name)).resolve), attempt(pathlib.Path(base(name)).resolve, strict=True))
    show(os.path.samefile(base("links/file"), base("text/a.txt")),
         os.path.samefile(base("links/hard"), base("text/a.txt")))
    show(os.path.samefile(base("text/a.txt"), base("text/empty.txt")), os.path.samefile(base("links/up"), base()))
    show(os.path.samefile(base("links/outside"), "/etc/passwd"), os.path.relpath(base("walk"), base("links")))


@case
def list_directories():
    for name in NAMES + ["names", "walk"]:
        if name != "links/outside":
            show(name, sorted(x) if isinstance(x := attempt(os.listdir, base(name)), list) else x)
    show(sorted(os.listdir(os.fsencode(base("names")))), sorted(os.listdir(pathlib.Path(base("names")))))
    fd = os.open(base("walk"), os.O_RDONLY | os.O_DIRECTORY)
    show(sorted(os.listdir(fd)), sorted(os.listdir(fd)), attempt(os.read, fd, 10), attempt(os.lseek, fd, 0, 0))
    os.close(fd)


@case
def scan_directories():
    for name in "", "links", "names", "walk/d0", "walk/empty/deeper":
        with os.scandir(base(name)) as entries:
            for e in sorted(entries, key=lambda e: os.fsencode(e.name)):
                show(e.name, e.path, attempt(e.is_dir), e.is_dir(follow_symlinks=False), attempt(e.is_file),
                     e.is_symlink())
                show(word(e.stat, follow_symlinks=False), e.inode() == os.lstat(e.path).st_ino)
    fd = os.open(base("walk"), os.O_RDONLY)
    with os.scandir(fd) as entries:
        show(sorted((e.name, e.path, e.is_dir(), oct(e.stat().st_mode)) for e in entries))
    os.close(fd)
    show(attempt(os.scandir, base("text/a.txt")), attempt(os.scandir, base("none")))


@case
def walk_trees():
    for options in {}, {"topdown": False}, {"followlinks": True}:
        top = base("walk") if options.get("followlinks") else base()
        for directory, directories, files in sorted(os.walk(top, **options)):
            show(directory, sorted(directories), sorted(files))
    found = [(directory, sorted(directories), sorted(files), [os.stat(f, dir_fd=fd).st_size for f in sorted(files)])
             for directory, directories, files, fd in os.fwalk(base("walk"))]
    show(*sorted(found))
    fd = os.open(base(), os.O_RDONLY)
    show([(a, sorted(b), sorted(c)) for a, b, c, _ in sorted(os.fwalk("walk", dir_fd=fd))])
    os.close(fd)


@case
def relative_to_descriptors():
    fd = os.open(base("walk"), os.O_RDONLY | os.O_DIRECTORY)
    show(word(os.stat, "d0/data0.csv", dir_fd=fd), os.access("d1", os.X_OK, dir_fd=fd),
         attempt(os.stat, "none", dir_fd=fd))
    show(os.readlink("../links/chain", dir_fd=fd), word(os.stat, "../links/file", dir_fd=fd, follow_symlinks=False))
    inner = os.open("d0", os.O_RDONLY, dir_fd=fd)
    show(sorted(os.listdir(inner)))
    os.close(os.open("../../text/a.txt", os.O_RDONLY, dir_fd=inner))
    for call in (lambda: os.mkdir("d0", dir_fd=fd), lambda: os.unlink("d0/data0.csv", dir_fd=fd),
                 lambda: os.rename("d0", "d1", src_dir_fd=fd, dst_dir_fd=fd), lambda: os.chmod("d0", 0o700, dir_fd=fd),
                 lambda: os.utime("d0", dir_fd=fd),
                 lambda: os.link("d0/data0.csv", "d1/new", src_dir_fd=fd, dst_dir_fd=fd)):
        show(attempt(call))
    os.close(inner)
    os.close(fd)


@case
def link_over_a_file():
    show(attempt(os.link, base("text/a.txt"), base("text/empty.txt")))


@case
def current_directory():
    os.chdir(base("walk/d1"))
    show(os.getcwd(), sorted(os.listdir()), os.path.abspath("x"), os.path.realpath("../../links/file"),
         pathlib.Path.cwd())
    show(len(open("e0/file0.txt", "rb").read()), word(os.stat, "../d2"),
         pathlib.Path("e1").resolve(),
         glob.glob("*/*.txt") != [])
    fd = os.open("..", os.O_RDONLY)
    os.fchdir(fd)
    show(os.getcwd(), attempt(os.chdir, "none"), attempt(os.chdir, "d0/data0.csv"), os.getcwd())
    os.chdir("../links/directory")
    show(os.getcwd(), os.getcwdb() == os.fsencode(os.getcwd()), os.readlink("/proc/self/cwd") != "")
    os.close(fd)


@case
def file_system():
    s = os.statvfs(base())
    show(s.f_namemax, s.f_bsize > 0, bool(s.f_flag & os.ST_RDONLY), s.f_bfree <= s.f_blocks, s.f_files > 0)
    with open(base("text/a.txt"), "rb") as f:
        t = os.fstatvfs(f.fileno())
        show(t.f_namemax, t.f_bsize == s.f_bsize, t.f_fsid == s.f_fsid)
        show(os.fpathconf(f.fileno(), "PC_NAME_MAX"), os.fpathconf(f.fileno(), "PC_LINK_MAX") > 0)
    show(os.pathconf(base(), "PC_PATH_MAX"), attempt(os.pathconf, base("none"), "PC_NAME_MAX"),
         attempt(os.statvfs, base("none")))
    usage = shutil.disk_usage(base())
    show(usage.total >= usage.used, usage.total > 0)


@case
def extended_attributes():
    for name in "text/a.txt", "text", "links/file":
        show(name, os.listxattr(base(name)), attempt(os.getxattr, base(name), "user.none"))
        show(attempt(os.getxattr, base(name), "security.selinux", follow_symlinks=False),
             attempt(os.listxattr, base("none")))
    show(attempt(os.setxattr, base("text/a.txt"), "user.x", b"1"), attempt(os.removexattr, base("text/a.txt"),
                                                                           "user.x"))
    with open(base("text/a.txt"), "rb") as f:
        for call, *args in (os.listxattr, ), (os.getxattr, "user.none"), (os.setxattr, "user.x", b""), (os.removexattr,
                                                                                                        "user.x"):
            show(call.__name__, str(attempt(call, f.fileno(), *args)).replace(f" {f.fileno()}", " N"))


@case
def refused():
    f = base("text/a.txt")
    for call, *args in ((os.unlink, f), (os.remove, base("text")), (os.rmdir, base("walk/empty/deeper")),
                        (os.rmdir, base("walk")), (os.rename, f, base("text/empty.txt")), (os.rename, f, scratch("x")),
                        (os.replace, base("none"), f), (os.mkdir, base("text")), (os.makedirs,
                                                                                  base("text")), (os.symlink, "x", f),
                        (os.chmod, f, 0o600), (os.link, f, scratch("x")), (os.chown, f, os.getuid(), os.getgid()),
                        (os.lchown, f, -1,
                         -1), (os.utime, f), (os.utime, f, (1, 2)), (os.truncate, f, 0), (os.mkfifo, f), (os.mknod, f),
                        (os.unlink, base("none")), (os.rmdir, f), (os.mkdir, base("none/x")), (os.unlink,
                                                                                               base("text/a.txt/x")),
                        (shutil.rmtree, base("walk/empty")), (shutil.copy, scratch("none"), f), (os.rename, f, f),
                        (shutil.move, f, scratch("moved")), (os.utime, base("none")), (os.chmod, base("none"), 0o600)):
        show(call.__name__, args, attempt(call, *args))
    show(attempt(os.chmod, f, 0o644), attempt(os.chown, f, -1, -1), os.path.exists(scratch("moved")))


@case
def create_refused():
    for call, *args in ((os.mkdir, base("new")), (os.symlink, "a", base("new")), (os.mkfifo, base("new")),
                        (open, base("new"), "w"), (os.link, base("text/a.txt"), base("new")),
                        (os.rename, base("text"), base("new")), (os.makedirs, base("new/er")),
                        (shutil.copy, base("text/a.txt"), base("new")), (pathlib.Path(base("new")).touch, )):
        show(call.__name__, attempt(call, *args))
    show(
        attempt(tempfile.mkstemp, dir=base(), prefix="x"[:0])[:20],
        attempt(tempfile.TemporaryFile, dir=base("text"))[:20])


@case
def path_objects():
    p = pathlib.Path(base())
    show(sorted(p.iterdir()), sorted(x for x in p.rglob("*.csv")), sorted(p.glob("walk/d?/e*/*")),
         sorted(p.glob("**/deeper")))
    show(sorted(p.glob("*/")), sorted((p / "names").glob("*")), sorted(p.rglob("file1.*")))
    a = p / "text/a.txt"
    show(a.read_bytes(),
         a.read_text(encoding="ascii")[-9:],
         a.stat().st_size, a.exists(), a.is_file(), a.owner(), a.group())
    show(a.samefile(p / "links/file"), (p / "links/chain").readlink(), (p / "links/file").is_symlink(),
         p.is_mount() or "")
    show(
        a.with_suffix(".csv").exists(),
        a.lstat().st_mtime_ns, attempt((p / "none").read_bytes), attempt(a.write_text, "x"))
    show(attempt(a.unlink), attempt(a.chmod, 0o600), attempt(a.rename, p / "text/empty.txt"), attempt(a.touch),
         attempt((p / "text").mkdir))
    show((p / "text").mkdir(exist_ok=True), attempt((p / "walk").rmdir), attempt(lambda: a.open("r+")),
         pathlib.Path(a).open("rb").read(5))


@case
def globs():
    for pattern in "* ** */*.txt walk/d[0-2]/* names/[[]b] names/.* links/* none* text/ */../text/a*".split():
        show(pattern, sorted(glob.glob(base(pattern))), len(glob.glob(base(pattern), recursive=True)))
    show(sorted(glob.glob("**/*.csv", root_dir=base(), recursive=True)),
         sorted(glob.glob("*", root_dir=base(), include_hidden=True)))
    fd = os.open(base("walk"), os.O_RDONLY)
    show(sorted(glob.glob("d*/*.csv", dir_fd=fd)), fnmatch.filter(sorted(os.listdir(fd)), "d[13]"))
    os.close(fd)


def tree(top, times=True):
    for directory, directories, files in sorted(os.walk(top)):
        for name in sorted(directories + files):
            path = os.path.join(directory, name)
            s = os.lstat(path)
            show(
                path, oct(s.st_mode), s.st_mtime_ns if times and stat.S_ISREG(s.st_mode) else "",
                os.readlink(path)
                if stat.S_ISLNK(s.st_mode) else digest(open(path, "rb").read()) if stat.S_ISREG(s.st_mode) else "")


@case
def copy_files():
    for function in shutil.copyfile, shutil.copy2:
        for name in "text/empty.txt", "bin/big.bin", "bin/compressible.bin", "modes/755":
            function(base(name), scratch("out"))
            show(function.__name__, name, digest(open(scratch("out"), "rb").read()), os.stat(scratch("out")).st_size)
            if function is shutil.copy2:
                show(os.stat(scratch("out")).st_mtime_ns, oct(os.stat(scratch("out")).st_mode))
            os.unlink(scratch("out"))
    shutil.copy(base("links/file"), scratch("link"), follow_symlinks=False)
    show(os.readlink(scratch("link")), attempt(shutil.copyfile, base("text"), scratch("x")))
    shutil.copymode(base("modes/755"), scratch())
    shutil.copystat(base("text"), scratch())
    show(os.stat(scratch()).st_mtime_ns, attempt(shutil.copyfile, base("text/a.txt"), base("text/a.txt")))
    with open(base("bin/page.bin"), "rb") as a, open(scratch("x"), "wb") as b:
        a.seek(100)
        shutil.copyfileobj(a, b, 1000)
    show(digest(open(scratch("x"), "rb").read()), filecmp.cmp(base("text/a.txt"), base("links/hard"), shallow=False))


@case
def copy_trees():
    shutil.copytree(base("walk"), scratch("walk"))
    shutil.copytree(base("links"), scratch("links"), symlinks=True)
    shutil.copytree(base("names"), scratch("names"), ignore=shutil.ignore_patterns("*star"))
    shutil.copytree(base("modes"), scratch("walk"), dirs_exist_ok=True)
    tree(scratch())
    compared = filecmp.dircmp(base("walk"), scratch("walk"))
    show(compared.common_dirs, compared.left_only, sorted(compared.right_only), compared.diff_files)


@case
def make_archives():
    for kind in "tar", "gztar", "zip":
        shutil.unpack_archive(shutil.make_archive(scratch(kind), kind, base(), "walk"), scratch("out-" + kind))
        tree(scratch("out-" + kind), kind != "zip")
    shutil.unpack_archive(base("archives/a.tar.gz"), scratch("unpacked"))
    show(shutil.which("program", path=base("exec")), shutil.which("not-executable.sh", path=base("exec")))


@case
def lines_of_files():
    with fileinput.input([base("text/a.txt"), base("text/crlf.txt")], encoding="ascii") as f:
        show(digest("".join(f"{fileinput.filelineno()} {line}" for line in f).encode()))
    show(linecache.getline(base("text/a.txt"), 500), linecache.getline(base("none"), 1), linecache.checkcache())
    with fileinput.FileInput(base("archives/t.gz"), openhook=fileinput.hook_compressed) as f:
        show(len(list(f)))
    show(attempt(lambda: list(fileinput.input(base("text/a.txt"), inplace=True))))


@case
def in_bytes():
    b = os.fsencode(base("names/"))
    show(open(b + b"\xff\xfe", "rb").read(), os.stat(b + b"new\nline").st_size, os.path.exists(b + b"\xff\xff"))
    show(sorted(next(os.walk(b))[2]), sorted(glob.glob(b + b"*")), os.path.realpath(b + b"../links/file"))
    show(read("names/größe-日本"), read("names/" + "n" * 255), read("names/with space"))


if __name__ == "__main__":
    main()
