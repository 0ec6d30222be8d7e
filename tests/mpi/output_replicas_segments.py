# SPDX-License-Identifier: BSD-3-Clause
"""Files of several writers, with replicas: daemons of homes and of writers are killed, and what any node has closed or
synced is read on the others. As output_replicas.py, whose steps it has, too.
usage: output_replicas_segments.py MOUNT NODES PLAIN CASE
"""
import errno
import hashlib
import os
import subprocess
import sys
import time

import output_replicas as base
from output_replicas import case, check, data, kill, me, mnt, node, nodes, on_all, plain, stream_bytes

BLOCK, ROWS = 70_001, 12


def whole(rows=ROWS):
    return b"".join(data(f"{row}-{n}", BLOCK) for row in range(rows) for n in range(nodes))


# ---- steps ----

def step_make(name):
    """Here is its home, whose block of each row goes through the kernel."""
    fd = os.open(f"{mnt}/{name}", os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o640)
    for row in range(ROWS):
        os.pwrite(fd, data(f"{row}-{me}", BLOCK), (row * nodes + me) * BLOCK)
    os.close(fd)


def step_segment(name, first, last, how):
    """This node's block of each of these rows."""
    fd = os.open(f"{mnt}/{name}", os.O_WRONLY)
    for row in range(int(first), int(last)):
        os.pwrite(fd, data(f"{row}-{me}", BLOCK), (row * nodes + me) * BLOCK)
    if how == "sync":
        os.fsync(fd)
        os.kill(os.getpid(), 9)
    os.close(fd)


def step_whole(name):
    check(name, whole())


def step_over(name):
    """Other bytes into the middle, some cut off, and a line at the end."""
    with open(f"{mnt}/{name}", "r+b") as f:
        f.seek(100_000)
        f.write(b"other" * 30_000)
    os.truncate(f"{mnt}/{name}", 300_000)
    with open(f"{mnt}/{name}", "ab") as f:
        f.write(b"end\n")


def step_is_over(name):
    want = bytearray(whole()[:300_000])
    want[100_000:250_000] = b"other" * 30_000
    check(name, bytes(want) + b"end\n")


def step_halves(name):
    """Half of its blocks before the kill, half after it, by one descriptor."""
    fd = os.open(f"{mnt}/{name}", os.O_RDWR)
    for row in range(ROWS):
        if row == ROWS // 2:
            os.fsync(fd)
            open(f"{plain}/open-{me}", "w").close()
            while not os.path.exists(f"{plain}/killed"):
                time.sleep(0.01)
        os.pwrite(fd, data(f"{row}-{me}", BLOCK), (row * nodes + me) * BLOCK)
    os.fsync(fd)
    if os.pread(fd, BLOCK, me * BLOCK) != data(f"0-{me}", BLOCK):
        sys.exit("it reads other bytes")
    os.close(fd)


def step_stripes(name, victim):
    """Until it is told to stop: this node's stripes, each noted when it was synced."""
    fd = os.open(f"{mnt}/{name}", os.O_WRONLY)
    with open(f"{plain}/stripes-{me}", "w") as note:
        for i in range(100_000):
            n = (50, 9_000, 300_000)[i % 3]
            at = (i * nodes + me) * 300_000
            if os.path.exists(f"{plain}/stop"):
                return
            try:
                os.pwrite(fd, stream_bytes(at, n), at)
                os.fsync(fd)
            except OSError:
                if me == int(victim):
                    return
                raise
            note.write(f"{at} {n}\n")
            note.flush()


def step_striped(name):
    count = 0
    with open(f"{mnt}/{name}", "rb") as f:
        for n in range(nodes):
            with open(f"{plain}/stripes-{n}") as notes:
                for line in notes:
                    at, length = map(int, line.split())
                    f.seek(at)
                    if f.read(length) != stream_bytes(at, length):
                        sys.exit(f"{name} on node {me}: {length} bytes of node {n} at {at} are others")
                    count += 1
    print(count)


# ---- cases, on node 0 ----

