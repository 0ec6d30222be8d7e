#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# long: 23
# rest: SIGINT and SIGHUP for MPI programs
# What a signal is for COMMAND's processes with --np: the one that came, and the time to save what they have; a second
# one, or the end of that time, ends them; and the end of one that failed still ends the others.
. "$(dirname "$0")/../functions.sh"

random_files "$work/source" 10 2 1 100
ds=$work/ds save=$work/save.py
pack "$work/source" "$ds" --partitions 2
cat >"$save" <<'END'
import os, signal, sys, time
rank, top, seconds = int(os.environ["OMPI_COMM_WORLD_RANK"]), sys.argv[1], float(sys.argv[2])
if len(sys.argv) > 3:
    from mpi4py import MPI
def save(sig, frame):
    open(top + "/heard%d" % rank, "w").close()
    if rank > 0:
        sys.exit(3)
    time.sleep(seconds)
    with open("saved", "w") as f:
        f.write(signal.Signals(sig).name)
    sys.exit(0)
for sig in signal.SIGINT, signal.SIGTERM, signal.SIGHUP:
    signal.signal(sig, save)
open(top + "/up%d" % rank, "w").close()
while True:
    time.sleep(0.1)
END
group=() # what makes a process group of its own for COMMAND
start() { # OPTION... -- SECONDS [mpi]
  local options=()
  while [ "$1" != -- ]; do options+=("$1") && shift; done
  shift
  rm -rf "$work/seen" && mkdir "$work/seen"
  # Not by `launch`, nor ignoring SIGINT as a shell's background jobs do: the signals are for fs-launch itself.
  "$python" -c 'import os, signal, sys
signal.signal(signal.SIGINT, signal.default_int_handler)
os.execv(sys.argv[1], sys.argv[1:])' "$bin/fs-launch" --local-dir "$work/local" --dataset "$ds" --mount "$mnt" --emulate 2 "${options[@]}" -- \
    sh -c 'cd "$1" && shift && exec "$@"' - "$mnt" "${group[@]}" "$python" "$save" "$work/seen" "$@" >"$work/out" 2>&1 &
  pid=$!
  wait_until 60 test -e "$work/seen/up0" -a -e "$work/seen/up1"
}
ends() { # STATUS WHAT
  local got=0
  wait "$pid" || got=$?
  [ "$got" = "$1" ] || fail "$2: status $got, not $1: $(cat "$work/out")"
}
saves() { # SIGNALS [mpi]
  local signal signals=$1
  shift
  for signal in $signals; do
    start --np 2 --keep -- 4 "$@"
    kill "-${signal%:*}" "$pid"
    ends "${signal#*:}" "$signal $*"
    equal "$signal $*: saved" "SIG${signal%:*}" "$(cat "$work"/local/fanstore-outputs/job-*/saved)"
    rm -rf "$work/local/fanstore-outputs"
    no_leftovers
  done
  echo "ok - the signal that came, and time to save${1:+, in an MPI program}"
}
saves_mpi() {
  if "$python" -c 'import mpi4py' 2>/dev/null; then saves "$(half TERM:143 "INT:130 HUP:129")" mpi; else say "no mpi4py here"; fi
}

ended() {
  group=(timeout 100)
  start --np 2 --keep -- 2
  kill -TERM "$pid"
  ends 143 "a group of its own"
  equal "a group of its own: saved" SIGTERM "$(cat "$work"/local/fanstore-outputs/job-*/saved)"
  rm -rf "$work/local/fanstore-outputs"
  group=()
  no_leftovers
  echo "ok - COMMAND in a process group of its own"

  start --np 2 --keep -- 1000
  kill -INT "$pid"
  wait_until 30 test -e "$work/seen/heard0" -a -e "$work/seen/heard1"
  kill -INT "$pid"
  ends 130 "the second interrupt"
  start --np 2 --keep -- 1000
  kill -TERM "$pid"
  ends 143 "who does not end"
  [ -e "$work/seen/heard0" ] || fail "it was told nothing"
  no_leftovers
  echo "ok - a second interrupt, or ten seconds, end it"

  expect_status 3 launch --dataset "$ds" --mount "$mnt" --emulate 2 --np 2 -- sh -c '[ "$OMPI_COMM_WORLD_RANK" = 0 ] || exit 3; sleep 1000'
  expect_status 137 launch --dataset "$ds" --mount "$mnt" --emulate 2 --np 2 -- sh -c '[ "$OMPI_COMM_WORLD_RANK" = 0 ] || kill -9 $$; sleep 1000'
  equal "standard input" "$(seq 100000 | md5sum)" "$(seq 100000 | launch --dataset "$ds" --np 1 -- md5sum 2>/dev/null)"
  no_leftovers
  echo "ok - one that fails ends the others"
}

