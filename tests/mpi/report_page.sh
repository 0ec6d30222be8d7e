#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# --report: the JSON's timeline adds up to the totals, and who served whom to what was served; the page has the same JSON,
# nothing that it would load, and no text that would end its script; the file is written whole or not at all; an unknown
# suffix is refused; a plain job has no findings and no warnings.
. "$(dirname "$0")/../functions.sh"

random_files "$work/source" 300 3 2000 30000
printf x >"$work/source/odd<script>&.txt"
pack "$work/source" "$work/ds" --mount "$mnt" --partitions 6
cat >"$work/epochs.sh" <<'END'
for epoch in 1 2 3; do
  find "$1" -type f -print0 | sort -z | awk -v RS='\0' -v ORS='\0' -v r="$OMPI_COMM_WORLD_RANK" 'NR % 3 == r' | xargs -0 cat >"$2.$OMPI_COMM_WORLD_RANK"
  sleep 0.4
done
echo '</script><!--' >"$1/out<!--<script>.$OMPI_COMM_WORLD_RANK"
END

job() { # REPORT [OPTION...]
  local report=$1
  shift
  expect_status 0 launch --dataset "$work/ds" --emulate 3 --np 3 --discard --report "$report" "$@" -- \
    bash "$work/epochs.sh" "$mnt" "$work/copy" '</script>"<!-- & x'
}
job "$work/r.json"
! grep warning "$work/err" || fail "a plain job has warnings"
"$python" - "$work/r.json" <<'END' || fail "the JSON does not add up"
import json, sys
r = json.load(open(sys.argv[1]))
assert r["schema"] == 1 and r["findings"] == [] and r["warnings"] == [], r["findings"] + r["warnings"]
assert r["command"][-1] == '</script>"<!-- & x' and "--dataset" in r["options"] and r["options"][-1] != "--"
assert [d["files"] for d in r["datasets"]] == [301]
seconds, nodes = r["timeline"]["seconds"], r["timeline"]["nodes"]
assert seconds == sorted(seconds) and abs(seconds[-1] - r["seconds"]) < 0.01, (seconds, r["seconds"])
for key, total in (("files", "opens"), ("wait_ms", "wait_ms"), *((k, k) for k in ("bytes_local", "bytes_cache", "bytes_remote", "bytes_shared"))):
    for line, node in zip(nodes, r["nodes"]):
        assert len(line[key]) == len(seconds) and sum(line[key]) == node[total], (key, line[key], node[total])
assert r["total"]["opens"] == 3 * 301 and r["total"]["bytes_remote"] > 0
assert [e["complete"] for e in r["epochs"]] == [True] * 3, r["epochs"]
assert r["epochs"][0]["start_s"] == 0 and 0 <= r["epochs"][1]["hit_ratio"] <= 1
for i, row in enumerate(r["matrix"]):
    assert row[i] == 0 and sum(row) == r["served"][i]["bytes"]
    assert sum(column[i] for column in r["matrix"]) == r["nodes"][i]["fetched_bytes"] > 0
waits = [l for l in r["latency"] if (l["op"], l["place"]) == ("read", "remote")]
assert [l["rank"] for l in waits] == [0, 1, 2]
for l in r["latency"]:
    assert sum(n for _, n in l["buckets"]) == l["n"] > 0 and l["p50_us"] <= l["p90_us"] <= l["p99_us"] <= l["max_us"], l
assert [round(1000 * w["wait_s"]) for w in r["waiting"]] == [n["wait_ms"] for n in r["nodes"]]
assert all(s["mean_us"] > 0 for s in r["served"])
slow = r["slow_files"]
assert slow == sorted(slow, key=lambda f: -f["longest_ms"]) and {f["rank"] for f in slow if f["place"] == "remote"}
for f in slow:
    assert f["path"].startswith(r["datasets"][0]["mount"] + "/"), f
    assert 0 < f["longest_ms"] <= f["total_ms"] and f["bytes"] > 0 and f["reads"] > 0, f
all_, each = r["processes"], r["waiting"]
assert all_["processes"] == sum(w["processes"] for w in each) >= 9, (all_, each)
assert all_["worst_s"] == max(w["worst_s"] for w in each) == each[all_["worst_rank"]]["worst_s"] > 0
assert all(w["median_s"] <= w["worst_s"] <= w["wait_s"] + 0.002 for w in each), each
assert r["compression"] == {"decodes": 0, "saved_bytes": 0, "decode_s": 0}, r["compression"]  # random bytes
END
echo "ok - the JSON adds up, and a plain job has no warnings"

