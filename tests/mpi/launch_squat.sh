#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# Names that fs-launch takes in a TMPDIR for all, the run directory's and the default local directory's, are another
# user's: a directory, a file, a symlink to what is his, to what is ours, to nothing. Jobs run, use again what they have staged,
# find what dead ones have left and leave nothing; nothing of his changes.
. "$(dirname "$0")/../functions.sh"
need_command mpirun setpriv pgrep
[ "$(id -u)" = 0 ] || skip "to make files of another user's needs root"

all=$work/all ours=$work/ours his=$work/his
chmod 755 "$work"
mkdir -m 1777 "$all"
mkdir -m 700 "$ours" "$his"
touch -d '1 hour ago' "$ours/job-dead" "$his/x"
mkdir "$ours/job-old" "$ours/fanstore"
touch -d '1 hour ago' "$ours/job-old" "$ours/fanstore"
chmod 755 "$his"
chown -R 65534 "$his"
make_tree "$work/source"
chmod -R a+rX "$work/source" # for another than root
pack "$work/source" "$work/ds" --partitions 3 --mount "$mnt"
export TMPDIR=$all FANSTORE_RUN_BASE=$all
run=$all/fanstore-0 local=$all/fanstore-local-0

make_squat() { # KIND NAME
  rm -rf "$2"
  case $1 in
    directory) mkdir -m 777 "$2" ;;
    file) echo 1 >"$2" ;;
    to_his) ln -s "$his" "$2" ;;
    to_ours) ln -s "$ours" "$2" ;;
    to_nothing) ln -s "$all/nothing" "$2" ;;
  esac
  chown -h 65534 "$2"
}
state() { find "$all"/fanstore*-0 "$ours" "$his" -printf '%p %y %u %m %l %T@ %s\n' | sort; }
ended() { ! pgrep -f -- "--job $1" >/dev/null; }
squatted() { # KIND
  local before path
  make_squat "$1" "$run"
  make_squat "$1" "$local"
  before=$(state)
  for again in 0 1; do
    expect_status 0 "$bin/fs-launch" --dataset "$work/ds" --emulate 2 --discard --report "$work/r.json" -- \
      sh -c "echo \$FANSTORE_RUN; stat -c '%U %a' \${FANSTORE_RUN%/*}; diff -r --no-dereference '$work/source' '$mnt' && echo 1 >'$mnt/made'"
    path=$(head -n 1 "$work/out")
    [[ $path =~ ^$run\.[a-zA-Z0-9]{6}/job- ]] || fail "$1: the run directory is $path"
    equal "$1: owner and mode" "root 700" "$(tail -n 1 "$work/out")"
    for name in "$run" "$local"; do
      grep -qE "^fs-launch: warning: $name is no directory of yours: $name\.[a-zA-Z0-9]{6} is used$" "$work/err" ||
        fail "$1: not told of $name: $(cat "$work/err")"
    done
    [ "$again" = 0 ] || equal "$1: staged again" 0 "$(json "$work/r.json" "sum(n['staged'] for n in r['nodes'])")"
  done
  equal "$1: directories" 1 "$(find "$all" -mindepth 1 -maxdepth 1 ! -name fanstore-0 ! -name fanstore-local-0 | wc -l)"
  [ -z "$(find "$all" -name 'outputs-*')" ] || fail "$1: outputs are left"
  # With nobody to clean up: the next job finds it, as does clean.
  for next in "--dataset $work/ds -- true" clean; do
    expect_status 137 "$bin/fs-launch" --dataset "$work/ds" -- \
      sh -c "kill -9 \$(pgrep -P \$PPID -x fs-launch-guard) \$PPID; exec sleep 100"
    path=$(find "$run".?????? -mindepth 1 -maxdepth 1 -name 'job-*') # what we say, whoever ends first
    [ -d "$path" ] || fail "$1: nothing is left of a job that was killed: $path"
    wait_until 30 ended "${path##*/}"
    find "$path" -exec touch -h -d '1 minute ago' {} +
    # shellcheck disable=SC2086 # words
    expect_status 0 "$bin/fs-launch" $next
    [ ! -e "$path" ] || fail "$1: $path is still there after fs-launch $next"
  done
  expect_status 0 "$bin/fs-launch" clean --staged
  equal "$1: what is left" "$run $local" "$(echo "$all"/*)"
  equal "$1: what is not ours" "$before" "$(state)"
  echo "ok - $1"
}
for kind in directory file to_his to_ours to_nothing; do squatted "$kind"; done

# One that was chosen stays an error.
make_squat directory "$local"
expect_status 125 "$bin/fs-launch" --dataset "$work/ds" --local-dir "$local" -- true
one_line "$work/err" ".*fanstore-local-0 belongs to another user: give --local-dir a directory of your own"
[ -z "$(ls "$local")" ] || fail "something was made in another user's directory"

# What has such a name by chance is not taken for what a dead job has left.
mkdir -m 700 "$run.backup"
mkdir "$run.backup/photos"
touch -d '1 hour ago' "$run.backup/photos"
expect_status 0 "$bin/fs-launch" --dataset "$work/ds" -- true
expect_status 0 "$bin/fs-launch" clean --staged
[ -d "$run.backup/photos" ] || fail "a directory of the user's own is gone"

# As a user who may not do everything. What he has left himself, a symlink too, is his to choose.
rm -rf "${all:?}"/*
for name in fanstore-65534 fanstore-local-65534; do
  mkdir -m 700 "$all/$name"
  chown 65533 "$all/$name"
done
as=(setpriv --reuid=65534 --regid=65534 --clear-groups env "HOME=$all" "TMPDIR=$all")
expect_status 0 "${as[@]}" "$bin/fs-launch" --dataset "$work/ds" --emulate 2 -- diff -r --no-dereference "$work/source" "$mnt"
expect_status 0 "${as[@]}" "$bin/fs-launch" clean --staged
rmdir "$all/fanstore-local-65534"
ln -s "$his" "$all/fanstore-local-65534"
chown -h 65534 "$all/fanstore-local-65534"
expect_status 0 "${as[@]}" "$bin/fs-launch" --dataset "$work/ds" -- true
[ -d "$his/fanstore" ] || fail "a symlink of one's own is not followed"
echo "ok - as another user than root"
