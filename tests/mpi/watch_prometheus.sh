#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# slow
# waits
# Prometheus scrapes fs-launch stats --listen, and node_exporter's textfile collector takes the file of stats --output:
# both then know a counter of the job. InfluxDB takes its lines, if it is there.
. "$(dirname "$0")/../functions.sh"
. "$(dirname "$0")/watch.bash"
need_command prometheus prometheus-node-exporter curl
trap 'kill $(jobs -p) 2>/dev/null || true; wait; rm -rf "${own_directory-}"' EXIT
read -r scraped asked exported influx_at influx_rpc < <("$python" "$root/tests/setup/ports.py" 5)

begin_job job-p-1 'host=odd "host", x=y\!'
"$bin/fs-launch" stats --listen "$scraped" &
cat >"$work/prometheus.yml" <<END
scrape_configs:
  - job_name: fanstore
    honor_labels: true
    scrape_interval: 1s
    static_configs: [{targets: ["127.0.0.1:$scraped"]}]
END
prometheus --config.file="$work/prometheus.yml" --storage.tsdb.path="$work/tsdb" \
  --web.listen-address="127.0.0.1:$asked" >"$work/prometheus.log" 2>&1 &
mkdir "$work/textfile"
"$bin/fs-launch" stats --format prometheus --output "$work/textfile/fanstore.prom" &
prometheus-node-exporter --collector.disable-defaults --collector.textfile \
  --collector.textfile.directory="$work/textfile" --web.listen-address="127.0.0.1:$exported" >"$work/exporter.log" 2>&1 &

knows() { # QUERY PYTHON-EXPRESSION over the result
  curl -sG "127.0.0.1:$asked/api/v1/query" --data-urlencode "query=$1" >"$work/answer" &&
    [ "$(json "$work/answer" "(lambda v: $2)(r['data']['result'])" 2>/dev/null)" = True ]
}
# 60 bytes a second of another unit would be found: rates are compared, and a quantile of the histogram.
wait_until 60 knows 'sum(rate(fanstore_opens_total{job="job-p-1"}[20s]))' 'abs(float(v[0]["value"][1]) - 300) < 30'
wait_until 40 knows 'fanstore_host_busy_ratio{node="1"}' 'v[0]["metric"]["host"] == "odd \"host\", x=y\\!"'
wait_until 40 knows 'histogram_quantile(0.5, sum by (le) (rate(fanstore_latency_seconds_bucket{op="read"}[20s])))' \
  '3e-5 < float(v[0]["value"][1]) < 7e-5'
exports() {
  curl -s "127.0.0.1:$exported/metrics" >"$work/exported" &&
    grep -qE '^fanstore_opens_total\{host="odd \\"host\\", x=y\\\\!",job="job-p-1",node="1"\} [0-9.e+]+$' "$work/exported"
}
wait_until 40 exports
grep -q '^node_textfile_scrape_error 0$' "$work/exported" || fail 'an error of the textfile collector'
# Each query of the dashboard is one that Prometheus accepts, and has a result.
"$python" - "$root/docs/examples/grafana-dashboard.json" >"$work/queries" <<'END'
import json, sys
for panel in json.load(open(sys.argv[1]))["panels"]:
    for t in panel["targets"]:
        print(t["expr"].replace("$job", "job-p-1").replace("$__rate_interval", "20s"))
END
while IFS= read -r query; do
  knows "$query" 'len(v) > 0' || fail "the dashboard's query $query: $(cat "$work/answer")"
done <"$work/queries"
equal 'queries of the dashboard' 14 "$(wc -l <"$work/queries")"
if command -v influxd >/dev/null; then
  INFLUXDB_META_DIR=$work/i/meta INFLUXDB_DATA_DIR=$work/i/data INFLUXDB_DATA_WAL_DIR=$work/i/wal \
    INFLUXDB_BIND_ADDRESS=127.0.0.1:$influx_rpc INFLUXDB_HTTP_BIND_ADDRESS=127.0.0.1:$influx_at \
    influxd >"$work/influx.log" 2>&1 &
  wait_until 30 curl -s -o "$work/pong" "127.0.0.1:$influx_at/ping"
  curl -s -XPOST "127.0.0.1:$influx_at/query" --data-urlencode 'q=CREATE DATABASE d' >"$work/created"
  "$bin/fs-launch" stats --format influx >"$work/lines"
  equal 'what InfluxDB says' 204 "$(curl -s -o "$work/refused" -w '%{http_code}' --data-binary "@$work/lines" \
    "127.0.0.1:$influx_at/write?db=d")"
  curl -sG "127.0.0.1:$influx_at/query?db=d" --data-urlencode 'q=SELECT opens FROM fanstore GROUP BY host' >"$work/answer"
  equal 'what InfluxDB has' 'odd "host", x=y/!' "$(json "$work/answer" 'r["results"][0]["series"][0]["tags"]["host"]')"
else
  say "no influxd here: the line protocol was not tried"
fi
echo "ok - Prometheus and node_exporter know the job"
