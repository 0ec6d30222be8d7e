#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# slow
# long: 40
# The memory that fs-prepare takes for each file is what docs/fs-prepare.1 says, or less, also of files that are
# compressed, and on each of two nodes. A file's size costs none.
. "$(dirname "$0")/../functions.sh"

# Disks make the test slow and tell nothing.
mounted=$(stat -f -c %T /dev/shm 2>/dev/null) || mounted=none
if [ "$mounted" != tmpfs ] || [ "$(df -P -m /dev/shm | awk 'NR == 2 { print $4 }')" -lt 1500 ]; then skip 'no room in /dev/shm'; fi
own=$(mktemp -d /dev/shm/fst.XXXXXX)
trap 'rm -rf "$own"' EXIT
cd "$own"
"$python" - "$bin/fs-prepare" <<'PY'
import json, os, pathlib, subprocess, sys, time

prepare = sys.argv[1]
FEW, MANY = 5000, 100000  # files, of which each 1000 have a directory


def tree(n):
    root = f"source{n}"
    for d in range(n // 1000):
        path = f"{root}/class_{d // 50:03d}/n{d:08d}"  # a path has 38 bytes, as in ImageNet
        os.makedirs(path)
        for i in range(1000):
            with open(f"{path}/image_{i:08d}.jpg", "wb") as f:
                f.write((b"%024d" % (d * 1000 + i)).ljust(72, b"-"))  # it can be compressed
    return root


def peak(*command):
    p = subprocess.Popen([prepare, *command], stdout=subprocess.DEVNULL)
    _, status, usage = os.wait4(p.pid, 0)
    p.returncode = status
    assert status == 0, (command, status)
    return usage.ru_maxrss * 1024


def is_below(pid, top):
    while pid not in (0, 1, top):
        with open(f"/proc/{pid}/stat") as f:
            pid = int(f.read().rsplit(")", 1)[1].split()[1])
    return pid == top


def ranks_of(top):
    for pid in map(int, filter(str.isdigit, os.listdir("/proc"))):
        try:
            with open(f"/proc/{pid}/comm") as f:
                if f.read() == "fanstore-pack\n" and is_below(pid, top):
                    yield pid
        except OSError:
            pass


def peak_of_nodes(*command):
    """The peak of the rank that has the highest one: the lead."""
    p, ranks, most = subprocess.Popen([prepare, *command], stdout=subprocess.DEVNULL), set(), 0
    while p.poll() is None:
        if len(ranks) < 2:
            ranks.update(ranks_of(p.pid))
        for pid in ranks:
            try:
                with open(f"/proc/{pid}/status") as f:
                    most = max([most] + [int(line.split()[1]) * 1024 for line in f if line.startswith("VmHWM")])
            except OSError:
                pass
        time.sleep(0.005)
    assert p.returncode == 0 and len(ranks) == 2, (command, p.returncode, ranks)
    return most


def each(what, most, *words, peak=peak):
    few, many = (peak(*[w.format(n) for w in words]) for n in (FEW, MANY))
    bytes_each = (many - few) / (MANY - FEW)
    print(f"{what}: {bytes_each:.0f} bytes a file")
    assert bytes_each <= most, f"{what}: more than {most} bytes a file"


def peak_of_its_own(*command):
    """The most memory that the kernel could not take back, as the pages of mapped files."""
    p = subprocess.Popen([prepare, *command], stdout=subprocess.DEVNULL)
    most = 0
    while p.poll() is None:
        with open(f"/proc/{p.pid}/status") as f:
            most = max([most] + [int(line.split()[1]) * 1024 for line in f if line.startswith("RssAnon")])
        time.sleep(0.002)
    assert p.returncode == 0, (command, p.returncode)
    return most


def each_block(what, *words):
    few, many = (peak_of_its_own(*[w.format(n) for w in words]) for n in (1, 64))
    print(f"{what}: {few >> 10} KiB with 16384 blocks, {many >> 10} KiB with 1048576")
    assert many - few < 16 << 20, f"{what}: memory grows with the blocks of a file"


for n in (1, 64):
    os.mkdir(f"large{n}")
    with open(f"large{n}/file", "wb") as f:
        f.truncate(n << 28)
each_block("pack of a large file", "pack", "--codec", "lz4", "--block-size", "16K", "large{}", "dsl{}")
each_block("its update", "pack", "--update", "large{}", "dsl{}")
each_block("its verify", "verify", "dsl{}")
each_block("its info", "info", "dsl{}")
for n in (1, 64):
    for part in pathlib.Path(f"dsl{n}").glob("part-*"):
        part.unlink()
each_block("its repair", "verify", "--repair-from", "large{}", "dsl{}")


def raw_files(dataset):
    return json.loads(subprocess.check_output([prepare, "info", "--json", dataset]))["raw_files"]


tree(FEW), tree(MANY)
# One thread: what others need for themselves would not be the same in both runs.
for codec in ("raw", "lz4", "zstd", "auto"):
    each(f"pack, {codec}", 160, "pack", "--jobs", "1", "--force", "--codec", codec, "source{}", "ds{}")
    raw = raw_files(f"ds{MANY}")
    assert raw == (MANY if codec == "raw" else 0), f"{codec}: {raw} files are stored as they are"
nodes = ("--local-dir", os.path.abspath("local"), "--emulate", "2", "--nodes-only")
each("pack on two nodes", 180, "pack", "--jobs", "1", "--codec", "lz4", *nodes, "source{}", "nodes{}", peak=peak_of_nodes)
assert raw_files(f"nodes{MANY}") == 0, "not all files are compressed on two nodes"
each("update", 150, "pack", "--update", "source{}", "ds{}")
each("verify", 120, "verify", "ds{}")
each("info", 200, "info", "ds{}")
each("unpack", 100, "unpack", "ds{}", "out{}")
each("list", 100, "list", "--json", "ds{}")
PY
