# SPDX-License-Identifier: BSD-3-Clause
"""One segment of a file of several writers for each node, whichever programs write there: outputs_segments.py MOUNT NODES
LOCAL_DIR. Each writer is a family of its own, as the shells and ranks are that a job starts. As an MPI process of --np:
outputs_segments.py MOUNT NODES LOCAL_DIR ranks."""
import os
import random
import signal
import subprocess
import sys
import time

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from nodes import daemon, equal, finish, step  # noqa: E402

mount, nodes, local = sys.argv[1], int(sys.argv[2]), sys.argv[3]
last = nodes - 1
STRIPE = 47_008  # no whole blocks, nor pages
# writer.py PATH FLAGS SEED FIRST STEP COUNT SYNC: stripes FIRST, FIRST + STEP, ...; after each line that it is told.
WRITER = """
import os, sys
path, flags, seed, first, step, count, sync = sys.argv[1], *map(int, sys.argv[2:])
fd = os.open(path, os.O_WRONLY | flags)
print("open", flush=True)
sys.stdin.readline()
for i in range(count):
    stripe = first + i * step
    data = (b"%d.%d;" % (seed, stripe) * 12000)[:47008]
    assert os.pwrite(fd, data, stripe * 47008) == 47008
    if sync:
        os.fsync(fd)
        print(i + 1, flush=True)
if not sync:
    print("written", flush=True)
    sys.stdin.readline()
os.close(fd)
"""


def stripe(seed, i):
    return (b"%d.%d;" % (seed, i) * 12000)[:STRIPE]


def start(node, *command):
    """A family of its own: it knows of no table of descriptors."""
    env = {k: v for k, v in os.environ.items() if k != "FANSTORE_STATE"}
    return subprocess.Popen([sys.executable, "-S", "-c", *map(str, command)], env={**env, "FANSTORE_NODE": str(node)}, text=True,
                            stdin=subprocess.PIPE, stdout=subprocess.PIPE)


def writer(node, name, seed, first, of, count, flags=0, sync=0):
    return start(node, WRITER, f"{mount}/{name}", flags, seed, first, of, count, sync)


def write(*writers):
    """All of them open it, then all begin to write."""
    for p in writers:
        equal("opened", "open\n", p.stdout.readline())
    for p in writers:
        p.stdin.write("go\n"), p.stdin.flush()


def go(*writers):
    """All of them write, and then close."""
    write(*writers)
    for p in writers:
        equal("written", "written\n", p.stdout.readline())
    for p in writers:
        finish(p)


def make(node, name, data=b""):
    finish(start(node, "import os, sys; open(sys.argv[1], 'wb').write(b'x' * int(sys.argv[2]))", f"{mount}/{name}",
                 len(data)))


def seen(node, name):
    p = subprocess.run(["cat", f"{mount}/{name}"], env={**os.environ, "FANSTORE_NODE": str(node)}, stdout=subprocess.PIPE)
    equal("status of cat", 0, p.returncode)
    return p.stdout


def compare(name, expected):
    for node in range(nodes):
        data = seen(node, name)
        equal("bytes", len(expected), len(data))
        wrong = [i for i in range(0, len(data), STRIPE) if data[i:i + STRIPE] != expected[i:i + STRIPE]]
        assert not wrong, f"{name}, node {node}: stripes {[i // STRIPE for i in wrong]}"


def backing_files(node):
    """Names and bytes on the disk of what is in the node's backing directory."""
    out = {}
    for top, _, names in os.walk(f"{local}/fanstore-node{node}" if nodes > 1 else local):
        for name in names if os.path.basename(top) == "out" else []:
            try:
                out[name] = os.stat(f"{top}/{name}").st_blocks * 512
            except FileNotFoundError:
                pass
    return out


def segments_now(before, what, home=0):
    """One for each node; of home one more, its own."""
    for node in range(nodes):
        equal(f"{what}: backing_files of node {node}", 1 + (node == home), len(set(backing_files(node)) - set(before[node])))


def all_backing_files():
    return [backing_files(node) for node in range(nodes)]


def remove(name):
    finish(start(last, "import os, sys; os.unlink(sys.argv[1])", f"{mount}/{name}"))


def gone(before, what):
    end = time.monotonic() + 20
    while any(set(now) - set(old) for now, old in zip(all_backing_files(), before)):
        assert time.monotonic() < end, f"{what}: {before} {all_backing_files()}"
        time.sleep(0.02)


def strided():
    """Two writers on each node, one after the other and at once."""
    count = 12
    for at_once in 0, 1:
        name, before = f"strided.{at_once}", all_backing_files()
        make(0, name)
        # home first has a segment when another node has written: until then its programs write its backing
        order = [(last, 0), *((n, 0) for n in range(last)), *((n, 1) for n in range(nodes))]
        ranks = {(n, k): k * nodes + n for n, k in order}
        if at_once:
            go(writer(last, name, 5, ranks[last, 0], 2 * nodes, 1))
            go(*(writer(n, name, 5, ranks[n, k], 2 * nodes, count) for n, k in order))
        else:
            for n, k in order:
                go(writer(n, name, 5, ranks[n, k], 2 * nodes, count))
        segments_now(before, name)
        compare(name, b"".join(stripe(5, i) for i in range(2 * nodes * count)))
        remove(name)
        gone(before, name)
        step("two families on each node write one file, " + ("at once" if at_once else "one after the other"))


