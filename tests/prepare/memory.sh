#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# slow
# The memory that fs-prepare takes for each file is what docs/fs-prepare.1 says, or less.
. "$(dirname "$0")/../functions.sh"

# Disks make the test slow and tell nothing.
mounted=$(stat -f -c %T /dev/shm 2>/dev/null) || mounted=none
if [ "$mounted" != tmpfs ] || [ "$(df -P -m /dev/shm | awk 'NR == 2 { print $4 }')" -lt 500 ]; then skip 'no room in /dev/shm'; fi
own=$(mktemp -d /dev/shm/fst.XXXXXX)
trap 'rm -rf "$own"' EXIT
cd "$own"
"$python" - "$bin/fs-prepare" <<'PY'
import os, subprocess, sys

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


tree(FEW), tree(MANY)
each("pack", 180, "pack", "--codec", "raw", "source{}", "ds{}")
each("update", 200, "pack", "--update", "source{}", "ds{}")
each("verify", 120, "verify", "ds{}")
each("unpack", 100, "unpack", "ds{}", "out{}")
each("list", 100, "list", "--json", "ds{}")
PY
