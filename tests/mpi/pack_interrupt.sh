#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# SIGINT and SIGTERM end fs-prepare pack and place within a second, with one process and over emulated nodes, while a system
# call hangs: in the walk, in archives, in a read or a write, in a checkpoint and in the last step. The same command goes on.
# long: 25
# rest: more states
. "$(dirname "$0")/../functions.sh"
[ "$(uname -m)" = x86_64 ] || skip "the numbers of system calls here are those of x86-64"
cc -o "$work/bad_calls" "$(dirname "$0")/bad_calls.c" || fail "bad_calls.c"
interrupted=$root/tests/mpi/interrupted.py
mkdir "$work/local"
cd "$work"
./bad_calls hang 9999 -1 0 -1 true || skip "no seccomp filters here"

read=0 pread=17 fsync=74 fdatasync=75 renameat=264 openat2=437 sync_file_range=277 clock_nanosleep=230
most=2000 # milliseconds; usual: at most 1100

mkdir source archives
seq 1500000 >source/large
for i in {1..40}; do seq "$i" 9000 >"source/$i"; done
tar czf archives/1.tar.gz source
tar czf archives/2.tar.gz source
"$bin/fs-prepare" pack source whole >out || fail "$(cat out)"

worst=0
# state SIGNAL CALL[+] ARGUMENT VALUE RANK COMMAND...: of interrupted.py and bad_calls.c. Rank "alone": COMMAND is one process.
state() {
  local what="$1 in call $2 of rank $5" ended hang=("$work/bad_calls" hang "${2%+}" "${@:3:3}")
  [ "$5" != alone ] || hang[5]=-1
  case $5 in
    alone) ended=$("$python" "$interrupted" "$2" "$1" "${hang[@]}" "${@:6}" 2>err) ;;
    *) ended=$(FANSTORE_MPIRUN_ARGS="${hang[*]}" "$python" "$interrupted" "$2" "$1" "${@:6}" 2>err) ;;
  esac
  say "$what: $ended: $(tail -n 1 err)"
  equal "$what: status" $((128 + $(kill -l "$1"))) "${ended% *}"
  [ "${ended#* }" -le "$most" ] || fail "$what: it took ${ended#* } ms"
  [ "${ended#* }" -le "$worst" ] || worst=${ended#* }
  grep -qE '^fs-prepare: (interrupted; |what is packed is in )' err || fail "$what: $(cat err)"
}
ok() {
  echo "ok - $*: $worst ms at most"
  worst=0
}
left() { find . local -maxdepth 2 \( -name '.pack-*' -o -name '.*.partial-*' \); }
pack=("$bin/fs-prepare" pack --jobs 1)
on_nodes=("${pack[@]}" --local-dir "$work/local" --emulate 3)
again() { # COMMAND...: it makes the dataset, whatever is left
  expect_status 0 "$@"
  diff -r whole ds || fail "other bytes"
  equal "left" "" "$(left)"
  rm -rf ds local/*
}
resumes() { # COMMAND...: it also says that it goes on
  again "$@"
  grep -q '^fs-prepare: resuming: ' err || fail "$(cat err)"
}
export FANSTORE_TEST_CHECKPOINT_MS=600000
more=$(half '' more)

state INT $openat2 -1 0 alone "${pack[@]}" source ds
state TERM $read 2 262144 alone "${pack[@]}" archives/* ds
state INT $pread 3 2097152 alone "${pack[@]}" source ds
state INT $fsync -1 0 alone "${pack[@]}" source ds
again "${pack[@]}" source ds
export FANSTORE_TEST_CHECKPOINT_MS=1
state INT $fdatasync -1 0 alone "${pack[@]}" source ds
again "${pack[@]}" source ds
state INT $pread+ 3 9961472 alone "${pack[@]}" source ds
resumes "${pack[@]}" source ds
ok "one process that hangs"

export FANSTORE_TEST_CHECKPOINT_MS=600000
state INT $openat2 -1 0 1 "${on_nodes[@]}" source ds
state INT $read 2 262144 1 "${on_nodes[@]}" archives/* ds
state INT $pread 2 262144 1 "${on_nodes[@]}" source ds
equal "left" "" "$(left)"
export FANSTORE_TEST_CHECKPOINT_MS=1
state INT $fdatasync -1 0 0 "${on_nodes[@]}" source ds
again "${on_nodes[@]}" source ds
state INT $pread+ 3 9961472 -1 "${on_nodes[@]}" source ds
resumes "${on_nodes[@]}" source ds
state TERM $renameat -1 0 1 "${on_nodes[@]}" source ds
again "${on_nodes[@]}" source ds
if [ -n "$more" ]; then
  state TERM $openat2 -1 0 0 "${on_nodes[@]}" source ds
  state TERM $read 2 262144 0 "${on_nodes[@]}" archives/* ds
  state TERM $pread 2 262144 0 "${on_nodes[@]}" source ds
  state INT $fdatasync -1 0 1 "${on_nodes[@]}" source ds
  for rank in 0 1; do
    for call in $fsync $renameat; do
      state INT "$call" -1 0 $rank "${on_nodes[@]}" source ds
      rm -rf ds
      again "${on_nodes[@]}" source ds
    done
  done
fi
ok "a node that hangs"

mkdir random
head -c 20000000 /dev/urandom >random/file
expect_status 0 "${pack[@]}" --codec raw --partitions 4 --mount "$mnt" random placed
place=("$bin/fs-prepare" place --local-dir "$work/local" --emulate 2 --replicas 2 placed)
for call in $sync_file_range ${more:+$fsync $pread}; do
  state INT "$call" -1 0 1 "${place[@]}"
  grep -q '^fs-prepare: interrupted; what is on the nodes stays: the same command goes on$' err || fail "$(cat err)"
  expect_status 0 "${place[@]}"
  equal "copies" 8 "$(find local -name 'part-?????' | wc -l)"
  rm -rf local/*
done
ok "place"

# A shell that does not get to its host.
printf '#!/bin/sh\nexec timeout -s KILL 4 %s hang %s -1 0 -1 sleep 20.5\n' "$work/bad_calls" $clock_nanosleep >agent
chmod +x agent
export OMPI_MCA_plm_rsh_agent=$work/agent PRTE_MCA_plm_ssh_agent=$work/agent
state INT $clock_nanosleep -1 0 -1 "${pack[@]}" --local-dir "$work/local" --hosts a,b source ds
state TERM $clock_nanosleep -1 0 -1 "$bin/fs-prepare" place --local-dir "$work/local" --hosts a,b placed
unset OMPI_MCA_plm_rsh_agent PRTE_MCA_plm_ssh_agent
gone() { [ -z "$(processes_of_test)" ] && ! pgrep -f "^timeout -s KILL 4 $work/" >/dev/null; }
wait_until 30 gone
ok "hosts that do not answer"
