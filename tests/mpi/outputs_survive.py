# SPDX-License-Identifier: BSD-3-Clause
"""One daemon dies, and no name of an output does: outputs_survive.py MOUNT NODES VICTIM LOCAL_DIR."""
import os
import signal
import sys
import time

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from nodes import Nodes, daemon, equal, finish, step  # noqa: E402

mount, count, victim, local = sys.argv[1], int(sys.argv[2]), int(sys.argv[3]), sys.argv[4]
EACH = 8  # files and directories of a kind that each node makes
nodes = Nodes(os.path.join(mount, "survive"), f"EACH = {EACH}\n")
on = nodes.on
living = [node for node in range(count) if node != victim]

# What every node makes: files, directories, symlinks, renamed and replaced, in its own directories and in those of others.
MAKE = """
    node, count = int(sys.argv[2]), int(sys.argv[3])
    for i in range(EACH):
        os.makedirs(f'{work}/n{node}/d{i}/in', exist_ok=True)
        for where in (f'n{node}/d{i}', f'n{node}/d{i}/in', '.'):
            with open(f'{work}/{where}/f{node}.{i}', 'w') as f:
                f.write(f'{node} {i} ' * 1000)
        os.symlink(f'f{node}.{i}', f'{work}/n{node}/d{i}/s')
        with open(f'{work}/n{node}/tmp', 'w') as f:
            f.write(f'{node} {i} ' * 500)
        os.rename(f'{work}/n{node}/tmp', f'{work}/n{node}/ckpt')
        os.rename(f'{work}/n{node}/d{i}/in', f'{work}/other{i % 7}/of{node}.{i}')
        open(f'{work}/n{node}/gone', 'w').close(), os.unlink(f'{work}/n{node}/gone')
"""


def expected():
    names = {"": sorted([f"n{n}" for n in range(count)] + [f"other{i}" for i in range(7)] +
                        [f"f{n}.{i}" for n in range(count) for i in range(EACH)])}
    for n in range(count):
        names[f"n{n}"] = sorted(["ckpt"] + [f"d{i}" for i in range(EACH)])
        for i in range(EACH):
            names[f"n{n}/d{i}"] = [f"f{n}.{i}", "s"]
            names[f"other{i % 7}/of{n}.{i}"] = [f"f{n}.{i}"]
    for o in range(7):
        names[f"other{o}"] = sorted(f"of{n}.{i}" for n in range(count) for i in range(EACH) if i % 7 == o)
    return names


LIST = """
    for at, dirs, files in os.walk(work):
        for name in sorted(dirs + files):
            print(os.path.relpath(os.path.join(at, name), work))
"""

# Bytes of living homes are whole; of the dead one's there is an error, and soon.
READ = """
    dead, patience = sys.argv[2], float(sys.argv[3])
    whole = refused = 0
    slowest = 0.0
    for at, dirs, files in os.walk(work):
        for name in files:
            path = os.path.join(at, name)
            assert os.lstat(path).st_mode
            if name == 's':
                assert os.readlink(path).startswith('f')
            maker = at.split('/n')[-1] if name == 'ckpt' else os.path.realpath(path).split('/f')[-1].split('.')[0]
            began = time.monotonic()
            try:
                data = open(path).read()
                last = EACH - 1 if name == 'ckpt' else int(os.path.realpath(path).rsplit('.', 1)[-1])
                assert data == f'{maker} {last} ' * (500 if name == 'ckpt' else 1000), path
                assert maker != dead, path
                whole += 1
            except OSError as e:
                assert e.errno == errno.EIO and maker == dead, (path, e)
                refused += 1
            slowest = max(slowest, time.monotonic() - began)
    assert slowest < patience, slowest
    print(whole, refused)
"""

# While it happens: names are made, renamed and removed all the time, and not one call fails.
GO_ON = """
    node, i = int(sys.argv[2]), 0
    end = float('inf')
    print('ready', flush=True)
    import select
    slowest = 0.0
    while time.monotonic() < end:
        began = time.monotonic()
        os.mkdir(f'{work}/go{node}/d{i}')
        open(f'{work}/go{node}/d{i}/a', 'w').write('a')
        os.rename(f'{work}/go{node}/d{i}/a', f'{work}/go{node}/f{i}')
        os.rename(f'{work}/go{node}/d{i}', f'{work}/gone/d{node}.{i}')
        os.symlink('x', f'{work}/gone/d{node}.{i}/s')
        if i % 2:
            os.unlink(f'{work}/gone/d{node}.{i}/s'), os.rmdir(f'{work}/gone/d{node}.{i}')
        slowest = max(slowest, time.monotonic() - began)
        i += 1
        if end == float('inf') and select.select([0], [], [], 0)[0]:
            end = time.monotonic() + 1
    print(i, f'{slowest:.1f}')
"""


