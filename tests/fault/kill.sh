#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# kill -9 of each process in turn: of COMMAND, of a daemon, of the daemons' mpirun, of fs-launch, of all at once. The
# job goes on or ends as it should, and a few seconds later nothing is left: no process, socket, run directory or
# shared memory, and of temporary files only the staged partitions. What a kill of all leaves the next job removes.
if [ "$(id -u)" = 0 ] && [ -z "${KILL_SH_OWN_SHM:-}" ] && unshare -m true 2>/dev/null; then
  exec env KILL_SH_OWN_SHM=1 unshare -m sh -c 'mount -t tmpfs none /dev/shm && exec "$0"' "$0"
fi
. "$(dirname "$0")/../functions.sh"
make_tree "$work/source"
pack "$work/source" "$work/ds" --partitions 4 --mount "$mnt"
shm() { [ -z "${KILL_SH_OWN_SHM:-}" ] || find /dev/shm -mindepth 1; }

# Processes of the job that this script runs now: those that name its dataset, or have its mount in their environment.
job_processes() {
  {
    grep -lzxsF -e "$work/ds" /proc/[0-9]*/cmdline
    grep -lzxsF -e "FANSTORE_DATASET=$work/ds" /proc/[0-9]*/environ
  } | sed 's|/proc/\([0-9]*\)/.*|\1|' | sort -u | grep -vx $$ || :
}
pid_of() { # NAME: the job's processes of that program
  local p
  for p in $(job_processes); do
    case $(readlink "/proc/$p/exe") in */"$1") echo "$p" ;; esac
  done
}
no_processes() { [ -z "$(job_processes)" ]; }
no_run_directory() { [ -z "$(find "$TMPDIR" -maxdepth 1 -name 'fanstore-*')" ]; }
is_clean() {
  wait_until 20 no_processes
  wait_until 10 no_run_directory
  no_leftovers
  equal "left in TMPDIR" "work" "$(ls -A "$TMPDIR")"
  equal "left in /dev/shm" "" "$(shm)"
  equal "sockets" "" "$(grep -F "$TMPDIR" /proc/net/unix || :)"
}
# begin COMMAND...: a job on two nodes in the background, $job, as soon as COMMAND says that it runs
begin() {
  rm -f "$work/runs"
  "$bin/fs-launch" --local-dir "$work/local" --dataset "$work/ds" --emulate 2 --report "$work/r.json" \
    "${options[@]}" -- "$@" >"$work/out" 2>"$work/err" &
  job=$!
  wait_until 60 test -e "$work/runs"
}
end() { # STATUS
  local got=0
  wait "$job" 2>/dev/null || got=$?
  [ "$got" = "$1" ] || fail "exit status: expected $1, got $got: $(cat "$work/err")"
}
options=()
cat >"$work/wait.sh" <<END
touch "$work/runs"
diff -r --no-dereference "$work/source" "$mnt" && sleep 250 & wait
END
cat >"$work/go.sh" <<END
touch "$work/runs"
while [ ! -e "$work/go" ]; do sleep 0.05; done
diff -r --no-dereference "$work/source" "$mnt"
END

begin bash -c "echo \$\$ >'$work/pid'; . '$work/wait.sh'"
kill -9 "$(cat "$work/pid")"
end 137
is_clean
echo "ok - kill -9 of COMMAND"

begin bash "$work/go.sh"
kill -9 "$(pid_of fanstored | sort -n | tail -n 1)"
touch "$work/go"
end 0
grep -q '^fs-launch: warning: the daemon of node [01] .* died' "$work/err" || fail "not told: $(cat "$work/err")"
is_clean
echo "ok - kill -9 of a daemon: $(grep -m1 died "$work/err")"

rm "$work/go"
begin bash "$work/go.sh"
for p in $(pid_of fanstored); do case $(tr '\0' ' ' <"/proc/$p/cmdline") in *fanstored*) kill -9 "$p" ;; esac done
touch "$work/go"
end 0
is_clean
echo "ok - kill -9 of all daemons: COMMAND reads on"

rm "$work/go"
begin bash "$work/go.sh"
kill -9 "$(pid_of "$mpirun_is")"
touch "$work/go"
end 0
is_clean
echo "ok - kill -9 of mpirun: COMMAND reads on"

begin bash "$work/wait.sh"
kill -9 "$job"
end 137
is_clean
echo "ok - kill -9 of fs-launch: COMMAND and its children end too"

options=(--np 2)
begin bash "$work/wait.sh"
kill -9 "$job"
end 137
is_clean
echo "ok - kill -9 of fs-launch with --np"
options=()

for signal in TERM INT HUP; do
  begin bash -c "touch '$work/runs'; exec sleep 250"
  kill -$signal "$job"
  got=0
  wait "$job" || got=$?
  [ "$got" -gt 128 ] || fail "exit status after SIG$signal: $got"
  is_clean
  echo "ok - SIG$signal: exit status $got"
done

# At the start: the signal comes while the daemons are being started.
for delay in 0.02 0.1 0.3; do
  "$bin/fs-launch" --local-dir "$work/local" --dataset "$work/ds" --emulate 2 -- sleep 250 >"$work/out" 2>"$work/err" &
  job=$!
  sleep $delay
  kill -TERM "$job"
  end 143
  is_clean
done
echo "ok - SIGTERM during the start"

# The signal and the daemons' last word before COMMAND come at once: fs-launch is stopped while they stage.
for _ in 1 2 3; do
  rm -rf "$work/fresh"
  mkdir "$work/fresh"
  "$bin/fs-launch" --local-dir "$work/fresh" --dataset "$work/ds" --emulate 2 -- sleep 250 >"$work/out" 2>"$work/err" &
  job=$!
  staging() { compgen -G "$work/fresh/*/*/part*" >"$work/names"; }
  until staging || ! kill -0 "$job"; do :; done
  kill -STOP "$job" 2>/dev/null || fail "it ended before the signal: $(cat "$work/err")"
  sleep 1
  kill -TERM "$job"
  kill -CONT "$job"
  end 143
done
is_clean
echo "ok - SIGTERM in one step with a daemon's word"

begin bash "$work/wait.sh"
# shellcheck disable=SC2046
kill -9 $(job_processes)
end 137
[ -n "$(find "$TMPDIR" -maxdepth 1 -name 'fanstore-*')" ] || fail "a kill of all left nothing: is this test right?"
find "$TMPDIR/fanstore-$(id -u)" -exec touch -h -d '1 minute ago' {} +
[ -z "${KILL_SH_OWN_SHM:-}" ] || find /dev/shm -mindepth 1 -exec touch -d '1 minute ago' {} +
launch --dataset "$work/ds" --emulate 2 -- true 2>"$work/err"
is_clean
echo "ok - kill -9 of everything: the next job cleans up"
