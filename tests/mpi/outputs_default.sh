#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# timeout: 120
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
