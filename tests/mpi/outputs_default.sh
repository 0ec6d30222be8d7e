#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# timeout: 300
# Where outputs go if no option says so: the first output tells it at once, and the files are there after the job.
. "$(dirname "$0")/../functions.sh"

random_files "$work/source" 20 3 1 100 5000
ds=$work/ds
pack "$work/source" "$ds" --partitions 2
# told FILE PATTERN: waits until the launcher has written this line; in COMMAND, so the program still runs.
export told='for i in $(seq 100); do grep -q "$2" "$1" && exit 0; sleep 0.1; done; exit 9'
job() { # NODES OPTION... -- COMMAND...
  local n=$1
  shift
  expect_status 0 launch --dataset "$ds" --emulate "$n" "$@"
}

# No directory is at the mount: kept on the nodes.
for n in 1 2; do
  job $n --mount "$mnt" -- bash -c 'cd "$1" && mkdir new && FANSTORE_NODE=$(($2 - 1)) sh -c "echo a >new/a" || exit
    bash -c "$told" - "$3/err" "outputs will be kept in $3/local/fanstore-outputs/job-.* on each node (--stage-out DIR .*--discard"' \
    - "$mnt" $n "$work"
  grep -q "^fs-launch: 1 output (2 B) kept in $work/local/fanstore-outputs/job-.* on each node: new/a\$" "$work/err" ||
    fail "$n nodes: $(cat "$work/err")"
  equal "lines" 1 "$(grep -c 'will be kept' "$work/err")"
  equal "kept" $n "$(cat "$work"/local/fanstore-outputs/job-*/new/a | grep -cx a)"
done
echo "ok - kept by default, told at once; a later job leaves them"

rm -rf "$work/local/fanstore-outputs"
job 2 --mount "$mnt" --discard -- sh -c 'echo a >"$1/a"' - "$mnt"
! grep 'will be' "$work/err" || fail "--discard"
grep -q '^fs-launch: 1 output (2 B) is lost (keep with --keep): a$' "$work/err" || fail "--discard: $(cat "$work/err")"
job 2 --mount "$mnt" -- cat "$mnt/d00/f00000"
! grep output "$work/err" || fail "there are none"
[ ! -e "$work/local/fanstore-outputs" ] || fail "something is kept"
for with in --keep "--stage-out $work" --read-only; do
  # shellcheck disable=SC2086
  expect_status 2 launch --dataset "$ds" --discard $with -- true
  one_line "$work/err" '--discard.*give one of them'
done
echo "ok - --discard"

# The mount is the source itself, which is there: copied to it, and nothing of the user's is touched.
src=$work/here ds=$work/here.fs
random_files "$src" 20 3 1 100 5000
mkdir "$src/empty"
pack "$src" "$ds" --partitions 2
echo theirs >"$src/taken"
mkdir "$src/theirs" "$work/elsewhere" && chmod 751 "$src/theirs" && ln -s "$work/elsewhere" "$src/way"
state() { find "$src" -type f -exec md5sum {} + && find "$src" -printf '%P %y %m %l\n' && find "$src" -type f -printf '%P %t\n'; }
state | sort >"$work/before"
control() { find "$src" -name '*.fanstore*'; }
cat >"$work/writes.sh" <<'END2'
cd "$1" || exit
node() { local k=$1; shift; FANSTORE_NODE=$k sh -c "$*" || exit 8; }
copied() { for _ in $(seq 150); do env -u LD_PRELOAD FANSTORE_ENV_AS_IS=1 sh -c "$1" 2>/dev/null && return; sleep 0.1; done; exit 9; }
node 0 'echo 1 >ck; echo x >gone; mkdir x y; echo x >x/x; echo e >empty/e; echo y >y/y'
node "$2" 'mkdir -m 700 run && echo b >run/b && ln -s b run/link; echo a >d00/new; echo z1 >other'
copied '[ -e ck ] && [ -e gone ] && [ -e x/x ] && [ -e empty/e ] && [ -e other ] && [ -e y/y ]'
node "$2" 'echo 22 >ck.tmp && mv ck.tmp ck; echo mine >taken; mkdir theirs way && echo c >theirs/c && echo z >way/z'
node 0 'rm gone empty/e x/x && rmdir x; mv y/y moved && rmdir y; echo z2 >other.tmp && mv other.tmp other'
bash -c "$told" - "$3/err" "outputs are copied to the source, $1 (--stage-out DIR .*--discard"
END2
for n in 1 2; do
  job $n -- bash "$work/writes.sh" "$src" $((n - 1)) "$work"
  grep -q "^fs-launch: 8 outputs (.*) written, 6 staged out to $src\$" "$work/err" || fail "$n nodes: $(cat "$work/err")"
  grep -q '^fs-launch: 3, .*, could not be staged out (something else has the name already) and are kept in .*: .*taken' "$work/err" ||
    fail "$n nodes: $(cat "$work/err")"
  equal "there" "22 b b a c y z2" "$(cd "$src" && cat ck run/b run/link d00/new theirs/c moved other | xargs)"
  equal "kept" "mine z" "$(cd "$work"/local/fanstore-outputs/job-* && cat taken way/z | xargs)"
  equal "a directory's mode" "700" "$(stat -c %a "$src/run")"
  equal "control files" "" "$(control)"
  rm -r "$src/run" "$src/d00/new" "$src/ck" "$src/theirs/c" "$src/moved" "$src/other" "$work/local/fanstore-outputs"
  state | sort | diff "$work/before" - || fail "$n nodes: the source was changed"
  [ -z "$(ls "$work/elsewhere")" ] || fail "a symlink was followed"
