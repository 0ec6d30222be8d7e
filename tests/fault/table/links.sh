#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# Three hosts made of network namespaces: a link that is cut for some seconds and heals, or for good; an orted that is killed, as
# mpirun's part on a host; a host whose processes all die at once. Readers on all hosts where mpirun can still end them,
# else on the first one.
. "$(dirname "$0")/harness.bash"
. "$root/tests/netns.sh"
netns_up 3
make_dataset 2000 40 16
cd "$work"
launcher=(netns_on h1 "$bin/fs-launch" --hostfile "$net_hostfile" --local-dir "$net_local")
readers=(--workers 2 --seconds 3)

list_left() {
  local i
  for i in 1 2 3; do ip netns pids "$net_id$i"; done
  find "$net_root"/h?/tmp -mindepth 1 -maxdepth 1 -not -name "${not_ours:-}"
  for i in 1 2 3; do [ "${down:-}" = h$i ] || left_locally "$net_root/h$i/local"; done
}
on_host() { # HOST PROGRAM: its processes there
  local pid
  for pid in $(ip netns pids "$net_id${1#h}"); do
    case $(readlink "/proc/$pid/exe") in */"$2") echo "$pid" ;; esac
  done
}
healed() { # SECONDS
  local processes=3
  begin both --np 3 --verbose
  netns_cut h2
  sleep "$1"
  netns_heal h2
  local began=$SECONDS
  until_true 240 told 'node [0-2] answers again' || why='it does not serve again'
  say "serves again $((SECONDS - began)) s after the link"
  finish
  dropped=$(json "$work/r.json" 'sum(n["dropped"] for n in r["nodes"])')
  say "late replies: $dropped, dropped"
  [ "$dropped" -gt 0 ] || why="${why:-no reply came late}"
}
cut_for_good() { # HOST
  local cut=$1 down=$1
  begin both
  netns_cut "$cut"
  sleep 3
  finish
  left=0 # the host ends by itself when it can: below
  netns_heal "$cut"
  down=''
  count_left
}
# Longer than Open MPI waits for a host that says nothing, eight minutes: its daemon ends, and the job goes on without it.
given_up() {
  begin both
  netns_cut h2
  sleep 600
  netns_heal h2
  sleep 30
  finish
}
orted() {
  local not_ours='*.h3*' # mpirun's own, which it cannot remove then
  begin both
  # shellcheck disable=SC2046
  kill -9 $(on_host h3 "$mpi_remote")
  sleep 2
  finish
  rm -rf "$net_root"/h3/tmp/*.h3*
}
host_dies() {
  local pid not_ours='*' down=h3 # what a host that lost its power has is removed by `fs-launch clean` there
  begin both
  for pid in $(ip netns pids "${net_id}3"); do kill -9 "$pid"; done
  netns_cut h3
  sleep 2
  finish
  netns_heal h3
  find "$net_root/h3/tmp" -exec touch -h -d '1 minute ago' {} +
  netns_on h3 "$bin/fs-launch" clean --local-dir "$net_local" >"$work/clean.out" 2>&1 || why="clean: $(cat "$work/clean.out")"
  rm -rf "$net_root"/h3/tmp/*.h3*
  not_ours='' down=''
  count_left
}

fault 'a link is cut for 4 s' 1 healed 4
fault 'a link is cut for 30 s' 0 healed 30
readers+=(--pause 20 --patience 900)
FAULTS_TIMES=${FAULTS_TIMES:+1} fault 'a link is cut for 5 min' 0 healed 300
FAULTS_TIMES=${FAULTS_TIMES:+1} fault 'a link is cut for 10 min' 0 given_up
readers=("${readers[@]:0:4}")
fault 'a link is cut for good' 1 cut_for_good h2
# Readers on two hosts without an mpirun of COMMAND's, which would wait for the third: as a scheduler starts them.
cat >"$work/both_hosts" <<'END'
job=$(env | grep '^\(FANSTORE_\|LD_PRELOAD=\)' | grep -v '^FANSTORE_NODE=')
unset LD_PRELOAD
"$1" h2 "cd $(printf %q "$PWD") && exec env $(while read -r v; do printf '%q ' "$v"; done <<<"$job") $(printf '%q ' "${@:2}")" &
env $job "${@:2}" || status=$?
wait $! || status=$?
exit "${status:-0}"
END
before=(bash "$work/both_hosts" "$net_agent") processes=2
fault 'a link is cut for good, readers on both other hosts' 1 cut_for_good h3
before=() processes=1
fault 'kill -9 of an orted' 1 orted
fault 'a host dies' 1 host_dies
fault "kill -9 of another host's daemon while the job starts" 1 at_start KILL '.*' "$net_root/h?/local/*" on_host h2 fanstored
fault "another host's daemon stops while the job starts" 0 at_start STOP 'no answer from .* within 10 s' \
  "$net_root/h?/local/*" on_host h2 fanstored -- --start-timeout 10
verdict
