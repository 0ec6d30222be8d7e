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

# File systems that map no files to be written, do not reserve space, or fail after they reserved it.
cat >unmapped.c <<'C'
#define _GNU_SOURCE
#include <errno.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>
void *mmap(void *at, size_t n, int prot, int flags, int fd, off_t offset) {
  errno = ENODEV;
  if (fd >= 0 && (flags & MAP_SHARED)) return MAP_FAILED;
  return (void *)syscall(SYS_mmap, at, n, prot, flags, fd, offset);
}
C
cc -shared -fPIC -O1 -o unmapped.so unmapped.c
mkdir large
head -c 9000001 /dev/zero | tr '\0' x >large/file
expect_status 0 "$prepare" pack --codec lz4 large mapped.ds
LD_PRELOAD=./unmapped.so expect_status 0 "$prepare" pack --codec lz4 large unmapped.ds
diff -r mapped.ds unmapped.ds || fail 'without a mapping the bytes differ'
if strace -o /dev/null true 2>/dev/null; then
  strace -f -o /dev/null -e inject=fallocate:error=EOPNOTSUPP "$prepare" pack --codec lz4 large unreserved.ds >/dev/null
  diff -r mapped.ds unreserved.ds || fail 'without reserved space the bytes differ'
  expect_status 1 strace -f -o /dev/null -e inject=fallocate:retval=0 "$prepare" pack --codec lz4 large nowhere.ds 2>err
  one_line err 'a mapped file cannot be .*full or fails'
fi
mkdir slow && truncate -s 8G slow/file
expect_status 135 timeout --preserve-status -s BUS 0.2 "$prepare" pack -j1 --codec lz4hc:12 slow bus.ds 2>err
[ ! -s err ] || fail "a bus error of another kind: $(cat err)"
ok 'the blocks of large files on poor file systems'