# SIGUSR1, which schedulers send some time before the end of a job: to fs-launch alone, or to every process.
user_program() {
  cat >"$work/user.py" <<'END'
import os, signal, sys, time
rank, top = os.environ.get("OMPI_COMM_WORLD_RANK", "0"), sys.argv[1]
heard = []
signal.signal(signal.SIGUSR1, lambda *a: heard.append(1))
open(top + "/up" + rank, "w").close()
end = time.time() + 60
while not heard and time.time() < end:
    time.sleep(0.1)
if not heard:
    sys.exit(4)
open(top + "/heard" + rank, "w").close()
while not os.path.exists(top + "/go") and time.time() < end:
    time.sleep(0.1)
with open("saved" + rank, "w") as f:
    f.write("after")
END
}
user_daemons() { # SIGNAL...: to the daemons of this test, and their mpirun
  local p sig n=0
  while read -r p; do
    case $(tr '\0' ' ' <"$p" 2>/dev/null) in
      *"fanstored --job "*"--local-dir $work/local "*)
        for sig; do kill "-$sig" "$(tr -dc 0-9 <<<"$p")"; done
        n=$((n + 1))
        ;;
    esac
  done < <(grep -lzxsF -e "$work/local" /proc/[0-9]*/cmdline)
  [ $n -ge 3 ] || fail "$n daemons and mpiruns"
}
user() {
  local ranks rank
  user_program
  for ranks in 0 '0 1'; do
    local np=()
    [ "$ranks" = 0 ] || np=(--np 2)
    rm -rf "$work/seen" && mkdir "$work/seen"
    "$bin/fs-launch" --local-dir "$work/local" --dataset "$ds" --mount "$mnt" --emulate 2 "${np[@]}" --keep -- \
      sh -c 'cd "$1" && exec "$2" "$3" "$4"' - "$mnt" "$python" "$work/user.py" "$work/seen" >"$work/out" 2>&1 &
    pid=$!
    for rank in $ranks; do wait_until 60 test -e "$work/seen/up$rank"; done
    kill -USR1 "$pid"
    for rank in $ranks; do wait_until 60 test -e "$work/seen/heard$rank"; done
    user_daemons USR1 USR2
    touch "$work/seen/go"
    ends 0 "SIGUSR1 ${np[*]}"
    for rank in $ranks; do
      equal "SIGUSR1 ${np[*]}: saved" after "$(cat "$work"/local/fanstore-outputs/job-*/"saved$rank")"
    done
    rm -rf "$work/local/fanstore-outputs"
    no_leftovers
  done
  echo "ok - SIGUSR1 is COMMAND's, and the daemons' is neither that nor SIGUSR2"
}
# COMMAND counts a signal once, whether fs-launch alone gets it or the whole process group.
grouped() {
  local to mask
  cat >"$work/count.py" <<'END'
import os, signal, sys, time
count = [0]
def handle(sig, frame):
    count[0] += 1
for sig in signal.SIGTERM, signal.SIGINT, signal.SIGUSR1:
    signal.signal(sig, handle)
open(sys.argv[1], "w").close()
end = time.time() + 60
while count[0] == 0 and time.time() < end:
    time.sleep(0.05)
time.sleep(0.6)
print(count[0])
END
  for to in -TERM:alone -TERM:group -INT:group -USR1:group -TERM:own; do
    mask=()
    [ "${to#*:}" != own ] || mask=(timeout 100) # which makes a process group of its own
    rm -f "$work/up"
    "$python" -c 'import os, signal, sys
signal.signal(signal.SIGINT, signal.default_int_handler)
os.setpgid(0, 0)
os.execv(sys.argv[1], sys.argv[1:])' "$bin/fs-launch" --local-dir "$work/local" --dataset "$ds" --mount "$mnt" -- \
      "${mask[@]}" "$python" "$work/count.py" "$work/up" >"$work/out" 2>"$work/err" &
    pid=$!
    wait_until 60 test -e "$work/up"
    case $to in
      *:alone) kill "${to%:*}" "$pid" ;;
      *) kill "${to%:*}" -- "-$pid" ;;
    esac
    wait "$pid" || :
    # timeout passes on what it gets, to its command and to its group
    [ "${to#*:}" = own ] || equal "$to: counted" 1 "$(cat "$work/out")"
    [ "$(cat "$work/out")" -ge 1 ] || fail "$to: not passed on: $(cat "$work/err")"
    no_leftovers
  done
  echo "ok - a signal comes once"
}
saves_plain() { saves "INT:130 TERM:143 HUP:129"; }
# shellcheck disable=SC2046 # words
side_by_side eval saves_mpi $(half 'saves_plain ended user grouped' '')
