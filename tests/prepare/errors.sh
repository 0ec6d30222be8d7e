#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# fs-prepare and bad input: the exit status, and one clear line that names the culprit.
. "$(dirname "$0")/../functions.sh"

prepare=$bin/fs-prepare
ok() { echo "ok - $*"; }
# refuses STATUS PATTERN ARGUMENT...: that exit status and one line
refuses() {
  local status=$1 pattern=$2
  shift 2
  expect_status "$status" "$prepare" "$@"
  one_line "$work/err" "$pattern"
}
named() { # PATTERN...: in the last command's messages
  local pattern
  for pattern in "$@"; do grep -q "$pattern" err || fail "no '$pattern' in the messages"; done
}
cd "$work"
mkdir source
for i in 1 2 3 4 5; do head -c $((i * 30000)) /dev/urandom >"source/file$i"; done
ln -s file1 source/link
pack source ds --partitions 4

refuses 2 'command is missing'
refuses 2 "unknown command 'frob'" frob
refuses 2 "unknown option '--frob'" --frob
for command in pack verify info list unpack; do
  refuses 2 "unknown option '--frob'" $command --frob
  refuses 2 'is missing' $command
  [ $command = pack ] || refuses 2 'one argument too many' $command a b c
  expect_status 0 "$prepare" $command --help
  grep -q "usage: fs-prepare $command" out || fail "no usage in $command --help"
  expect_status 0 "$prepare" $command --version
done
expect_status 0 "$prepare" --help
expect_status 0 "$prepare" --version
refuses 1 'none/x: cannot be made: No such file or directory; create its parent directory first$' pack source none/x
refuses 1 'file1/x: cannot be made: Not a directory; name another DATASET$' pack source source/file1/x
for option in '--jobs 0' '--codec zip' '--codec lz4hc:13' '--block-size 100K' '--block-size 8K' '--mount relative' \
  '--mount /' '--align 8K' '--partitions 0' '--jobs'; do
  # shellcheck disable=SC2086 # two words
  refuses 2 "${option%% *}" pack source other $option
done
ok 'a wrong command line is one line and exit status 2'

refuses 1 'nosuch: no such directory' pack nosuch other
refuses 1 'neither a directory nor an archive' pack source/file1 other
refuses 1 'no\\n\\x1b\[1msuch\\x07: no such directory' pack $'no\n\e[1msuch\a' other
refuses 1 'no\\n\\x1b\[1msuch\\x07: no such dataset' verify $'no\n\e[1msuch\a'
refuses 2 "unknown command 'a\\\\x1b\\[2J'" $'a\e[2J'
refuses 1 'parent directory' pack source nodir/other
refuses 1 'inside SOURCE' pack source source/ds
refuses 1 'contains SOURCE' pack source .
refuses 1 'use --force' pack source ds
for command in "list ds" "info ds" "verify ds" "--help" "pack --help"; do
  # shellcheck disable=SC2086 # several words
  expect_status 1 bash -c '"$@" >/dev/full' - "$prepare" $command
  one_line err 'standard output cannot be written: No space'
done
mkdir full
touch full/precious
refuses 1 'no dataset' pack --force source full
refuses 1 'no directory' pack --force source full/precious
cp -r ds mixed
touch mixed/precious
refuses 1 "'precious'" pack --force source mixed
cp -r ds blocks && touch blocks/blocks
refuses 1 "'blocks'" pack --force source blocks
for f in full/precious mixed/precious blocks/blocks; do [ -e $f ] || fail 'a file of the user is gone'; done
pack source ds --partitions 4 --force
mkdir empty
pack source empty
refuses 1 'not empty' unpack ds source
for command in verify info list; do
  refuses 1 'no such dataset' $command nosuch
  refuses 1 'full: no such dataset: .*not packed yet, run: fs-prepare pack full DATASET' $command full
  refuses 1 'no such dataset: it is no directory' $command source/file1
done
[ -z "$(find . -maxdepth 1 -name '.*.partial-*')" ] || fail 'a temporary directory is left'
cp -r ds two
cp empty/index two/index
for command in verify info list; do refuses 1 'two/index: does not belong to the manifest beside it; copy both' $command two; done
expect_status 125 "$bin/fs-launch" --dataset two --mount "$mnt" -- true
one_line err 'two/index: does not belong to the manifest beside it; copy both'
ok 'what is wrong about SOURCE or DATASET is one line'

mkdir odd
: >odd/good
"$python" - <<'PY'
import os, socket
socket.socket(socket.AF_UNIX).bind("odd/socket")
for i in range(12):
    os.mkfifo("odd/fifo%02d" % i)
