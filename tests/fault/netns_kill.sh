#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# waits
# Three hosts: kill -9 of a daemon on another host, of that host's orted, and of fs-launch. COMMAND reads on, or ends
# everywhere, and afterwards nothing is left in any host's TMPDIR but what a killed orted had there.
. "$(dirname "$0")/../functions.sh"
. "$(dirname "$0")/../netns.sh"
need_command nsenter
netns_up 3
make_tree "$work/source"
pack "$work/source" "$work/ds" --partitions 7 --mount "$mnt"
cd "$work"
l=("$bin/fs-launch" --dataset "$work/ds" --local-dir "$net_local" --hostfile "$net_hostfile")
cat >go.sh <<END
touch "$work/runs"
while [ ! -e "$work/go" ]; do sleep 0.05; done
diff -r --no-dereference "$work/source" "$mnt"
END
begin() { # COMMAND and options of fs-launch
  rm -f go runs
  netns_on h1 "${l[@]}" "$@" >out 2>err &
  job=$!
  wait_until 60 test -e runs
}
end() { # STATUS
  local got=0
  wait "$job" 2>/dev/null || got=$?
  [ "$got" = "$1" ] || fail "exit status: expected $1, got $got: $(cat err)"
}
pids_on() { # HOST PROGRAM
  local pid
  for pid in $(ip netns pids "$net_id${1#h}"); do
    case $(readlink "/proc/$pid/exe") in */"$2") echo "$pid" ;; esac
  done
}
nobody() { [ -z "$(for i in 1 2 3; do ip netns pids "$net_id$i"; done)" ]; }
nothing() { [ -z "$(find "$net_root"/h?/tmp -mindepth 1 -not -path '*/ompi.h3*' -not -path '*/prte*.h3*')" ]; }
is_clean() {
  wait_until 20 nobody
  wait_until 10 nothing
}

begin -- bash "$work/go.sh"
kill -9 "$(pids_on h2 fanstored)"
touch go
end 0
grep -q 'warning: the daemon of node [0-2] (h2)' err || fail "not told: $(cat err)"
is_clean
echo "ok - kill -9 of a daemon on another host: $(grep -m1 'came from shared storage' err)"

begin -- bash "$work/go.sh"
# shellcheck disable=SC2046
kill -9 $(pids_on h3 "$mpi_remote")
touch go
end 0
is_clean
echo "ok - kill -9 of mpirun's part on another host"

begin --np 3 -- bash -c "touch '$work/runs'; sleep 250"
kill -9 "$(pids_on h1 fs-launch | sort -n | head -n 1)"
end 137
is_clean
echo "ok - kill -9 of fs-launch: the processes on all hosts end"
