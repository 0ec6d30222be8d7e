#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# long: 40
# rest: other numbers of nodes; what hangs or is killed
# --stage-out: every byte and name that a job writes is in the directory afterwards, whether it was copied while the job ran
# or at its end, however COMMAND ended; nothing else is. A directory that hangs or is full costs the job no time and no
# file.
. "$(dirname "$0")/../functions.sh"
. "$(dirname "$0")/stuck.bash"
here=$(cd "$(dirname "$0")" && pwd)

random_files "$work/source" 20 3 1 100 5000
find "$work/source" -exec touch -d 2020-01-01 {} +
ds=$work/ds
export scripts=$work
pack "$work/source" "$ds" --partitions 2
touch -d 2021-01-01 "$scripts/start"

cat >"$scripts/node.sh" <<'END'
node=$1
mkdir "o$node" "d00/deep$node" "d00/deep$node/er" "empty$node"
for i in 1 2 3; do
  head -c $((i * 700000)) /dev/urandom >"o$node/f$i"
  echo "$i$node" >"d00/deep$node/er/g$i"
done
ln -s f1 "o$node/latest" && touch -h -d "2023-03-03 03:03:03.333333333" "o$node/latest"
mkdir "set$node" && chmod 1751 "set$node" && echo s >"set$node/s" && touch -d "2023-03-03 03:03:03.4" "set$node"
chmod 640 "o$node/f1"
touch -d "2022-02-02 02:02:02.123456789" "o$node/f3"
echo "tmp $node" >"checkpoint.tmp$node" && mv "checkpoint.tmp$node" "o$node/checkpoint"
echo "late $node" >"u$node"
echo "one $node" >"o$node/s1" && echo "another $node" >"o$node/s2"
END
# What changes after the first copies were made.
cat >"$scripts/later.sh" <<'END'
node=$1
mv "d00/deep$node/er" "d00/deep$node/renamed"
mv "u$node" "o$node/renamed"
mv "o$node/s1" "o$node/s3" && mv "o$node/s2" "o$node/s1" && mv "o$node/s3" "o$node/s2"
rm "o$node/f2"
echo "new" >"o$node/new" && mv "o$node/new" "o$node/f1"
echo more >>"o$node/checkpoint"
[ "$node" = 0 ] || mv "o$((node - 1))/f3" "o$node/from"
END
cat >"$scripts/job.sh" <<'END'
nodes=$1 top=$2 status=$3 copied=$4
cd "$5" || exit
for node in $(seq 0 $((nodes - 1))); do FANSTORE_NODE=$node bash "${0%/*}/node.sh" "$node" || exit 99; done
if [ "$copied" = 1 ]; then
  for i in $(seq 600); do
    [ "$(find "$top/durable" -name 'g?' | wc -l)" = $((3 * nodes)) ] && [ "$(find "$top/durable" -name 'f3' | wc -l)" = "$nodes" ] && break
    sleep 0.1
  done
  [ "$i" -lt 600 ] || exit 98
fi
for node in $(seq 0 $((nodes - 1))); do FANSTORE_NODE=$node bash "${0%/*}/later.sh" "$node" || exit 99; done
find . -type f -newer "${0%/*}/start" -printf '%P %m %s %T@\n' | sort >"$top/files"
find . -type f -newer "${0%/*}/start" -exec md5sum {} + | sort >"$top/sums"
find . -newer "${0%/*}/start" ! -type f -printf '%P %y %m %T@ %l\n' | grep -v -e '^ d' -e '^d00 d' | sort >"$top/others"
if [ "$status" = wait ]; then touch "$top/written"; sleep 100; fi
[ "$status" != kill ] || kill -9 $$
exit "$status"
END
cat >"$scripts/again.sh" <<'END'
cd "$1" || exit
for i in 1 2 3 4; do
  FANSTORE_NODE=$((i % 2)) bash -c "yes checkpoint $i | head -c 3000000 >c$i; touch -d 2022-01-0$i c$i"
  if [ "$i" = 2 ] && [ -n "$3" ]; then
    for k in $(seq 300); do [ -e "$2/durable/c1" ] && [ -e "$2/durable/c2" ] && break; sleep 0.1; done
  fi
