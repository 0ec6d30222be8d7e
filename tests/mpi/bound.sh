#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# A program that is bound to one processor, as mpirun binds ranks, looks for the daemon's answer before it sleeps: what
# counts are the daemon's processors. A sleep and a wake-up take longer than the call.
. "$(dirname "$0")/../functions.sh"
need_command strace taskset
[ "$(nproc)" -ge 2 ] || skip "one processor: a client that looks would take the daemon's"
strace -o /dev/null true 2>/dev/null || skip "strace may not trace here"

text_tree "$work/source"
pack "$work/source" "$work/ds" --mount "$mnt"
cat >"$work/files.py" <<'END'
import os, sys
os.mkdir(sys.argv[1])
for i in range(20): open(f"{sys.argv[1]}/{i}", "w").close()
for i in range(20): os.unlink(f"{sys.argv[1]}/{i}")
END
yields() { # NAME [COMMAND...]: how many times the program yields its processor
  local name=$1
  shift
  launch --dataset "$work/ds" --discard -- "$@" strace -f -e trace=sched_yield -o "$work/$name" "$python" "$work/files.py" \
    "$mnt/out" >"$work/out" 2>"$work/err" || fail "$name: $(cat "$work/err")"
  grep -c sched_yield "$work/$name" || :
}
free=$(yields free) bound=$(yields bound taskset -c 0)
[ "$free" -gt 0 ] || fail "an unbound program does not look"
[ "$bound" -gt 0 ] || fail "a program on one processor does not look"
no_leftovers
echo "ok - programs look for answers: an unbound one $free times, one on one processor $bound times"
