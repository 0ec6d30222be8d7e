#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# waits
# fs-launch jobs and stats show what the live files of jobs say: as tables, JSON, metrics in a file and by HTTP. They end
# with the job, and refuse files that are none. (watch_top.sh: the full screen.)
. "$(dirname "$0")/../functions.sh"
. "$(dirname "$0")/watch.bash"
watch() { timeout 60 "$bin/fs-launch" "$@"; }

no_job() {
  expect_status 0 watch jobs
  one_line "$work/err" 'you have no job on this host'
  equal 'standard output' '' "$(cat "$work/out")"
  equal 'jobs --json' '[]' "$(watch jobs --json)"
  expect_status 125 watch stats
  one_line "$work/err" 'you have no job on this host'
}

wrong_words() {
  local words
  while read -r words; do
    # shellcheck disable=SC2086 # words
    expect_status 2 watch $words
    [ "$(wc -l <"$work/err")" = 1 ] || fail "$words: $(cat "$work/err")"
  done <<'END'
jobs extra
stats a b
stats --interval 0
stats --count x
stats --format xml
stats --output f
stats --format influx --listen 9
stats --json --format influx
stats --nodes --listen 9
stats --listen 9 --count 1
top --json
END
}

one_job() {
  begin_job job-a-1 command=$'python3 \e[31mtrain.py a long line of arguments' warning='a "warning"'
  watch jobs >"$work/out"
  grep -qE '^JOB +STATE +AGE +NODES +COMMAND$' "$work/out" || fail "no head: $(cat "$work/out")"
  grep -qE '^job-a-1 +running +01:4[0-9] +2  python3 \\x1b\[31mtrain.py a long' "$work/out" || fail "$(cat "$work/out")"
  watch jobs --json >"$work/jobs.json"
  equal 'the jobs' "['job-a-1', 'running', 2]" "$(json "$work/jobs.json" '[r[0]["job"], r[0]["state"], r[0]["nodes"]]')"
  watch stats --count 2 >"$work/out"
  equal 'lines' 3 "$(wc -l <"$work/out")"
  # 300 files/s of both nodes; 200 MB/s; shares; waited; outputs; p50, p99
  tail -n 1 "$work/out" | grep -qE '(29[0-9]|30[0-9]|310) +(19[89]|20[0-2]) +50 +30 +15 +5 +(9|10) .* 37us +1\.2ms$' ||
    fail "other rates: $(cat "$work/out")"
  watch stats --count 1 --json --nodes job-a-1 >"$work/stats.json"
  equal 'JSON' "['running', 2, 'node1', 61, True, True]" "$(json "$work/stats.json" '[r["state"], len(r["nodes"]),
    r["nodes"][1]["host"], r["nodes"][1]["host_busy"], abs(r["files_per_s"] - 300) < 15,
    abs(r["nodes"][1]["files_per_s"] - 200) < 10]')"
  watch stats --count 1 --nodes "$jobs_base/job-a-1" | grep -qE '  1 node1 +(19|20)[0-9] ' || fail 'no line of node 1'
}

metrics() {
  watch stats --format prometheus >"$work/metrics"
  grep -qE '^fanstore_opens_total\{job="job-a-1",node="1",host="node1"\} [0-9]+$' "$work/metrics" || fail 'no counter'
  grep -qE '^fanstore_latency_seconds_bucket\{.*op="read",place="remote",le="3\.2768e-05"\} 0$' "$work/metrics" ||
    fail 'no empty bucket'
  grep -qE '^fanstore_latency_seconds_bucket\{.*op="read",place="remote",le="6\.5536e-05"\} [1-9]' "$work/metrics" ||
    fail 'no histogram'
  if command -v promtool >/dev/null; then
    promtool check metrics <"$work/metrics" >"$work/promtool" 2>&1 || fail "promtool: $(cat "$work/promtool")"
    equal 'what promtool says' '' "$(cat "$work/promtool")"
  fi
  equal 'lines of influx' 6 "$(watch stats --format influx | grep -cE '^fanstore(_latency)?,job=job-a-1,node=[01],host=node')"
}

several_jobs() {
  begin_job job-b-1 state=staging nodes=1
  expect_status 2 watch stats
  one_line "$work/err" 'several jobs.*job-a-1, job-b-1'
  equal 'jobs' 'job-a-1 job-b-1' "$(watch jobs --json >"$work/jobs.json"; json "$work/jobs.json" '" ".join(j["job"] for j in r)')"
  watch stats --count 1 job-b-1 | grep -qE '  staging: 3\.0 GiB of 12\.0 GiB$' || fail 'staging is not shown'
  end_job -1
}

