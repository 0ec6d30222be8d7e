#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# fanstore-static and the processes around it: how it was started, what it keeps open, callers that are killed or have
# become another user, calls that wait for long, few descriptors.
. "$(dirname "$0")/../functions.sh"
. "$(dirname "$0")/static.bash"
need_command busybox cc python3
source=$work/source
mkdir -p "$source/d" "$source/many"
echo hello >"$source/a.txt"
cp "$(type -P busybox)" "$source/echo"
chmod 755 "$source/echo"
for i in $(seq 400); do echo "$i" >"$source/many/$i"; done
pack "$source" "$work/ds" --partitions 2
cc -static -std=gnu11 -D_GNU_SOURCE -O1 -w -o "$work/prog" "$(dirname "$0")/processes.c" 2>"$work/err" ||
  skip "no static C library here: $(tail -n 1 "$work/err")"

say "started with SIGCHLD ignored, or without standard descriptors"
FANSTORE_DATASET=$work/ds FANSTORE_MOUNT=$mnt timeout -s KILL 30 "$python" -c "import os, signal
signal.signal(signal.SIGCHLD, signal.SIG_IGN)
os.execv('$bin/fanstore-static', ['fanstore-static', 'busybox', 'cat', '$mnt/a.txt'])" >"$work/out" || fail "SIGCHLD ignored"
equal "output" hello "$(cat "$work/out")"
export FANSTORE_DATASET=$work/ds FANSTORE_MOUNT=$mnt
exit_of() {
  local status=0
  timeout -s KILL 30 "$bin/fanstore-static" busybox sh -c 'exit 3' || status=$?
  echo "$status" >"$work/status"
}
exit_of <&- >&-
equal "status without 0 and 1" 3 "$(cat "$work/status")"
exit_of <&- >&- 2>&-
equal "status without 0, 1 and 2" 3 "$(cat "$work/status")"
supervised "$work/ds" "$mnt" busybox readlink /proc/self/fd/0 <&- >"$work/out" || true
equal "closed for COMMAND, too" "" "$(cat "$work/out")"

say "a pipe that COMMAND closes is closed"
timeout -s KILL 30 "$python" -c "import os, subprocess
for fd in (1, 3):
    r, w = os.pipe()
    p = subprocess.Popen(['$bin/fanstore-static', 'busybox', 'sh', '-c', 'exec %d>&-; read x' % fd], stdin=subprocess.PIPE,
                         preexec_fn=lambda: os.dup2(w, fd), close_fds=False)
    os.close(w)
    assert os.read(r, 1) == b''
    assert p.poll() is None
    p.stdin.close()
    p.wait()
    os.close(r)" || fail "somebody holds a pipe"

say "callers that are killed, that wait, that are others"
side=$work/side
mkdir "$side" && mkfifo "$side/fifo" && echo secret >"$side/secret" && chmod 600 "$side/secret"
run() { timeout -s KILL 90 "$bin/fanstore-static" "$work/prog" "$@"; }
run kill "$mnt/echo" || fail "a child that was killed while it executed a program: status $?"
run names "$mnt/d" || fail "names below /proc: status $?"
export FANSTORE_MOUNT=$side/m
run fifo "$side/m/d" || fail "opens that wait hold up others: status $?"
status=0
run other 65534 "$side/m/d" || status=$?
case $status in
  0 | 77) ;;
  *) fail "another user got what is this one's" ;;
esac
(
  ulimit -n 100
  timeout -s KILL 60 "$bin/fanstore-static" busybox sh -c "cat $side/m/many/*" | sort
) >"$work/out"
cmp <(cat "$source"/many/* | sort) "$work/out" || fail "few descriptors"
no_leftovers
