#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# fs-prepare pack tells how far it is: lines, a bar on a terminal, JSON, a line at SIGUSR1. An interrupt ends it within a second, also
# while its main thread hangs.
. "$(dirname "$0")/../functions.sh"

ok() { echo "ok - $*"; }
cd "$work"
mkdir source
seq 60000 >text
for i in {1..20}; do { echo "$i"; cat text; } >"source/$i"; done
pack=("$bin/fs-prepare" pack --codec lz4hc:12 -j 1)

FANSTORE_TEST_PROGRESS_MS=200 expect_status 0 "${pack[@]}" source ds
grep -qE '^fs-prepare: packing: [0-9]+%, [0-9]+ of 20 files, [0-9.]+ MiB of 6.7 MiB, [0-9.]+ times smaller, [0-9]+ MB/s, .* left$' err ||
  { cat err >&2; fail 'no line of progress'; }
expect_status 0 "${pack[@]}" source ds1
[ ! -s err ] || fail 'progress is told more than once a minute'
ok 'lines of progress'

FANSTORE_TEST_PROGRESS_MS=100 expect_status 0 "${pack[@]}" --json-progress progress source ds2 # an object each 100 ms
"$python" - progress <<'PY'
import json, sys
seen = [json.loads(line) for line in open(sys.argv[1])]
last = seen[-1]
assert last["stage"] == "done" and last["names"] == 20 and last["seconds_left"] == 0, last
ends = [o for o in seen if o["stage"] in ("index", "sync", "done")]
for o in ends: # what is packed stays
    assert o["files"] == o["files_all"] == 20 and o["bytes"] == o["bytes_all"] > 6e6, o
    assert o["bytes"] > o["stored_bytes"] > 0, o
middle = [o for o in seen if o["stage"] == "pack"]
assert middle, seen
for o in middle:
    assert o["files_all"] == 20 and o["bytes"] <= o["bytes_all"], o
    assert o["files"] <= 20 and o["stored_bytes"] <= o["bytes"] and o["left_out"] == 0, o
assert 0 < middle[-1]["stored_bytes"] < middle[-1]["bytes"] and middle[-1]["bytes_per_second"] > 0, middle[-1]
for a, b in zip(seen, seen[1:]):
    assert a["seconds"] <= b["seconds"] and a["time"] <= b["time"]
PY
expect_status 0 "${pack[@]}" --json-progress - source ds3
cmp ds/index ds3/index
"$python" -c 'import json, sys; [json.loads(line) for line in open(sys.argv[1])]' err
expect_status 1 "${pack[@]}" --json-progress nodir/file source ds4
one_line err "json-progress 'nodir/file': cannot be opened"
[ ! -e ds4 ] || fail 'packed nevertheless'
ok 'JSON objects of progress'

# A run that goes on counts what the one before it has packed.
FANSTORE_TEST_CHECKPOINT_MS=10 "${pack[@]}" --partitions 1 source ds5 2>/dev/null &
for _ in {1..1000}; do
  [ "$(cat .ds5.partial-*/journal 2>/dev/null | wc -c)" -lt 300 ] || break
  sleep 0.01
done
kill -KILL $!
wait $! 2>/dev/null || true
expect_status 0 "${pack[@]}" --partitions 1 --json-progress resumed source ds5
one_line err 'resuming: '
grep -qE '^  [0-9.]+ s after it was resumed, [0-9.]+ MB/s$' out || fail "the last line: $(cat out)"
"$python" - resumed <<'PY'
import json, sys
first = [o for o in map(json.loads, open(sys.argv[1])) if o["stage"] == "pack"][0]
assert first["files_all"] == 20 and first["bytes_all"] > 6e6, first
assert first["files"] > 0 and first["bytes"] > first["stored_bytes"] > 0, first
PY
ok 'the same after a resume'

# What follows needs a process that has SIGINT and a terminal.
"$python" - "${pack[@]}" <<'PY'
import ctypes, glob, os, pty, re, signal, subprocess, sys, time

command = sys.argv[1:]
default = lambda: signal.signal(signal.SIGINT, signal.SIG_DFL)


def packing(dataset, **more):
    p = subprocess.Popen(command + ["source", dataset], preexec_fn=default, **more)
    while p.poll() is None and not glob.glob("." + dataset + ".partial-*/part-00003"):
        time.sleep(0.01)
    return p


p = packing("usr1", stderr=subprocess.PIPE)
p.send_signal(signal.SIGUSR1)
line = p.stderr.readline()
assert re.match(rb"fs-prepare: (packing|comparing)", line), line
assert p.wait() == 0
print("ok - SIGUSR1 asks for a line")

master, slave = pty.openpty()
p = packing("bar", stderr=slave)
os.close(slave)
shown = b""
try:
    while not re.search(rb"20 files  .*/", shown):
        shown += os.read(master, 4096)
except OSError:
    pass
assert re.search(rb"\r\x1b\[K\[[= ]{20}\] +\d+%  ETA [-:0-9]+  \d+ MB/s  \d+/20 files", shown), shown
p.send_signal(signal.SIGINT)
assert p.wait() == 130
print("ok - a bar on a terminal")

# The main thread is stopped, as by a server that does not answer.
p = packing("hangs", stderr=subprocess.PIPE)
ptrace = ctypes.CDLL(None, use_errno=True).ptrace
SEIZE, INTERRUPT = 0x4206, 0x4207
if ptrace(SEIZE, p.pid, None, None) != 0:
    print("# no ptrace here:", os.strerror(ctypes.get_errno()))
    p.kill()
    sys.exit()
assert ptrace(INTERRUPT, p.pid, None, None) == 0
os.waitpid(p.pid, 0x40000000)
start = time.time()
os.kill(p.pid, signal.SIGINT)
_, status = os.waitpid(p.pid, 0)
took = time.time() - start
message = p.stderr.read()
assert os.WIFEXITED(status) and os.WEXITSTATUS(status) == 130, status
assert took < 1.5, took  # a second, and what a busy machine adds
assert re.match(rb"fs-prepare: interrupted; \.hangs\.partial-\w+ stays in .*: the same command goes on from there, or removes it", message), message
print("ok - an interrupt ends a process that hangs")
PY
expect_status 0 "$bin/fs-prepare" pack source hangs
[ -z "$(find . -maxdepth 1 -name '.hangs*')" ] || fail 'the next pack does not remove what an interrupt left'
ok 'the next pack removes what was left'
