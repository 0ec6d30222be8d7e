#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# waits
# Parts of FanStore of different versions in one job: one line says which, and what to do. A daemon of another version ends the
# start. A library of another version reads the dataset without the daemon.
. "$(dirname "$0")/../functions.sh"
need_command mpirun

mkdir "$work/source"
number_lines 2000 >"$work/source/file"
pack "$work/source" "$work/ds" --mount "$mnt"

mkdir "$work/other"
cp -r "$build/bin" "$build/lib" "$build/share" "$work/other"
start() { # WHAT THE DAEMON SAYS OF ITSELF
  cat >"$work/other/bin/fanstored" <<END
#!/bin/sh
echo "@fs begun rank=\$OMPI_COMM_WORLD_RANK host=h pid=\$\$ $1"
exec sleep 60
END
  chmod +x "$work/other/bin/fanstored"
  expect_status 125 "$work/other/bin/fs-launch" --local-dir "$work/local" --dataset "$work/ds" --emulate 2 -- touch "$work/ran"
  one_line "$work/err" "^fs-launch: node [01] \(h\): $work/other/bin/fanstored there is of FanStore $2, and this fs-launch is of FanStore [0-9.]+ \(protocols [0-9]+, [0-9]+\): install the same FanStore on all hosts$"
  [ ! -e "$work/ran" ] || fail "COMMAND has run"
  echo "ok - $(cat "$work/err")"
}
rm -f "$work/other/bin/fanstored"
start 'version=0.0.9 ipc=3 wire=2' '0\.0\.9 \(protocols 3, 2\)'
start '' '\(older\) \(protocols 0, 0\)'

cat >"$work/daemon.py" <<'END'
import os, socket, struct, sys
s = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
s.bind(sys.argv[1])
s.listen(9)
open(sys.argv[2], "w").close()
while True:
    c, _ = s.accept()
    magic, version = struct.unpack("=2I", c.recv(4096)[:8])
    # As an older one refuses, and as one with another welcome would.
    c.send(struct.pack("=2Ii", magic, 5, -93) if os.path.exists(sys.argv[2] + ".short") else
           struct.pack("=2Ii", magic, 5, -93) + bytes(52))
    c.close()
END
mkdir -m 700 "$work/run"
"$python" "$work/daemon.py" "$work/run/node-0.sock" "$work/listens" &
daemon=$!
wait_until 30 test -e "$work/listens"
for form in long short; do
  [ $form = long ] || touch "$work/listens.short"
  FANSTORE_RUN=$work/run FANSTORE_DATASET=$work/ds FANSTORE_MOUNT=$mnt LD_PRELOAD=$lib \
    bash -c 'cat "$1/file" && ! (echo x >"$1/new") 2>"$2"' - "$mnt" "$work/new" >"$work/out" 2>"$work/err"
  cmp "$work/out" "$work/source/file"
  one_line "$work/err" "^fanstore: $lib of this program \(FanStore [0-9.]+, protocol [0-9]+\) is of another version than the daemon of node 0 \(protocol 5\): .*start the job again$"
  grep -q 'Input/output error' "$work/new" || fail "an output: $(cat "$work/new")"
done
kill $daemon
wait $daemon 2>/dev/null || :
echo "ok - $(cat "$work/err")"