on(victim, "os.mkdir(work); [os.mkdir(f'{work}/other{i}') for i in range(7)]")
for maker in [nodes.start(node, MAKE, node, count) for node in range(count)]:
    finish(maker)
want = sorted(os.path.join(at, name) for at, found in expected().items() for name in found)
equal("before", want, sorted(on(victim, LIST).splitlines()))

on(victim, "os.mkdir(work + '.own'); [open(f'{work}.own/f{i}', 'w').write('own' * 9) for i in range(100)]")
on(living[0], f"[os.mkdir(f'{{work}}/go{{n}}') for n in {living}]; os.mkdir(work + '/gone')")
workers = [nodes.start(node, GO_ON, node) for node in living]
for w in workers:
    assert w.stdout.readline() == "ready\n"
time.sleep(1)  # the backup has the sizes in the private directory by then
os.kill(daemon(victim, local), signal.SIGKILL)
time.sleep(1)
for w in workers:
    w.stdin.write("end\n"), w.stdin.flush()
ends = [finish(w).split() for w in workers]
for node, (n, _) in zip(living, ends):
    for other in living:
        equal(f"node {node}'s, on {other}", f"{int(n)} {int(n) - int(n) // 2}", on(other, """
            node = sys.argv[2]
            print(len(os.listdir(f'{work}/go{node}')), sum(d.startswith(f'd{node}.') for d in os.listdir(work + '/gone')))
        """, node))
on(living[-1], "import shutil; shutil.rmtree(work + '/gone'); [shutil.rmtree(f'{work}/go{n}') for n in " + str(living) + "]")
step(f"{[int(n) for n, _ in ends]} names made, moved and removed meanwhile; the slowest took {max(s for _, s in ends)} s")

for node in living:
    equal(f"names seen from node {node}", want, sorted(on(node, LIST).splitlines()))
for node in living:
    equal("whole, and refused", f"{(4 * EACH + 1) * (count - 1)} {4 * EACH + 1}", on(node, READ, victim, 10))
    equal("in a directory that only its maker has used", "100 [27] EIO", on(node, """
        found = [f'{work}.own/{name}' for name in os.listdir(work + '.own')]
        try:
            why = open(found[0]).read()
        except OSError as e:
            why = errno.errorcode[e.errno]
        print(len(found), sorted({os.stat(path).st_size for path in found}), why)
    """))
step("all names are there, the bytes of living nodes are whole, others are EIO")

# Names go on everywhere, those of the dead node's files included.
for node in living:
    on(node, """
        node, dead = sys.argv[2:4]
        for i in range(EACH):
            open(f'{work}/other{i % 7}/new{node}.{i}', 'w').write('new')
            os.rename(f'{work}/other{i % 7}/new{node}.{i}', f'{work}/n{dead}/d{i}/new{node}')
        if os.path.exists(f'{work}/n{dead}/ckpt'):
            os.rename(f'{work}/n{dead}/ckpt', f'{work}/n{dead}/ckpt.old')
        with open(f'{work}/n{dead}/ckpt.new', 'w') as f:
            f.write('again')
        os.rename(f'{work}/n{dead}/ckpt.new', f'{work}/n{dead}/ckpt.old')
    """, node, victim)
for node in living:
    equal("made again", "again " + "new" * len(living), on(node, """
        at = f'{work}/n{sys.argv[2]}'
        print(open(at + '/ckpt.old').read(), ''.join(open(f'{at}/d3/{n}').read() for n in os.listdir(at + '/d3') if n[:3] == 'new'))
    """, victim))
on(living[0], "import shutil; shutil.rmtree(work)")
for node in living:
    equal("removed", "False", on(node, "print(os.path.exists(work))"))
step("files are made, renamed, replaced and removed")
