#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# fs-prepare pack over emulated nodes, of archives that are read from their begin: all nodes read the headers and the
# contents of some, and the dataset is that of one process. An archive that is damaged or cut off gives the same line.
# rest: 2 and 4 nodes, kill -9 and resume
. "$(dirname "$0")/../functions.sh"
cd "$work"

"$python" - <<'PY'
import io, os, random, tarfile, zipfile
r = random.Random(1)
def lines(n): return b"".join(b"%d %d\n" % (i, r.randrange(1 << 40)) for i in range(n))
shared = lines(3000)
for k, how in enumerate(["gz", "xz", "bz2", "gz", "gz"]):
    with tarfile.open("a%d.tar.%s" % (k, how), "w:" + how) as t:
        def add(name, data=b"", **fields):
            e = tarfile.TarInfo(name)
            e.size, e.mtime = len(data), 1500000000 + k
            for f in fields: setattr(e, f, fields[f])
            t.addfile(e, io.BytesIO(data))
        add("dir", type=tarfile.DIRTYPE, mode=0o750)
        for i in range(60): add("dir/%03d.txt" % i, lines(r.randrange(60)))
        add("dir/large", lines(80000))         # more than a chunk, and worth encoding
        add("dir/noise", r.randbytes(2 << 20))  # not worth it
        add("dir/shared", shared)
        add("dir/000.txt", b"the last one wins\n")
        add("dir/link", type=tarfile.LNKTYPE, linkname="dir/large")
        add("dir/soft", type=tarfile.SYMTYPE, linkname="shared")
        add("empty")
with zipfile.ZipFile("a5.zip", "w", zipfile.ZIP_DEFLATED) as z:
    for i in range(100): z.writestr("dir/%03d.txt" % i, lines(100))
    z.writestr("dir/large", lines(80000))
PY
mkdir holes && truncate -s 3M holes/file && echo end >>holes/file
tar cSf a6.tar holes # its bytes do not lie in it as they are
tar cf a7.tar a5.zip
archives=(a*)

# pack_both NODES OPTION...: packs with one process and with several nodes, and compares the datasets
pack_both() {
  local nodes=$1
  shift
  rm -rf plain nodes local
  "$bin/fs-prepare" pack "$@" --mount "$mnt" "${archives[@]}" plain >out 2>err || fail "$(cat err)"
  "$bin/fs-prepare" pack --local-dir local --emulate "$nodes" --verbose "$@" --mount "$mnt" "${archives[@]}" nodes >out 2>err ||
    fail "$nodes nodes: $(cat err)"
  diff -r plain nodes || fail "$nodes nodes, $*: other bytes"
  grep -qE "^fs-prepare: pack: $nodes nodes read the headers of 8 archives in .*, [1-9][0-9]* to [0-9]* each$" err || fail "$(cat err)"
  grep -qE "^fs-prepare: pack: $nodes nodes read 7 archives from begin to end in .*, [1-9][0-9]* to [0-9]* each$" err || fail "$(cat err)"
}

if ! rest; then
  # Its decoding is never too slow, so the choice does not depend on the processor.
  pack_both 3 --codec auto --decode-budget 1MB/s
  launch --emulate 3 --local-dir "$work/local" --dataset nodes --mount "$mnt" -- sh -c "
    tar -xOf '$work/a0.tar.gz' dir/large | cmp - '$mnt/a0/dir/link' && cmp '$mnt/a0/dir/shared' '$mnt/a4/dir/soft' &&
    cmp '$work/holes/file' '$mnt/a6/holes/file'" 2>err || fail "$(cat err)"
  grep -q ' 0 B staged, ' err || fail "it staged: $(cat err)"
  echo "ok - 3 nodes: each has read some of the archives, and the dataset is that of one process"

  # same_line ARCHIVE: packing ends with the line of one process
  same_line() {
    expect_status 1 "$bin/fs-prepare" pack --mount "$mnt" a0.tar.gz a1.tar.xz "$1" a3.tar.gz one
    mv err err.one
    expect_status 1 "$bin/fs-prepare" pack --local-dir local --emulate 3 --mount "$mnt" a0.tar.gz a1.tar.xz "$1" a3.tar.gz one
    diff err.one err || fail "$1: another line"
  }
  cp a5.zip damaged.zip
  printf damaged | dd of=damaged.zip bs=1 seek=200000 conv=notrunc status=none
  head -c 300000 a4.tar.gz >cut.tar.gz
  same_line damaged.zip
  one_line err '^fs-prepare: damaged.zip: member dir/large is damaged: '
  same_line cut.tar.gz
  "$python" -c 'import tarfile; tarfile.open("long.tar.gz", "w:gz", format=tarfile.PAX_FORMAT).addfile(tarfile.TarInfo("n" * 9000))'
  same_line long.tar.gz
  no_leftovers
  equal "left" "" "$(find . -name '.pack-*' -o -name '.one.partial-*')"
  echo "ok - an archive with a damaged member, and one that is cut off: the line of one process"
fi
[ "${FS_HALF-}" ] || exit 0

pack_both 2 --codec raw
pack_both 4 --codec lz4
echo "ok - 2 and 4 nodes"

head -c 25000000 /dev/urandom >noise
tar cjf slow.tar.bz2 noise # its headers take a second or two
testers() { # the processes that test it
  local p
  for p in $(pgrep -x bzip2); do [ "$(readlink "/proc/$p/fd/0")" != "$work/slow.tar.bz2" ] || echo "$p"; done
}
pack_slowly() { # ...until it is tested
  rm -rf local
  "$bin/fs-prepare" pack --local-dir local --emulate 2 --mount "$mnt" a0.tar.gz a1.tar.xz slow.tar.bz2 slow >out 2>err &
  packing=$!
  for _ in $(seq 200); do [ -z "$(testers)" ] || break; sleep 0.05; done
  [ "$(testers)" ] || fail "slow.tar.bz2 is not tested: $(cat err)"
}
pack_slowly
sleep 0.3
printf x | dd of=a0.tar.gz bs=1 seek=100000 conv=notrunc status=none
wait "$packing" && fail "a0.tar.gz was changed after its headers were read"
one_line err '^fs-prepare: a0.tar.gz: changed while it was being packed; '
cp -p a3.tar.gz a0.tar.gz
echo "ok - an archive that changes after its headers were read"

pack_slowly
for p in $(testers); do
  kill -9 "$(ps -o ppid= -p "$p")"
done
wait "$packing" && fail "its rank was killed"
sleep 0.1
equal "programs that test the archive" "" "$(testers)"
no_leftovers
echo "ok - a rank that is killed ends the program that tests an archive"

rm -rf local plain
"$bin/fs-prepare" pack --mount "$mnt" --codec zstd:19 --jobs 1 "${archives[@]}" plain >out 2>err || fail "$(cat err)"
pack=("$bin/fs-prepare" pack --local-dir local --emulate 2 --codec zstd:19 --jobs 1 --mount "$mnt" "${archives[@]}")
export FANSTORE_TEST_CHECKPOINT_MS=20
for whom in rank lead; do
  "$python" "$root/tests/mpi/pack_kill.py" "$whom" c "${pack[@]}" "$whom" >out 2>err || fail "$(cat err)"
  equal "the pack" killed "$(tail -n 1 out)"
  "${pack[@]}" "$whom" >out 2>err || fail "$(cat err)"
  one_line err 'resuming: [1-9].* of .* are packed already$'
  diff -r plain "$whom" || fail "resumed: other bytes"
done
no_leftovers
echo "ok - another node or the first one is killed, and the same command goes on"
