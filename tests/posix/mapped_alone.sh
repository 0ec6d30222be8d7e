#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# Mappings with the library alone: programs of a node share one copy of a compressed file; the last one removes it; what
# killed ones leave goes with the next. Raw files are mapped where they are.
. "$(dirname "$0")/../functions.sh"

py=$(dirname "$0")/../mpi/mapped.py
need_space 400
mkdir -p "$work/source" "$work/real"
ln -s real "$work/tmp" # the kernel shows a mapping's file by its resolved name
"$python" "$py" make "$work/source"
pack "$work/source" "$work/ds" --codec lz4 --partitions 2
pack "$work/source" "$work/other" --codec lz4 --partitions 3
page=$("$python" -c 'import mmap; print(mmap.PAGESIZE)')
pack "$work/source" "$work/raw" --codec raw --replicate '*' --align "$page"
shared=$work/real/fanstore-copies-$(id -u)
map() { plain "${dataset:-$work/ds}" "$mnt" env TMPDIR="$work/tmp" "$python" "$py" "$1" "$mnt" "$shared/*"; }
nothing_left() { [ ! -e "$shared" ] || fail "$1 left $(ls -R "$shared")"; }

for what in whole part; do
  map $what 2>"$work/err" || fail "$what: $(cat "$work/err")"
  [ ! -s "$work/err" ] || fail "told: $(cat "$work/err")"
  nothing_left $what
done
map forked
map orphan >"$work/orphan"
wait_until 30 grep -q good "$work/orphan"
wait_until 30 test ! -e "$shared"
echo "ok - five programs have one copy; parts; forks; a child that outlives its parent; nothing is left"

map killed
nothing_left killed
echo "ok - who is killed while it fills a copy is succeeded by the next"

# What a killed program leaves stays until the next one comes, of any dataset; or until it is cleaned.
leave_behind() {
  rm -f "$work/out"
  mkfifo "$work/in"
  map stay <"$work/in" >"$work/out" &
  exec 9>"$work/in"
  wait_until 30 grep -qs mapped "$work/out"
  [ -e "$shared" ] || fail "nothing is shared"
}
kill_it() {
  pkill -9 -f "mapped.py stay $mnt" || fail "no program"
  exec 9>&-
  wait %% 2>/dev/null || true
  rm "$work/in"
}
leave_behind
TMPDIR=$work/tmp "$bin/fs-launch" clean
compgen -G "$shared/*/0-*.c" >/dev/null || fail "clean took a copy that is in use"
kill_it
compgen -G "$shared/*/0-*.c" >/dev/null || fail "a killed program left nothing: this tests nothing"
dataset=$work/other map forked
nothing_left "the next program"
leave_behind
kill_it
TMPDIR=$work/tmp "$bin/fs-launch" clean
nothing_left clean
echo "ok - what a killed program leaves goes with the next one, of another dataset, or by fs-launch clean"

# Two programs, one after the other, of which the first still runs: the second finds the copy. The first ends: it stays.
leave_behind
first=$(ls -i "$shared"/*/*.c)
map part
equal "the copy of who still runs" "$first" "$(ls -i "$shared"/*/*.c)"
exec 9>&-
wait %%
rm "$work/in"
nothing_left "two programs"
echo "ok - a copy stays as long as anybody uses it"

# A directory where others may write is not used.
mkdir -m 777 "$shared"
chmod 777 "$shared"
map forked
[ -z "$(ls -A "$shared")" ] || fail "used $shared, where others may write"
rmdir "$shared"
echo "ok - a directory of others is not used"

# In place: the partition itself, whatever runs beside it.
ds=$work/raw
plain "$ds" "$mnt" env TMPDIR="$work/tmp" "$python" -c '
import mmap, sys
f = open(sys.argv[1], "rb")
m = mmap.mmap(f.fileno(), 0, prot=mmap.PROT_READ)
assert m[:] == open(sys.argv[2], "rb").read()
maps = open("/proc/self/maps").read()
assert sys.argv[3] + "/part-" in maps and "fanstore-copies" not in maps, maps' "$mnt/part" "$work/source/part" "$ds"
echo "ok - a raw file is mapped where it is"

# A damaged block is found when it is mapped: no wrong byte is seen.
part=$(find "$ds" -name 'part-*' -size +100M)
printf 'X' | dd of="$part" bs=1 seek=$((64 << 20)) conv=notrunc status=none
plain "$ds" "$mnt" env TMPDIR="$work/tmp" "$python" -c '
import mmap, sys
bad = 0
for name in "whole", "part", "killed", "forked":
    f = open(sys.argv[1] + "/" + name, "rb")
    try:
        m = mmap.mmap(f.fileno(), 0, prot=mmap.PROT_READ)
        assert m[:] == open(sys.argv[2] + "/" + name, "rb").read(), name
    except OSError:
        bad += 1
assert bad == 1, bad' "$mnt" "$work/source" 2>"$work/err"
nothing_left damage
echo "ok - a damaged block of a raw file is found at mmap"
