# SPDX-License-Identifier: BSD-3-Clause
"""live.sh's COMMAND: reads files while `live` in the run directory is read. Prints nothing unless a check fails."""

import collections
import os
import sys
import time

mount, files, size, delay_us = sys.argv[1], int(sys.argv[2]), int(sys.argv[3]), int(sys.argv[4])
Live = collections.namedtuple("Live", "job nodes latency")


def live():
    """The live file, by its documented form (docs/internals/live.md)."""
    with open(os.environ["FANSTORE_RUN"] + "/live") as f:
        lines = f.read().splitlines()
    assert lines[0] == "fanstore-live 1", lines[0]
    job, nodes, latency = {}, {}, {}
    for line in lines[1:]:
        words = line.split(" ")
        if words[0] == "job":
            job = dict(word.split("=", 1) for word in words[2:])
        elif words[0] == "node":
            nodes[int(words[1])] = {
                key: int(value) for key, value in (word.split("=", 1) for word in words[3:])
            }
        elif words[0] == "latency":
            of = dict(word.split("=", 1) for word in words[4:])
            of["counts"] = dict(map(int, pair.split(":")) for pair in of["counts"].split(","))
            latency[int(words[1]), words[2], words[3]] = of
    return Live(job, nodes, latency)


def total(state, key):
    return sum(node.get(key, 0) for node in state.nodes.values())


def wait_for(what, true):
    end = time.monotonic() + 40
    while not true(state := live()):
        if time.monotonic() > end:
            sys.exit(f"live: {what} was not seen: {state}")
        time.sleep(0.02)
    return state


def read_some(first, last):
    for i in range(first, last):
        with open(f"{mount}/f{i}", "rb", buffering=0) as f:
            assert len(f.read()) == size


def opened(n):
    return lambda state: total(state, "opens") == n


def waits(state):
    return calls(state, "read", "remote")


def calls(state, op, place):
    return int(state.latency.get((0, op, place), {"n": 0})["n"])


names = sorted(os.listdir(mount))
assert len(names) == files
state = wait_for("COMMAND", lambda state: state.job["state"] == "running")
assert state.job["nodes"] == "2" and len(state.nodes) == 2, state
assert state.job["command"].startswith("/usr/bin/python3%20"), state.job
begin = total(state, "opens")
read_some(0, files // 2)
half = wait_for("half of the files", opened(files // 2))
assert begin == 0 and half.nodes[0]["ms"] > 0
read_some(files // 2, files)
state = wait_for("all files", lambda state: opened(files)(state) and waits(state) == total(state, "served") and
                 total(state, "files_local") + total(state, "files_remote") == files)

# Each counter says what was done.
node = state.nodes[0]
assert node["files_local"] + node["files_remote"] == files, node
assert node["bytes_local"] == node["files_local"] * size and node["bytes_remote"] == node["files_remote"] * size, node
assert node["files_remote"] > 20 and node["files_local"] > 20, node
assert node["processes"] == 1 and 0 <= node["host_busy"] <= 100 and node["cpu_ms"] > 0, node
assert state.nodes[1]["served"] == node["fetched"] == node["files_remote"], state.nodes
assert state.nodes[1]["opens"] == 0, state.nodes

# Each remote read has waited for the daemon, and counts once, for as long as the answer was held back.
remote = state.latency[0, "read", "remote"]
assert int(remote["n"]) == sum(remote["counts"].values()) == node["files_remote"], remote
assert int(remote["p50"]) >= delay_us * 1000, remote
assert int(remote["p50"]) <= int(remote["p90"]) <= int(remote["p99"]) <= int(remote["max"]), remote
assert node["wait_ms"] >= node["files_remote"] * delay_us // 1000, node

# What does not wait is sampled: 128 times each, so that the sum is near the number of calls.
for _ in range(20):
    read_some(0, files)
state = wait_for("the epochs", opened(21 * files))
wait_for("their latencies", lambda state: calls(state, "read", "local") + calls(state, "read", "cache") > 10 * files)
time.sleep(0.3)  # the lines after it
state = live()
hot = calls(state, "read", "local") + calls(state, "read", "cache")
assert 10 * files < hot < 40 * files, hot
assert calls(state, "open", "local") > 0 and waits(state) == node["files_remote"], state.latency

# Outputs, and calls to the daemon.
for i in range(5):
    with open(f"{mount}/new{i}", "wb") as f:
        f.write(b"x" * 1000)
wait_for("the outputs", lambda state: total(state, "outputs") == 5 and calls(state, "open", "output") >= 5)
state = wait_for("their bytes", lambda state: total(state, "output_written") == 5000)  # a moment after close

# A child has its own channel, and nothing is counted twice when it ends.
before = calls(state, "open", "output")
if os.fork() == 0:
    for i in range(5, 10):
        open(f"{mount}/new{i}", "wb").close()
    os._exit(0)
os.wait()
wait_for("the child's outputs", lambda state: total(state, "outputs") == 10 and state.nodes[0]["processes"] == 1)
state = wait_for("its opens", lambda state: calls(state, "open", "output") >= before + 5)
time.sleep(0.3)
assert calls(live(), "open", "output") == calls(state, "open", "output") == before + 5, (before, state.latency)
with open(sys.argv[5], "w") as f:
    print(total(state, "opens"), total(state, "bytes_local"), total(state, "bytes_remote"), file=f)
