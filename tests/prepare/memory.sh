#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# slow
# long: 40
# The memory that fs-prepare takes for each file is what docs/fs-prepare.1 says, or less. A file's size costs none.
. "$(dirname "$0")/../functions.sh"

# Disks make the test slow and tell nothing.
mounted=$(stat -f -c %T /dev/shm 2>/dev/null) || mounted=none
if [ "$mounted" != tmpfs ] || [ "$(df -P -m /dev/shm | awk 'NR == 2 { print $4 }')" -lt 500 ]; then skip 'no room in /dev/shm'; fi
own=$(mktemp -d /dev/shm/fst.XXXXXX)
trap 'rm -rf "$own"' EXIT
cd "$own"
"$python" - "$bin/fs-prepare" <<'PY'
import os, pathlib, subprocess, sys, time

prepare = sys.argv[1]
FEW, MANY = 5000, 100000  # files, of which each 1000 have a directory


def tree(n):
    root = f"source{n}"
    for d in range(n // 1000):
        path = f"{root}/class_{d // 50:03d}/n{d:08d}"  # a path has 37 bytes, as in ImageNet
        os.makedirs(path)
        for i in range(1000):
            with open(f"{path}/image_{i:08d}.jpg", "wb") as f:
                f.write(b"%024d" % (d * 1000 + i))
    return root


def peak(*command):
    p = subprocess.Popen([prepare, *command], stdout=subprocess.DEVNULL)
    _, status, usage = os.wait4(p.pid, 0)
    p.returncode = status
    assert status == 0, (command, status)
    return usage.ru_maxrss * 1024


def each(what, most, *words):
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
tree(FEW), tree(MANY)
each("pack", 180, "pack", "--codec", "raw", "source{}", "ds{}")
each("update", 200, "pack", "--update", "source{}", "ds{}")
each("verify", 120, "verify", "ds{}")
each("info", 200, "info", "ds{}")
each("unpack", 100, "unpack", "ds{}", "out{}")
each("list", 100, "list", "--json", "ds{}")
PY