done
echo "ok - copied to the source by default, and nothing else is touched there"

# What a killed daemon leaves there the next job removes.
job 2 -- bash -c 'cd "$1" && FANSTORE_NODE=1 sh -c "echo a >a" && for i in $(seq 100); do
  env -u LD_PRELOAD FANSTORE_ENV_AS_IS=1 test -e a && break; sleep 0.1; done; "$kill_daemon" 1 "$1"' - "$src"
equal "copied before" a "$(cat "$src/a")"
[ -n "$(control)" ] || fail "a killed daemon has left nothing: this tests nothing"
job 2 -- true
equal "control files" "" "$(control)"
rm "$src/a"
state | sort | diff "$work/before" - || fail "the source was changed"
echo "ok - what a killed daemon leaves in the source"

# All daemons are killed: what is left stays, with its names, until clean --outputs.
rm -rf "$work/local/fanstore-outputs"
expect_status 125 launch --dataset "$work/ds" --mount "$mnt" --emulate 2 -- bash -c 'cd "$1" || exit
  mkdir -p "d00/tmp dir/sub" && echo 1 >"d00/tmp dir/sub/1" && mv "d00/tmp dir" d00/final
  echo 2 >t && mv t two && chmod 640 two && truncate -s 100000 hole
  FANSTORE_NODE=1 sh -c "echo 3 >d00/final/3; echo 4 >open; exec 5>>open; echo 5 >&5; mv two d00/final/two; touch -d 2020-01-01 d00/final/3"
  echo 6 >>d00/final/two; sleep 0.3
  "$kill_daemon" 1 "$1" && "$kill_daemon" 0 "$1"; sleep 0.5' - "$mnt"
launch --dataset "$work/ds" --mount "$mnt" --emulate 2 -- true 2>"$work/err" || fail "$(cat "$work/err")"
"$bin/fs-launch" clean --local-dir "$work/local" 2>"$work/clean"
equal "told" 2 "$(grep -c 'outputs (.*) of a job that is over: fs-launch clean --outputs' "$work/clean")"
mkdir "$work/to" && touch "$work/to/stays"
"$bin/fs-launch" clean --local-dir "$work/local" --outputs --to "$work/to" 2>"$work/clean" || fail "$(cat "$work/clean")"
cd "$work"/to/job-*
equal "copied out" "./d00/final/3 ./d00/final/sub/1 ./d00/final/two ./hole ./open" "$(find . -type f | sort | xargs)"
equal "bytes" "3 1 2 6 4 5" "$(cat d00/final/3 d00/final/sub/1 d00/final/two open | xargs)"
equal "attributes" "640 100000 0 2020-01-01" "$(stat -c %a d00/final/two) $(stat -c '%s %b' hole) $(date -r d00/final/3 +%F)"
cd "$work"
[ -z "$(find local -name 'spill-*')" ] || fail "they are still there"
expect_status 2 "$bin/fs-launch" clean --to "$work/to"
one_line "$work/err" 'give --outputs'
echo "ok - outputs that killed daemons have left"
