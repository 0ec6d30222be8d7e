# SPDX-License-Identifier: BSD-3-Clause
"""fs-prepare pack of an archive, next to extracting it with tar or unzip and packing the directory."""
import os
import shutil
import subprocess
import time

from fsb.jobs import files, halves
from fsb.peers import Side, call

COUNT, SIZE = 30000, 12000
FORMATS = {"tar": (["tar", "-cf"], ["tar", "-xf"]), "tar.gz": (["tar", "-I", "gzip -1", "-cf"], ["tar", "-xf"]),
           "tar.zst": (["tar", "-I", "zstd", "-cf"], ["tar", "-I", "zstd", "-xf"])}


def run(ctx):
    top, _ = files(ctx, "members", SIZE, COUNT // 10 if ctx.quick else COUNT, fill=halves)
    size = sum(os.path.getsize(os.path.join(at, n)) for at, _, names in os.walk(top) for n in names)
    dataset, extracted = os.path.join(ctx.work, "archived"), os.path.join(ctx.work, "extracted")

    def pack(source):
        call([ctx.bin("fs-prepare"), "pack", "--mount", "/bench/archive", source, dataset])

    for name, (create, extract) in FORMATS.items():
        archive = os.path.join(ctx.work, "members." + name)
        subprocess.run([*create, archive, "-C", top, "."], check=True)

        def measure(side, number):
            for path in (dataset, extracted):
                shutil.rmtree(path, ignore_errors=True)
            os.mkdir(extracted)
            os.sync()  # nobody pays for what others left
            began = time.monotonic()
            if side.name == "packed":
                pack(archive)
            else:
                subprocess.run([*extract, archive, "-C", extracted], check=True)
                pack(extracted)
            return {"s": time.monotonic() - began}

        got = ctx.interleave([Side("packed", archive), Side("extracted", archive)], measure, rounds=1 if ctx.quick else 3)
        ctx.row("%d files of 12 KB, %s" % (COUNT, name), "MB/s", {n: size / v["s"] / 1e6 for n, v in got.items()}, of="packed",
                to="extracted", better="higher", target=1)
        os.unlink(archive)
    for path in (dataset, extracted, top):
        shutil.rmtree(path, ignore_errors=True)
