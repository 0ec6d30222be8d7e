#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# waits
# The daemons' mpirun dies while programs run on three hosts: on each of them programs that start after that list the dataset
# and read all of it, in a job without outputs; with outputs at the top, the
# listing of that directory ends with EIO after the names of the dataset. Files cannot be made; those that were, on this host and
# the others, are named as lost. The same where one daemon of another host is ended by SIGTERM. Nothing stays in run directories.
. "$(dirname "$0")/../functions.sh"
. "$root/tests/netns.sh"
netns_up 3
random_files "$work/source" 30 3 1000 20000
pack "$work/source" "$work/ds" --partitions 6 --mount "$mnt"
cat >"$work/program" <<'END'
mnt=$1 source=$2 go=$3 r=$OMPI_COMM_WORLD_RANK
[ "$4" = none ] || echo hello >"$mnt/made-$r"
ls "$mnt" >"$go.first.$r"
touch "$go.begun.$r"
for ((i = 0; i < 600; i++)); do [ ! -e "$go" ] || break; sleep 0.1; done
differ=0
while read -r f; do cmp -s "$source/$f" "$mnt/$f" || differ=$((differ + 1)); done < <(cd "$source" && find . -type f)
listed=$(ls -R "$mnt/d00" "$mnt/d01" "$mnt/d02" 2>/dev/null | grep -c '^f')
top=$(ls "$mnt" 2>/dev/null | grep -c '^d')
if ls "$mnt" >/dev/null 2>&1; then whole=1; else whole=0; fi
if (echo x >"$mnt/new-$r") 2>/dev/null; then made=1; else made=0; fi
echo "rank $r: differ=$differ listed=$listed top=$top whole=$whole made=$made"
END
mpirun_of_daemons() {
  local p
  for p in $(ip netns pids "${net_id}1"); do
    case $(readlink "/proc/$p/exe") in */"$mpirun_is") ! grep -qz -- --enable-recovery "/proc/$p/cmdline" || echo "$p" ;; esac
  done
}
all_begun() { [ -e "$work/go.begun.0" ] && [ -e "$work/go.begun.1" ] && [ -e "$work/go.begun.2" ]; }
cd "$work"
job=''
trap 'touch "$work/go"; [ -z "$job" ] || wait "$job" || :; netns_down; [ -n "${FS_TEST_ID:-}" ] || rm -rf "$TMPDIR"' EXIT
begin() { # OUTPUTS
  rm -f go*
  netns_on h1 "$bin/fs-launch" --hostfile "$net_hostfile" --local-dir "$net_local" --dataset "$work/ds" --np 3 --deadline 2000 --discard -- \
    bash "$work/program" "$mnt" "$work/source" "$work/go" "$1" >out 2>err &
  job=$!
  wait_until 60 all_begun || fail "it did not begin: $(cat out err)"
}
end() { # OUTPUTS
  sleep 3
  touch go
  wait "$job" || fail "$1: status $?: $(cat out err)"
  job=''
  equal "left in run directories" '' "$(find "$net_root"/h[123]/tmp -name 'fanstore-*')"
}
for outputs in none some; do
  begin $outputs
  pids=$(mpirun_of_daemons)
  [ -n "$pids" ] || fail "no mpirun"
  # shellcheck disable=SC2086
  kill -9 $pids
  end $outputs
  whole=1
  [ $outputs = none ] || whole=0
  lost='1 output (6 B) is lost (keep with --keep): made-0'
  [ $outputs = some ] || lost=''
  equal "lost" "$lost" "$(sed -n 's/^fs-launch: \([0-9]* outputs\? .* lost (.*\)/\1/p' err)"
  # Node 0's daemon names what it knows. It may not have heard yet that another one has ended, and Open MPI 5 ends it first.
  odd=$(sed -n 's/^fs-launch: \(.* lost with .*\)/\1/p' err |
    grep -vxE '2 outputs are lost with their nodes: (made-1, made-2|made-2, made-1)|1 output is lost with its node: made-[12]') || :
  equal "lost with their nodes" '' "$odd"
  equal "silent" "$([ $outputs = none ] && echo 0 || echo 2)" "$(grep -c 'node [12] .* does not tell of its outputs: any that it had are lost' err)"
  for r in 0 1 2; do equal "outputs: $outputs" "rank $r: differ=0 listed=30 top=3 whole=$whole made=0" "$(grep "^rank $r:" out)"; done
done

begin none
pids=$(for p in $(ip netns pids "${net_id}3"); do case $(readlink "/proc/$p/exe") in */fanstored) echo "$p" ;; esac; done)
[ -n "$pids" ] || fail "no daemon"
# shellcheck disable=SC2086
kill -TERM $pids
end none
equal "a daemon's SIGTERM" "rank 2: differ=0 listed=30 top=3 whole=1 made=0" "$(grep "^rank 2:" out)"
for r in 0 1; do equal "others" "rank $r: differ=0 listed=30 top=3 whole=1 made=1" "$(grep "^rank $r:" out)"; done
echo "ok - on all hosts the dataset is read, also by programs that start afterwards"