done
[ -z "$3" ] || { touch "$2/written"; sleep 100; }
END
cat >"$scripts/many.sh" <<'END'
cd "$1" || exit
many() {
  FANSTORE_NODE=$1 "$2" -c 'import os, sys
node, later = sys.argv[1:]
if not later: os.mkdir("m" + node)
for i in range(700):
    name = "m%s/%d" % (node, i)
    if not later: open(name, "w").write(name * (i % 50 + 1 if i % 300 else 100000))
    elif i % 5 == 0: os.remove(name)
    elif i % 5 == 1: os.rename(name, name + "-moved")
    elif i % 5 == 2: os.replace(name, "m%s/%d" % (node, i + 1))
' "$1" "$3" || exit
}
many 0 "$3" "" && many 1 "$3" ""
copies() { find "$1/durable" -name .fanstore-staged -prune -o -type f ! -name ".fan*" -print | wc -l; }
for i in $(seq 300); do [ "$(copies "$2")" -gt 900 ] && break; sleep 0.1; done
[ "$i" -lt 300 ] || exit 9
many 0 "$3" later && many 1 "$3" later
find . -type f -newer "${0%/*}/start" -printf '%P %m %s %T@\n' | sort >"$2/files"
find . -type f -newer "${0%/*}/start" -exec md5sum {} + | sort >"$2/sums"
find . -newer "${0%/*}/start" ! -type f -printf '%P %y %m %T@ %l\n' | grep -v -e '^ d' -e '^d00 d' | sort >"$2/others"
END
cat >"$scripts/half.sh" <<'END'
cd "$1" || exit
mkdir -p d
for node in 0 1; do FANSTORE_NODE=$node bash -c "for i in 1 2 3; do yes $node | head -c 300000 >d/n$node-\$i; echo \$i >top$node-\$i; done" || exit; done
touch "$2.written"
for i in $(seq 600); do [ -e "$2.in" ] && [ -e "$2.over" ] && exit; sleep 0.1; done
END
cat >"$scripts/part.sh" <<'END'
cd "$1" || exit
python=$3
part() { # NODE NAME OFFSET [DAEMON-TO-KILL]
  FANSTORE_NODE=$1 "$python" -c 'import os, random, sys
fd = os.open(sys.argv[1], os.O_WRONLY | os.O_CREAT)
os.pwrite(fd, random.Random(sys.argv[2]).randbytes(900000), int(sys.argv[2]))
os.close(fd)
if sys.argv[3:]: os.kill(int(sys.argv[3]), 9)' "${@:2}" || exit
}
part 0 whole 0
part 1 whole 900000
FANSTORE_NODE=3 md5sum whole >"$2/sums"
victim=$("$kill_daemon" 2 "$2/local" pid) || exit
part 0 half 0
part 2 half 300000 "$victim" && touch "$2/killed" # before it is copied
exit 0
END
cat >"$scripts/dead.sh" <<'END'
cd "$1" || exit
FANSTORE_NODE=2 bash -c 'mkdir -p a/b/c && echo 2 >a/b/c/lost'
FANSTORE_NODE=1 bash -c 'for i in 1 2 3; do echo "x $i" >"a/b/c/f$i"; done'
"$kill_daemon" 2 "$2/local" && touch "$2/killed"
FANSTORE_NODE=3 bash -c 'mv a/b a/moved && echo late >a/moved/c/late'
END
compare() { # WHAT
  (cd "$out" && find . -path ./.fanstore-staged -prune -o -type f -printf '%P %m %s %T@\n' | sort) |
    diff "$work/files" - || fail "$1: other files"
  (cd "$out" && find . -path ./.fanstore-staged -prune -o -type f -exec md5sum {} + | sort) |
    diff "$work/sums" - || fail "$1: other bytes"
  (cd "$out" && find . -mindepth 1 -path ./.fanstore-staged -prune -o ! -type f -printf '%P %y %m %T@ %l\n' | grep -v '^d00 d' | sort) |
    diff "$work/others" - || fail "$1: other directories or symlinks"
  [ ! -e "$work/local/fanstore-outputs" ] || fail "$1: some were kept"
}
gone() { ! ls -d "$TMPDIR"/fanstore-*/job-* "$work"/local/fanstore*/outputs-* >/dev/null 2>&1; }
unnamed() { find "$out" -name '.fanstore-job-*' | sort; }
copying() { [ "$(unnamed | wc -l)" -ge "$1" ]; }
named() { [ "$(find "$out" -name 'k*' | wc -l)" -ge 200 ]; }
fresh() {
  out=$work/durable
  rm -rf "$out" "$work/sums" "$work/files" "$work/written" && mkdir "$out"
}

