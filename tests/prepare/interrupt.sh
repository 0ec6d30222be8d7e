#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# fs-prepare pack that is killed, interrupted, run twice at once, or runs out of space: DATASET is a good dataset or not
# there, and what is left behind goes with the next pack.
. "$(dirname "$0")/../functions.sh"

prepare=$bin/fs-prepare
ok() { echo "ok - $*"; }
cd "$work"
mkdir source
"$python" - <<'PY'
import os
text = b"".join(b"line %d of some text\n" % i for i in range(40000))
for i in range(300):
    with open("source/%03d" % i, "wb") as f:
        f.write(os.urandom(3000) + text[i * 300:i * 300 + 60000])
PY
partial() { find . -maxdepth 1 -name '.ds.partial-*' | wc -l; }
start=${EPOCHREALTIME/./}
"$prepare" pack source ds >/dev/null
took=$((${EPOCHREALTIME/./} - start)) # microseconds

killed=0
for i in {1..25}; do
  [ $((i % 2)) = 0 ] || rm -rf ds
  "$prepare" pack --force source ds >log 2>&1 &
  pid=$!
  sleep "$(printf '0.%06d' $((took * (RANDOM % 110) / 100 % 1000000)))"
  kill -KILL $pid 2>/dev/null && killed=$((killed + 1))
  wait $pid 2>/dev/null || :
  [ "$(partial)" -le 1 ] || fail "more than one temporary directory after run $i"
  [ ! -e ds ] || expect_status 0 "$prepare" verify ds
done
[ $killed -ge 5 ] || fail "only $killed of 25 runs were killed in time"
"$prepare" pack --force source ds >/dev/null
equal 'temporary directories after a whole run' 0 "$(partial)"
ok "kill -9 leaves nothing that is taken for a dataset ($killed runs killed)"

mkdir big
cat source/* >big/file
for signal in INT TERM; do
  # A background job of a script ignores SIGINT, so Python starts this one.
  status=$("$python" - "$prepare" $signal <<'PY'
import signal, subprocess, sys, time, glob
p = subprocess.Popen([sys.argv[1], "pack", "--codec", "lz4hc:12", "big", "ds2"], stderr=subprocess.DEVNULL,
                     preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL))
while p.poll() is None and not glob.glob(".ds2.partial-*/part-00003"):
    time.sleep(0.01)
p.send_signal(getattr(signal, "SIG" + sys.argv[2]))
print(p.wait())
PY
)
  equal "exit status after SIG$signal" $((128 + $(kill -l $signal))) "$status"
  [ -z "$(find . -maxdepth 1 -name '*ds2*')" ] || fail "SIG$signal left something behind"
done
ok 'SIGINT and SIGTERM leave nothing, and exit with 128 and their number'

pids=() # a slow one with a checkpoint would keep what it has
for i in 1 2 3 4; do
  FANSTORE_TEST_CHECKPOINT_MS=600000 "$prepare" pack source ds3 >"log.$i" 2>&1 &
  pids+=($!)
done
good=0
for pid in "${pids[@]}"; do wait "$pid" && good=$((good + 1)); done
equal 'of four packs of one name at once, those that succeed' 1 $good
expect_status 0 "$prepare" verify ds3
[ -z "$(find . -maxdepth 1 -name '.ds3*')" ] || fail 'a temporary directory is left'
mkdir .ds4.partial-2bcdef
expect_status 0 flock .ds4.partial-2bcdef/journal "$prepare" pack source ds4 >/dev/null
one_line err '^fs-prepare: pack: warning: another fs-prepare is making .*/ds4 at this moment, and only one of the two will be kept$'
rm -rf .ds4.partial-2bcdef
expect_status 0 "$prepare" pack --force source ds4 >/dev/null
[ ! -s err ] || fail "a warning without another one: $(cat err)"
checkpoint() { [ "$(find .ds5.partial-*/journal -size +40c 2>/dev/null)" ]; }
FANSTORE_TEST_CHECKPOINT_MS=20 "$prepare" pack --codec lz4hc:12 --jobs 1 big ds5 >/dev/null 2>lost &
pid=$!
wait_until 60 checkpoint
kill -STOP $pid
mv ds4 ds5
kill -CONT $pid
status=0
wait $pid || status=$?
equal 'status of the one that is late' 1 $status
grep -qE 'ds5: a dataset exists already' lost || fail "$(cat lost)"
grep -qE 'packed is in .*/.ds5.partial-.*: with --force the same command goes on from there; else remove' lost || fail "$(cat lost)"
expect_status 0 "$prepare" pack --codec lz4hc:12 --jobs 1 --force big ds5 >/dev/null
grep -q 'resuming: ' err || fail "$(cat err)"
[ -z "$(find . -maxdepth 1 -name '.ds[45]*')" ] || fail 'a temporary directory is left'
ok 'packs of one name at once do not disturb each other, and say what becomes of them'

if [ "$(id -u)" = 0 ] && unshare -m true 2>/dev/null; then
  mkdir small
  # shellcheck disable=SC2016 # for the inner shell
  unshare -m sh -c 'mount -t tmpfs -o size=1m none small && "$1" pack source small/ds 2>err; echo $? >status
    find small -mindepth 1 >left; mount -o remount,ro small && "$1" pack source small/ds 2>err2; echo $? >status2' \
    sh "$prepare"
  equal 'exit status on a full disk' '1 1' "$(cat status status2 | tr '\n' ' ' | sed 's/ $//')"
  one_line err 'small/ds: .*no space left; free some'
  one_line err2 'small/ds: .*read-only'
  [ ! -s left ] || fail 'a full disk leaves something behind'
  ok 'a full or read-only disk is one line'
fi

mv ds3 .ds3.old-2bcdef
expect_status 1 "$prepare" pack source ds3 >/dev/null 2>&1
expect_status 0 "$prepare" verify ds3
[ -z "$(find . -maxdepth 1 -name '.ds3*')" ] || fail 'the dataset that stepped aside is still aside'
ok 'a dataset that a kill between two renames left aside is put back'

mkdir .ds3.old-backup .ds3.partial-backup .ds3.old-2backu
touch .ds3.old-backup/precious .ds3.partial-backup/precious .ds3.old-2backu/precious
expect_status 0 "$prepare" pack --force source ds3
equal 'files of the user that look like left-overs' 3 "$(find .ds3.* -name precious | wc -l)"
ok 'directories of the user with similar names stay'
