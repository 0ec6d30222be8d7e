#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# fs-prepare pack and pack --update that are killed at any moment: the same command goes on, and the dataset has the bytes
# of a run that was not interrupted. A run that is killed in its last moments has made DATASET, hence --force. FS_SEED=N
# repeats the moments. With FS_KILLS=N, N runs of each kind are killed instead of 20, and some cases are left out: make asan.
# slow
# long: 25
. "$(dirname "$0")/../functions.sh"

prepare=$bin/fs-prepare wanted=${FS_KILLS:-20} seed=${FS_SEED:-$((${EPOCHREALTIME/./} % 32768))}
RANDOM=$seed
say "FS_SEED=$seed"
ok() { echo "ok - $*"; }
# In memory, if there is room: a checkpoint waits for the disk, and here there are very many.
if [ -w /dev/shm ] && [ "$(($(df -P -k /dev/shm | awk 'NR == 2 { print $4 }')))" -gt 500000 ]; then
  here=$(mktemp -d /dev/shm/fs-resume.XXXXXX)
  trap 'rm -rf "$here"' EXIT
  cd "$here"
else
  cd "$work"
fi
"$python" "$root/tests/prepare/resume_source.py" 700 1500000 1500001
ln source/3/0003 source/link
partial() { find . -maxdepth 1 -name ".$1.partial-*" | wc -l; }
same_bytes() { # DATASET DATASET2
  diff -r "$1" "$2" >differences || { cat differences >&2; fail "$1 and $2 differ"; }
}
pack=("$prepare" pack -j 2 --codec lz4hc:9 --partitions 3)
start=${EPOCHREALTIME/./}
"${pack[@]}" --replicate '*7' source whole >/dev/null
took=$((${EPOCHREALTIME/./} - start)) # microseconds
export FANSTORE_TEST_CHECKPOINT_MS=10

# kills COMMAND...: kills it at a random moment of its whole time, again and again, until one ends, and counts.
killed=0 resumed=0 runs=0
kills() {
  local pid at times status
  for times in {1..12}; do
    "$@" >log 2>&1 &
    pid=$! runs=$((runs + 1)) status=0
    at=$((took * (RANDOM % 1000) / 1000))
    sleep "$(printf '%d.%06d' $((at / 1000000)) $((at % 1000000)))"
    kill -KILL $pid 2>/dev/null || :
    wait $pid 2>/dev/null || status=$?
    ! grep -q resuming log || resumed=$((resumed + 1))
    [ $status = 137 ] || break
    killed=$((killed + 1))
  done
  if [ $status = 137 ]; then
    expect_status 0 "$@"
  else
    equal "status of one that was not killed: $(cat log)" 0 $status
    [ "$times" != 1 ] || took=$((took * 2 / 3)) # the machine is less busy now
  fi
}
# few: too few runs were killed, or have gone on from a checkpoint
few() {
  [ $runs -lt $((10 * wanted)) ] || fail "FS_SEED=$seed: of $runs runs, only $killed were killed, and $resumed went on"
  [ $killed -lt "$wanted" ] || [ $((resumed * 4)) -lt "$wanted" ]
}
while few; do
  rm -rf ds
  kills "${pack[@]}" --force --replicate '*7' source ds
  same_bytes whole ds
done
equal 'temporary directories at the end' 0 "$(partial ds)"
ok "pack is killed $killed times; $resumed runs went on from a checkpoint"

tar -C source -czf source.tar.gz .
"${pack[@]}" source.tar.gz whole2 >/dev/null
kills "${pack[@]}" --force source.tar.gz ds2
same_bytes whole2 ds2
ok 'the same from an archive'

cp -al whole old
mkdir more && cp -a source/. more
"$python" "$root/tests/prepare/resume_change.py" more 700 7
"$python" - <<'PY'
import random
random.seed(32)
with open("more/large4", "wb") as f: f.write(random.randbytes(9000001))
PY
cp -a old new
start=${EPOCHREALTIME/./}
"${pack[@]}" --update --replicate '*7' more new >/dev/null
took=$((${EPOCHREALTIME/./} - start))
killed=0 resumed=0 runs=0
while few; do
  rm -rf ds && cp -al old ds
  kills "${pack[@]}" --update --replicate '*7' more ds
  same_bytes new ds