def shared(name, home):
    """All nodes have a segment of it; some were closed, some synced by who was killed then."""
    node(home, "make", name)
    for n in range(nodes):
        if n != home:
            node(n, "segment", name, 0, ROWS // 2, "close")
            p = node(n, "segment", name, ROWS // 2, ROWS, "sync", wait=False)
            p.communicate()
            if p.returncode != -9:
                sys.exit(f"not synced: {p.returncode}")


def case_homes():
    """The daemon of the home of one, and of a writer of another file dies; then the one that has all now."""
    shared("x", 1)
    shared("y", 0)
    shared("z", nodes - 1)
    kill(1)
    for name in "xyz":
        on_all([1], "whole", name)
    print("ok - several writers: a home's death, and a writer's")
    node(nodes - 1 if nodes > 2 else 0, "over", "x")
    node(0, "over", "y")
    for name in "xy":
        on_all([1], "is_over", name)
    if nodes < 4:
        return
    time.sleep(6)  # in which the replicas are made anew
    kill(2)
    for name in "xy":
        on_all([1, 2], "is_over", name)
    on_all([1, 2], "whole", "z")
    print("ok - several writers: and that of the node that had them then")


def step_append(name):
    subprocess.run(["sh", "-c", f"for i in 1 2 3; do echo {me}-$i; done >>{mnt}/{name}"], check=True)


def step_place(name):
    dd = f"printf %s node-{me} | dd of={mnt}/{name} bs=1 seek={1000 + me * 100} conv=notrunc status=none"
    subprocess.run(["sh", "-c", dd], check=True)


def step_forwarded(name):
    with open(f"{mnt}/{name}", "rb") as f:
        got = f.read()
    lines = got[:1000].rstrip(b"\0").split()
    if sorted(lines) != sorted(b"%d-%d" % (n, i) for n in range(nodes) if n != 1 for i in (1, 2, 3)):
        sys.exit(f"lines: {lines}")
    for n in range(nodes):
        if n != 1 and got[1000 + n * 100:].split(b"\0")[0] != b"node-%d" % n:
            sys.exit(f"{name}: {got}")


def case_forwarders():
    node(1, "touch", "log")
    on_all([1], "append", "log")
    on_all([1], "place", "log")
    kill(1)
    on_all([1], "forwarded", "log")
    print("ok - shells' redirections into another node's file")


def step_hold(name):
    """Here is its home, which has nobody told of it when its daemon dies."""
    os.open(f"{mnt}/{name}", os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o640)
    open(f"{plain}/open-{me}", "w").close()
    while not os.path.exists(f"{plain}/dead"):
        time.sleep(0.01)


def synced(fd):
    try:
        os.fsync(fd)
        return True
    except OSError as e:
        if e.errno != errno.EIO:
            raise
        return False


def step_into(name):
    fd = os.open(f"{mnt}/{name}", os.O_WRONLY)
    os.write(fd, b"segment")
    open(f"{plain}/open-{me}", "w").close()
    while not os.path.exists(f"{plain}/killed"):
        time.sleep(0.01)
    if synced(fd):
        check(name, b"segment")


def step_lines(name):
    """Lines until home has died and others have been taken; when fsync then says that they are there, they are."""
    fd, mine, after = os.open(f"{mnt}/{name}", os.O_WRONLY | os.O_APPEND), set(), 0
    while after < 20:
        line = b"%d-%d" % (me, len(mine))
        after += os.path.exists(f"{plain}/killed")
        os.write(fd, line + b"\n")
        mine.add(line)
        if len(mine) == 200:
            open(f"{plain}/open-{me}", "w").close()
    there = synced(fd)
    with open(f"{mnt}/{name}", "rb") as f:
        lost = mine - set(f.read().split(b"\n"))
    if there and lost:
        sys.exit(f"{len(lost)} lines are lost, and nobody was told: {sorted(lost)[:5]}")


def orphaned(step, name):
    """Each of the others does this; home dies when all have said that they are in the middle of it."""
    writers = [node(n, step, name, wait=False) for n in range(nodes) if n != 1]
    while any(not os.path.exists(f"{plain}/open-{n}") for n in range(nodes) if n != 1):
        time.sleep(0.01)
    kill(1)
    open(f"{plain}/killed", "w").close()
    for p in writers:
        out = p.communicate(timeout=60)[0]
        if p.returncode != 0:
            sys.exit(f"{step}: {p.returncode} {out}")
    for n in range(nodes):
        if n != 1:
            os.remove(f"{plain}/open-{n}")


def case_open():
    """Who writes goes on when home dies."""
    node(1, "make", "f")
    orphaned("halves", "f")
    on_all([1], "whole", "f")
    print("ok - several writers go on after home's death")


def case_untold():
    """What home had taken and its partner had not heard of is no success of fsync's."""
    holder = node(1, "hold", "f", wait=False)
    while not os.path.exists(f"{plain}/open-1"):
        time.sleep(0.01)
    orphaned("into", "f")
    open(f"{plain}/dead", "w").close()
    holder.communicate()
    print("ok - home dies with a file that nobody had published")


def case_appended():
    node(1, "touch", "log")
    orphaned("lines", "log")
    print("ok - home dies while lines are appended")


def case_random(home, seconds):
    """All write all the time, and a daemon, home's or a writer's, is killed at some moment."""
    node(home, "touch", "s")
    writers = [node(n, "stripes", "s", 1, wait=False) for n in range(nodes)]
    while any(not os.path.exists(f"{plain}/stripes-{n}") for n in range(nodes)):
        time.sleep(0.01)
    time.sleep(float(seconds))
    kill(1)
    time.sleep(1)
    open(f"{plain}/stop", "w").close()
    for n, p in enumerate(writers):
        out = p.communicate(timeout=60)[0]
        if p.returncode != 0:
            sys.exit(f"the writer of node {n}: {p.returncode} {out}")
    for n in range(nodes):
        if n != 1:
            out = node(n, "striped", "s")
    print(f"ok - {out.strip()} stripes of all nodes, home is {home}: all that were synced")


def case_end():
    """The job ends just after the death of a home and writer."""
    shared("x", 1)
    shared("y", 0)
    md5 = hashlib.md5(whole()).hexdigest()
    with open(f"{plain}/sums", "w") as f:
        f.write("".join(f"{md5}  ./{name}\n" for name in "xy"))
    kill(1)


def step_refused(name, n):
    try:
        base.write(name, data(name, int(n)))
    except OSError as e:
        if e.errno != errno.EDQUOT:
            raise
        return
    sys.exit(f"{name} has a replica")


def case_full():
    """The partner has no room; who closes hears of it, and the end of the job names what was lost so."""
    node(2, "write", "other", "other", (8 << 20) - (128 << 10))
    node(2, "write", "more", "more", 200 << 10)  # one block: the limit is passed with all of it, or not at all
    time.sleep(1)
    node(1, "refused", "lost", 1 << 20)
    kill(1)


def case_removed():
    """Its segments go when it goes, from all nodes."""
    shared("x", 1)
    shared("y", 0)
    on_all([], "whole", "x")
    os.remove(f"{mnt}/x")
    os.remove(f"{mnt}/y")


if __name__ == "__main__":
    steps = {**vars(base), **globals()}
    steps[case if case.startswith("case_") else f"step_{case}"](*sys.argv[5:])
