#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# fs-launch jobs and stats beside a real job of two nodes that reads its dataset again and again: its state, its command,
# rates and places that are possible, histograms of its reads, and an end with the job.
. "$(dirname "$0")/../functions.sh"
random_files "$work/source" 600 4 60000
pack "$work/source" "$work/ds" --mount "$mnt"
cat >"$work/loop.py" <<'END'
import os, sys
top, stop = sys.argv[1:]
files = [os.path.join(d, f) for d, _, fs in os.walk(top) for f in fs]
while not os.path.exists(stop):
    for f in files:
        with open(f, "rb") as opened:
            opened.read()
END
launch --dataset "$work/ds" --emulate 2 --np 2 --cache 4M -- "$python" "$work/loop.py" "$mnt" "$work/stop" \
  2>"$work/summary" &
job=$!
trap 'touch "$work/stop"; wait; rm -rf "${own_directory-}"' EXIT
running() { "$bin/fs-launch" jobs --json >"$work/jobs" && [ "$(json "$work/jobs" 'r[0].get("state")' 2>/dev/null)" = running ]; }
wait_until 40 running
equal 'nodes, command' "[2, True]" "$(json "$work/jobs" '[r[0]["nodes"], "loop.py" in r[0]["command"]]')"
timeout 20 "$bin/fs-launch" stats --count 4 --json --nodes >"$work/lines"
tail -n 1 "$work/lines" >"$work/last"
equal 'rates' "[True, True, True, 2, True]" "$(json "$work/last" '[r["files_per_s"] > 50, r["bytes_local_per_s"] > 0,
  r["bytes_remote_per_s"] + r["bytes_cache_per_s"] > 0, len(r["nodes"]), 0 < r["remote_read_p50_us"] < 1e6]')"
timeout 20 "$bin/fs-launch" stats --format prometheus >"$work/metrics"
for pattern in 'opens_total{.*node="1"' 'latency_seconds_count{.*op="read",place="remote"' 'wait_seconds_total{'; do
  grep -qE "^fanstore_$pattern.*\} [0-9.]*[1-9]" "$work/metrics" || fail "not counted: $pattern"
done
timeout 30 "$bin/fs-launch" stats >"$work/out" &
stats=$!
touch "$work/stop"
wait $job || fail "the job: $(cat "$work/summary")"
wait $stats || fail "stats: status $?"
echo "ok - the figures of a real job"