matrix() {
  for n in $(half 2 4); do
    for copied in 1 0; do
      for status in 0 3 kill; do
        [ "$copied$status" != 1kill ] || continue
        fresh
        expect_status "${status/kill/137}" launch --dataset "$ds" --mount "$mnt" --emulate "$n" --stage-out "$out" -- \
          bash "$scripts/job.sh" "$n" "$work" $status $copied "$mnt"
        compare "$n nodes, status $status"
        grep -q "outputs (.*) written, $(wc -l <"$work/sums") staged out to $out" "$work/err" || fail "$(cat "$work/err")"
        no_leftovers
      done
    done
    echo "ok - $n nodes: all is there at the end, and nothing else"
  done
}

signalled() {
  for signal in INT TERM; do
    fresh
    "$bin/fs-launch" --local-dir "$work/local" --dataset "$ds" --mount "$mnt" --emulate 2 --stage-out "$out" -- \
      bash "$scripts/job.sh" 2 "$work" wait 0 "$mnt" >"$work/log" 2>&1 &
    wait_until 60 test -e "$work/written"
    kill -$signal $!
    wait $! && fail "SIG$signal: status 0"
    compare "SIG$signal"
  done
  echo "ok - also after SIGINT and SIGTERM"
}

# The directory hangs: the job writes, closes and reads on all the same.
hangs() {
  fresh
  stuck STUCK_FSYNC hang
  expect_status 0 "${launch_stuck[@]}" --dataset "$ds" --mount "$mnt" --emulate 2 --stage-out "$out" -- bash -c '
    cd "$1" && echo first >first || exit
    for i in $(seq 300); do [ -e "$2.in" ] && break; sleep 0.1; done
    [ -e "$2.in" ] || exit 9
    for i in 1 2 3; do FANSTORE_NODE=$((i % 2)) bash -c "head -c 20000000 /dev/urandom >c$i && sync -d c$i" || exit 8; done
    FANSTORE_NODE=1 md5sum first c1 c2 c3 >"$3/sums"
    ls "$4" >"$3/seen"
    touch "$2.go"' - "$mnt" "$work/hang" "$work" "$out"
  [ ! -s "$work/seen" ] || fail "the directory did not hang: $(cat "$work/seen")"
  (cd "$out" && md5sum -c --quiet "$work/sums") || fail "other bytes"
  echo "ok - a directory that hangs stops no checkpoint"
}

# It hangs for good: the second interrupt ends it, and what is left is kept.
hangs_for_good() {
  interrupted_twice() { # NAME COMMAND: when the copying is stuck
    fresh
    stuck STUCK_FSYNC "$1"
    "${launch_stuck[@]}" --dataset "$ds" --mount "$mnt" --emulate 2 --stage-out "$out" -- \
      bash -c "cd '$mnt' && $2" >"$work/log" 2>&1 &
    wait_until 60 test -e "$work/$1.in"
    sleep 1
    kill -TERM $!
    wait_until 60 grep -q 'a second interrupt' "$work/log"
    kill -TERM $!
  }
  interrupted_twice gone 'echo one >one && echo two >two'
  status=0
  wait $! || status=$?
  equal "the status" 125 $status
  grep -qE '2 could not be staged out .* are kept in .*: (one, two|two, one)$' "$work/log" || fail "$(cat "$work/log")"
  equal "kept" "one two" "$(cd "$work"/local/fanstore-outputs/job-* && cat one two | paste -sd' ')"
  rm -rf "$work/local/fanstore-outputs"
  touch "$work/gone.go"
  echo "ok - the second interrupt ends it, and keeps what is left"
}

