# SPDX-License-Identifier: BSD-3-Clause
"""Programs that lock outputs and are killed: locks_kills.py MOUNT ROUNDS. Node 0 makes the files."""
import os
import random
import sys
import time

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from locking import PRELUDE, said, tell  # noqa: E402
from nodes import Nodes, equal, finish, rest, step  # noqa: E402

mount, rounds = sys.argv[1], int(sys.argv[2])
work = os.path.join(mount, "kills")
seed = int(os.environ.get("FS_SEED", time.time_ns() % 100000))
random.seed(seed)
print("-- FS_SEED=%d" % seed, flush=True)
start, on = (programs := Nodes(work, PRELUDE)).start, programs.on

# Two tables that each transaction changes alike.
on(0, """
    import sqlite3
    os.mkdir(work)
    db = sqlite3.connect(work + '/db', isolation_level=None)
    for name in 'ab':
        db.execute('create table %s (n integer, pad text)' % name)
        db.execute('insert into %s values (0, ?)' % name, ('x' * 20000,))
""")
ADD = """
    import sqlite3
    db = sqlite3.connect(work + '/db', isolation_level=None, timeout=60)
    say('ready')
    while True:
        db.execute('begin immediate')
        n = [db.execute('select n from %s' % name).fetchone()[0] for name in 'ab']
        assert n[0] == n[1], n
        for name in 'ab':
            db.execute('update %s set n = n + 1, pad = ?' % name, (chr(97 + n[0] % 26) * (20000 + n[0] % 7000),))
        db.execute('commit')
        say(n[0] + 1)
"""
least = 0
for turn in range(rounds):
    writers = [start(n, ADD) for n in (0, 1, 2)]
    for w in writers:
        equal("ready", "ready", said(w))
    time.sleep(0.1 + random.random() / 4)
    for w in random.sample(writers, 3):
        time.sleep(random.random() / 50)
        w.kill()
    for w in writers:
        # What a program has said is there; a line may be cut.
        least = max([least, *(int(line) for line in rest(w).split("\n")[:-1])])
    a, b, ok = on(turn % 3, """
        import sqlite3
        db = sqlite3.connect(work + '/db', timeout=20)
        print(*[db.execute('select n from %s' % name).fetchone()[0] for name in 'ab'], db.execute('pragma integrity_check').fetchone()[0])
    """).split()
    equal(f"round {turn}: the tables", (a, "ok"), (b, ok))
    assert least <= int(a) <= least + 3, f"round {turn}: {a} instead of {least}"
    least = int(a)
step("SQLite: %d transactions, and %d killed programs" % (least, 3 * rounds))

# Random ranges of three owners, each on a node of its own, and of three on a plain file on this one.
OWNER = """
    fd = os.open(sys.argv[2], os.O_RDWR)
    while line := wait():
        kind, op, first, n = line.split()
        call = by_fcntl if kind == 'process' else by_ofd
        say(attempt(call, fd, {'r': SH, 'w': EX, 'u': UN}[op] | (NB if op != 'u' else 0), int(first), int(n)))
"""
plain = os.path.join(os.environ["TMPDIR"], "plain")
with open(plain, "w") as f:
    f.write("0")
on(0, "open(work + '/ranges', 'w').write('0')")
owners = [[start(n, OWNER, path) for n in (0, 1, 2)] for path in (os.path.join(work, "ranges"), plain)]
seen = {}
for i in range(rounds * 50):
    who, call = random.randrange(3), "%s %s %d %d" % (random.choice(("process", "ofd")), random.choice("rwwuu"),
                                                      random.randrange(12), random.randrange(8))
    answers = []
    for side in owners:
        tell(side[who], call)
        answers.append(said(side[who]))
    equal(f"call {i}, {call} of {who}", answers[1], answers[0])
    seen[answers[0]] = seen.get(answers[0], 0) + 1
for side in owners:
    for o in side:
        tell(o)
        finish(o)
assert len(seen) == 2, seen
step("random ranges, as the kernel has them: %s" % seen)
