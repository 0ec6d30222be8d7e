# SPDX-License-Identifier: BSD-3-Clause
"""Listings of a large directory of outputs, from each node: outputs_list.py MOUNT NODES."""
import os
import sys

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from nodes import Nodes, equal, step  # noqa: E402

mount, count = sys.argv[1], int(sys.argv[2])
# raw(fd, bytes): one getdents64, as (name, type, offset); Dir: libc's stream.
nodes = Nodes(os.path.join(mount, "list"), forks=True, prelude="""
import ctypes, stat, struct
libc = ctypes.CDLL(None, use_errno=True)
libc.getdents64.argtypes = [ctypes.c_int, ctypes.c_void_p, ctypes.c_size_t]
libc.getdents64.restype = ctypes.c_ssize_t
libc.opendir.restype = libc.readdir.restype = ctypes.c_void_p
libc.readdir.argtypes = libc.telldir.argtypes = libc.closedir.argtypes = [ctypes.c_void_p]
libc.telldir.restype = ctypes.c_long
libc.seekdir.argtypes = [ctypes.c_void_p, ctypes.c_long]
def records(b):
    at = 0
    while at < len(b):
        ino, off, n, kind = struct.unpack_from('=QqHB', b, at)
        assert n % 8 == 0 and 0 < n <= len(b) - at, (n, at)
        yield b[at + 19:at + n].split(b'\\0')[0].decode(), kind, off
        at += n
def raw(fd, size):
    room = ctypes.create_string_buffer(b'?' * (size + 8), size + 8)
    n = libc.getdents64(fd, room, size)
    assert room.raw[max(n, 0) if n >= 0 and n > size else size:size + 8] == b'?' * 8, 'written beyond the buffer'
    return -ctypes.get_errno() if n < 0 else list(records(room.raw[:n]))
def all_of(fd, size):
    found = []
    while got := raw(fd, size):
        if isinstance(got, int):
            return got
        found += got
    return found
""")
on = nodes.on

on(0, """
    os.mkdir(work)
    for i in range(1500):
        name = f'{work}/' + f'{i:04d}'.ljust(4 + i * 37 % 252, 'x')
        if i % 10 == 0: os.mkdir(name)
        elif i % 10 == 1: os.symlink('to', name)
        else: open(name, 'w').close()
""")
for node in range(count):
    equal("all names", "1500 [150, 150, 1200]", on(node, """
        found = list(os.scandir(work))
        kinds = [sum(e.is_dir(follow_symlinks=False) for e in found), sum(e.is_symlink() for e in found)]
        names = {e.name for e in found}
        assert all(f'{i:04d}'.ljust(4 + i * 37 % 252, 'x') in names for i in range(1500))
        print(len(found), kinds + [sum(e.is_file(follow_symlinks=False) for e in found)])
    """))
    equal("buffers of many sizes", "ok", on(node, """
        want = None
        for size in 280, 281, 300, 303, 1000, 4096, 16384, 16385, 24576, 32768, 50000, 1 << 20:
            fd = os.open(work, os.O_RDONLY | os.O_DIRECTORY)
            got = all_of(fd, size)
            assert got != -errno.EINVAL and raw(fd, size) == [], size
            os.lseek(fd, 0, os.SEEK_SET)
            assert [n for n, k, o in all_of(fd, 32768)] == [n for n, k, o in got], size
            want = want or [(n, k) for n, k, o in got]
            assert [(n, k) for n, k, o in got] == want and len(got) == 1502, (size, len(got))
            os.close(fd)
        fd = os.open(work, os.O_RDONLY | os.O_DIRECTORY)
        assert all_of(fd, 23) == -errno.EINVAL and all_of(fd, 64) == -errno.EINVAL
        print('ok')
    """))
    equal("positions", "ok", on(node, """
        d = libc.opendir(work.encode())
        def name():
            e = libc.readdir(d)
            return None if e is None else next(records(ctypes.string_at(e, struct.unpack_from('=H', ctypes.string_at(e, 18), 16)[0])))[0]
        places, names = [libc.telldir(d)], []
        while (n := name()) is not None:
            names.append(n), places.append(libc.telldir(d))
        assert len(names) == 1502 and len(set(places)) == 1503
        for i in [0, 1, 2, 3, 1501, 1502] + [random.randrange(1503) for _ in range(30)]:
            libc.seekdir(d, places[i])
            assert libc.telldir(d) == places[i]
            assert [name() for _ in range(3)] == (names[i:] + [None] * 3)[:3], i
        libc.closedir(d)
        print('ok')
    """))
