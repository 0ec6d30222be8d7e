# SPDX-License-Identifier: BSD-3-Clause
"""Python and, where it is there, a DataLoader on DIRECTORY: programs.py DIRECTORY SCRATCH. Also
calls that glibc had elsewhere before 2.34 (shared memory, terminals), and those that it got late.
"""
import hashlib
import mmap
import os
import pty
import subprocess
import sys
from multiprocessing import get_context, shared_memory

top, scratch = sys.argv[1:]


def digest(data):
    return hashlib.md5(data).hexdigest()


def read(path):
    with open(path, "rb") as f:
        return digest(f.read())


def tree():
    for path, dirs, files in os.walk(top):
        dirs[:] = sorted(d for d in dirs if d != ".git")
        for name in sorted(files):
            full = os.path.join(path, name)
            st = os.lstat(full)
            print(full, st.st_size, oct(st.st_mode), st.st_mtime_ns, read(full))
    with os.scandir(top) as entries:
        print(sorted((e.name, e.is_file(), e.is_dir(), e.is_symlink()) for e in entries))


def descriptors():
    big = top + "/d/big"
    fd = os.open(big, os.O_RDONLY)
    print(os.fstat(fd).st_size, digest(os.pread(fd, 5000, 100)))
    parts = [bytearray(10), bytearray(20)]
    print(os.preadv(fd, parts, 7), digest(b"".join(parts)))
    with mmap.mmap(fd, 0, prot=mmap.PROT_READ) as m:
        print(digest(m[:]))
    out = os.open(scratch + "/ranges", os.O_RDWR | os.O_CREAT, 0o600)
    try:
        os.copy_file_range(fd, out, 1000)
    except (OSError, AttributeError):
        os.write(out, os.pread(fd, 1000, 0))
    print(os.sendfile(out, fd, 0, 3000), digest(os.pread(out, 9000, 0)))
    memory = os.memfd_create("x")
    print(os.write(memory, b"abc"), digest(os.pread(memory, 3, 0)))
    copy = os.dup(fd)
    os.lseek(fd, 4000, os.SEEK_SET)
    print(digest(os.read(copy, 100)), os.lseek(fd, 0, os.SEEK_CUR))
    for number in (fd, out, memory, copy):
        os.close(number)
    for call in (os.stat, os.listdir, os.readlink):
        try:
            call(top + "/none")
        except OSError as e:
            print(call.__name__, e)


def processes():
    def output(command, cwd, **more):
        return subprocess.run(command, cwd=cwd, stdout=subprocess.PIPE, check=True, **more).stdout

    print(output(["md5sum", "f1", "big"], top + "/d"))
    with open(top + "/a.txt") as f:
        print(output("tail -n 2; pwd", top, shell=True, stdin=f))
    for how in ("fork", "spawn"):
        with get_context(how).Pool(2) as pool:
            print(how, pool.map(read, [top + "/d/f%d" % i for i in range(8)]))


def moved():
    block = shared_memory.SharedMemory(create=True, size=100)
    block.buf[:3] = b"xyz"
    same = shared_memory.SharedMemory(name=block.name)
    print(bytes(same.buf[:3]))
    same.close()
    block.close()
    block.unlink()
    print(os.path.realpath(top + "/link"), os.getxattr.__name__, os.listxattr(top + "/a.txt"))
    ends = pty.openpty()
    print([os.isatty(fd) for fd in ends])


def loaders():
    try:
        import torch
        import torch.utils.data
    except ImportError:
        return

    class Files(torch.utils.data.Dataset):
        paths = [top + "/d/f%d" % i for i in range(40)]

        def __len__(self):
            return len(self.paths)

        def __getitem__(self, i):
            with open(self.paths[i], "rb") as f:
                data = f.read()
            return i, len(data), sum(data[:500])

    for workers in (0, 2):
        torch.manual_seed(1)
        loader = torch.utils.data.DataLoader(
            Files(), batch_size=8, shuffle=True, num_workers=workers
        )
        print("DataLoader", workers, [[column.tolist() for column in batch] for batch in loader])


if __name__ == "__main__":
    tree()
    descriptors()
    processes()
    moved()
    loaders()
