# SPDX-License-Identifier: BSD-3-Clause
"""What a Python program does with files, printed so that two directories can be compared. Usage: DIR"""
import glob
import hashlib
import mmap
import multiprocessing
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import threading

BASE = sys.argv[1]
CHILD = "import os, sys; fd = int(sys.argv[1]); print(os.read(fd, 9), os.fstat(fd).st_size, os.lseek(fd, 0, 1))"


def show(*values):
    print(*[str(v).replace(BASE, "@") for v in values], flush=True)


def digest(data):
    return hashlib.md5(data).hexdigest()


def content(i):
    with open(f"{BASE}/d{i % 4}/f{i % 30}.bin", "rb") as f:
        return digest(f.read())


def names():
    for top, dirs, files in sorted(os.walk(BASE)):
        show(top, sorted(dirs), len(files))
    show(sorted(x.name for x in pathlib.Path(BASE).iterdir()), len(list(pathlib.Path(BASE).rglob("*.bin"))))
    show(sorted(glob.glob(BASE + "/d*/f2*.bin")), os.stat(BASE + "/a.txt").st_size)
    show(os.path.realpath(BASE + "/ln"), os.path.exists(BASE + "/x"), os.path.islink(BASE + "/ln"))
    with os.scandir(BASE + "/d0") as it:
        show(sorted((e.name, e.is_dir(), e.is_symlink(), e.stat().st_size if e.is_file() else 0) for e in it))


def maps():
    with open(BASE + "/big.bin", "rb") as f:
        with mmap.mmap(f.fileno(), 0, prot=mmap.PROT_READ) as m:
            show(digest(m))
        private = mmap.mmap(f.fileno(), 5000, flags=mmap.MAP_PRIVATE, prot=mmap.PROT_READ | mmap.PROT_WRITE, offset=8192)
        private[0] = 1
        show(digest(private))


def copies():
    scratch = tempfile.mkdtemp()
    shutil.copy(BASE + "/big.bin", scratch)
    shutil.copy2(BASE + "/a.txt", scratch)
    show(digest(pathlib.Path(scratch, "big.bin").read_bytes()))
    show(os.stat(scratch + "/a.txt").st_mtime_ns == os.stat(BASE + "/a.txt").st_mtime_ns)
    shutil.copytree(BASE + "/d0", scratch + "/d0")
    show(len(os.listdir(scratch + "/d0")))
    shutil.rmtree(scratch)


def run(*args, **options):
    show(subprocess.run(*args, capture_output=True, text=True, check=False, **options))


def children():
    run(["cat", "d0/sub/t.txt"], cwd=BASE)
    run(["pwd", "-P"], cwd=BASE + "/d0")
    for shell in False, True:
        with open(BASE + "/big.bin", "rb") as f:
            run("md5sum", shell=shell, stdin=f)
    show(os.popen("head -n 1 " + BASE + "/a.txt").read(), os.system("md5sum < " + BASE + "/a.txt"))
    f = open(BASE + "/a.txt", "rb", buffering=0)
    f.read(10)
    os.read(os.dup(f.fileno()), 10)
    show(f.tell(), f.read(7))
    pid = os.fork()
    if pid == 0:
        os.read(f.fileno(), 13)
        os._exit(0)
    os.waitpid(pid, 0)
    show(f.tell())
    run([sys.executable, "-c", CHILD, str(f.fileno())], pass_fds=[f.fileno()])
    show(f.tell())


def directories():
    os.chdir(BASE + "/d1")
    show(os.getcwd(), len(os.listdir(".")), os.path.abspath("x"), os.stat("../a.txt").st_size)
    d = os.open(BASE, os.O_RDONLY)
    show(os.stat("a.txt", dir_fd=d).st_size, len(os.listdir(d)), len(os.listdir(d)))
    os.fchdir(d)
    show(os.getcwd(), os.isatty(d), os.statvfs(BASE).f_namemax, os.listxattr("a.txt"))
    os.chdir("/")


def workers():
    found = []
    threads = [threading.Thread(target=lambda i=i: found.extend(content(i + k) for k in range(50))) for i in range(8)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    show(digest("".join(sorted(found)).encode()))
    for method in "fork", "spawn", "forkserver":
        with multiprocessing.get_context(method).Pool(2) as pool:
            show(method, digest("".join(pool.map(content, range(60))).encode()))


if __name__ == "__main__":
    for step in names, maps, copies, children, directories, workers:
        step()