step("1500 outputs are listed by buffers of any size, and from any position")

on(0, "os.mkdir(work + '/small'), open(work + '/small/one', 'w').close()")
for node in range(count):
    equal("changes meanwhile", "ok", on(node, """
        at = f'{work}/changes.{sys.argv[2]}'
        os.mkdir(at)
        for i in range(900): open(f'{at}/kept{i:03d}', 'w').close(), open(f'{at}/gone{i:03d}', 'w').close()
        fd = os.open(at, os.O_RDONLY | os.O_DIRECTORY)
        found = raw(fd, 5000) + raw(fd, 5000)
        for i in range(900): os.unlink(f'{at}/gone{i:03d}')
        for i in range(500): open(f'{at}/made{i:03d}', 'w').close()
        found = [n for n, k, o in found + all_of(fd, 32768)]
        assert len(set(found)) == len(found) and sum(n.startswith('kept') for n in found) == 900
        assert sum(n.startswith('gone') for n in found) < 900
        d = os.open(work + '/small', os.O_RDONLY | os.O_DIRECTORY)
        for size in 24, 32, 40, 272, 279, 280, 32768:
            assert [n for n, k, o in all_of(d, size)] == ['.', '..', 'one'], size
            os.lseek(d, 0, os.SEEK_SET)
        open(work + '/small/two.' + sys.argv[2], 'w').close()
        os.lseek(d, 0, os.SEEK_SET)
        assert 'two.' + sys.argv[2] in [n for n, k, o in all_of(d, 32768)]
        os.unlink(work + '/small/two.' + sys.argv[2])
        print('ok')
    """, node))
step("names that come and go during a listing appear once or not at all, all others once")

on(0, "os.symlink('one', work + '/small/link')")
for node in range(count):
    equal("extended attributes", "ok", on(node, """
        def err(f, *args, **more):
            try: return f(*args, **more)
            except OSError as e: return errno.errorcode[e.errno]
        one = work + '/small/one'
        for name in one, work + '/small/link', work + '/small', work:
            assert os.listxattr(name) == os.listxattr(name, follow_symlinks=False) == [], name
            for follow in True, False:
                for attribute in 'user.own', 'security.selinux', 'system.posix_acl_access':
                    assert err(os.getxattr, name, attribute, follow_symlinks=follow) == 'ENODATA', (name, attribute)
                assert err(os.setxattr, name, 'user.own', b'1', follow_symlinks=follow) == 'ENOTSUP', name
                assert err(os.removexattr, name, 'user.own', follow_symlinks=follow) == 'ENOTSUP', name
        for flags in os.O_RDONLY, os.O_WRONLY, os.O_RDWR:
            fd = os.open(one, flags)
            for name in fd, f'/proc/self/fd/{fd}', f'/dev/fd/{fd}':
                assert 'user.own' not in os.listxattr(name), name
                assert err(os.getxattr, name, 'user.own') == 'ENODATA', name
                assert err(os.setxattr, name, 'user.own', b'1') == 'ENOTSUP', name
                assert err(os.removexattr, name, 'user.own') == 'ENOTSUP', name
            os.close(fd)
        assert err(os.listxattr, work + '/none') == err(os.getxattr, work + '/none', 'user.own') == 'ENOENT'
        assert err(os.setxattr, work + '/none', 'user.own', b'1') == 'ENOENT'
        made = f'{work}/made.{sys.argv[2]}'
        os.mknod(made, 0o640)
        assert err(os.mknod, made) == 'EEXIST' and os.stat(made).st_size == 0
        print('ok')
    """, node))
    for other in range(count): equal("made by mknod", "True", on(other, "print(os.path.isfile(f'{work}/made.{sys.argv[2]}'))", node))
step("no output has extended attributes, on any node; mknod makes files")
