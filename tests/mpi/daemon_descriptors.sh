#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# waits
# More partitions on a node than descriptors, and more connections that say nothing: clients are served all the same.
. "$(dirname "$0")/../functions.sh"
. "$(dirname "$0")/daemons.bash"

mkdir -p "$work/source"
for i in $(seq 400); do printf '%s' "$i" >"$work/source/$i"; done
partitions=400
pack "$work/source" "$work/ds" --partitions $partitions --mount "$mnt"
ulimit -n 256
owners=$(printf '0,%.0s' $(seq 399))0 # all on node 0
start_daemons 2
line=$("$ringclient" "$run/node-1.sock" "$work/ds" all) || fail "no place for a client"
equal "blocks" 400 "$(field "$line" blocks)"
equal "errors" 0 "$(field "$line" errors)"
"$ringclient" "$run/node-0.sock" "$work/ds" all 2>"$work/err" || grep -q 'no such block is remote' "$work/err" ||
  fail "no place for a client on the node that holds them all"
cat >"$work/silent.py" <<'END'
import socket, sys, time
held = []
for _ in range(240):
    s = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    s.settimeout(2)
    try:
        s.connect(sys.argv[1])
    except OSError:
        break
    held.append(s)
print(len(held), flush=True)
time.sleep(60)
END
silent=()
for i in 0 1; do
  "$python" "$work/silent.py" "$run/node-1.sock" >"$work/silent.$i" &
  silent+=($!)
done
said() { [ -s "$work/silent.0" ] && [ -s "$work/silent.1" ]; }
wait_until 40 said
say "connections that say nothing: $(cat "$work/silent.0" "$work/silent.1")"
for _ in 1 2 3 4; do
  line=$("$ringclient" "$run/node-1.sock" "$work/ds" all) || fail "no place for a client beside those that say nothing"
  equal "errors" 0 "$(field "$line" errors)"
  open=$(find "/proc/$(pid_of 1)/fd" -mindepth 1 | wc -l)
  [ "$open" -lt 240 ] || fail "$open descriptors of 256 are in use"
done
kill -KILL "${silent[@]}"
wait "${silent[@]}" 2>/dev/null || :
stop_daemons
equal "lost partitions" 0 "$(lines_in_log lost)"
equal "refused" 00 "$(stats 0 refused)$(stats 1 refused)"
no_leftovers
