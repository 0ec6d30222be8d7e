#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# long: 40
# waits
# Where outputs go if no option says so: the first output tells it at once, and the files are there after the job.
. "$(dirname "$0")/../functions.sh"

random_files "$work/source" 20 3 1 100 5000
ds=$work/ds
pack "$work/source" "$ds" --partitions 2
# told FILE PATTERN: waits until the launcher has written this line; in COMMAND, so the program still runs.
export told='for i in $(seq 300); do grep -q "$2" "$1" && exit 0; sleep 0.1; done; exit 9'
job() { # NODES OPTION... -- COMMAND...
  local n=$1
  shift
  expect_status 0 launch --dataset "$ds" --emulate "$n" "$@"
}

# No directory is at the mount: kept on the nodes.
job 2 --mount "$mnt" -- bash -c 'cd "$1" && mkdir new && FANSTORE_NODE=1 sh -c "echo a >new/a" || exit
  bash -c "$told" - "$2/err" "outputs will be kept in $2/local/fanstore-outputs/job-.* on each node (--stage-out DIR .*--discard"' \
  - "$mnt" "$work"
grep -q "^fs-launch: 1 output (2 B) kept in $work/local/fanstore-outputs/job-.* on each node: new/a\$" "$work/err" ||
  fail "$(cat "$work/err")"
equal "lines" 1 "$(grep -c 'will be kept' "$work/err")"

job 2 --mount "$mnt" --discard -- sh -c 'echo a >"$1/a"' - "$mnt"
! grep 'will be' "$work/err" || fail "--discard"
grep -q '^fs-launch: 1 output (2 B) is lost (keep with --keep): a$' "$work/err" || fail "--discard: $(cat "$work/err")"
equal "kept, of the job before" "job-* new/a" "$(cd "$work/local/fanstore-outputs" && find . -type f -printf '%P\n' | sed 's|job-[^/]*/|job-* |')"
rm -rf "$work/local/fanstore-outputs"
echo "ok - kept by default, told at once; a later job leaves them"
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
warned="^fs-launch: warning: $src: programs see the dataset there; what else is in this directory is hidden .*, as "
job 1 -- true
! grep "$warned" "$work/err" || fail "nothing is hidden"
echo theirs >"$src/taken"
job 1 -- sh -c '[ ! -e "$1/taken" ]' - "$src"
grep -q "${warned}taken (--stage-in DIR shows what earlier jobs wrote)$" "$work/err" || fail "not said: $(cat "$work/err")"
job 1 --stage-in "$src" --discard -- cat "$src/taken"
! grep "$warned" "$work/err" || fail "it is staged in"
mkdir "$src/theirs" "$work/elsewhere" && chmod 751 "$src/theirs" && ln -s "$work/elsewhere" "$src/way"
state() { find "$src" -type f -exec md5sum {} + && find "$src" -printf '%P %y %m %l\n' && find "$src" -type f -printf '%P %t\n'; }
state | sort >"$work/before"
control() { find "$src" -name '*.fanstore*'; }
cat >"$work/writes.sh" <<'END2'
cd "$1" || exit
node() { local k=$1; shift; FANSTORE_NODE=$k sh -c "$*" || exit 8; }
copied() { for _ in $(seq 600); do env -u LD_PRELOAD FANSTORE_ENV_AS_IS=1 sh -c "$1" 2>/dev/null && return; sleep 0.1; done; exit 9; }
node 0 'echo 1 >ck; echo 1 >edited; echo 1 >same; echo x >gone; mkdir x y; echo x >x/x; echo e >empty/e; echo y >y/y; mkdir w && chmod 710 w && echo w >w/w'
node 1 'mkdir -m 700 run && echo b >run/b && ln -s b run/link; echo a >d00/new; echo z1 >other'
copied '[ -e ck ] && [ -e edited ] && [ -e same ] && [ -e gone ] && [ -e x/x ] && [ -e empty/e ] && [ -e other ] && [ -e y/y ] && [ -e w/w ]'
node 1 'echo 22 >ck.tmp && mv ck.tmp ck; echo mine >taken; mkdir theirs way && echo c >theirs/c && echo z >way/z'
env -u LD_PRELOAD FANSTORE_ENV_AS_IS=1 sh -c 'echo 2 >edited; rm -r w && ln -s "$1" w' - "$2/elsewhere"
node 0 'echo 22 >same; rm edited gone empty/e x/x && rmdir x; mv y/y moved && rmdir y; echo z2 >other.tmp && mv other.tmp other'
bash -c "$told" - "$2/err" "outputs are copied to the source, $1 (--stage-out DIR .*--discard"
END2
job 2 -- bash "$work/writes.sh" "$src" "$work"
grep -q "^fs-launch: 10 outputs (.*) written, 7 staged out to $src\$" "$work/err" || fail "$(cat "$work/err")"
grep -q '^fs-launch: 5, .*, could not be staged out (something else has the name already) and are kept in .*: .*taken' "$work/err" ||
  fail "$(cat "$work/err")"
