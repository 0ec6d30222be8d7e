#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# long: 40
# rest: other numbers of nodes, and no links
# --stage-in: what an earlier job left in a directory is read, changed, renamed and removed below the mount from every node,
# as in the directory itself, which does not change.
. "$(dirname "$0")/../functions.sh"
. "$(dirname "$0")/stuck.bash"
here=$(cd "$(dirname "$0")" && pwd)
program=$here/stage_in.py
dir=$work/earlier

random_files "$work/source" 8 3 1 100 5000
find "$work/source" -exec touch -d 2020-01-01 {} +
pack "$work/source" "$work/ds" --partitions 2 --mount "$mnt"
earlier() {
  rm -rf "$dir"
  mkdir -p "$dir"/run/{empty,modes,deep/er} "$dir/d00/below"
  (
    cd "$dir/run"
    for f in now-log now-over now-creat now-keep now-middle now-cut now-long now-replaced mode times name last; do
      head -c 600000 /dev/urandom >"$f"
    done
    for i in $(seq 0 11); do echo "small $i" >"small$i"; done
    : >empty-file
    echo gone >deep/er/gone
    echo "a name" >"deep/er/$(printf 'with %%20 blanks \303\244')"
    ln -s last latest
    ln -s nowhere dangling
    ln -s deep/er/gone deeper
    chmod 751 modes
    chmod 640 mode
    touch -d "2022-02-02 02:02:02.123456789" times last
  )
  echo below >"$dir/d00/below/f"
  echo beside >"$dir/d01"
}
state() { (cd "$dir" && find . -printf '%p %y %i %m %s %T@ %l\n' && find . -type f -exec md5sum {} +); }
# What a plain directory has in the end, with the dataset's names.
plain_copy() {
  rm -rf "$work/plain" && cp -a "$work/source" "$work/plain"
  cp -a "$dir/run" "$work/plain" && mkdir -p "$work/plain/d00" && cp -a "$dir/d00/below" "$work/plain/d00"
}

for n in $(half 2 4); do
  earlier
  rm "$dir/d01"
  plain_copy
  state >"$work/before"
  "$python" "$program" list "$work/plain" >"$work/unchanged"
  nodes=$(seq -s' ' 0 $((n - 1)))
  # shellcheck disable=SC2016,SC2086
  expect_status 0 launch --dataset "$work/ds" --emulate $n --stage-in "$dir" --discard -- bash -c '
    program=$1 mnt=$2 work=$3 python=$4
    shift 4
    for node; do FANSTORE_NODE=$node "$python" "$program" list "$mnt" >"$work/read$node" || exit; done
    for node; do FANSTORE_NODE=$node cat "$mnt/run/"* >/dev/null 2>&1; done
    "$python" "$program" change "$mnt" "$@" || exit
    for node; do FANSTORE_NODE=$node "$python" "$program" list "$mnt" >"$work/changed$node" || exit; done' \
    - "$program" "$mnt" "$work" "$python" $nodes
  grep -q "^fs-launch: 28 files (6.9 MiB) staged in from $dir$" "$work/err" || fail "$(cat "$work/err")"
  ! grep -q 'warning' "$work/err" || fail "$(cat "$work/err")"
  grep -q 'outputs (.*) are lost' "$work/err" || fail "nothing is said of what is lost"
  # shellcheck disable=SC2086
  "$python" "$program" change "$work/plain" $nodes
  "$python" "$program" list "$work/plain" >"$work/changed"
  for node in $nodes; do
    diff "$work/unchanged" "$work/read$node" || fail "$n nodes: node $node reads something else"
    diff "$work/changed" "$work/changed$node" || fail "$n nodes: other changes on node $node"
  done
  state | diff "$work/before" - || fail "$n nodes: the directory was changed"
  no_leftovers
done
echo "ok - read and changed from every node, and the directory is as it was"

earlier
state >"$work/before"
expect_status 0 launch --dataset "$work/ds" --emulate 2 --stage-in "$dir" --discard -- "$python" "$program" corners "$mnt"
state | diff "$work/before" - || fail "the directory was changed"
grep -qE '1 output \(.*\) is lost .*: run/small[0-9]+$' "$work/err" || fail "$(cat "$work/err")"
echo "ok - links, descriptors, mappings"

# What is there under other names than files and directories; what the dataset has.
mkfifo "$dir/run/fifo"
shadow=$(cd "$work/source/d00" && echo *)
shadow=${shadow%% *}
echo shadow >"$dir/d00/$shadow"
mkdir "$dir/d02" && echo more >"$dir/d02/more"
echo half >"$dir/run/.fanstore-0123456789abcdef"
mkdir "$dir/.fanstore-staged" && echo line >"$dir/.fanstore-staged/job-0"
expect_status 0 launch --dataset "$work/ds" --emulate 2 --stage-in "$dir" -- \
  bash -c 'cd "$1" && cat d02/more && find . -name ".fanstore*" -o -name fifo && cmp "d00/$2" "$3/d00/$2"' \
  - "$mnt" "$shadow" "$work/source"
