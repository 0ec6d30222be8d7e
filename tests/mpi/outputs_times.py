# SPDX-License-Identifier: BSD-3-Clause
"""Times of directories whose names change, seen from all nodes: outputs_times.py MOUNT NODES DIRECTORY-OF-THE-DATASET."""
import os
import sys

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from nodes import Nodes, equal, finish, start, step  # noqa: E402

mount, count, packed = sys.argv[1], int(sys.argv[2]), sys.argv[3]
work = os.path.join(mount, "times")
nodes = Nodes(work)
on, last = nodes.on, count - 1

# Each node has one program that does what it is told, and is asked again and again.
PROGRAM = """
import os, sys
for line in sys.stdin:
    try:
        print(repr(eval(line)), flush=True)
    except OSError as e:
        print(repr(e), flush=True)
"""
programs = [start(node, sys.executable, "-c", PROGRAM) for node in range(count)]


def do(node, code):
    programs[node].stdin.write(code + "\n"), programs[node].stdin.flush()
    return programs[node].stdout.readline().strip()


def times(path):
    """On all nodes the same, by name and by descriptor, in nanoseconds and in seconds; and the links are as many as the
    directory and its subdirectories have."""
    look = f"(lambda s: (s.st_mtime_ns, s.st_ctime_ns, s.st_mtime))(os.stat({path!r}))"
    links = f"2 + sum(e.is_dir(follow_symlinks=False) for e in os.scandir({path!r})), os.stat({path!r}).st_nlink"
    links += f", (lambda fd: (os.fstat(fd).st_nlink, os.close(fd))[0])(os.open({path!r}, os.O_RDONLY))"
    seen = do(0, look)
    for node in range(count):
        equal(f"{path} on node {node}", seen, do(node, look))
        expected, *told = eval(do(node, links))
        equal(f"links of {path} on node {node}", [expected] * 2, told)
        opened = f"(lambda fd: (os.fstat(fd).st_mtime_ns, os.close(fd))[0])(os.open({path!r}, os.O_RDONLY))"
        equal(f"{path} on node {node}, open", str(eval(seen)[0]), do(node, opened))
    return eval(seen)


def check(what, node, code, moved, still=()):
    """Both times of what has moved are later than before; the others are as they were."""
    before = {path: times(path) for path in (*moved, *still)}
    answer = do(node, code)
    assert "Error" not in answer, f"{what}: {answer}"
    for path, was in before.items():
        now = times(path)
        if path in still:
            equal(f"{what}: {path}", was, now)
        else:
            assert all(a > b for a, b in zip(now, was)), f"{what}: {path}: {was}, then {now}"


WRITE = "(lambda f: (f.write('x'), f.close()))(open({!r}, 'w'))".format

do(0, f"os.mkdir({work!r})")
for where, other in ((work, mount), (packed, work), (mount, packed)):
    for node in (0, last):
        f, d, l = (f"{where}/{name}{node}" for name in "fdl")
        check("create", node, WRITE(f), [where], [other])
        check("write again", node, WRITE(f), [], [where, other])
        check("write there", last - node, f"(lambda f: (f.write('y'), f.close()))(open({f!r}, 'a'))", [], [where])
        check("read, list", node, f"(open({f!r}).read(), os.listdir({where!r}))", [], [where, other])
        check("chmod", last - node, f"os.chmod({f!r}, 0o600)", [], [where, other])
        check("mkdir", node, f"os.mkdir({d!r})", [where], [other])
        check("symlink", node, f"os.symlink('x', {l!r})", [where], [other])
        check("in it", last - node, WRITE(d + "/f"), [d], [where, other])
        check("exists", node, f"(os.path.exists({f!r}), os.path.exists({where!r} + '/none'))", [], [where, other])
        check("rename", node, f"os.rename({l!r}, {l + '2'!r})", [where], [other])
        check("replace", last - node, f"os.rename({l + '2'!r}, {f!r})", [where], [other])
        check("rename out", node, f"os.rename({f!r}, {other + '/moved'!r})", [where, other], [d])
        check("rename in", last - node, f"os.rename({other + '/moved'!r}, {f!r})", [where, other], [d])
        check("move a directory", node, f"os.rename({d!r}, {other + '/dir'!r})", [where, other])
        check("it again", last - node, WRITE(other + "/dir/g"), [other + "/dir"], [where, other])
        check("remove in it", node, f"(os.unlink({other + '/dir/f'!r}), os.unlink({other + '/dir/g'!r}))", [other + "/dir"], [other])
        check("rmdir", last - node, f"os.rmdir({other + '/dir'!r})", [other], [where])
        check("remove", node, f"os.unlink({f!r})", [where], [other])
do(0, f"(os.makedirs({work + '/has/two/x'!r}), os.mkdir({work + '/has/one'!r}))")
for node in range(count):
    equal("links by statx", "'4'", do(node, f"os.popen('stat -c %h {work}/has').read().strip()"))
step("times of directories move with their names, and their links are counted")

# What is set holds until the next change.
do(0, f"os.mkdir({work + '/set'!r})")
for node in (0, last):
    d = work + "/set"
    check("make", node, WRITE(f"{d}/f{node}"), [d])
    for at in (10**18 + 5, 7, 2 * 10**18 + 7):
        do(node, f"os.utime({d!r}, ns=(1, {at}))")
        now = times(d)
        equal("set", at, now[0])
        assert now[1] != at, now
    do(last - node, WRITE(f"{d}/f{node}"))
    equal("written again", 2 * 10**18 + 7, times(d)[0])
    do(last - node, f"os.unlink('{d}/f{node}')")
    assert now[0] > times(d)[0] > 10**18 + 10**17, times(d)
    check("touch", last - node, f"os.utime({d!r})", [d])
    do(node, f"os.utime({d!r}, ns=(1, 5))")
    do(node, f"os.rename({d!r}, {d + '2'!r})")
    equal("renamed", 5, times(d + "2")[0])
    do(node, f"os.rename({d + '2'!r}, {d!r})")
step("utimens of a directory")

# A module that another node makes is found by a program that has looked in the directory before.
for node, maker in ((0, last), (last, 0), (last, last)):
    for where in (work, packed):
        name = f"made_{node}_{maker}_{os.path.basename(where)}"
        looking = nodes.start(node, """
            import importlib
            sys.path.insert(0, sys.argv[2])
            for name in sys.stdin:
                try:
                    print(importlib.import_module(name.strip()).value, flush=True)
                except ImportError:
                    print('not found', flush=True)
        """, where)
        for value, seen in ((1, False), (2, True), (3, True)):
            module = f"{name}_{value}"
            if seen:
                on(maker, f"open({where!r} + '/{module}.py', 'w').write('value = {value}')")
            looking.stdin.write(module + "\n"), looking.stdin.flush()
            equal(f"import of {module}", str(value) if seen else "not found", looking.stdout.readline().strip())
        finish(looking)
step("modules are found that were made meanwhile")

for p in programs:
    finish(p)