equal "there" "22 2 22 b b a c y z2" "$(cd "$src" && cat ck edited same run/b run/link d00/new theirs/c moved other | xargs)"
equal "kept" "mine z w" "$(cd "$work"/local/fanstore-outputs/job-* && cat taken way/z w/w | xargs)"
equal "a directory that is a symlink now" "755 710" "$(stat -c %a "$work/elsewhere" "$work"/local/fanstore-outputs/job-*/w | xargs)"
equal "a directory's mode" "700" "$(stat -c %a "$src/run")"
equal "control files" "" "$(control)"
rm -r "$src/w" "$src/run" "$src/d00/new" "$src/ck" "$src/edited" "$src/same" "$src/theirs/c" "$src/moved" "$src/other" "$work/local/fanstore-outputs"
state | sort | diff "$work/before" - || fail "the source was changed"
[ -z "$(ls "$work/elsewhere")" ] || fail "a symlink was followed"
echo "ok - copied to the source by default, and nothing else is touched there"

cd "$work"
# All daemons are killed: what is left stays, with its names, until clean --outputs.
expect_status 125 launch --dataset "$work/ds" --mount "$mnt" --emulate 2 -- bash -c 'cd "$1" || exit
  mkdir -p "d00/tmp dir/sub" && echo 1 >"d00/tmp dir/sub/1" && mv "d00/tmp dir" d00/final && mkfifo fifo
  echo 2 >t && mv t two && chmod 640 two && truncate -s 100000 hole
  FANSTORE_NODE=1 sh -c "echo 3 >d00/final/3; echo 4 >open; exec 5>>open; echo 5 >&5; mv two d00/final/two; touch -d 2020-01-01 d00/final/3"
  echo 6 >>d00/final/two; echo 7 >r.tmp; mv r.tmp renamed; echo 1111 >both; FANSTORE_NODE=1 sh -c "printf 22 | dd of=both seek=1 bs=2 conv=notrunc 2>/dev/null"
  ln -s x gone; ln -s final d00/link; ln -s old moved; mkdir -p void/deep void/not
  FANSTORE_NODE=1 sh -c "rm gone; ln -sfn final/3 d00/link; mv moved void/moved; rmdir void/not; ln -s . void/here"
  sleep 1
  "$kill_daemon" 1 "$1" && "$kill_daemon" 0 "$1"; sleep 0.5' - "$mnt"
equal "nothing but outputs is left" "lock names out" "$(find local/fanstore*/outputs-* -mindepth 1 -maxdepth 1 -printf '%f\n' | sort -u | xargs)"

# What a killed daemon leaves in the source the next job removes.
job 2 -- bash -c 'cd "$1" && FANSTORE_NODE=1 sh -c "echo a >a" && for i in $(seq 300); do
  env -u LD_PRELOAD FANSTORE_ENV_AS_IS=1 test -e a && break; sleep 0.1; done; sleep 0.3; "$kill_daemon" 1 "$1"' - "$src"
equal "copied before" a "$(cat "$src/a")"
[ -n "$(control)" ] || fail "a killed daemon has left nothing: this tests nothing"
job 2 -- cat "$src/d00/f00000"
! grep output "$work/err" || fail "there are none"
[ ! -e "$work/local/fanstore-outputs" ] || fail "something is kept"
equal "control files" "" "$(control)"
rm "$src/a"
state | sort | diff "$work/before" - || fail "the source was changed"
echo "ok - what a killed daemon leaves in the source"

# clean NAME TO [OPTION...]: of a local directory's copy.
clean() { "$bin/fs-launch" clean --local-dir "$work/$1" --outputs --to "$work/$2" 2>"$work/clean" || fail "$(cat "$work/clean")"; }
files() { (cd "$work/$1"/job-* && find . -type f | sed 's/[0-9a-f]\{16\}/ID/' | sort | xargs); }
cp -a local taken && cp -a local again
"$bin/fs-launch" clean --local-dir "$work/local" 2>"$work/clean"
equal "told" 2 "$(grep -c 'outputs (.*) and 3 symlinks of a job that is over (1 .*): fs-launch clean --outputs' "$work/clean")"
grep -q '5 outputs .* (1 is not whole):' "$work/clean" || fail "not whole: $(cat "$work/clean")"
mkdir "$work/to" "$work/to2" && touch "$work/to/stays"
clean local to
all="./d00/final/3 ./d00/final/sub/1 ./d00/final/two ./hole ./lost+found/ID ./lost+found/both ./open ./renamed"
equal "copied out" "$all" "$(files to)"
grep -q '^fs-launch: .*/lost+found/both is not whole: other nodes had some of its bytes$' clean || fail "not whole: $(cat clean)"
equal "symlinks, and empty directories" "d00/link final/3|void/deep |void/here .|void/moved old|" \
  "$(cd "$work"/to/job-* && find . \( -type l -o -empty -type d \) -printf '%P %l\n' | sort | tr '\n' '|')"
