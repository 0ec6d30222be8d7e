#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# fs-prepare pack writes partitions by large buffers, whatever threads do when: equal files are found wherever the first
# one is by then, many partitions share the memory, and a write that stops in the middle of a page is an error as any.
. "$(dirname "$0")/../functions.sh"

prepare=$bin/fs-prepare
cd "$work"
"$python" - <<'PY'
import os
os.makedirs("source")
first, total = os.urandom(1 << 20), 0
def put(name, data):
    with open("source/" + name, "wb") as f:
        f.write(data)
for i in range(24):  # each has its copy at once, in the buffer, in a file that is being written, or in both
    data = first if i == 0 else os.urandom((1 << 20) - 12345 * i)
    put("%02d-a" % i, data)
    put("%02d-b" % i, data)
    total += len(data)
put("zz", first)
put("zz-like", first[:-1] + bytes([first[-1] ^ 1]))
total += len(first)
open("unique", "w").write(str(total))
PY
for jobs in 1 3; do
  expect_status 0 "$prepare" pack --codec raw --partitions 1 --jobs $jobs source "ds$jobs"
  expect_status 0 "$prepare" verify "ds$jobs"
done
diff -r ds1 ds3 || fail 'the number of threads changes the result'
"$prepare" info --json ds1 >info.json
equal 'bytes stored, each content once' "$(cat unique)" "$(json info.json 'r["stored_bytes"]')"
expect_status 0 "$prepare" unpack ds1 restored
diff -r source restored || fail 'the content differs'
ok() { echo "ok - $*"; }
ok 'equal files are found before and after they are written'

for n in 63 700; do # buffers of 256 KiB and 32 KiB
  most=$(ulimit -Hn)
  [ "$most" = unlimited ] || [ "$most" -gt $((n + 100)) ] || continue
  expect_status 0 "$prepare" pack --partitions $n source "many$n"
  expect_status 0 "$prepare" verify "many$n"
  rm -rf "many$n"
done
ok 'many partitions'

expect_status 1 bash -c 'ulimit -f 3001 && "$@"' - "$prepare" pack --codec raw --partitions 2 source limited 2>err
one_line err 'limited: .*File too large'
[ -z "$(find . -maxdepth 1 -name '*limited*')" ] || fail 'a write that fails leaves something behind'
ok 'a limit in the middle of a page is one line'
