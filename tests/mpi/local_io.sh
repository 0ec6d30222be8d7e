#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# --local-io: staged partitions past the page cache, on 1 and 2 nodes: every byte, in pieces, by threads and in forked
# children, and nothing left in memory; what is there is used; a local directory in memory; memory for a part of them.
. "$(dirname "$0")/../functions.sh"

random_files "$work/source" 150 5 0 1 511 4096 100001 131072 300001
pack "$work/source" "$work/ds" --codec raw --partitions 3 --mount "$mnt"
bytes=$(find "$work/source" -type f -printf '%s\n' | awk '{ s += $1 } END { printf "%d", s }')
io() { "$python" "$here/local_io.py" "$@"; }
here=$(dirname "$0")
total() { json "$work/r.json" "r['total']['$1']"; }
job() { # NODES HOW COMMAND...
  local nodes=$1 how=$2
  shift 2
  launch --dataset "$work/ds" --emulate "$nodes" --local-io "$how" --report "$work/r.json" --local-dir "$local" -- "$@" \
    2>"$work/err" || {
    cat "$work/err" >&2
    fail "$nodes nodes, --local-io $how: $*"
  }
}

local=$work/local
job 1 auto true
io cold "$local" 2>/dev/null || skip "the file system of $work keeps its files in memory"
name=$(find "$work/source" -size +200k -printf '%P\n' | sort | head -n1)
job 1 direct cat "$mnt/$name" >"$work/out"
cmp "$work/out" "$work/source/$name" || fail "one file"
[ "$(total bytes_direct)" -gt 0 ] || skip "the file system of $work has no O_DIRECT"

for nodes in 1 2; do
  job "$nodes" auto true
  io cold "$local"
  job "$nodes" direct "$python" "$here/local_io.py" read "$work/source" "$mnt"
  equal "past the page cache, $nodes nodes" "$(total bytes_local)" "$(total bytes_direct)"
  [ "$nodes" = 2 ] || equal "all that was read" "$((10 * bytes))" "$(total bytes_local)"
  [ "$nodes" = 2 ] || equal "pages in memory" 0 "$(io in-memory "$local/")"
done
echo "ok - direct: every byte, and none of it in the page cache, 1 and 2 nodes"

io cold "$local"
job 1 auto diff -r "$work/source" "$mnt"
equal "auto, with room for all" 0 "$(total bytes_direct)"
[ "$(io in-memory "$local")" -gt $((bytes / 8192)) ] || fail "auto has not kept what it read"
job 1 direct diff -r "$work/source" "$mnt"
equal "direct, all in memory" 0 "$(total bytes_direct)"
io cold "$local"
job 1 cached diff -r "$work/source" "$mnt"
equal "cached" 0 "$(total bytes_direct)"
echo "ok - what is in memory is read from there; auto and cached"

launch --dataset "$work/ds" --verbose --local-io direct -- true 2>"$work/err"
grep -q '^fs-launch: node 0 (.*): .* of partitions, .* of memory: 0% read through the page cache' "$work/err" ||
  fail "--verbose does not tell"
expect_status 2 launch --dataset "$work/ds" --local-io odd -- true
one_line "$work/err" '--local-io odd: give cached, direct or auto'
echo "ok - what is told"

pack "$work/source" "$work/packed" --codec lz4 --partitions 3 --mount "$mnt"
launch --dataset "$work/packed" --local-io direct --local-dir "$work/local4" -- true 2>"$work/err"
io cold "$work/local4"
launch --dataset "$work/packed" --local-io direct --local-dir "$work/local4" --report "$work/r.json" -- \
  diff -r "$work/source" "$mnt" || fail "lz4"
[ "$(total bytes_direct)" -gt 0 ] || fail "lz4: nothing past the page cache"
echo "ok - stored as lz4"

if [ -d /dev/shm ] && [ "$(stat -f -c %T /dev/shm)" = tmpfs ]; then
  local=$(mktemp -d /dev/shm/fst.XXXXXX)
  trap 'rm -rf "$local"; [ -z "${own_directory:-}" ] || rm -rf "$own_directory"' EXIT
  job 1 direct "$python" "$here/local_io.py" read "$work/source" "$mnt"
  rm -rf "$local"
  echo "ok - a local directory in memory"
fi

# A job whose control group has less memory than its partitions take: a part of them is kept there.
group=
for top in /sys/fs/cgroup/memory /sys/fs/cgroup; do
  [ -n "$group" ] || { mkdir "$top/fst.$$" 2>/dev/null && group=$top/fst.$$; }
  [ -z "$group" ] || [ -e "$group/memory.limit_in_bytes" ] || [ -e "$group/memory.max" ] || { rmdir "$group" && group=; }
done
limit=$group/memory.max
[ -e "$limit" ] || limit=$group/memory.limit_in_bytes
if [ -n "$group" ] && echo 200M >"$limit" 2>/dev/null; then
  local=$work/large
  random_files "$work/many" 500 5 700001
  pack "$work/many" "$work/ds2" --codec raw --partitions 3 --mount "$mnt"
  expect_status 0 bash -c 'echo $$ >"$1/cgroup.procs" && shift && exec "$@"' - "$group" "$bin/fs-launch" --dataset "$work/ds2" \
    --local-dir "$local" --verbose --report "$work/r.json" -- sh -c 'diff -r "$1" "$2" && diff -r "$1" "$2"' - "$work/many" "$mnt"
  wait_until 20 rmdir "$group" 2>/dev/null
  percent=$(sed -n 's/.* of memory: \([0-9]*\)% read through.*/\1/p' "$work/err")
  case $percent in
    [2-5][0-9]) ;;
    *) fail "of 350 MB in 200 MiB $percent% through the page cache" ;;
  esac
  [ "$(total bytes_direct)" -gt 0 ] || fail "nothing past the page cache"
  [ "$(total bytes_direct)" -lt "$(total bytes_local)" ] || fail "all past the page cache"
  echo "ok - memory for a part"
else
  [ -z "$group" ] || rmdir "$group"
  say "no control group can be made here: not tested what happens with memory for a part"
fi
no_leftovers