fd = os.open("odd", os.O_RDONLY)
for i in range(17):
    os.mkdir("x" * 250, dir_fd=fd)
    fd = os.open("x" * 250, os.O_RDONLY, dir_fd=fd)
PY
expect_status 1 "$prepare" pack odd ds-odd
equal 'ten names, a count, and what to do' 12 "$(wc -l <err)"
named 'odd/fifo00 is a fifo' 'and 4 more'
expect_status 1 "$prepare" pack odd ds-odd --exclude 'fifo*'
named 'socket is a socket' 'more than 4095 bytes'
expect_status 0 "$prepare" pack odd ds-odd --exclude 'fifo*' --exclude socket --exclude 'x*'
if [ "$(id -u)" = 0 ] && command -v setpriv >/dev/null; then
  mkdir unreadable unreadable/dir
  touch unreadable/file
  chmod 0 unreadable/file unreadable/dir
  chmod 755 "$TMPDIR" "$work"
  mkdir -m 777 open
  expect_status 1 setpriv --reuid=65534 --regid=65534 --clear-groups "$prepare" pack unreadable open/ds
  named 'file is not readable' 'dir is a directory that is not readable'
  expect_status 1 setpriv --reuid=65534 --regid=65534 --clear-groups "$prepare" pack open unwritable
  one_line err 'unwritable: .*no permission'
fi
mkdir void
refuses 1 '--exclude leaves out all files of SOURCE' pack --exclude '*' source nothing
refuses 1 "--files-from '/dev/null' names nothing that is in SOURCE" pack --files-from /dev/null source nothing
[ ! -e nothing ] || fail 'a dataset of nothing'
pack void void.fs
ok 'what cannot be packed is named and refused'

head -c 200000000 /dev/zero | tr '\0' 'a' >source/growing
(while :; do echo x >>source/growing && sleep 0.01; done) &
writer=$!
refuses 1 'source/growing: changed while' pack --codec lz4hc:12 source changed
kill $writer
wait $writer 2>/dev/null || :
[ ! -e changed ] || fail 'a dataset of a file that changed'
ok 'a file that changes while it is packed is named'

# damage NAME COMMAND...: a fresh copy, damaged
damage() {
  rm -rf bad
  cp -r ds bad
  "$@"
}
poke() { printf '\377\376\375' | dd of="$1" bs=1 seek="$2" conv=notrunc status=none; }
damage truncate -s 20000 bad/part-00001
refuses 1 'bad/part-00001: truncated partition: 20000 bytes' verify bad
grep -q '^damaged: file' out || fail 'the damaged file is not named'
refuses 1 'is damaged in the dataset; run fs-prepare verify' unpack bad restored
damage rm bad/part-00002
refuses 1 'bad/part-00002: missing' verify bad
refuses 1 'bad/part-00002: cannot be opened: No such file' unpack bad restored1
damage rm bad/part-00002
mkfifo bad/part-00002
refuses 1 'bad/part-00002: no regular file' verify bad
refuses 1 'bad/part-00002: .*no regular file' unpack bad restored3
pack source many --partitions 600
expect_status 0 bash -c 'ulimit -n 100 && "$@"' - "$prepare" verify many
expect_status 0 bash -c 'ulimit -n 100 && "$@"' - "$prepare" unpack many restored4
expect_status 1 bash -c 'ulimit -n 100 && "$@"' - "$prepare" pack --partitions 600 source many2
one_line err 'too many open files'
[ -z "$(find . -maxdepth 1 -name '.many2*')" ] || fail 'a temporary directory is left'
damage poke bad/part-00003 10000
refuses 1 'bad/part-00003: damaged' verify bad
equal 'one file is damaged' 1 "$(grep -c '^damaged: ' out)"
damage poke bad/part-00000 16
refuses 1 'part-00000: .*header' verify bad
damage cp bad/part-00000 bad/part-00001
refuses 1 'part-00001: ' verify bad
damage poke bad/index 3000
refuses 1 'bad/index: ' verify bad
refuses 1 'bad/index: ' unpack bad restored2
[ ! -e restored2 ] || fail 'unpacked by a damaged index'
damage poke bad/index 600
refuses 1 'bad/index: .*checksum' info bad
refuses 1 'bad/index: .*checksum' list bad
damage truncate -s 1000 bad/index
refuses 1 'bad/index: ' info bad
damage poke bad/manifest 40
refuses 1 'bad: manifest' info bad
ok 'damage is found, and named'