# It comes while a file is being copied: that is either there or told, or the directory hung and nobody can know.
broken_off() {
  interrupted_twice last 'echo one >one'
  wait_until 60 grep -q 'is broken off' "$work/log"
  touch "$work/last.go"
  status=0
  wait $! || status=$?
  told=$(sed -n 's/^fs-launch: 1 could not be staged out (\(broken off[^)]*\)) and is kept in .*: one$/\1/p' "$work/log")
  case $status,$told in
    0,) cmp "$out/one" <(echo one) || fail "it is not there: $(cat "$work/log")" ;;
    "125,broken off") [ ! -e "$out/one" ] || fail "it is there: $(cat "$work/log")" ;;
    125,*"may be there all the same") ;;
    *) fail "status $status: $(cat "$work/log")" ;;
  esac
  [ $status = 0 ] || equal "kept" one "$(cat "$work"/local/fanstore-outputs/job-*/one)"
  rm -rf "$work/local/fanstore-outputs"
  echo "ok - a file that is being copied when it is broken off: ${told:-it was copied}"
}

# What was copied before it was broken off is told as that, and not kept as well.
copied_before() {
  fresh
  stuck STUCK_FSYNC half
  touch "$work/half.go"
  "${launch_stuck[@]}" --dataset "$ds" --mount "$mnt" --emulate 2 --stage-out "$out" -- bash -c 'cd "$1" && mkdir d && echo early >d/early || exit
    for i in $(seq 300); do [ -e "$2/d/early" ] && break; sleep 0.1; done
    sleep 1
    rm "$3".* && echo late >late && for i in $(seq 300); do [ -e "$3.in" ] && break; sleep 0.1; done
    touch "$3.now"' - "$mnt" "$out" "$work/half" >"$work/log" 2>&1 &
  wait_until 90 test -e "$work/half.now"
  sleep 1
  kill -TERM $!
  wait_until 60 grep -q 'a second interrupt' "$work/log"
  kill -TERM $!
  status=0
  wait $! || status=$?
  equal "the status" 125 $status
  grep -q '2 outputs (11 B) written, 1 staged out' "$work/log" || fail "$(cat "$work/log")"
  grep -q '1 could not be staged out (.*) and is kept in .*: late$' "$work/log" || fail "$(cat "$work/log")"
  grep -q '1, of them 1 directory or symlink, could not be staged out (broken off)' "$work/log" || fail "$(cat "$work/log")"
  equal "there, and kept" "early late" "$(cat "$out/d/early" "$work"/local/fanstore-outputs/job-*/late | xargs)"
  [ -z "$(find "$work/local/fanstore-outputs" -name early)" ] || fail "it is kept as well"
  rm -rf "$work/local/fanstore-outputs"
  touch "$work/half.go"
  echo "ok - what was copied before it is broken off"
}

# fs-launch is killed: whole files only are there, the rest is kept; after the same job again all are there.
goes_on() {
  fresh
  "$bin/fs-launch" --local-dir "$work/local" --dataset "$ds" --mount "$mnt" --emulate 2 --stage-out "$out" -- \
    bash "$scripts/again.sh" "$mnt" "$work" wait >"$work/log" 2>&1 &
  wait_until 60 test -e "$work/written"
  kill -9 $!
  wait $! 2>/dev/null || true
  wait_until 60 gone
  for i in 1 2 3 4; do
    file=$out/c$i
    [ -e "$file" ] || file=$(find "$work/local/fanstore-outputs" -name c$i)
    cmp "$file" <(yes "checkpoint $i" | head -c 3000000) || fail "c$i: other bytes, or nowhere"
  done
  # Bytes that changed there without a sign of it are replaced.
  printf x | dd of="$out/c1" conv=notrunc status=none && touch -d 2022-01-01 "$out/c1"
  expect_status 0 launch --dataset "$ds" --mount "$mnt" --emulate 2 --stage-out "$out" -- bash "$scripts/again.sh" "$mnt" "$work" ""
  for i in 1 2 3 4; do cmp "$out/c$i" <(yes "checkpoint $i" | head -c 3000000) || fail "c$i: other bytes"; done
  [ ! -e "$out/.fanstore-staged" ] || fail "logs: $(ls -A "$out/.fanstore-staged")"
  rm -rf "$work/local/fanstore-outputs"
  echo "ok - the same job again after one that was killed"
}