equal "seen" more "$(cat "$work/out")"
grep -q 'warning: --stage-in: 1 could not be taken in: run/fifo (Operation not supported)' "$work/err" || fail "$(cat "$work/err")"
grep -qE 'warning: --stage-in: the dataset has 2 of the names, which stay its own: d0[01]' "$work/err" || fail "$(cat "$work/err")"
if [ "$(id -u)" = 0 ]; then
  say "root reads everything: an unreadable file is not tried"
else
  chmod 0 "$dir/run/mode" "$dir/run/modes"
  expect_status 0 launch --dataset "$work/ds" --emulate 2 --stage-in "$dir" -- true
  grep -q 'warning: --stage-in: 3 could not be taken in: ' "$work/err" || fail "$(cat "$work/err")"
  chmod 700 "$dir/run/modes"
fi
echo "ok - what is left out is told"

# Kept, and staged out elsewhere.
earlier
rm "$dir/d01"
expect_status 0 launch --dataset "$work/ds" --emulate 2 --stage-in "$dir" --keep -- \
  "$python" "$program" one "$mnt" 7
kept=$(echo "$work"/local/fanstore-outputs/job-*)
equal "kept" "run/now-cut 77" "$(cd "$kept" && find . ! -type d -printf '%P %s')"
cmp "$kept/run/now-cut" <(head -c 77 "$dir/run/now-cut") || fail "other bytes"
rm -rf "$work/local/fanstore-outputs"
elsewhere() { # NODES FIRST-CHANGE
  mkdir "$work/out-dir"
  plain_copy
  # shellcheck disable=SC2046
  CHANGE_FROM=$2 expect_status 0 launch --dataset "$work/ds" --emulate "$1" --stage-in "$dir" --stage-out "$work/out-dir" -- \
    "$python" "$program" change "$mnt" $(seq 0 $(($1 - 1)))
  CHANGE_FROM=$2 "$python" "$program" change "$work/plain" 0
  (cd "$work/source" && find . -type f -printf '%P\n') | (cd "$work/plain" && xargs rm)
  rm -rf "$work/plain"/d0[12] "$work/out-dir/.fanstore-staged"
  grep -q 'outputs (.*) written, .* staged out to' "$work/err" || fail "$(cat "$work/err")"
  diff <("$python" "$program" list "$work/plain" | grep -v '^d00 ') <("$python" "$program" list "$work/out-dir" | grep -v '^d00 ') ||
    fail "staged out: something else"
  rm -rf "$work/out-dir"
}
elsewhere 1 0
elsewhere 2 0
echo "ok - kept and staged out: what changed, and all"

# The same directory for both: it ends up as a plain one, what nobody touched is the same file, and a second job goes on.
cc -shared -fPIC -o "$work/no_links.so" "$here/no_links.c"
for n in $(half 2 "1 4 without"); do
  links=yes mpirun=()
  if [ "$n" = without ]; then
    n=2 links=no mpirun=(env FANSTORE_MPIRUN_ARGS="-x LD_PRELOAD=$work/no_links.so")
  fi
  earlier
  rm "$dir/d01"
  plain_copy
  (cd "$dir" && stat -c '%n %i %Y' run/small* d00/below/f run/mode >"$work/inodes" && stat -c %i run/last >"$work/last")
  nodes=$(seq -s' ' 0 $((n - 1)))
  # shellcheck disable=SC2086
  expect_status 0 "${mpirun[@]}" "$bin/fs-launch" --local-dir "$work/local" --dataset "$work/ds" --emulate $n \
    --stage-in "$dir" --stage-out "$dir" -- "$python" "$program" change "$mnt" $nodes
  # shellcheck disable=SC2086
  "$python" "$program" change "$work/plain" $nodes
  both() { # WHAT
    (cd "$work/plain" && find . -path './d0[12]' -prune -o -printf '%P\n' | grep -v '^d00/f\|^d0[12]' | sort) >"$work/names"
    diff "$work/names" <(cd "$dir" && find . -path ./.fanstore-staged -prune -o -printf '%P\n' | sort) || fail "$1: other names"
    diff <("$python" "$program" list "$work/plain/run") <("$python" "$program" list "$dir/run") || fail "$1: something else"
    cmp "$work/plain/name" "$dir/name" || fail "$1: name"
  }
  both "$n nodes"
  (cd "$dir" && stat -c '%n %i %Y' run/small* d00/below/f | diff <(grep -v mode "$work/inodes") -) || fail "untouched files are others"
  [ $links = no ] || equal "the file that was renamed" "$(cat "$work/last")" "$(stat -c %i "$dir/run/before")"
  # shellcheck disable=SC2016
  expect_status 0 launch --dataset "$work/ds" --emulate "$n" --stage-in "$dir" --stage-out "$dir" -- bash -c '
    cd "$1/run" && cat now-log >/dev/null && rm small3 before && mv small4 small5 && rm -r deep && mv latest newest && echo 2 >again
    node=$(($2 - 1))
    FANSTORE_NODE=$node bash -c "mv last last.1 && echo job 2 >last && rm small6 && echo new >small6 && mv small7 small8"' - "$mnt" "$n"
  (cd "$work/plain/run" && rm small3 before && mv small4 small5 && rm -r deep && mv latest newest && echo 2 >again &&
    mv last last.1 && echo job 2 >last && rm small6 && echo new >small6 && mv small7 small8 && touch -r "$dir/run/last" last &&
    touch -r "$dir/run/again" again && touch -r "$dir/run/small6" small6)
  both "$n nodes, the second job"
  no_leftovers
