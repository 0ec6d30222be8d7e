# SPDX-License-Identifier: BSD-3-Clause
"""Files that are removed or replaced while they are open on their home: outputs_removed.py MOUNT NODES PLAIN-DIRECTORY."""
import os
import sys

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from nodes import Nodes, equal, finish, step  # noqa: E402

mount, nodes, plain = sys.argv[1], int(sys.argv[2]), sys.argv[3]
work = os.path.join(mount, "removed")
programs = Nodes(work, "import fcntl, subprocess\n")
os.mkdir(work)

# Whoever removes it, by whichever call: as soon as the call has returned the home's descriptor says so.
for remover in range(nodes):
    equal(f"removed by node {remover}", "0", programs.on(0, """
        change = '''if True:
            import os, sys
            for i, line in enumerate(sys.stdin):
                name = line.strip()
                if i % 2:
                    open(name + '.new', 'w').close()
                    os.rename(name + '.new', name)
                else:
                    os.unlink(name)
                print(flush=True)
        '''
        other = subprocess.Popen([sys.executable, '-c', change], env={**os.environ, 'FANSTORE_NODE': sys.argv[2]}, text=True,
                                 stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        late = 0
        for i in range(200):
            fd = os.open(work + '/name', os.O_CREAT | os.O_RDWR, 0o600)
            os.write(fd, b'x' * 5000)
            os.close(os.dup(fd))
            print(work + '/name', file=other.stdin, flush=True)
            other.stdout.readline()
            late += os.fstat(fd).st_nlink
            os.close(fd)
            if os.path.exists(work + '/name'):
                os.unlink(work + '/name')
        print(late)
    """, remover))
step("st_nlink is 0 when unlink or rename has returned")

# A program that is started in a directory that was removed: ".." is where that was.
for node in range(nodes):
    equal(f"in a removed directory, node {node}", "[] ['kept'] ['kept', 'made'] 2", programs.on(node, """
        up = f'{work}/up{os.environ["FANSTORE_NODE"]}'
        for name in (up, up + '/gone', up + '/kept'):
            os.mkdir(name)
        os.chdir(up + '/gone')
        os.rmdir(up + '/gone')
        code = '''if True:
            import errno, os
            print(os.listdir('.'), os.listdir('..'), end=' ')
            open('../made', 'w').close()
            print(sorted(os.listdir('..')), end=' ')
            try:
                open('made', 'w')
            except OSError as e:
                print(e.errno)
        '''
        subprocess.run([sys.executable, '-c', code])
    """))
step("a program in a directory that was removed")

# A lock file that its holder removes: who gets the lock looks whether the file still has a name.
OPEN = """
    both = 0
    for i in range(250):
        while True:
            fd = os.open(work + '/lock', os.O_CREAT | os.O_RDWR, 0o600)
            fcntl.flock(fd, fcntl.LOCK_EX)
            if os.fstat(fd).st_nlink > 0:
                break
            os.close(fd)
        try:
            os.mkdir(sys.argv[2] + '/held')
            os.rmdir(sys.argv[2] + '/held')
        except OSError:
            both += 1
        os.unlink(work + '/lock')
        os.close(fd)
    print(both)
"""
equal("holders beside each other", ["0"] * 4, [finish(p) for p in [programs.start(0, OPEN, plain) for _ in range(4)]])
step("four processes lock a file, of which one removes it each time")