# Many at once: they wait for the disk together, and each is there under its last name.
many() {
  fresh
  expect_status 0 launch --dataset "$ds" --mount "$mnt" --emulate 2 --stage-out "$out" -- bash "$scripts/many.sh" "$mnt" "$work" "$python"
  equal "files" 840 "$(wc -l <"$work/sums")"
  compare "many"
  echo "ok - many small files"
}

# Daemons are killed with copies under way: the next job removes those and their logs, not what another job or nobody has
# made. A job leaves no log.
killed_daemons() {
  fresh
  mkdir "$out/d"
  hang() { # TAG: a job whose copies do not end before TAG.go is there
    stuck STUCK_FSYNC "$1"
    "${launch_stuck[@]}" --dataset "$ds" --mount "$mnt" --emulate 2 --stage-out "$out" -- \
      bash "$scripts/half.sh" "$mnt" "$work/$1" >"$work/$1.log" 2>&1 &
  }
  kill_daemons() { # those of the job with this local directory
    local p comm
    for p in /proc/[0-9]*; do
      { read -r comm <"$p/comm"; } 2>/dev/null || continue
      [ "$comm" = fanstored ] || continue
      if tr '\0' '\n' <"$p/cmdline" | grep -qxF "$1"; then kill -9 "${p#/proc/}"; fi
    done
  }
  hang dead
  dead=$!
  wait_until 60 test -e "$work/dead.in"
  wait_until 60 copying 1
  kill_daemons "$work/local"
  touch "$work/dead.over"
  wait $dead && fail "the daemons were killed, and all is well"
  touch "$out/.fanstore-job-0123456789abcdef" "$out/.fanstore-x-0-0123456789abcdef" "$work/dead.go"
  before=$(unnamed)
  # A job that lives, and one after the other that ends meanwhile.
  hang alive
  alive=$!
  wait_until 60 test -e "$work/alive.in"
  live() { unnamed | grep -qvxF "$before"; }
  wait_until 60 live
  [ "$(unnamed | grep -cxF "$before")" = 1 ] || fail "left: $(unnamed)"
  expect_status 0 launch --dataset "$ds" --mount "$mnt" --emulate 2 --stage-out "$out" -- bash -c 'echo 1 >"$1/e"' - "$mnt"
  live || fail "copies of a job that lives were removed: $(unnamed)"
  touch "$work/alive.over" "$work/alive.go"
  wait $alive || fail "$(cat "$work/alive.log")"
  equal "left" "$out/.fanstore-job-0123456789abcdef" "$(unnamed)"
  [ -e "$out/.fanstore-x-0-0123456789abcdef" ] || fail "what is not a job's was removed"
  rm "$out"/.fanstore-*-0123456789abcdef
  [ ! -e "$out/.fanstore-staged" ] || fail "logs: $(ls -A "$out/.fanstore-staged")"
  # Those of another kernel only when they are old.
  for age in now yesterday; do
    log=$out/.fanstore-staged/job-there-1-0
    mkdir -p "${log%/*}"
    printf '@fs boot id=another\n@fs dir name=d\n' >"$log"
    touch -d "$age" "$log" "$out/d/.fanstore-job-there-1-0-0123456789abcdef"
    expect_status 0 launch --dataset "$ds" --mount "$mnt" --emulate 2 --stage-out "$out" -- bash -c 'echo 3 >"$1/e"' - "$mnt"
    if [ ! -e "$log" ] || [ ! -e "$out/d/.fanstore-job-there-1-0-0123456789abcdef" ]; then fail "$age: removed"; fi
  done
  # Killed in the middle of many: what has a name is whole.
  fresh
  "$bin/fs-launch" --local-dir "$work/local" --dataset "$ds" --mount "$mnt" --emulate 2 --stage-out "$out" -- bash -c '
    for node in 0 1; do
      FANSTORE_NODE=$node "$2" -c "
import os, sys
for i in range(1500): open(sys.argv[1] + \"/k$node-%d\" % i, \"w\").write(\"$node-%d\\n\" % i * 1000)" "$1"
    done; touch "$3/written"; sleep 100' - "$mnt" "$python" "$work" >"$work/log" 2>&1 &
  wait_until 60 named
  kill_daemons "$work/local"
  "$python" - "$out" <<'END'
import os, sys
names = [n for n in os.listdir(sys.argv[1]) if n[0] == "k"]
for n in names:
    assert open(os.path.join(sys.argv[1], n)).read() == (n[1:] + "\n") * 1000, n
print("--", len(names), "of 3000 were there")
END
  kill $!
  wait $! || true
  echo "ok - what killed daemons leave is removed, and logs, too"
}

# Files that several nodes have written: put together, holes stay holes; also when they change after a first copy.
several_writers() {
  for n in $(half 2 4); do
    fresh
    rm -rf "$work/plain" && mkdir "$work/plain"
    expect_status 0 launch --dataset "$ds" --mount "$mnt" --emulate "$n" --stage-out "$out" -- bash -c '
      "$1" "$2/outputs_shared.py" "$3" "$4/plain" "$5" || exit
      copies() { find "$4/durable" -path "*/.fanstore*" -prune -o -type f -print | wc -l; }
      for i in $(seq 300); do [ "$(copies "$@")" = 6 ] && break; sleep 0.1; done
      [ "$i" -lt 300 ] || exit 9
      "$1" "$2/outputs_shared.py" "$3" "$4/plain" "$5" later' - "$python" "$here" "$mnt" "$work" "$n"
    diff -r -x .fanstore-staged "$work/plain" "$out" || fail "$n nodes: other bytes"
    [ "$(stat -c %b "$out/sparse")" -lt 30000 ] || fail "$n nodes: the hole is filled"
  done
  echo "ok - files of several nodes"
}

# A daemon dies that has a part of one: that file is told, and is nowhere, or as it was without that part; another is whole.
part_is_gone() {
  fresh
  rm -f "$work/killed"
  expect_status 125 launch --dataset "$ds" --mount "$mnt" --emulate 4 --deadline 1000 --stage-out "$out" -- \
    bash "$scripts/part.sh" "$mnt" "$work" "$python"
  [ -e "$work/killed" ] || fail "no daemon was killed"
  grep -q '1 could not be staged out (a node that has some of the bytes does not answer): half$' "$work/err" || fail "$(cat "$work/err")"
  grep -q '1 of them could not be kept: ' "$work/err" || fail "$(cat "$work/err")"
  (cd "$out" && md5sum -c --quiet "$work/sums") || fail "the other one"
  equal "there" "whole" "$(cd "$out" && find . -path ./.fanstore-staged -prune -o -type f ! -name half -printf '%P\n')"
  [ ! -e "$out/half" ] || "$python" -c 'import random, sys; sys.stdout.buffer.write(random.Random("0").randbytes(900000))' |
    cmp - "$out/half" || fail "neither all of the file nor what it was before"
  [ -z "$(find "$work/local/fanstore-outputs" -type f 2>/dev/null)" ] || fail "a file without some of its bytes is kept"
  rm -rf "$work/local/fanstore-outputs" "$work/killed"
  echo "ok - a file of which a part is gone is told, and not there"
}

# A daemon dies: what the others have is found, also below directories that it made.
daemon_dies() {
  fresh
  expect_status 125 launch --dataset "$ds" --mount "$mnt" --emulate 4 --deadline 1000 --stage-out "$out" -- \
    bash "$scripts/dead.sh" "$mnt" "$work"
  [ -e "$work/killed" ] || fail "no daemon was killed"
  grep -q 'node 2 .* does not tell of its outputs: those that are lost are named' "$work/err" || fail "$(cat "$work/err")"
  equal "copied" "c/f1 x 1,c/f2 x 2,c/f3 x 3,c/late late" \
    "$(cd "$out/a/moved" && grep -r . . | sed 's|^./||; s|:| |' | sort | paste -sd,)"
  # The dead daemon may have left something there: its file, or half of it.
  [ -z "$(find "$out/a/b" -name 'f?' 2>/dev/null)" ] || fail "both names are there"
  echo "ok - a daemon that dies takes its own files along, no names"
}

no_directory() {
  for bad in "$work/nowhere" "$scripts/start"; do
    expect_status 125 launch --dataset "$ds" --mount "$mnt" --emulate 2 --stage-out "$bad" -- touch "$work/ran"
    one_line "$work/err" "^fs-launch: --stage-out $bad: (No such file|Not a directory)"
  done
  [ ! -e "$work/ran" ] || fail "COMMAND ran"
  echo "ok - a directory that is none"
}

full() {
  if [ "$(id -u)" = 0 ] && unshare -m true 2>/dev/null; then
    fresh
    # shellcheck disable=SC2016
    expect_status 125 unshare -m bash -c 'mount -t tmpfs -o size=4m none "$1" && shift && exec "$@"' - "$out" \
      "$bin/fs-launch" --local-dir "$work/local" --dataset "$ds" --mount "$mnt" --emulate 2 --stage-out "$out" -- bash -c '
      cd "$1" && head -c 1000000 /dev/urandom >fits || exit
      for i in $(seq 300); do [ -e "$3/fits" ] && break; sleep 0.1; done # the large one leaves no room for it
      head -c 9000000 /dev/urandom >large && md5sum large >"$2/sums"' - "$mnt" "$work" "$out"
    grep -q '1 could not be staged out (No space left on device) and is kept in .*: large$' "$work/err" || fail "$(cat "$work/err")"
    (cd "$work"/local/fanstore-outputs/job-* && md5sum -c --quiet "$work/sums") || fail "large was not kept"
    equal "kept" 1 "$(find "$work/local/fanstore-outputs" -type f | wc -l)"
    rm -rf "$work/local/fanstore-outputs"
    echo "ok - a full directory: told, kept, not 0"
    # And a node dies: each file has its own reason.
    fresh
    # shellcheck disable=SC2016
    expect_status 125 unshare -m bash -c 'mount -t tmpfs -o size=4m none "$1" && shift && exec "$@"' - "$out" \
      "$bin/fs-launch" --local-dir "$work/local" --dataset "$ds" --mount "$mnt" --emulate 4 --deadline 1000 --report "$work/r.json" \
      --stage-out "$out" -- bash -c 'bash "$scripts/part.sh" "$@" && head -c 9000000 /dev/urandom >"$1/large" &&
        FANSTORE_NODE=1 cp "$1/large" "$1/two"' - "$mnt" "$work" "$python"
    [ -e "$work/killed" ] || fail "no daemon was killed"
    grep -qE '2 could not be staged out \(No space left on device\) and are kept in .*: (large, two|two, large)$' "$work/err" || fail "$(cat "$work/err")"
    grep -q '1 could not be staged out (a node that has some of the bytes does not answer): half$' "$work/err" || fail "$(cat "$work/err")"
    grep -q '1 of them could not be kept: a node that has some of the bytes does not answer$' "$work/err" || fail "$(cat "$work/err")"
    equal "reasons in the report" "[(1, 1), (2, 0)]" \
      "$(json "$work/r.json" 'sorted((f["failed"], f["lost"]) for f in r["outputs"]["failures"])')"
    rm -rf "$work/local/fanstore-outputs" "$work/killed"
    echo "ok - each has its own reason"
  else
    say "no mount namespaces here: a full directory is not tried"
  fi
}

ends() { matrix; signalled; }
# The first one stages the dataset: where fsync hangs that would hang, too.
stuck_or_killed() { goes_on; hangs; hangs_for_good; broken_off; copied_before; killed_daemons; }
kinds() { many; several_writers; part_is_gone; daemon_dies; no_directory; full; }
# shellcheck disable=SC2046 # words
side_by_side eval ends $(half kinds 'stuck_or_killed several_writers')
