# SPDX-License-Identifier: BSD-3-Clause
"""Directories that are renamed to other parents, seen from other nodes: outputs_dirs.py MOUNT NODES."""
import os
import sys

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from nodes import Nodes, equal, finish, step  # noqa: E402

mount, count = sys.argv[1], int(sys.argv[2])
nodes = Nodes(os.path.join(mount, "dirs"), forks=True)
on, last = nodes.on, count - 1

TREE = """
    for at, dirs, files in os.walk(work):
        dirs.sort()
        for name in sorted(files):
            print(os.path.relpath(os.path.join(at, name), work), open(os.path.join(at, name)).read())
        for name in dirs:
            print(os.path.relpath(os.path.join(at, name), work) + '/')
"""


def trees(what):
    seen = [on(node, TREE) for node in range(count)]
    for node in range(1, count):
        equal(f"{what}: node {node}", seen[0], seen[node])
    return seen[0].splitlines()


# One node is in it, and writes there, while another one moves it and what is above it.
on(0, """
    os.makedirs(work + '/a/b/c'), os.makedirs(work + '/z/y')
    open(work + '/a/b/c/f', 'w').write('first')
""")
inside = nodes.start(0, """
    os.chdir(work + '/a/b/c')
    log = open('log', 'w')
    log.write('one'), log.flush(), os.fsync(log.fileno())
    print('ready', flush=True)
    for line in sys.stdin:
        log.write(line.strip()), log.flush(), os.fsync(log.fileno())
        open('made-' + line.strip(), 'w').write('m')
        print(os.path.relpath(os.getcwd(), work), ' '.join(sorted(os.listdir('..'))), ' '.join(sorted(os.listdir('../..'))),
              flush=True)
    log.close()
""")


def ask(line):
    inside.stdin.write(line + "\n"), inside.stdin.flush()
    return inside.stdout.readline().strip()


assert inside.stdout.readline() == "ready\n"
for node in range(count):
    equal("before", "onefirst", on(node, "print(open(work + '/a/b/c/log').read() + open(work + '/a/b/c/f').read())"))
on(last, "os.rename(work + '/a/b', work + '/z/b2')")
for node in range(count):
    equal("moved", "False True one", on(node, """
        print(os.path.exists(work + '/a/b'), os.path.exists(work + '/z/b2/c/f'), open(work + '/z/b2/c/log').read())
    """))
equal("who is in it", "z/b2/c c b2 y", ask("two"))
on(count // 2, "os.rename(work + '/z', work + '/a/zz')")
equal("who is in it, again", "a/zz/b2/c c b2 y", ask("three"))
on(last, "os.rename(work + '/a/zz/b2/c', work + '/c')")
equal("at the top", "c", ask("four").split()[0])
finish(inside)
equal("all of it", ["c/f first", "c/log onetwothreefour", "c/made-four m", "c/made-three m", "c/made-two m"],
      [line for line in trees("moved") if line.startswith("c/") and line != "c/"])
step("a directory is moved while another node works in it")

# Each of two nodes moves one of two directories below the other.
on(0, "[os.makedirs(f'{work}/pair/{n}/in') for n in 'pq']")
INTO = """
    mine, other = sys.argv[2:4]
    base = work + '/pair/'
    print('ready', flush=True)
    for line in sys.stdin:
        try:
            os.rename(base + mine, base + other + '/in/x')
            print('done', flush=True)
        except OSError as e:
            print(errno.errorcode[e.errno], flush=True)
"""
movers = [nodes.start(0, INTO, "p", "q"), nodes.start(last, INTO, "q", "p")]
for m in movers:
    assert m.stdout.readline() == "ready\n"
for i in range(60):
    for m in movers:
        m.stdin.write("go\n"), m.stdin.flush()
    said = sorted(m.stdout.readline().strip() for m in movers)
    # The loser's path is gone by then, or leads into the moved one.
    assert said in (["EINVAL", "done"], ["ENOENT", "done"]), said
    on(i % count, "[os.rename(f'{work}/pair/{a}/in/x', f'{work}/pair/{b}') for a, b in ('pq', 'qp') if "
                  "os.path.exists(f'{work}/pair/{a}/in/x')]")
    equal("after it", "['p', 'q']", on((i + 1) % count, "print(sorted(os.listdir(work + '/pair')))"))
for m in movers:
    finish(m)
step("two directories are not moved into each other")

# Every node moves directories about; each stays one, with what is in it.
on(0, """
    for i in range(12):
        os.mkdir(f'{work}/pair/d{i}')
        open(f'{work}/pair/d{i}/f{i}', 'w').write(str(i))
""")
STORM = """
    rng, moved = random.Random(int(sys.argv[2])), 0
    for i in range(150):
        dirs = [at for at, _, _ in os.walk(work + '/pair') if os.path.basename(at)[0] == 'd']
        if len(dirs) < 2:
            continue
        a, b = rng.choice(dirs), rng.choice([work + '/pair', *dirs])
        try:
            os.rename(a, os.path.join(b, os.path.basename(a)))
            moved += 1
        except OSError as e:
            assert e.errno in (errno.ENOENT, errno.EINVAL, errno.ENOTEMPTY), e
    print(moved)
"""
storm = [nodes.start(node, STORM, node) for node in range(count)]
moved = sum(int(finish(s)) for s in storm)
assert moved > 20 * count, moved
left = trees("after the storm")
equal("each once", 12, len({line.rstrip("/").split("/")[-1] for line in left if line.startswith("pair/") and "/d" in line
                            and line.endswith("/")}))
for i in range(12):
    equal(f"f{i}", 1, sum(line.endswith(f"d{i}/f{i} {i}") for line in left))
on(last, "import shutil; shutil.rmtree(work + '/pair')")
for node in range(count):
    equal("removed", "False", on(node, "print(os.path.exists(work + '/pair'))"))
step(f"{count} nodes move directories about")
