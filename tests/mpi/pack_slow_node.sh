#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# fs-prepare pack over three emulated nodes, of which one is slow: it stands still for four fifths of the time. It encodes
# clearly less than the others, and the pack takes clearly less time than if each node had encoded a third at its own speed.
. "$(dirname "$0")/../functions.sh"
cd "$work"
"$python" - <<'PY'
import os, random
r = random.Random(3)
words = [r.randbytes(r.randrange(2, 9)).hex().encode() for i in range(3000)]
os.mkdir("source")
for i in range(150):
    with open("source/%02d" % i, "wb") as f: f.write(b" ".join(r.choice(words) for _ in range(60000)))
PY

rank() { # NUMBER: its process
  local p
  for p in $(pgrep -f "^$bin/fanstore-pack .*--local-dir $work/local "); do
    if grep -qzxF "OMPI_COMM_WORLD_RANK=$1" "/proc/$p/environ" 2>/dev/null; then echo "$p"; fi
  done
}
begun() { [ "$(find local -path '*/.pack-*/part-*' 2>/dev/null | wc -l)" = 3 ]; }

"$bin/fs-prepare" pack --local-dir "$work/local" --emulate 3 --jobs 1 --codec zstd:9 --partitions 3 --verbose \
  --json-progress progress source ds >out 2>err &
packing=$!
wait_until 30 begun
slow=$(rank 1)
while kill -STOP "$slow" 2>/dev/null; do
  sleep 0.2
  kill -CONT "$slow" 2>/dev/null || break
  sleep 0.05
done
wait $packing || fail "$(cat err)"
"$python" - <<'PY'
import json, re
said = re.search(r"pack: 3 nodes encoded (\d+) bytes in ([\d.]+) s, (\d+) to (\d+) each", open("err").read())
whole, took, least, most = int(said[1]), float(said[2]), int(said[3]), int(said[4])
slowest = [s for s in (json.loads(l)["slowest_node"] for l in open("progress")) if s]
rates = sorted(s["bytes_per_second"] for s in slowest if s["node"] == 1 and s["bytes_per_second"])
assert len(rates) * 2 > len(slowest), slowest # else it is not the slow node that has encoded the least
rate = rates[len(rates) // 2]
equal = whole / 3 / rate
print("the slow node encoded %.1f of %.1f MB, and the others at most %.1f; %.1f s, and %.1f s with equal shares" %
      (least / 1e6, whole / 1e6, most / 1e6, took, equal))
assert least < 0.6 * (whole - least) / 2
assert took < 0.8 * equal
PY
no_leftovers
echo "ok - a slow node encodes less, and the others more"
