#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# The time of day jumps by days for all processes of a job; and a daemon's process id is another program's after its death, which
# must neither be taken for the daemon nor be ended with the job.
. "$(dirname "$0")/harness.bash"
need_command cc
make_dataset 2000 40 16
cc -shared -fPIC -O1 -o "$work/jumping.so" "$root/tests/fault/table/jumping_clock.c"

# The daemons too: mpirun hands them the variable, which fs-launch itself takes away.
jumps() {
  local before=(env "LD_PRELOAD=$lib:$work/jumping.so")
  export FANSTORE_MPIRUN_ARGS="-x LD_PRELOAD=$work/jumping.so"
  LD_PRELOAD=$work/jumping.so begin both --emulate 4
  grep -q jumping.so "/proc/$(daemon 0)/maps" || why='the daemons do not have that clock'
  kill -STOP "$(daemon 1)" # so that deadlines pass
  sleep 3
  kill -CONT "$(daemon 1)"
  unset FANSTORE_MPIRUN_ARGS
  finish
}

is_sleep() { [ "$(cat "/proc/$pid/comm" 2>/dev/null)" = sleep ]; }
# In a process id namespace the next id can be chosen. Not by bash, whose own children would get ids that it has had already and
# still knows. The innocent one tells at the end whether it was left alone.
cat >"$work/take.py" <<'END'
import os, sys
pid, last = int(sys.argv[1]), "/proc/sys/kernel/ns_last_pid"
def begin_at(n):
    with open(last, "w") as f:
        f.write(str(n))
before = int(open(last).read())
for _ in range(100):
    begin_at(pid - 1)
    child = os.fork()
    if child == 0:
        if os.getpid() != pid:
            os._exit(0)
        for fd in range(3):
            os.dup2(os.open("/dev/null", os.O_RDWR), fd)
        os.execve("/bin/sleep", ["sleep", "60"], {})
    if child == pid:
        break
    os.waitpid(child, 0)
begin_at(max(before, pid) + 1)
END
reused() {
  begin both --emulate 4
  pid=$(daemon $((try % 4)))
  kill -9 "$pid"
  while [ -e "/proc/$pid" ]; do sleep 0.02; done
  "$python" "$work/take.py" "$pid"
  wait_until 20 is_sleep
  finish
  is_sleep || why="${why:-process $pid was ended with the job}"
  kill "$pid" 2>/dev/null || :
}

# Programs whose clocks stand still read and write as ever; what they make has the kernel's time.
stopped() {
  mkdir -p "$work/clock"
  echo text >"$work/clock/a"
  pack "$work/clock" "$work/clock.ds" --partitions 2 --mount "$mnt"
  cc -shared -fPIC -O1 -o "$work/frozen.so" "$root/tests/fault/table/frozen_clock.c"
  cat >"$work/stopped.py" <<'END_OF_PROGRAM'
import os, sys, time
top, node = sys.argv[1], os.environ["FANSTORE_NODE"]
assert time.time() == 1e9, "the clock goes"
assert open(f"{top}/a").read() == "text\n"
os.mkdir(f"{top}/d{node}")
with open(f"{top}/d{node}/f", "w") as f:
    f.write(node)
os.rename(f"{top}/d{node}/f", f"{top}/d{node}/g")
for n in range(int(node) + 1):
    assert open(f"{top}/d{n}/g").read() == str(n)
    assert min(os.stat(f"{top}/d{n}").st_mtime, os.stat(f"{top}/d{n}/g").st_mtime) > 1.7e9, "made in 2001"
END_OF_PROGRAM
  # shellcheck disable=SC2016
  launch --local-dir "$work/clock.local" --dataset "$work/clock.ds" --emulate 2 -- bash -c 'for node in 0 1; do
      FANSTORE_NODE=$node LD_PRELOAD=$3:$LD_PRELOAD timeout 100 "$1" "$4" "$2" || exit; done' \
    - "$python" "$mnt" "$work/frozen.so" "$work/stopped.py" >"$work/stopped.out" 2>&1 || {
    cat "$work/stopped.out"
    failures=$((failures + 1))
    return
  }
  echo "ok - programs whose clocks stand still"
}

if [ -z "${FAULTS_OWN_PIDS:-}" ]; then
  stopped
  fault 'the time of day jumps by a day' 1 jumps
  if [ "$(id -u)" = 0 ] && unshare -p -f --mount-proc true 2>/dev/null; then
    FAULTS_OWN_PIDS=1 FAULTS_TABLE=$table unshare -p -f --mount-proc "$0" || failures=$((failures + 1))
  else
    say "no process id namespaces here: reused ids are not tried"
  fi
else
  fault 'kill -9 of a daemon, its process id is used again' 1 reused
fi
verdict