def epochs():
    """A checkpoint that is written anew by separate programs, emptied first or not, takes no more room."""
    name, before, room = "checkpoint", all_backing_files(), None
    make(0, name)
    go(writer(last, name, 0, 0, 1, 1))
    for epoch in range(10):
        go(*(writer(n, name, epoch, n, nodes, 8, os.O_TRUNC if n == 0 and epoch % 2 else 0) for n in range(nodes)))
        now = [sum(s.values()) for s in all_backing_files()]
        room = room or now
        more = [n - r for n, r in zip(now, room)]
        assert max(more) < STRIPE, f"epoch {epoch}: {more} bytes more"  # the file system's own blocks
        if epoch in (4, 5, 9):
            compare(name, b"".join(stripe(epoch, i) for i in range(8 * nodes)))
    segments_now(before, name)
    remove(name)
    gone(before, name)
    step("written anew ten times by separate programs it takes no more room")


def kills(rounds=6):
    """What the killed one's fsync was answered for is there, and all of the other's."""
    rng = random.Random(nodes)
    killed = 0
    for i in range(rounds):
        name, seed, count = f"kills.{i}", 10 + i, 150
        make(i % nodes, name)
        node = (i + 1) % nodes
        two = [writer(node, name, seed, k, 2, count, sync=1) for k in range(2)]
        write(*two)
        time.sleep(rng.uniform(0.001, 0.06))
        two[0].kill()
        done = [len(p.communicate(timeout=60)[0].split()) for p in two]
        killed += done[0] < count
        equal("the other one", (0, count), (two[1].returncode, done[1]))
        data = seen(rng.randrange(nodes), name)
        for s in range(2 * count):
            got, want = data[s * STRIPE:(s + 1) * STRIPE], stripe(seed, s)
            rest = s % 2 == 0 and s // 2 >= done[0] and got in (bytes(STRIPE), b"")
            assert got == want or rest, f"round {i}: stripe {s}, {done[0]} of the killed one's were synced"
        remove(name)
    assert killed > 0, "all had ended"
    step(f"{killed} of two writers on a node killed")


def removed():
    """Parts go with their file: of a writer that has not published, here and on home, and those that were cut."""
    for node in last, 0:
        before = all_backing_files()
        make(0, "removed")
        go(writer(last, "removed", 1, 5, 1, 1))
        p = writer(node, "removed", 1, 0, 1, 3)
        write(p)
        equal("written", "written\n", p.stdout.readline())
        equal("segments", 1, len(set(backing_files(last)) - set(before[last])))
        remove("removed")
        finish(p)
        gone(before, "removed")
    before = all_backing_files()
    make(0, "cut")
    go(*(writer(n, "cut", 1, n, 1, 1) for n in range(1, nodes)))
    make(0, "cut")
    equal("cut", [1] * nodes, [len(set(backing_files(n)) - set(before[n])) for n in range(nodes)])
    remove("cut")
    gone(before, "cut")
    step("segments go with their file")


def stopped():
    """A daemon that stands still keeps no writer from going on, with a segment of its own."""
    make(0, "stopped")
    go(writer(last, "stopped", 2, 0, 1, 1))
    p = writer(last, "stopped", 3, 1, 1, 2)
    equal("opened", "open\n", p.stdout.readline())
    pid = daemon(last, local)
    os.kill(pid, signal.SIGSTOP)
    try:
        p.stdin.write("go\n"), p.stdin.flush()
        equal("written", "written\n", p.stdout.readline())
    finally:
        os.kill(pid, signal.SIGCONT)
    finish(p)
    compare("stopped", stripe(2, 0) + stripe(3, 1) + stripe(3, 2))
    remove("stopped")
    step("a writer goes on while its daemon stands still")


def ranks():
    """Each rank of MPI is a family of its own."""
    rank, size, count = int(os.environ["OMPI_COMM_WORLD_RANK"]), int(os.environ["OMPI_COMM_WORLD_SIZE"]), 10
    done = f"{local}/done."
    fd = os.open(f"{mount}/ranks", os.O_WRONLY | os.O_CREAT)
    open(f"{done}open.{rank}", "w").close()
    wait_for([f"{done}open.{r}" for r in range(size)])
    for epoch in range(3):
        for i in range(count):
            at = i * size + rank
            os.pwrite(fd, stripe(epoch, at), at * STRIPE)
        os.close(fd)
        fd = os.open(f"{mount}/ranks", os.O_WRONLY)
    os.close(fd)
    open(f"{done}{rank}", "w").close()
    if rank > 0:
        wait_for([f"{done}all"])
        return
    wait_for([f"{done}{r}" for r in range(size)])
    compare("ranks", b"".join(stripe(2, i) for i in range(count * size)))
    # home's ranks write its own backing until another node's have published, and may have no segment
    counts = sorted(len(backing_files(n)) for n in range(nodes))
    assert counts in ([1] * nodes, [1] * (nodes - 1) + [2]), counts
    step(f"{size} ranks on {nodes} nodes write one file")
    open(f"{done}all", "w").close()


def wait_for(files):
    end = time.monotonic() + 60
    while not all(map(os.path.exists, files)):
        assert time.monotonic() < end, files
        time.sleep(0.01)


if sys.argv[4:] == ["ranks"]:
    ranks()
else:
    strided()
    epochs()
    kills()
    removed()
    stopped()