"$python" "$root/tests/setup/report_keys.py" "$work/r.json" "$root/docs/examples/report.html" >"$work/keys" ||
  fail "the keys: $(cat "$work/keys")
(docs/report.md, \"The JSON\", has the report's keys; make example-report renews the example)"
"$python" - "$root" <<'END' || fail "docs/examples/report.html has another page than fs-launch: make example-report"
import sys
root = sys.argv[1]
frame = open(root + "/fs-launch/report.html").read().replace("@SCRIPT@", open(root + "/fs-launch/report.js").read())
example, at = open(root + "/docs/examples/report.html").read(), 0
for part in ("@TITLE@", "@SUMMARY@", "@DATA@", None):
    text, frame = frame.split(part, 1) if part else (frame, "")
    at = example.index(text, at) + len(text)
assert at == len(example)
END
echo "ok - docs/report.md has the report's keys, and the example is the page of this version"

job "$work/r.html"
"$python" - "$work/r.html" <<'END' || fail "the page"
import html.parser, json, re, sys
text = open(sys.argv[1]).read()

class Page(html.parser.HTMLParser):
    def __init__(self):
        super().__init__()
        self.open, self.scripts, self.rows, self.names = None, [], 0, 0

    def handle_starttag(self, tag, attrs):
        self.rows += tag == "tr"
        assert tag not in ("link", "img", "iframe", "object"), tag
        assert not {"src", "href", "onload", "onclick"} & {name for name, _ in attrs}, attrs
        if tag == "script":
            self.open = dict(attrs)

    def handle_endtag(self, tag):
        if tag == "script":
            self.open = None

    def handle_data(self, data):
        if self.open is not None:
            self.scripts.append((self.open.get("type"), data))

p = Page()
p.feed(text)
data = [t for kind, t in p.scripts if kind == "application/json"]
assert len(p.scripts) == 3 and len(data) == 1, len(p.scripts)
r = json.loads(data[0])
assert r["command"][-1] == '</script>"<!-- & x'
assert sorted(n["name"] for n in r["outputs"]["names"]) == ["out<!--<script>.%d" % i for i in range(3)]
assert p.rows == 1 + 3, "the table without scripts: %d rows" % p.rows
assert not re.search(r"@[A-Z]+@", text), "a mark is left"
urls = set(re.findall(r"\w+://[^\s'\"]*", text)) - {"http://www.w3.org/2000/svg"}
assert not urls, urls
assert text.rstrip().endswith("</html>")
END
echo "ok - the page has the JSON, and loads nothing"

job "$work/r.txt"
grep -qx 'total.opens 903' "$work/r.txt" || fail "no total in the text"
for name in r.xml r.htm dir/r.HTML r.json.gz; do
  expect_status 2 launch --dataset "$work/ds" --report "$work/$name" -- touch "$work/ran"
  one_line "$work/err" "^fs-launch: --report .*$name: give a name that ends in .html, .json or .txt, or -$"
done
[ ! -e "$work/ran" ] || fail "the job has started"
mkdir "$work/a.dir"
expect_status 0 launch --dataset "$work/ds" --report "$work/a.dir/report" -- true
grep -q '^job ' "$work/a.dir/report" || fail "no suffix means text"
echo "ok - other suffixes"

# An older report stays until the new one is whole, and a symlink leads to the new one.
mkdir "$work/there"
echo old >"$work/there/r.json"
ln -s there/r.json "$work/link.json"
expect_status 0 launch --dataset "$work/ds" --report "$work/link.json" -- grep -qx old "$work/there/r.json"
[ -L "$work/link.json" ] || fail "the symlink was replaced"
json "$work/there/r.json" 'r["status"]' >/dev/null || fail "no new report"
expect_status 1 launch --dataset "$work/ds" --report "$work/new.json" -- test -e "$work/new.json"
[ -s "$work/new.json" ] || fail "no report of a job that failed"
# Nobody may write there from the job's start on.
expect_status 0 launch --dataset "$work/ds" --report "$work/there/r.json" -- mv "$work/there" "$work/gone"
grep -q '^fs-launch: --report .*: No such file or directory$' "$work/err" || fail "a report that cannot be written is not told"
json "$work/gone/r.json" 'r["status"]' >/dev/null || fail "the older report"
equal "files there" r.json "$(ls -A "$work/gone")"
echo "ok - whole or not at all"
no_leftovers
