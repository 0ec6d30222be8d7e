#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# alone: the longest call, and the memory of all
# slow
# timeout: 2400
# Load: 64 processes with 8 threads each on one node keep 1,000 files open each and read from two nodes' storage, with a
# cache of a tenth of the files. Every byte is checked, memory stays flat, and no call takes a second more than the longest
# on tmpfs. LOAD_SECONDS (20; `make check-load`: 20 minutes) is for the mount, a quarter of it, but 15 at least, for tmpfs.
# In so short a time either of the two may have had the machine's one long stall: below 5 minutes both are measured up to
# three times, since a stall of the library's is there every time.
. "$(dirname "$0")/../functions.sh"
reader=$build/tests/helpers/loadreader
seconds=${LOAD_SECONDS:-20} processes=64 threads=8 open=1000
files=2000 bytes=100000

# The library's own descriptors are not the program's.
[ "$(ulimit -n)" = unlimited ] || [ "$(ulimit -n)" -ge $((open + 200)) ] || ulimit -n $((open + 200)) ||
  skip "fewer than $((open + 200)) descriptors a process"

mkdir "$work/source"
"$reader" make "$work/source" $files $bytes
pack "$work/source" "$work/ds" --partitions 2 --mount "$mnt"
number() { sed -n "s/.*\b$2=\([0-9]*\).*/\1/p" <<<"$1"; }

# Of the samples' second quarter and of the last one, the average of a column.
quarter() { # COLUMN first|last
  awk -v column="$1" -v which="$2" '{ v[NR] = $column } END {
    n = int(NR / 4); from = which == "first" ? n : NR - n
    for (i = from + 1; i <= from + n; i++) s += v[i]
    print (n > 0 ? int(s / n) : -1) }' "$work/log"
}

readers=("$files" "$bytes" --processes "$processes" --threads "$threads" --open "$open")
on_mount() { # sets mount; the first run's memory is what is judged
  local status=0 log=$work/log
  [ ! -e "$log" ] || log=$work/log.again
  launch --dataset "$work/ds" --emulate 2 --cache $((files * bytes / 10)) -- "$reader" run "$mnt" "${readers[@]}" \
    --seconds "$seconds" --log "$log" --daemons "$work/local" >"$work/out" 2>"$work/err" || status=$?
  mount=$(grep '^load: ' "$work/out") || fail "status $status: $(cat "$work/out" "$work/err")"
  say "mount: $mount"
  [ $status = 0 ] || fail "status $status: $(tail -n 5 "$work/err")"
  grep 'all 2 nodes' "$work/err"
  grep -q ' 0.0% remote' "$work/err" && fail "nothing came from the other node"
  no_leftovers
  echo "ok - every byte of $(number "$mount" bytes) was right"
}
on_tmpfs() { # sets peer
  peer=$("$reader" run "$tmpfs" "${readers[@]}" --seconds $((seconds / 4 > 15 ? seconds / 4 : 15))) ||
    fail "on tmpfs: $peer"
  say "tmpfs: $peer"
}
on_mount

tmpfs=/dev/shm/fanstore-load.$$
if mkdir "$tmpfs" 2>/dev/null; then
  trap 'rm -rf "$tmpfs" ${own_directory:+"$own_directory"}' EXIT
  cp -r "$work/source/." "$tmpfs"
  tries=$((seconds < 300 ? 3 : 1))
  on_tmpfs
  until [ "$(number "$mount" stall_ms)" -le $(($(number "$peer" stall_ms) + 1000)) ]; do
    say "a call took $(number "$mount" stall_ms) ms, on tmpfs $(number "$peer" stall_ms) ms at most"
    [ $((tries -= 1)) -gt 0 ] || fail "that is a second more than on tmpfs, or longer"
    on_mount
    on_tmpfs
  done
  echo "ok - the longest call took $(number "$mount" stall_ms) ms; on tmpfs $(number "$peer" stall_ms) ms"
fi

say "memory in kB, readers and daemons, ten samples: $(awk '{ v[NR] = $4 " " $5 } END {
  for (i = 1; i <= 10; i++) print v[int((i * NR + 9) / 10)] }' "$work/log" | paste -sd,)"
for column in 4 5; do
  first=$(quarter $column first) last=$(quarter $column last)
  [ "$first" -gt 0 ] || fail "memory was not seen: $(cat "$work/log")"
  [ "$last" -le $((first * 21 / 20 + 8192)) ] || fail "memory grew from $first to $last kB"
done
echo "ok - memory is flat"