cd "$work"/to/job-*
equal "bytes" "3 1 2 6 4 5" "$(cat d00/final/3 d00/final/sub/1 d00/final/two open | xargs)"
equal "attributes" "640 100000 0 2020-01-01" "$(stat -c %a d00/final/two) $(stat -c '%s %b' hole) $(date -r d00/final/3 +%F)"
job=${PWD##*/}
cd "$work"
[ -z "$(find local -name 'outputs-*')" ] || fail "they are still there"
clean again to # as after one that was broken off
equal "copied out again" "$all" "$(files to)"
# Names that are taken, that lead away, or that lead out.
mkdir -p "to2/$job" && ln -s "$work/elsewhere" "to2/$job/d00" && echo theirs >"to2/$job/hole"
names=$(grep -l 'name=open' taken/fanstore-node*/outputs-*/names)
id=$(sed -n 's/.* id=\([0-9]*\) .*name=open$/\1/p' "$names" | tail -n 1)
echo "path id=$id path=d99/../../../escaped" >>"$names"
clean taken to2
[ -z "$(ls "$work/elsewhere")" ] || fail "a symlink was followed"
equal "theirs" theirs "$(cat "to2/$job/hole")"
equal "none is lost" 8 "$(find "to2/$job" -type f ! -name hole | wc -l)"
[ "$(find "to2/$job/lost+found" -type f | wc -l)" -ge 4 ] || fail "lost+found: $(find to2)"
grep -q '^fs-launch: [1-5] of them have no name,.* taken: they are in lost+found' clean || fail "$(cat clean)"
if [ -e escaped ] || [ -e to2/escaped ]; then fail "a name leads out of --to"; fi
expect_status 2 "$bin/fs-launch" clean --to "$work/to"
one_line "$work/err" 'give --outputs'
echo "ok - outputs that killed daemons have left"

# Outputs that cannot be counted stay, whoever removes what dead daemons have left.
backing=$work/odd/fanstore/outputs-job-odd-0
mkdir -p "$backing" && touch "$backing/names" "$backing/lock" "$backing/out" # `out` is no directory
expect_status 1 "$bin/fs-launch" clean --local-dir "$work/odd"
one_line err '/outputs-job-odd-0: Not a directory: it stays$'
expect_status 0 launch --dataset "$work/ds" --mount "$mnt" --local-dir "$work/odd" --discard -- true
[ -e "$backing/out" ] || fail "removed by a daemon"
rm "$backing/out"
"$bin/fs-launch" clean --local-dir "$work/odd" 2>err
one_line err '^fs-launch: removed .*/outputs-job-odd-0, left by'
echo "ok - outputs that cannot be counted"

# What jobs have kept: modes of directories, trees that are too deep, a directory of another user's.
kept() { mkdir -p "$work/$1/fanstore-outputs/job-$1" && cd "$work/$1/fanstore-outputs/job-$1"; }
kept plain
mkdir -m 700 private && echo p >private/p && ln -s p private/link && touch -d 2020-01-01 private
(kept deep && echo d >d && mkdir -p "$(printf 'x/%.0s' $(seq 300))")
cd "$work"
mkdir to3
expect_status 1 "$bin/fs-launch" clean --local-dir "$work/deep" --outputs --to "$work/to3"
one_line "$work/err" '/job-deep: its directories are more than 256 levels deep.* it stays$'
equal "the tree" d "$(cat deep/fanstore-outputs/job-deep/d)"
# Another one begins the same copy, where locks do not keep it away.
if strace -o /dev/null true 2>/dev/null; then
  (kept twice && echo whole >f)
  strace -o /dev/null -e trace=fsync -e inject=fsync:delay_enter=500000 \
    "$bin/fs-launch" clean --local-dir "$work/twice" --outputs --to "$work/to3" 2>err &
  for _ in $(seq 100); do ! grep -qs whole to3/job-twice/.fanstore-copy-* || break; sleep 0.02; done
  for copy in to3/job-twice/.fanstore-copy-*; do rm "$copy" && echo half >"$copy"; done
  if wait $!; then fail "gave its name to another's copy: $(find to3/job-twice)"; fi
  equal "the other's copy, and the source" "half whole" \
    "$(cat to3/job-twice/.fanstore-copy-* twice/fanstore-outputs/job-twice/f | xargs)"
fi
if [ "$(id -u)" = 0 ]; then
  mkdir to3/job-plain && chown 65534 to3/job-plain
  expect_status 1 "$bin/fs-launch" clean --local-dir "$work/plain" --outputs --to "$work/to3"
  grep -q "^fs-launch: $work/to3/job-plain: belongs to another user: the outputs stay\$" err || fail "$(cat err)"
  if [ -n "$(ls to3/job-plain)" ] || [ ! -e plain/fanstore-outputs/job-plain/private/p ]; then fail "copied for another user"; fi
  rmdir to3/job-plain
fi
clean plain to3
equal "a kept directory" "p p 700 2020-01-01" \
  "$(cat to3/job-plain/private/p) $(readlink to3/job-plain/private/link) $(stat -c %a to3/job-plain/private) $(date -r to3/job-plain/private +%F)"
[ ! -e plain/fanstore-outputs ] || fail "kept outputs are still there"
echo "ok - clean of kept outputs"