done
echo "ok - in and out of one directory"

# numpy's checkpoints in one half, PyTorch's, which take longer to import than to save, in the other.
for library in $(half numpy torch); do
  "$python" -c "import numpy, $library" 2>/dev/null || {
    say "no $library here: resuming is not tried"
    continue
  }
  rm -rf "$dir" "$work/plain-ck" && mkdir "$dir"
  for epochs in 3 5 8; do
    expect_status 0 launch --dataset "$work/ds" --emulate 2 --stage-in "$dir" --stage-out "$dir" -- \
      env FANSTORE_NODE=$((epochs % 2)) "$python" "$here/stage_in_train.py" "$library" "$mnt/ck" $epochs
    echo "$(cat "$work/out") $(cd "$dir/ck" && echo *)"
  done >"$work/resumed"
  "$python" "$here/stage_in_train.py" "$library" "$work/plain-ck" 8
  cmp "$work/plain-ck/final.npy" "$dir/ck/final.npy" || fail "another state"
  cmp "$work/plain-ck/log" "$dir/ck/log" || fail "another log"
  equal "resumed" " before epoch2 epoch3 final.npy last log
resumed from 3 before epoch4 epoch5 final.npy last log
resumed from 5 before epoch7 epoch8 final.npy last log" "$(cat "$work/resumed")"
  echo "ok - training resumes, with $library"
done
! rest || exit 0

# What is replaced stays there until the new file is.
earlier
stuck STUCK_FSYNC late
expect_status 0 "${launch_stuck[@]}" --dataset "$work/ds" --emulate 2 --stage-in "$dir" --stage-out "$dir" -- bash -c '
  cd "$1/run" || exit
  for i in $(seq 0 11); do echo "newer $i" >tmp && mv tmp small$i || exit; done
  for i in $(seq 300); do [ -e "$2.in" ] && break; sleep 0.1; done
  sleep 3
  cat "$3"/run/small* >"$2.seen"
  touch "$2.go"' - "$mnt" "$work/late" "$dir"
equal "while the new ones wait for the disk" "$(for i in 0 1 10 11 2 3 4 5 6 7 8 9; do echo "small $i"; done)" "$(cat "$work/late.seen")"
equal "in the end" "$(for i in 0 1 10 11 2 3 4 5 6 7 8 9; do echo "newer $i"; done)" "$(cat "$dir"/run/small*)"
echo "ok - what is replaced stays until the new file is there"

# Several datasets: paths begin with the mounts'.
rm -rf "$dir" && mkdir -p "$dir/${mnt#/}/a" "$dir/${mnt#/}2/b" "$dir/nowhere"
echo first >"$dir/${mnt#/}/a/f" && echo second >"$dir/${mnt#/}2/b/f" && echo stray >"$dir/nowhere/f"
expect_status 0 launch --dataset "$work/ds" --dataset "$work/ds" --mount "${mnt}2" --emulate 2 --stage-in "$dir" -- \
  bash -c 'cat "$1/a/f" "${1}2/b/f" && FANSTORE_NODE=1 cat "$1/a/f" "${1}2/b/f" && ls "$1" | head -1' - "$mnt"
equal "seen" "first second first second a" "$(paste -sd' ' "$work/out")"
grep -q 'warning: --stage-in: 1 could not be taken in: nowhere (not below a mount)' "$work/err" || fail "$(cat "$work/err")"
echo "ok - several datasets"

