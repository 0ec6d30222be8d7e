#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# fs-prepare pack --keep-going leaves out what cannot be read or changes, names it, and exits with 3. The tree is then the one that
# SOURCE has without these files.
. "$(dirname "$0")/../functions.sh"

prepare=$bin/fs-prepare
ok() { echo "ok - $*"; }
named() { # PATTERN...: in the last command's messages
  local pattern
  for pattern in "$@"; do grep -q "$pattern" err || fail "no '$pattern' in the messages"; done
}
cd "$work"
mkdir -p source/dir/sub
seq 5000 >source/good
seq 6000 >source/dir/good
"$python" - <<'PY'
import os
for i in range(12):
    os.mkfifo("source/dir/fifo%02d" % i)
PY
expect_status 1 "$prepare" pack source ds
[ ! -e ds ] || fail 'packed without --keep-going'
expect_status 3 "$prepare" pack --left-out list source ds
equal 'ten names, a count, and the sum' 12 "$(wc -l <err)"
named 'source/dir/fifo00 is a fifo' 'and 2 more' "12 of SOURCE's names were left out"
equal 'names in the list' 12 "$(wc -l <list)"
equal 'the first name' '{"path": "dir/fifo00", "why": "is a fifo"}' "$(head -n 1 list)"
expect_status 0 "$prepare" verify ds
mkdir clean
cp -a source/good clean/
mkdir -p clean/dir/sub
cp -a source/dir/good clean/dir/
touch -r source clean && touch -r source/dir clean/dir && touch -r source/dir/sub clean/dir/sub
expect_status 0 "$prepare" pack --keep-going --left-out none --mount "$work/source" clean ds-clean
[ ! -s none ] || fail 'a list of what was not left out'
cmp ds/index ds-clean/index
mkdir nothing
mkfifo nothing/fifo
expect_status 1 "$prepare" pack --left-out list nothing ds-nothing
equal 'the list when nothing can be packed' '{"path": "fifo", "why": "is a fifo"}' "$(cat list)"
expect_status 1 "$prepare" pack --left-out nosuch/x source ds-none
one_line err "left-out 'nosuch/x': cannot be opened: No such file"
[ ! -e ds-none ] || fail 'packed without a place for the list'
ok 'what cannot be packed is left out, and the dataset is the same as without it'
rm source/dir/fifo*

if [ "$(id -u)" = 0 ] && command -v setpriv >/dev/null; then
  chmod 755 "$TMPDIR" "$work"
  mkdir -m 777 open
  cp -r source/dir source/secret
  chmod 0 source/secret source/dir/good
  expect_status 3 setpriv --reuid=65534 --regid=65534 --clear-groups "$prepare" pack --keep-going source open/ds
  named 'source/secret is a directory that is not readable' 'source/dir/good is not readable'
  equal 'what was packed' 'dir good dir/sub' "$("$prepare" list open/ds | tr '\n' ' ' | sed 's/ $//')"
  expect_status 1 setpriv --reuid=65534 --regid=65534 --clear-groups "$prepare" pack --keep-going source/secret open/ds2
  chmod 755 source/secret source/dir/good
  rm -r source/secret
  ok 'directories that are not readable are left out with what is below them'
fi

# A large file is removed, and another one grows, while the first one is packed. Both had equal twins and hard links.
"$python" - <<'PY'
import random
r = random.Random(1)
def lines(n): return b"".join(b"%d %d\n" % (i, r.randrange(1 << 40)) for i in range(n))
open("source/aaa", "wb").write(lines(600000))
open("source/removed", "wb").write(lines(80000))
open("source/grows", "wb").write(lines(90000))
PY
cp source/removed source/twin
ln source/removed source/zlink
cp source/grows source/other
ln source/grows source/zgrows
"$prepare" pack --codec lz4hc:12 -j 1 --left-out list source changing >out 2>err &
pid=$!
wait_until 30 eval '[ -e .changing.partial-*/part-00007 ]' # the plan is made
rm source/removed
echo more >>source/grows
status=0
wait $pid || status=$?
equal 'exit status' 3 $status
equal 'what was left out' '"grows", "removed", ' "$(sed 's/{"path": \(".*"\), "why.*/\1, /' list | tr -d '\n')"
named 'source/removed changed while it was being packed'
expect_status 0 "$prepare" verify changing
expect_status 0 "$prepare" unpack changing restored
cmp restored/zgrows source/other # as it was before it grew
rm source/zgrows source/grows restored/zgrows
touch -r source restored
diff -r source restored # "twin" and "zlink" have the content of "removed"
equal 'links of the remaining name' 1 "$(stat -c %h restored/zlink)"
ok 'files that change are left out; other names and files of the same content stay'

# A disk that fails in the middle of a file, and a run that is killed after this file.
if [ "$(uname -m)" = x86_64 ] && cc -o bad_calls "$root/tests/mpi/bad_calls.c" && ./bad_calls hang 9999 -1 0 -1 true; then
  rm -rf source && mkdir source
  "$python" - <<'PY'
import random
r = random.Random(2)
open("source/aaa", "wb").write(r.randbytes((2 << 20) + 123456)) # its last chunk has 123456 bytes
for i in range(20): open("source/b%02d" % i, "wb").write(r.randbytes(900000))
open("source/zzz", "wb").write(r.randbytes(777777))
PY
  cp source/aaa source/aab
  cp -a source good
  pack=("$prepare" pack --partitions 1 --jobs 1 --codec raw --mount "$work/source")
  fails=("$work/bad_calls" EIO 17 2 123456 -1) # a pread of so many bytes
  expect_status 1 "${fails[@]}" "${pack[@]}" source failed
  one_line err 'source/aa[ab]: cannot be read: Input/output error$'
  expect_status 3 "${fails[@]}" "${pack[@]}" --left-out list source whole
  named 'source/aaa cannot be read: Input/output error$' 'source/aab cannot be read: Input/output error$' "2 of SOURCE's names"
  expect_status 0 "$prepare" verify whole
  expect_status 0 "$prepare" unpack whole unpacked
  rm good/aaa good/aab
  touch -r unpacked good
  diff -r good unpacked || fail 'other files than the good ones'
  ok 'a file whose middle cannot be read is left out with all of it'

  rm source/aab
  expect_status 3 "${fails[@]}" "${pack[@]}" --force --left-out list source whole
  export FANSTORE_TEST_CHECKPOINT_MS=0
  killed=$("$python" "$root/tests/mpi/interrupted.py" 17 KILL "${fails[@]}" "$work/bad_calls" hang 17 2 777777 -1 \
    "${pack[@]}" --keep-going source goes-on 2>err)
  unset FANSTORE_TEST_CHECKPOINT_MS
  equal 'the killed one' -9 "${killed% *}"
  again=(.goes-on.partial-*)
  cp -r "${again[0]}" .again.partial-2bcdef
  expect_status 3 "${fails[@]}" "${pack[@]}" --left-out list2 source goes-on
  named 'resuming: [12][0-9]\.[0-9] MiB of ' 'source/aaa cannot be read: Input/output error$' "1 of SOURCE's names was left out"
  cmp list list2
  diff -r whole goes-on || fail 'other bytes'
  expect_status 0 "${pack[@]}" source again # the disk is good again
  named 'again is not resumed, because it had --keep-going, and has left files out; this one begins anew$'
  ok 'a run that is killed after such a file goes on, with the same dataset and list'
else
  say 'no seccomp filters here, or another processor: no disk that fails'
fi
