#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
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

# A file that programs wait for again and again is named while they do so: the cache has no room for all of them.
mkdir "$work/large"
for i in $(seq 0 39); do head -c 400000 /dev/urandom >"$work/large/f$i"; done
pack "$work/large" "$work/ds2" --mount "$mnt" --partitions 4
cat >"$work/again.sh" <<'E2'
for _ in $(seq 100); do
  cat "$1"/f* >/dev/null
  if grep "^busy remote node=[01] .* path=$1/f" "$FANSTORE_RUN/live" >"$2/busy"; then exit 0; fi
done
exit 1
E2
launch --dataset "$work/ds2" --emulate 2 --cache 1M --discard -- bash "$work/again.sh" "$mnt" "$work" 2>"$work/err" ||
  fail "no busy file: $(cat "$work/err")"
most=0 # a read may wait for less than the delay: another one has asked for the block before it
while read -r reads us longest; do
  ((reads >= 2 && us >= longest)) || fail "$reads reads, $us us, $longest us"
  most=$((longest > most ? longest : most))
done < <(sed 's/.* reads=\([0-9]*\) .* us=\([0-9]*\) longest_us=\([0-9]*\) .*/\1 \2 \3/' "$work/busy")
((most >= 1000)) || fail "the longest wait of $(cat "$work/busy")"
echo "ok - files that programs wait for are named"

# What decoding cost and saved, by a sample of the blocks: 600 of 30000 bytes, of which about half is stored.
mkdir "$work/words"
(cd "$work/words" && "$python" -c "
import os
for i in range(300): open('f%d' % i, 'wb').write(b''.join(bytes([b]) * 8 for b in os.urandom(3750)))")
pack "$work/words" "$work/ds3" --mount "$mnt" --codec lz4
launch --dataset "$work/ds3" --discard --report "$work/report.json" -- "$python" -c "
for i in range(600): open('$mnt/f%d' % (i % 300), 'rb').read()" 2>"$work/err" || fail "reading: $(cat "$work/err")"
"$python" - "$work/report.json" "$("$bin/fs-prepare" info --json "$work/ds3")" <<'END' || fail "what compression cost"
import json, sys
c, d = json.load(open(sys.argv[1]))["compression"], json.loads(sys.argv[2])
saved = 2 * (d["plain_bytes"] - d["stored_bytes"])
assert saved > 10e6 and 400 <= c["decodes"] <= 800 and 0.6 * saved < c["saved_bytes"] < 1.4 * saved and c["decode_s"] > 0, (c, saved)
END
echo "ok - what compression saved and cost"

# --prefetch idle: lines say how far it is, and the counters that it is whole.
FANSTORE_TEST_DELAY_US=20000 FANSTORE_TEST_PROGRESS_MS=100 launch --dataset "$work/ds" --emulate 2 --discard --prefetch idle --report "$work/report.json" -- \
  sh -c "cat $mnt/f1 >$work/out; for _ in \$(seq 100); do grep -q '^node 0 .*fill_total=\([1-9][0-9]*\) fill_done=\1 ' \$FANSTORE_RUN/live && break; sleep 0.1; done; sleep 0.5" \
  2>"$work/err" || fail "the job that fills its cache: $(cat "$work/err")"
grep -qE '^fs-launch: filling the caches: .* of .* on 2 nodes$' "$work/err" || fail "not told: $(cat "$work/err")"
grep -qE '^fs-launch: the caches are filled: .* on 2 nodes$' "$work/err" || fail "the end is not told: $(cat "$work/err")"
echo "ok - filling the caches is told of"

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

# A line of --stats waits for a sample that is late: no line says that a busy job reads nothing. And the programs of a
# node whose daemon has died do not count.
cat >"$work/busy.sh" <<'E2'
for _ in $(seq 300); do cat "$1/f1" >/dev/null; sleep 0.01; done
E2
cat >"$work/dies.sh" <<'E2'
exec 9<"$1/f1"
read -r -N 100 _ <&9
for _ in $(seq 100); do
  [ "$(grep -c '^node .* processes=[1-9]' "$FANSTORE_RUN/live")" = 2 ] && break
  sleep 0.1
done
[ "$FANSTORE_NODE" = 0 ] || exec sleep 2
for p in $(pgrep -x fanstored); do
  if tr '\0' '\n' 2>/dev/null <"/proc/$p/environ" | grep -q "$2"; then daemon=$p; fi
done
kill -9 "$daemon"
for _ in $(seq 100); do
  sleep 0.2
  cp "$FANSTORE_RUN/live" "$2/dead"
  [ "$(grep -c '^node .* processes=[1-9]' "$2/dead")" != 1 ] || break
done
E2
FANSTORE_TEST_SAMPLE_MS=1200 launch --dataset "$work/ds" --emulate 1 --discard --stats 1 -- \
  bash "$work/busy.sh" "$mnt" 2>"$work/err"
[ "$(grep -c 'files/s' "$work/err")" -ge 3 ] || fail "too few lines: $(cat "$work/err")"
if grep -q ' 0 files/s' "$work/err"; then fail "a line has nothing of a busy job: $(cat "$work/err")"; fi
echo "ok - --stats waits for late samples"
launch --dataset "$work/ds" --emulate 2 --np 2 --discard -- bash "$work/dies.sh" "$mnt" "$work" 2>"$work/err" || true
equal "nodes with programs" 1 "$(grep -c '^node .* processes=[1-9]' "$work/dead")"
equal "dead nodes without" 1 "$(grep -c '^node .* opens=[1-9].* processes=0 ' "$work/dead")"
echo "ok - a dead node has no programs"

# mpirun forwards the ranks' output in pieces. If another rank's piece comes within a line, both lines are whole all the
# same: what is no line of a daemon is shown by --verbose.
FANSTORE_TEST_SAMPLE_MS=1 launch --dataset "$work/ds2" --emulate 4 --np 4 --cache 1M --discard --verbose -- \
  "$python" -c "
for i in range(1200): open('$mnt/f%d' % (i % 40), 'rb').read(20000)" 2>"$work/err" || fail "reading: $(cat "$work/err")"
if grep -E '@fs|^[^ ]*[a-z_]+=[0-9]|[0-9]:[0-9]+,[0-9]+:' "$work/err"; then fail "pieces of lines"; fi
grep '^fs-launch: all 4 nodes: 4[,0-9]* dataset files opened' "$work/err" || fail "no report: $(cat "$work/err")"
echo "ok - no line of a daemon is mixed with another's"
