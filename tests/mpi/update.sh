#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# A dataset is updated while jobs use it: each job keeps what it has, staged or on shared storage. The next job sees the new
# dataset, and stages only the partitions that are new.
. "$(dirname "$0")/../functions.sh"

random_files "$work/source" 200 7 1 100 5000 40000 300000
pack "$work/source" "$work/ds" --partitions 5 --mount "$mnt"
cp -a "$work/source" "$work/before"
find "$work/source" -type f | sort | sed -n 1,40p | xargs rm
for f in $(find "$work/source" -type f | sort | sed -n 1,40p); do echo changed >>"$f"; done
local=$work/local

# job NODES COMMAND: a job that reads all, runs COMMAND, and reads all again in new processes.
job() {
  launch --dataset "$work/ds" --emulate "$1" --read-only --report "$work/r.json" -- \
    sh -c 'diff -r "$1" "$2" && sh -c "$3" && diff -r "$1" "$2"' sh "$work/before" "$mnt" "$2" 2>"$work/err" ||
    fail "the job with $1 nodes does not keep its tree: $(tail -n 3 "$work/err")"
}
update="env LD_PRELOAD= $bin/fs-prepare pack --update"
cp -a "$work/ds" "$work/old"
job 2 "$update $work/source $work/ds"
equal 'bytes from shared storage' 0 "$(json "$work/r.json" "r['total']['bytes_shared']")"
echo 'ok - a job keeps what it has staged'

launch --dataset "$work/ds" --emulate 2 --report "$work/r.json" -- diff -r "$work/source" "$mnt" 2>"$work/err"
new=$(($(stat -c %s "$work"/ds/part-00005)))
equal 'bytes that are staged after an update' "$new" "$(json "$work/r.json" "sum(x['staged'] for x in r['nodes'])")"
echo 'ok - the next job sees the new dataset, and stages only what is new'

rm -rf "$work/ds" "$local" && cp -a "$work/old" "$work/ds"
f=$(cd "$work/before" && find . -type f | sort | head -n 1)
mkdir -p "$work/other/${f%/*}" && echo other >"$work/other/$f"
job 1 "find $local -name 'part-*' | xargs rm -f; $update $work/other $work/ds"
[ "$(json "$work/r.json" "r['total']['bytes_shared']")" -gt 1000000 ] || fail 'the job did not read from shared storage'
equal 'files of the dataset now' 1 "$("$bin/fs-prepare" info --json "$work/ds" | "$python" -c 'import json, sys; print(json.load(sys.stdin)["files"])')"
echo 'ok - a job that reads from shared storage keeps what it has, though no file of it is left'
