# SPDX-License-Identifier: BSD-3-Clause
"""Outputs with replicas: files are written on nodes whose daemons are then killed, and read on the others. Each step is a
process of its own on the node that it is about; what was closed or synced is noted in a plain directory.
usage: output_replicas.py MOUNT NODES PLAIN CASE
"""
import hashlib
import mmap
import os
import random
import signal
import subprocess
import sys
import time

mnt, nodes, plain, case = sys.argv[1], int(sys.argv[2]), sys.argv[3], sys.argv[4]
me = int(os.environ["FANSTORE_NODE"])


def node(n, *args, wait=True):
    """A step on another node."""
    p = subprocess.Popen([sys.executable, "-S", sys.argv[0], mnt, str(nodes), plain, *map(str, args)],
                         env=dict(os.environ, FANSTORE_NODE=str(n)), stdout=subprocess.PIPE, text=True)
    if not wait:
        return p
    out = p.communicate(timeout=120)[0]
    if p.returncode != 0:
        sys.exit(f"{args} on node {n}: status {p.returncode} {out}")
    return out


def daemon(n):
    """The process that has this rank, of the job with this mount."""
    for pid in filter(str.isdigit, os.listdir("/proc")):
        try:
            with open(f"/proc/{pid}/comm") as f:
                if f.read().strip() != "fanstored":
                    continue
            with open(f"/proc/{pid}/cmdline", "rb") as f:
                words = f.read().split(b"\0")
            with open(f"/proc/{pid}/environ", "rb") as f:
                rank = b"OMPI_COMM_WORLD_RANK=%d" % n in f.read().split(b"\0")
        except OSError:
            continue
        if rank and mnt.encode() in words:
            return int(pid)
    sys.exit(f"no daemon of node {n}")


def kill(n):
    os.kill(daemon(n), signal.SIGKILL)


def members(n, count):
    """Until this node knows that so many daemons live: a new file is made and has been replicated then."""
    for i in range(200):
        p = node(n, "touch", f"probe-{n}-{count}-{i}", wait=False)
        p.communicate()
        if p.returncode == 0:
            return
        time.sleep(0.05)
    sys.exit("nothing can be made any more")


def data(seed, n):
    return random.Random(seed).randbytes(n)


def write(name, b, flags=os.O_WRONLY | os.O_CREAT | os.O_TRUNC, sync=False, step=1 << 20):
    fd = os.open(f"{mnt}/{name}", flags, 0o640)
    for i in range(0, len(b), step):
        os.write(fd, b[i:i + step])
    if sync:
        os.fsync(fd)
    os.close(fd)


def check(name, b):
    with open(f"{mnt}/{name}", "rb") as f:
        got = f.read()
    if got != b:
        same = next((i for i in range(min(len(got), len(b))) if got[i] != b[i]), min(len(got), len(b)))
        sys.exit(f"{name} on node {me}: {len(got)} bytes, not {len(b)}; the first other one is {same}")


def on_all(but, *args):
    for n in range(nodes):
        if n not in but:
            node(n, *args)


# ---- steps ----

def step_touch(name):
    write(name, b"")


def step_write(name, seed, n):
    write(name, data(seed, int(n)))


def step_check(name, seed, n):
    check(name, data(seed, int(n)))


def step_mapped(name):
    """Stores into a page that is dirty since its file was closed: its times do not tell of them."""
    fd = os.open(f"{mnt}/{name}", os.O_RDWR | os.O_CREAT, 0o600)
    os.ftruncate(fd, 8192)
    m = mmap.mmap(fd, 8192)
    m[:6] = b"before"
    time.sleep(0.2)
    os.close(fd)
    m[:6] = b"later "
    m.close()


def step_gone(name):
    if os.path.lexists(f"{mnt}/{name}"):
        sys.exit(f"{name} is there")


