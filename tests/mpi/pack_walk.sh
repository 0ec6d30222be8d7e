#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# fs-prepare pack over emulated nodes: each node walks a share of SOURCE, and items, warnings, errors and bytes are those
# of one process; a mount below SOURCE; a rank that is killed while it walks, and an interrupt.
. "$(dirname "$0")/../functions.sh"

cc -shared -fPIC -o "$work/slow.so" "$(dirname "$0")/slow_walk.c" -ldl
cd "$work"
mkdir local
cat >tree.py <<'END'
import os
def put(path, text="x"):
    os.makedirs(os.path.dirname(path), exist_ok=True)
    with open(path, "w") as f: f.write(text)
for d in range(40):
    for f in range(20): put(f"source/many/{d:02}/{f}", f"{d} {f}\n")
for d in range(140): put(f"source/dirs/{d}/file")
for f in range(150): put(f"source/dirs/139/{f}")
for f in range(2500): put(f"source/wide/{f}", f"{f % 100}\n")
path = "source/deep"
for d in range(60):
    path += "/down"
    put(path + "/file", str(d))
for d in range(0, 40, 3): os.link("source/wide/7", f"source/many/{d:02}/hard")
os.link(path + "/file", "source/wide/hard")
for d in range(0, 40, 7):
    os.symlink("/etc/passwd", f"source/many/{d:02}/out")
    os.symlink("../../wide/1", f"source/many/{d:02}/in")
    put(f"source/many/{d:02}/left.tmp")
    put(f"source/many/{d:02}/left.dir/file")
    put(f"source/many/{d:02}/large.bin")
put("source/wide/zz.tmp")
END
"$python" tree.py
slow() { # MICROSECONDS: for fs-prepare and the ranks
  preload=(env "LD_PRELOAD=$work/slow.so" "SLOW_WALK_US=$1")
  export FANSTORE_MPIRUN_ARGS="-x LD_PRELOAD=$work/slow.so -x SLOW_WALK_US=$1"
}
on_nodes() { # NODES DATASET [OPTION...]
  local nodes=$1 dataset=$2
  shift 2
  rm -rf local/*
  "$bin/fs-prepare" pack --local-dir "$work/local" --emulate "$nodes" --jobs 2 "$@" source "$dataset"
}
lines() { # FILE: what fs-prepare said, without what only --verbose tells
  grep '^fs-prepare: ' "$1" | grep -vE ' nodes? (walked|encoded) ' || true
}

slow 1000
options=(--exclude '*.tmp' --exclude '*.dir' --replicate '*.bin')
"$bin/fs-prepare" pack "${options[@]}" source plain >out 2>plain.err || fail "$(cat plain.err)"
grep -q '6 of 12 symlinks lead out of SOURCE (as many/00/out does)' plain.err || fail "$(cat plain.err)"
names=$("$bin/fs-prepare" list plain | wc -l)
for nodes in 1 2 4; do
  on_nodes "$nodes" ds --force --verbose "${options[@]}" >out 2>err || fail "$nodes nodes: $(cat err)"
  diff -r plain ds || fail "$nodes nodes: other bytes"
  equal "$nodes nodes: warnings" "$(lines plain.err)" "$(lines err)"
  walked=$(sed -nE "s/^fs-prepare: pack: $nodes nodes? walked $names names of .*, ([0-9]+) to [0-9]+ each$/\1/p" err)
  [ "${walked:-0}" -ge $((names / nodes / 10)) ] || fail "not shared: $(cat err)"
done
echo "ok - 2 and 4 nodes: each has walked a share; the same bytes and warnings as one process"

# Names that cannot be packed.
"$python" -c 'import os, socket
for d in ("source/many/11", "source/wide", "source/deep/down"):
    socket.socket(socket.AF_UNIX).bind(d + "/socket")
    os.mkfifo(d + "/fifo")'
mkdir -m 0 source/many/20/closed source/deep/down/down/closed
touch source/many/21/secret && chmod 0 source/many/21/secret
again() { # what vanishes
  mkdir -p source/many/30/vanishing
  touch source/wide/vanishing
}
bound=(setpriv "--bounding-set=-dac_override,-dac_read_search")
[ "$(id -u)" = 0 ] || bound=()
again
expect_status 1 "${preload[@]}" "${bound[@]}" "$bin/fs-prepare" pack --exclude '*.tmp' source other
mv err plain.err
grep -q 'source/many/20/closed is a directory that is not readable$' plain.err || fail "$(cat plain.err)"
grep -q 'source/many/30/vanishing No such file or directory$' plain.err || fail "$(cat plain.err)"
grep -q '^fs-prepare: 11 of SOURCE.s names cannot be packed' plain.err || fail "$(cat plain.err)"
again
expect_status 1 "${bound[@]}" "$bin/fs-prepare" pack --local-dir "$work/local" --emulate 3 --jobs 2 --exclude '*.tmp' source other
equal "3 nodes: problems" "$(lines plain.err)" "$(lines err)"
[ ! -e other ] || fail "a dataset was left"
find source \( -name socket -o -name fifo -o -name secret -o -name vanishing -o -name closed \) -exec rm -rf {} +
echo "ok - sockets, unreadable and vanishing names: the same lines"

# A mount below SOURCE: its device has another number, and the lead walks it.
if unshare -m true 2>/dev/null; then
  mkdir -p source/many/25/mnt
  expect_status 0 unshare -m bash -c 'mount -t tmpfs none source/many/25/mnt && cd source/many/25/mnt && mkdir -p a/b c &&
    seq 1000 >a/b/file && ln a/b/file c/hard && touch -d @1000000000 a/b/file a/b a c . && cd "$OLDPWD" &&
    "$1" pack --force source plain && shift && "$@" && diff -r plain ds' - "$bin/fs-prepare" \
    "$bin/fs-prepare" pack --local-dir "$work/local" --emulate 3 --jobs 2 --force source ds
  "$bin/fs-prepare" list ds | grep -x many/25/mnt/c/hard >/dev/null || fail "$("$bin/fs-prepare" list ds)"
  rmdir source/many/25/mnt
  echo "ok - another file system below SOURCE"
fi

slow 30000
ranks() { pgrep -f "^$bin/fanstore-pack .*--local-dir $work/local "; }
gone() { ! ranks >/dev/null; }
nth() { ranks | sed -n "$1p"; }
all_walk() { [ "$(ranks | wc -l)" = 3 ] && grep -q '"stage": "list", "names": [1-9][0-9][0-9]' progress 2>/dev/null; }
ended() { # STATUS
  local status=0
  wait "$packing" || status=$?
  equal "exit status" "$1" "$status"
  wait_until 30 gone
  [ ! -e slow ] || fail "a dataset is there"
}
begin() {
  rm -f progress
  rm -rf local/*
  "$bin/fs-prepare" pack --local-dir "$work/local" --emulate 3 --jobs 2 source slow --json-progress "$work/progress" >out 2>err &
  packing=$!
  wait_until 60 all_walk
}
begin
kill -9 "$(nth 2)"
ended 1
one_line err 'node 1 \(.*\) was killed by signal 9 while it packed; pack again to go on, or to remove what it has left$'
begin
began=$SECONDS
kill -INT "$packing"
ended 130
one_line err 'interrupted; nothing is left behind$'
[ $((SECONDS - began)) -le 2 ] || fail "the interrupt took $((SECONDS - began)) s"
equal "left after an interrupt" "" "$(ls -d .slow.partial-* 2>/dev/null)"
no_leftovers
echo "ok - killed and interrupted while they walk"