# An open that is refused takes no bytes; for the superuser no mode refuses any.
earlier
chmod 440 "$dir/run/now-over"
expect_status 0 launch --dataset "$work/ds" --emulate 1 --stage-in "$dir" -- "$python" - "$mnt/run" "$dir/run" <<'END'
import os, sys
mnt, run = sys.argv[1:]
def refused(name, *errors, flags=0):
    try:
        os.open(mnt + "/" + name, os.O_WRONLY | os.O_TRUNC | flags)
    except errors:
        pass
    else:
        raise SystemExit(name + ": opened")
    assert open(mnt + "/" + name, "rb").read() == want[name], name
want = {n: open(run + "/" + n, "rb").read() for n in ("now-over", "now-log", "now-cut")}
refused("now-cut", NotADirectoryError, flags=os.O_DIRECTORY)
refused("now-log", FileExistsError, flags=os.O_CREAT | os.O_EXCL)
if os.geteuid() == 0:
    os.setresuid(65534, 65534, 0)
    try:
        os.open(mnt + "/now-over", os.O_WRONLY | os.O_TRUNC)
    except PermissionError:
        pass
    os.setresuid(0, 0, 0)
    assert open(mnt + "/now-over", "rb").read() == want["now-over"], "now-over"
else:
    refused("now-over", PermissionError)
END
echo "ok - an open that is refused"

# The directory changes behind the job's back.
earlier
expect_status 0 launch --dataset "$work/ds" --emulate 2 --stage-in "$dir" -- bash -c '
  for i in $(seq 0 5); do rm "$1/run/small$i"; done
  for i in $(seq 6 11); do echo "other bytes here" >"$1/run/small$i"; done
  for node in 0 1; do FANSTORE_NODE=$node "$2" "$3" gone "$4" || exit; done' - "$dir" "$python" "$program" "$mnt"
echo "ok - files that vanish or change meanwhile"

# Copying takes long, is interrupted, and goes on; or its daemon is killed.
earlier
state >"$work/before"
stuck STUCK_READ slow
expect_status 0 "${launch_stuck[@]}" --dataset "$work/ds" --emulate 2 --stage-in "$dir" -- bash -c '
  "$1" "$2" interrupted "$3/run/now-log" "$4.in" || exit
  md5sum <"$3/run/now-log" >"$4.md5"
  touch "$4.go"
  for node in 0 1; do FANSTORE_NODE=$node "$1" "$2" one "$3" 0; done
  FANSTORE_NODE=1 tail -c 18 "$3/run/now-log"' - "$python" "$program" "$mnt" "$work/slow"
equal "the bytes" "$(md5sum <"$dir/run/now-log")" "$(cat "$work/slow.md5")"
equal "appended" "one more one more" "$(paste -sd' ' "$work/out")"
cat >"$work/killed.sh" <<'END'
timeout 60 "$1" "$2" one "$3" 0 2>"$5/opened" &
for i in $(seq 300); do [ -e "$4.in" ] && break; sleep 0.1; done
for p in /proc/[0-9]*; do
  { read -r comm <"$p/comm"; } 2>/dev/null || continue
  [ "$comm" = fanstored ] || continue
  tr '\0' '\n' <"$p/cmdline" | grep -qxF "$5/local" || continue
  for fd in "$p"/fd/*; do case $(readlink "$fd") in */own-*) kill -9 "${p#/proc/}" && touch "$4.killed" ;; esac; done
done
wait $! && exit 9
grep -q 'Input/output error' "$5/opened" || { cat "$5/opened" >&2; exit 8; }
for node in 0 1; do
  for f in small0 small1 small2 small3 small4 small5 small6 small7; do
    FANSTORE_NODE=$node timeout 20 cat "$3/run/$f" && echo "node $node"
  done
done >"$5/still" 2>"$5/errors"
exit 0
END
stuck STUCK_READ kill
expect_status 0 "${launch_stuck[@]}" --dataset "$work/ds" --emulate 2 --deadline 1000 --stage-in "$dir" -- \
  bash "$work/killed.sh" "$python" "$program" "$mnt" "$work/kill" "$work"
[ -e "$work/kill.killed" ] || fail "no daemon was copying"
grep -q node "$work/still" || fail "nothing could be read any more: $(cat "$work/errors" "$work/err")"
state | diff "$work/before" - || fail "the directory was changed"
echo "ok - a copy that is interrupted, and one whose daemon is killed"

for bad in "$work/nowhere" "$work/before"; do
  expect_status 125 launch --dataset "$work/ds" --emulate 2 --stage-in "$bad" -- touch "$work/ran"
  one_line "$work/err" "^fs-launch: --stage-in $bad: (No such file|Not a directory)"
done
expect_status 2 launch --dataset "$work/ds" --read-only --stage-in "$dir" -- touch "$work/ran"
one_line "$work/err" "^fs-launch: --stage-in and --read-only: give one of them"
[ ! -e "$work/ran" ] || fail "COMMAND ran"
echo "ok - a directory that is none"
