#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# What could go wrong with mappings of the library alone (mapped_alone_faults.c). Each case is tried; the script fails
# if any does.
. "$(dirname "$0")/../functions.sh"
need_command cc
need_space 300

mkdir -p "$work/source" "$work/tmp"
"$python" -c '
import array, sys
for name, size in ("a", 16 << 20), ("b", 12 << 20):
    with open(sys.argv[1] + "/" + name, "wb") as f:
        array.array("Q", range(0, size, 8)).tofile(f)' "$work/source"
cc -std=gnu11 -D_GNU_SOURCE -O1 -w -pthread -o "$work/maps" "$(dirname "$0")/mapped_alone_faults.c"
pack "$work/source" "$work/ds" --codec lz4 --partitions 1
pack "$work/source" "$work/raw" --codec raw --partitions 1
shared=$work/tmp/fanstore-copies-$(id -u)
map() { plain "${dataset:-$work/ds}" "$mnt" env TMPDIR="$work/tmp" timeout 60 "$work/maps" "$1" "$mnt/${2:-a}" ${3+"$3"}; }
bad=0
wrong() {
  printf 'WRONG: %s\n' "$*"
  bad=$((bad + 1))
}
fresh() {
  rm -rf "$work/tmp"
  mkdir "$work/tmp"
}
# Threads map while main returns: the next program sees each byte, and nothing is left.
left=0
for _ in $(seq 12); do
  map threads || wrong "threads: status $?"
  [ ! -e "$shared" ] || left=$((left + 1))
  map all || wrong "the program after one whose threads mapped at its end: status $?"
  fresh
done
[ "$left" = 0 ] || wrong "$left of 12 programs whose threads mapped at the end left their directory"

# A killed program leaves a copy and its marks. Somebody removes the copy, and another one gets its inode.
id=$("$bin/fs-prepare" info --json "$work/ds" | "$python" -c 'import json, sys; print(json.load(sys.stdin)["dataset_id"])')
one=$shared/$id-$(head -c 8 /proc/sys/kernel/random/boot_id)
for _ in 1 2 3; do
  map dies || true
  rm "$one"/*.c || wrong "a killed program has left nothing: this tests nothing"
  map all || wrong "marks of an inode that was used before: status $?"
  fresh
done

map daemonized >"$work/out" || true
wait_until 30 grep -q . "$work/out"
grep -q good "$work/out" || wrong "a child whose parent ends at once cannot mremap"

cp -r "$work/raw" "$work/damaged"
part=$(find "$work/damaged" -name 'part-*' -size +1M)
at=$((14 << 20)) # in the first of the two files, or in the first part of the second
printf 'X' | dd of="$part" bs=1 seek="$at" conv=notrunc status=none
for name in a b; do
  got=0
  dataset=$work/damaged map remapped $name || got=$?
  [ "$got" != 1 ] || wrong "mremap shows a damaged block"
done

if [ "$(id -u)" = 0 ]; then
  mkdir -p "$work/root/proc" "$work/root$work/tmp"
  if mount -t proc proc "$work/root/proc" 2>/dev/null; then
    map rooted a "$work/root" || wrong "in another root: status $?"
    umount "$work/root/proc"
  fi
  fresh
fi

map closed || wrong "closed: status $?"
fresh
map quick
[ ! -e "$shared" ] || wrong "what is mapped in a handler of at_quick_exit is left"
fresh

map masked
[ ! -e "$shared" ] || wrong "with umask 0777: $(ls -ld "$shared") is left"
fresh

mkdir -m 700 "$shared" "$one"
(flock -x 9 && exec sleep 100) 9<"$one" &
lock=$!
while flock -n "$one" true; do sleep 0.05; done
map waits || wrong "each mapping waits for a stopped process that removes"
kill "$lock"
wait "$lock" 2>/dev/null || true
fresh

# In memory, by a program that was killed there: the next one of this user, in TMPDIR.
memory=/dev/shm/fanstore-copies-$(id -u)
made=''
for _ in {1..100}; do # another test's program may remove the empty directory in between
  mkdir -m 700 "$memory" 2>/dev/null || true
  ! mkdir -m 700 "$memory/${id//[0-9a-f]/0}-00000000" 2>/dev/null || { made=1 && break; }
done
[ -n "$made" ] || wrong "no directory can be made in $memory"
map all
[ ! -e "$memory/${id//[0-9a-f]/0}-00000000" ] || wrong "what a killed program has left in /dev/shm stays there"
rmdir "$memory/${id//[0-9a-f]/0}-00000000" "$memory" 2>/dev/null || true

[ "$bad" = 0 ] || fail "$bad of these are wrong"
