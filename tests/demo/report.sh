#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# `make example-report`: makes docs/examples/report.html anew. A job of ten epochs on four emulated nodes with caches that
# are too small, which writes ten outputs. It takes about two minutes. Paths of this machine become others.
set -euo pipefail
cd "$(dirname "$0")/../.."
export LC_ALL=C.UTF-8 PYTHONDONTWRITEBYTECODE=1
unset LD_PRELOAD "${!FANSTORE_@}"
work=$(mktemp -d "${TMPDIR:-/tmp}/fs-example.XXXXXX")
trap 'rm -rf "$work"' EXIT
bin=$PWD/build/bin
/usr/bin/python3 - "$work/images" <<'END'
import os, random, sys
rng = random.Random(1)
for i in range(3000):
    name = "%s/class%03d/%05d.ppm" % (sys.argv[1], i % 50, i)
    os.makedirs(os.path.dirname(name), exist_ok=True)
    with open(name, "wb") as f:  # pictures: some rows are of one colour
        f.write(b"P6 224 224 255\n" + b"".join(rng.randbytes(672) if rng.random() < 0.6 else bytes([rng.randrange(256)]) * 672 for _ in range(224)))
END
cat >"$work/train.py" <<'END'
import os, random, sys, time
top, epochs = sys.argv[1], int(sys.argv[2])
rank, size = int(os.environ["OMPI_COMM_WORLD_RANK"]), int(os.environ["OMPI_COMM_WORLD_SIZE"])
files = sorted(os.path.join(d, f) for d, _, names in os.walk(top) for f in names)
for epoch in range(epochs):
    random.Random(epoch).shuffle(files)
    for name in files[rank::size]:
        with open(name, "rb") as f:
            f.read()
        time.sleep(0.004)
    if rank == 0:
        with open("%s/checkpoint-%02d.pt" % (top, epoch), "wb") as f:
            f.write(os.urandom(4000000))
END
"$bin/fs-prepare" pack --mount /data/images "$work/images" "$work/images.fs"
cd "$work"
mkdir run7
"$bin/fs-launch" --dataset "$work/images.fs" --local-dir "$work/nvme" --emulate 4 --np 4 --cache 48M \
  --stage-out "$work/run7" --report report.html -- python3 train.py /data/images 10
sed -i -e "s|$work/nvme|/mnt/nvme|g; s|$work|/srv|g; s|\"host\": \"[^\"]*\"|\"host\": \"n1\"|g" \
  -e "s|^\(<tr><td class=\"t\">[0-9]*\) [^<]*|\1 n1|" -e "s|job-$(hostname)-|job-n1-|g" report.html
cat report.html >"$OLDPWD/docs/examples/report.html"
