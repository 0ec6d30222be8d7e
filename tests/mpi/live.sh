#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# timeout: 60
# The run directory's file `live` says what a job does while it does it: counters that grow and end as the report has
# them, and how long reads wait. --stats says the same in lines.
. "$(dirname "$0")/../functions.sh"

mkdir "$work/source"
for i in $(seq 0 199); do head -c 20000 /dev/urandom >"$work/source/f$i"; done
pack "$work/source" "$work/ds" --mount "$mnt" --partitions 4
export FANSTORE_TEST_DELAY_US=3000 FANSTORE_TEST_SAMPLE_MS=100

launch --dataset "$work/ds" --emulate 2 --discard --stats 1 --report "$work/report.json" -- \
  "$python" "$root/tests/mpi/live.py" "$mnt" 200 20000 3000 "$work/seen" 2>"$work/err" ||
  fail "live.py: $(cat "$work/err")"
read -r opens local remote <"$work/seen"
json() { "$python" -c 'import json, sys; print(json.load(open(sys.argv[1]))["total"][sys.argv[2]])' "$work/report.json" "$1"; }
equal "opens" "$opens" "$(json opens)"
equal "bytes_local" "$local" "$(json bytes_local)"
equal "bytes_remote" "$remote" "$(json bytes_remote)"
[ "$(json wait_ms)" -gt 0 ] || fail "no wait in the report"
echo "ok - the live file's counters grow, and are the report's at the end"

lines=$(grep -cE '^fs-launch: [0-9:]{8} [0-9,]+ files/s [0-9]+ MB/s: local [0-9]+ %, cache [0-9]+ %, remote [0-9]+ %, shared [0-9]+ %; waited [0-9]+ %; outputs [0-9]+ files, [0-9.]+ MB/s$' "$work/err") || true
[ "$lines" -ge 1 ] || fail "no line of --stats: $(cat "$work/err")"
grep -qE 'files/s.*remote [1-9]' "$work/err" || fail "--stats saw no remote read: $(cat "$work/err")"
[ -z "$(find "$TMPDIR" -name 'live*' -path '*fanstore*')" ] || fail "a live file is left"
echo "ok - --stats says a line each second, and nothing is left"

# An idle job says nothing: the daemons' samples would fill mpirun's pipe.
unset FANSTORE_TEST_DELAY_US
cat >"$work/idle.sh" <<'E2'
cat "$1/f1" >/dev/null
for _ in $(seq 100); do
  if grep -q '^node 0 .* opens=1 .* processes=0 ' "$FANSTORE_RUN/live"; then break; fi
  sleep 0.1
done
sleep 0.3 # the other node's
cp "$FANSTORE_RUN/live" "$2/a"
sleep 0.7
cp "$FANSTORE_RUN/live" "$2/b"
E2
launch --dataset "$work/ds" --emulate 2 --discard -- bash "$work/idle.sh" "$mnt" "$work" 2>"$work/err" ||
  fail "the idle job: $(cat "$work/err")"
ms() { sed -n 's/^node 0 .* ms=\([0-9]*\) .*/\1/p' "$1"; }
grep -q "^node 0 .* opens=1 .* processes=0 " "$work/a" || fail "the open was not told: $(cat "$work/b")"
equal "the time of the last sample" "$(ms "$work/a")" "$(ms "$work/b")"
echo "ok - a node where nothing happens says nothing"