def step_kinds(at):
    """Files of all kinds."""
    os.mkdir(f"{mnt}/{at}")
    write(f"{at}/ck.tmp", data("old", 3_000_000), sync=True)
    os.rename(f"{mnt}/{at}/ck.tmp", f"{mnt}/{at}/ck")
    write(f"{at}/ck.tmp", data("new", 5_000_001), sync=True)
    os.rename(f"{mnt}/{at}/ck.tmp", f"{mnt}/{at}/ck")
    for i in range(200):
        write(f"{at}/s{i}", b"%d" % i * 10)
    write(f"{at}/empty", b"")
    fd = os.open(f"{mnt}/{at}/log", os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    for i in range(300):
        os.write(fd, b"line %d\n" % i)
        os.fsync(fd)
    os.write(fd, b"without\n")
    write(f"{at}/holes", b"x" * 1000)
    with open(f"{mnt}/{at}/holes", "r+b") as f:
        f.seek(2_000_000)
        f.write(b"end")
    with open(f"{mnt}/{at}/holes", "r+b") as f:
        f.seek(700_000)
        f.write(b"middle")
    write(f"{at}/cut", data("cut", 1_000_000))
    os.truncate(f"{mnt}/{at}/cut", 600_000)
    os.truncate(f"{mnt}/{at}/cut", 700_000)
    write(f"{at}/moded", b"m")
    os.chmod(f"{mnt}/{at}/moded", 0o444)
    os.utime(f"{mnt}/{at}/moded", ns=(1, 1234567890123456789))
    write(f"{at}/removed", b"r" * 300_000)
    os.remove(f"{mnt}/{at}/removed")


def step_look(at):
    check(f"{at}/ck", data("new", 5_000_001))
    for i in range(200):
        check(f"{at}/s{i}", b"%d" % i * 10)
    check(f"{at}/empty", b"")
    with open(f"{mnt}/{at}/log", "rb") as f:
        log = f.read()
    lines = b"".join(b"line %d\n" % i for i in range(300))
    if not log.startswith(lines) or not (lines + b"without\n").startswith(log):
        sys.exit(f"log: {len(log)} bytes")
    holes = bytearray(2_000_003)
    holes[:1000], holes[700_000:700_006], holes[2_000_000:] = b"x" * 1000, b"middle", b"end"
    check(f"{at}/holes", bytes(holes))
    check(f"{at}/cut", data("cut", 1_000_000)[:600_000] + bytes(100_000))
    st = os.stat(f"{mnt}/{at}/moded")
    if (st.st_mode & 0o7777, st.st_mtime_ns) != (0o444, 1234567890123456789):
        sys.exit(f"moded: {st}")
    names = {"ck", "empty", "log", "holes", "cut", "moded", *(f"s{i}" for i in range(200))}
    if set(os.listdir(f"{mnt}/{at}")) - {"later"} != names:
        sys.exit(f"names: {set(os.listdir(f'{mnt}/{at}')) ^ names}")


def step_change(at):
    """By another node, whoever has them now."""
    with open(f"{mnt}/{at}/log", "ab") as f:
        f.write(b"more\n")
    os.rename(f"{mnt}/{at}/s0", f"{mnt}/{at}/later")
    os.chmod(f"{mnt}/{at}/s1", 0o400)
    os.remove(f"{mnt}/{at}/s2")


def step_changed(at):
    with open(f"{mnt}/{at}/log", "rb") as f:
        if not f.read().endswith(b"more\n"):
            sys.exit("nothing was appended")
    check(f"{at}/later", b"0" * 10)
    if os.stat(f"{mnt}/{at}/s1").st_mode & 0o777 != 0o400 or os.path.exists(f"{mnt}/{at}/s2"):
        sys.exit("not changed")


def step_follow(name, seed, n):
    """Reads with the file open all the time: before the kill, and after it."""
    b = data(seed, int(n))
    fd = os.open(f"{mnt}/{name}", os.O_RDONLY)
    if os.pread(fd, 100_000, 0) != b[:100_000]:
        sys.exit("other bytes before")
    open(f"{plain}/open-{me}", "w").close()
    while not os.path.exists(f"{plain}/killed"):
        time.sleep(0.01)
    for at in range(0, len(b), 100_000):
        if os.pread(fd, 100_000, at) != b[at:at + 100_000]:
            sys.exit(f"other bytes at {at}")


def step_stream(at, seed):
    """Until it is killed, or can make nothing more: files, each noted when it was closed."""
    rnd = random.Random(seed)
    with open(f"{plain}/noted-{at}", "a") as note:
        try:
            for i in range(100000):
                n = rnd.choice((10, 5000, 300_000, 2_000_000))
                replaced = i % 3 == 0
                name = f"{at}-r" if replaced else f"{at}-{i}"
                write(name + (".tmp" if replaced else ""), data(f"{seed}-{i}", n), sync=i % 2 == 0)
                if replaced:
                    os.rename(f"{mnt}/{name}.tmp", f"{mnt}/{name}")
                note.write(f"{name} {seed}-{i} {n}\n")
                note.flush()
        except OSError:
            return


def step_noted(at, seed):
    """Each file that was closed is whole; of one that was replaced, the last that was, or one after it."""
    last = {}
    with open(f"{plain}/noted-{at}") as f:
        for line in f:
            name, s, n = line.split()
            last[name] = (s, int(n))
    for name, (s, n) in last.items():
        if not name.endswith("-r"):
            check(name, data(s, n))
            continue
        with open(f"{mnt}/{name}", "rb") as f:
            got = f.read()
        first = int(s.split("-")[1])
        if not any(got == data(f"{seed}-{i}", len(got)) for i in range(first, first + 4)):
            sys.exit(f"{name}: {len(got)} bytes, neither the old nor the new")
    print(len(last))


def stream_bytes(at, n):
    """Bytes that depend on where they are."""
    first = at // 8
    words = b"".join(i.to_bytes(8, "little") for i in range(first + 1, (at + n) // 8 + 3))
    return words[at % 8:at % 8 + n]


def step_append(name):
    """Until it can append no more: the length of what was synced is noted."""
    rnd = random.Random(name)
    fd = os.open(f"{mnt}/{name}", os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    at = 0
    with open(f"{plain}/length-{name}", "a") as note:
        try:
            while True:
                n = rnd.choice((10, 3000, 400_000, 1_500_000))
                os.write(fd, stream_bytes(at, n))
                at += n
                os.fsync(fd)
                note.write(f"{at}\n")
                note.flush()
        except OSError:
            return


def step_prefix(name):
    with open(f"{plain}/length-{name}") as f:
        synced = max([0, *map(int, f.read().split())])
    with open(f"{mnt}/{name}", "rb") as f:
        got = f.read()
    if len(got) < synced or got != stream_bytes(0, len(got)):
        sys.exit(f"{name}: {len(got)} bytes, {synced} were synced, no prefix")


# ---- cases, on node 0 ----

def case_kinds():
    """Node 1 writes, its daemon dies; then, if there are more, the one that has all now."""
    node(1, "kinds", "dir")
    readers = [node(n, "follow", "dir/ck", "new", 5_000_001, wait=False) for n in range(nodes) if n != 1]
    while any(not os.path.exists(f"{plain}/open-{n}") for n in range(nodes) if n != 1):
        time.sleep(0.01)
    kill(1)
    open(f"{plain}/killed", "w").close()
    for p in readers:
        if p.wait(60) != 0:
            sys.exit(f"an open file: {p.stdout.read()}")
    on_all([1], "look", "dir")
    node(0, "change", "dir")
    on_all([1], "changed", "dir")
    node(nodes - 1 if nodes > 2 else 0, "write", "dir/after", "after", 400_000)
    on_all([1], "check", "dir/after", "after", 400_000)
    print("ok - a node's outputs after its daemon's death")
    if nodes < 4:
        return
    time.sleep(6)  # in which the replicas are made anew
    kill(2)
    on_all([1, 2], "changed", "dir")
    on_all([1, 2], "check", "dir/ck", "new", 5_000_001)
    print("ok - and after that of the node that had them then")


def case_mapped():
    node(1, "mapped", "m")
    kill(1)
    with open(f"{mnt}/m", "rb") as f:
        if f.read(6) != b"later ":
            sys.exit("what was stored before munmap is lost")
    print("ok - stores through a mapping")


def case_partner():
    """First the partner dies, then home."""
    node(1, "write", "f", "f", 4_000_000)
    kill(2)
    members(1, 3)
    node(1, "write", "g", "g", 4_000_000)
    time.sleep(6)
    kill(1)
    on_all([1, 2], "check", "f", "f", 4_000_000)
    on_all([1, 2], "check", "g", "g", 4_000_000)
    print("ok - the partner's death, then home's")


def step_refused(name):
    try:
        write(name, b"late")
    except OSError:
        return
    sys.exit(f"{name} was written by a node that is out")


def case_stopped():
    """Node 1's daemon stands still until it is taken for dead, and goes on: its files are another's by then."""
    node(1, "write", "f", "old", 700_000)
    pid = daemon(1)
    os.kill(pid, signal.SIGSTOP)
    node(0, "check", "f", "old", 700_000)
    node(2, "write", "f", "new", 800_000)
    os.kill(pid, signal.SIGCONT)
    on_all([1], "check", "f", "new", 800_000)
    time.sleep(4)  # in which it finds out
    node(1, "check", "f", "new", 800_000)
    node(1, "refused", "g")
    print("ok - a daemon that stood still for too long")


def case_back(durable):
    """The same with --stage-out: its copy from before must not take the place of the newer one."""
    node(1, "write", "f", "old", 700_000)
    pid = daemon(1)
    os.kill(pid, signal.SIGSTOP)  # before it has copied
    node(0, "check", "f", "old", 700_000)
    node(2, "write", "f", "new", 800_000)
    staged = None
    for _ in range(6000):
        if os.path.exists(f"{durable}/f"):
            staged = open(f"{durable}/f", "rb").read()
        if staged == data("new", 800_000):
            break
        time.sleep(0.01)
    else:
        sys.exit("the new one is not staged out")
    os.kill(pid, signal.SIGCONT)
    for _ in range(300):
        if not os.path.exists(f"{durable}/f") or os.path.getsize(f"{durable}/f") != 800_000:
            sys.exit("its copy has come back")
        time.sleep(0.01)
    print("ok - a daemon that stood still stages nothing out that is another's now")


def case_random(seconds):
    """Node 1 writes and closes all the time; its daemon is killed at some moment."""
    p = node(1, "stream", "x", "seed", wait=False)
    time.sleep(float(seconds))
    kill(1)
    p.wait(60)
    for n in range(nodes):
        if n != 1:
            out = node(n, "noted", "x", "seed")
    print(f"ok - {out.strip()} files, all that were closed")


def step_sparse(name):
    with open(f"{mnt}/{name}", "wb+") as f:
        f.write(b"b" * 700_000)
        f.truncate(200 << 30)
        f.seek(100 << 30)
        f.write(b"middle")
    with open(f"{mnt}/{name}", "r+b") as f:  # what was there is a hole then, and one is a byte shorter
        f.truncate(0)
        f.truncate(400_000)
        f.seek(300_000)
        f.write(b"again")
        f.truncate((200 << 30) - 1)
        f.seek(100 << 30)
        f.write(b"middle")


def step_small(name):
    """On the node that has the file's bytes."""
    if os.stat(f"{mnt}/{name}").st_blocks * 512 > 10_000_000:
        sys.exit("holes take room")


def case_sparse():
    """200 GiB that take no room: nor do they at the partner."""
    node(1, "sparse", "s")
    kill(1)
    with open(f"{mnt}/s", "rb") as f:
        got = f.read(1_000_000)
        f.seek((100 << 30) - 10)
        far = f.read(26)
    if got != bytes(300_000) + b"again" + bytes(1_000_000 - 300_005) or far != bytes(10) + b"middle" + bytes(10):
        sys.exit("other bytes")
    st = os.stat(f"{mnt}/s")
    if st.st_size != (200 << 30) - 1:
        sys.exit(f"{st.st_size} bytes")
    node(2 % nodes, "small", "s")
    print("ok - holes")


def case_appended(seconds):
    """The same with a file that is appended to: what is left is a prefix, and has all that was synced."""
    p = node(1, "append", "log", wait=False)
    while not os.path.exists(f"{plain}/length-log") or os.path.getsize(f"{plain}/length-log") == 0:
        time.sleep(0.01)
    time.sleep(float(seconds))
    kill(1)
    p.wait(60)
    on_all([1], "prefix", "log")
    print("ok - a prefix")


def case_stays():
    """Without a death: replicas are in nobody's way."""
    node(1, "kinds", "dir")
    on_all([], "look", "dir")


def case_end():
    """The job ends just after home's death."""
    sums = []
    for name, n in (("a", 3_000_000), ("b", 0), ("c", 17)):
        node(1, "write", name, name, n)
        sums.append(f"{hashlib.md5(data(name, n)).hexdigest()}  ./{name}\n")
    with open(f"{plain}/sums", "w") as f:
        f.write("".join(sorted(sums)))
    kill(1)


if __name__ == "__main__":
    globals()[case if case.startswith("case_") else f"step_{case}"](*sys.argv[5:])
