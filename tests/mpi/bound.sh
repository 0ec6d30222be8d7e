#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# A program that is bound to one processor, as mpirun binds ranks, looks for the daemon's answer before it sleeps: what
# counts are the daemon's processors. A sleep and a wake-up take longer than the call. On a busy machine all answers may be
# late, and then no program looks: so it is tried several times.
. "$(dirname "$0")/../functions.sh"
need_command strace taskset
[ "$(nproc)" -ge 2 ] || skip "one processor: a client that looks would take the daemon's"
strace -f --seccomp-bpf -o /dev/null true 2>/dev/null || skip "strace may not trace here"

text_tree "$work/source"
pack "$work/source" "$work/ds" --mount "$mnt"
cat >"$work/files.py" <<'END'
import os, sys
os.mkdir(sys.argv[1])
for i in range(400): open(f"{sys.argv[1]}/{i}", "w").close()
for i in range(400): os.unlink(f"{sys.argv[1]}/{i}")
END
looks() { # NAME [COMMAND...]: whether the program yields its processor while it waits
  local name=$1
  shift
  launch --dataset "$work/ds" --discard -- "$@" strace -f --seccomp-bpf -e trace=sched_yield -o "$work/$name" "$python" "$work/files.py" \
    "$mnt/out" >"$work/out" 2>"$work/err" || fail "$name: $(cat "$work/err")"
  grep -q sched_yield "$work/$name"
}
wait_until 60 looks free
wait_until 60 looks bound taskset -c 0
no_leftovers
echo "ok - programs look for answers: an unbound one $(grep -c sched_yield "$work/free") times, one on one processor \
$(grep -c sched_yield "$work/bound") times"