done
same_bytes whole old
ok "an update is killed $killed times; $resumed runs went on from a checkpoint"

if [ -z "${FS_KILLS:-}" ] && strace -o /dev/null true 2>/dev/null; then
  # killed SYSCALL:when=N COMMAND...: kills it there; the shell says nothing.
  killed_at() { (strace -f -o /dev/null -e inject="${1/:/:signal=KILL:}" "${@:2}"; exit) >/dev/null 2>&1 || :; }
  for at in fdatasync:when=9 fdatasync:when=20 fsync:when=2 fsync:when=12 unlinkat:when=1 renameat:when=1; do
    rm -rf ds
    killed_at $at "${pack[@]}" --replicate '*7' source ds
    expect_status 0 "${pack[@]}" --replicate '*7' --force source ds
    same_bytes whole ds
  done
  for at in linkat:when=3 renameat2:when=1 fsync:when=9; do
    rm -rf ds && cp -al old ds
    killed_at $at "${pack[@]}" --update --replicate '*7' more ds
    expect_status 0 "${pack[@]}" --update --replicate '*7' more ds
    expect_status 0 "$prepare" verify ds
  done
  equal 'temporary directories at the end' 0 "$(partial ds)"
  ok 'death at a step of the journal or of the end'
fi

interrupt() { # DIRECTORY: interrupts a pack of source when it has a checkpoint
  rm -rf "$1"
  "$python" - "$prepare" "$1" <<'PY'
import glob, os, signal, subprocess, sys, time
p = subprocess.Popen([sys.argv[1], "pack", "-j1", "--codec", "lz4hc:12", "source", sys.argv[2]],
                     preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL))
while p.poll() is None and not any(os.path.getsize(f) > 300 for f in glob.glob(".%s.partial-*/journal" % sys.argv[2])):
    time.sleep(0.005)
p.send_signal(signal.SIGINT)
sys.exit(p.wait())
PY
}
expect_status 130 interrupt ds
grep -q 'the same command goes on' "$work/err" || fail 'an interrupt does not say how to go on'
equal 'temporary directories after an interrupt' 1 "$(partial ds)"
# A machine that dies leaves the file of blocks: by its name, or by that which NFS gives to what is open and unlinked.
for f in blocks .nfs00000000000a0b0c00000001; do echo x >"$(echo .ds.partial-*)/$f"; done
expect_status 0 "$prepare" pack -j 1 --codec lz4hc:12 source ds
one_line "$work/err" 'resuming: .* of .* are packed already'
equal 'names that no dataset has' '' "$(find ds -mindepth 1 ! -name 'part-*' ! -name index ! -name manifest)"
ok 'an interrupted pack says that the same command goes on, and it does'

cases=('other:had other options' 'touch:SOURCE has changed' 'damage:is damaged' 'restart:')
[ -z "${FS_KILLS:-}" ] || cases=('damage:is damaged')
for case in "${cases[@]}"; do
  expect_status 130 interrupt ds
  codec=lz4hc:12 options=()
  case ${case%%:*} in
    other) codec=raw ;;
    touch)
      touch source/large0
      for f in blocks .nfs00000000000a0b0c00000001; do echo x >"$(echo .ds.partial-*)/$f"; done
      ;;
    damage) for f in .ds.partial-*/part-*; do printf x | dd of="$f" bs=1 seek=4096 conv=notrunc 2>/dev/null; done ;;
    restart) options=(--restart) ;;
  esac
  expect_status 0 "$prepare" pack --codec $codec "${options[@]}" source ds
  if [ -n "${case#*:}" ]; then
    one_line "$work/err" "${case#*:}.* anew"
  else
    [ ! -s "$work/err" ] || fail '--restart says something'
  fi
  expect_status 0 "$prepare" verify ds
  equal 'temporary directories at the end' 0 "$(partial ds)"
done
ok 'what cannot be resumed begins anew, and says why'
