#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# Two jobs of one user on the same nodes, with the same dataset and local directory: one is killed at any of its stages, its
# remains are removed by `clean`, and the other reads on without an error, a wrong byte or a file less. What a killed job has
# staged is used by the next one, but for what has been changed since or is half there.
. "$(dirname "$0")/../functions.sh"
need_command setsid pkill
faultreader=$build/tests/helpers/faultreader
local=$work/local
mkdir -p "$work/source" "$local"
"$faultreader" make "$work/source" 600 20
pack "$work/source" "$work/ds" --partitions 8 --mount "$mnt"
options=(--dataset "$work/ds" --emulate 2 --deadline 2000 --local-dir "$local")

beside=''
finish_beside() {
  touch "$work/go"
  [ -z "$beside" ] || wait "$beside" 2>/dev/null || :
  [ -n "${FS_TEST_ID:-}" ] || rm -rf "$TMPDIR"
}
trap finish_beside EXIT
begun() { compgen -G "$work/begun.*" >/dev/null; }
# All processes of a job at once.
kill_job() { # ITS-SESSION
  pkill -9 -s "$1" || :
  wait "$1" 2>/dev/null || :
}
reads_on() { # what it has read grows
  local pid
  pid=$(pgrep -s "$beside" -f "faultreader read" | head -n 1)
  [ -n "$pid" ]
}

setsid "$bin/fs-launch" "${options[@]}" -- "$faultreader" read "$mnt" both --nodes 2 --workers 1 --seconds 1 --begun "$work/begun" \
  --until "$work/go" >"$work/beside.out" 2>"$work/beside.err" &
beside=$!
wait_until 60 begun || fail "it did not begin: $(cat "$work/beside.err")"
# How long such a job takes; a tenth, a third and so on of that is the next one's life.
start=${EPOCHREALTIME/./}
"$bin/fs-launch" "${options[@]}" -- sleep 0.3 >"$work/out" 2>&1 || fail "$(cat "$work/out")"
took=$((${EPOCHREALTIME/./} - start)) # microseconds
tries=0
for percent in 10 35 55 75 90 110; do
  setsid "$bin/fs-launch" "${options[@]}" -- sleep 0.3 >"$work/out" 2>&1 &
  victim=$!
  pause=$((took * percent / 100))
  sleep "$(printf %d.%06d $((pause / 1000000)) $((pause % 1000000)))"
  kill_job "$victim"
  "$bin/fs-launch" clean --local-dir "$local" >"$work/clean" 2>&1 || fail "clean: $(cat "$work/clean")"
  reads_on || fail "the other one has ended: $(cat "$work/beside.out" "$work/beside.err")"
  tries=$((tries + 1))
done
touch "$work/go"
wait "$beside" || fail "the other one: status $?: $(cat "$work/beside.err")"
beside=''
grep -q '^reader: .* errors=0 wrong=0 died=0 ' "$work/beside.out" || fail "the other one: $(cat "$work/beside.out" "$work/beside.err")"
echo "ok - $tries jobs killed beside another, and cleaned up: $(grep -o 'reads=[0-9]*' "$work/beside.out"), no error"

# ---- what a killed job has staged ----

staged() { # of the last job, all nodes
  json "$work/r.json" 'sum(n["staged"] for n in r["nodes"])'
}
reused() {
  json "$work/r.json" 'sum(n["reused"] for n in r["nodes"])'
}
read_all() { # all of it, compared
  "$bin/fs-launch" "${options[@]}" --report "$work/r.json" -- diff -r "$work/source" "$mnt" >"$work/out" 2>&1 ||
    fail "status $?: $(cat "$work/out")"
}
find "$local" -mindepth 1 -delete
setsid "$bin/fs-launch" "${options[@]}" -- touch "$work/staged" >"$work/out" 2>&1 &
victim=$!
wait_until 60 test -e "$work/staged" || fail "$(cat "$work/out")"
kill_job "$victim"
read_all
equal "staged again after a kill" 0 "$(staged)"
[ "$(reused)" -gt 10000000 ] || fail "only $(reused) bytes were used again"
all=$(reused)
part=$(find "$local" -name 'part-00003')
size=$(stat -c %s "$part")
chmod u+w "$part"
printf x | dd of="$part" bs=1 seek=$((size / 2)) conv=notrunc 2>/dev/null
other=$(find "$local" -name 'part-00004')
changed=$((size + $(stat -c %s "$other")))
mv "$other" "$(dirname "$other")/.new-part-00004"
read_all
equal "staged again: what was changed, and what was half there" $changed "$(staged)"
equal "used again: the rest" $((all - $(staged))) "$(reused)"
equal "fragments" "" "$(find "$local" -name '.new-*')"
echo "ok - what a killed job has staged is used again after it was checked"
# The guard of a killed job waits for its daemons for 6 s: longer than the runner waits for what a test leaves.
no_process() { ! pgrep -f -- "--local-dir $local" >/dev/null; }
wait_until 40 no_process