# get METHOD PATH: the status, and the body in $work/body
get() {
  "$python" - "$1" "$2" "$port" "$work/body" <<'END'
import http.client, sys
method, path, where, body = sys.argv[1:]
import socket
c = http.client.HTTPConnection("127.0.0.1")
s = socket.socket(socket.AF_UNIX)
s.settimeout(10)
s.connect(where)
c.sock = s
c.request(method, path)
r = c.getresponse()
open(body, "wb").write(r.read())
print(r.status)
END
}
# raw BYTES: what the server answers to them, without more from us
raw() {
  "$python" -c 'import socket, sys
s = socket.socket(socket.AF_UNIX)
s.settimeout(10)
s.connect(sys.argv[1])
s.send(eval(sys.argv[2]))
print(s.recv(100).split(b"\r")[0].decode())' "$port" "$1"
}
http() {
  port=$work/socket
  watch stats --listen "unix:$port" &
  server=$!
  wait_until 30 test -S "$port"
  equal 'mode' 700 "$(stat -c %a "$port")"
  equal 'GET' 200 "$(get GET /metrics)"
  grep -q '^fanstore_job_state{job="job-a-1",state="running"} 1$' "$work/body" || fail 'no metrics'
  equal 'GET ?' 200 "$(get GET '/metrics?x=1')"
  equal 'POST' 405 "$(get POST /metrics)"
  equal 'another path' 404 "$(get GET /)"
  equal 'no HTTP' 'HTTP/1.1 400 Bad Request' "$(raw 'b"GARBAGE\n\n"')"
  equal 'too long' 'HTTP/1.1 400 Bad Request' "$(raw 'b"x" * 8191')"
  # A client that says nothing is let go after two seconds; meanwhile others are served.
  equal 'that client, beside others' 'HTTP/1.1 200 HTTP/1.1 200 none yet HTTP/1.1 400' "$("$python" -c 'import select, socket, sys
def begin(request):
    s = socket.socket(socket.AF_UNIX)
    s.settimeout(30)
    s.connect(sys.argv[1])
    s.send(request)
    return s
silent = begin(b"GET /met")
others = [begin(b"GET /metrics HTTP/1.1\r\n\r\n").recv(12).decode() for i in range(2)]
early = select.select([silent], [], [], 0)[0]
print(*others, "answered" if early else "none yet", silent.recv(100)[:12].decode())' "$port")"
  expect_status 125 watch stats --listen "unix:$port"
  one_line "$work/err" 'Address already in use'
  expect_status 125 watch stats --listen 127.0.0.1:0
  one_line "$work/err" 'give PORT, HOST:PORT or unix:PATH'
}

ends_with_job() {
  watch stats --format prometheus --output "$work/fanstore.prom" &
  file=$!
  watch stats >"$work/lines" &
  lines=$!
  wait_until 30 test -s "$work/fanstore.prom"
  wait_until 30 test -s "$work/lines"
  equal 'a reader that has gone' 0 "$(set +o pipefail; { watch stats 2>&1 >&3 | wc -c; } 3> >(head -n 1 >"$work/head"))"
  end_job 0
  wait $file || fail "stats --output: status $?"
  wait $lines || fail "stats: status $?"
  wait $server || fail "stats --listen: status $?"
  [ ! -e "$work/fanstore.prom" ] || fail 'the file of metrics is still there'
  [ ! -e "$port" ] || fail 'the socket is still there'
}

not_live() {
  begin_job job-c-1 every=1000
  printf 'fanstore-live 1\njob j nodes=1\nnode 7 ms=1\n' >"$jobs_base/job-c-1/live"
  expect_status 125 watch stats
  one_line "$work/err" 'job-c-1/live: this is no live file'
  watch jobs | grep -qE '^job-c-1 +- +- +-  -$' || fail 'jobs with a file that is none'
  rm "$jobs_base/job-c-1/live"
  ln -s /dev/zero "$jobs_base/job-c-1/live"
  expect_status 125 watch stats
  end_job -1
}

no_job
wrong_words
one_job
metrics
several_jobs
http
ends_with_job
not_live
echo "ok - jobs and stats show what live files say"
