#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# slow
# long: 35
# waits
# Three hosts, two of them nodes that cannot send to each other: the start ends ten seconds after the daemons' start, and
# its line has both ends. mpirun that cannot be reached; an interface with addresses that lead nowhere.
. "$(dirname "$0")/../functions.sh"
. "$(dirname "$0")/../netns.sh"
netns_up 3
sed -i '/^h3/d' "$net_hostfile" # no node: the login host

random_files "$work/source" 4 1 5000
pack "$work/source" "$work/ds" --partitions 4 --mount "$mnt"
cd "$work"
l=("$bin/fs-launch" --dataset "$work/ds" --local-dir "$net_local" --hostfile "$net_hostfile")
ip_on() { ip -n "$net_id${1#h}" "${@:2}"; }
fails() { # SECONDS PATTERN HOST COMMAND...
  local rc=0 begin=$SECONDS
  netns_plain "${@:3}" -- true >out 2>err </dev/null || rc=$?
  equal "exit status" 125 "$rc"
  one_line err "^fs-launch: $2"
  [ $((SECONDS - begin)) -le "$1" ] || fail "after $((SECONDS - begin)) s: $(cat err)"
  echo "ok - $(cat err)"
}
for h in h1 h2; do
  ip_on $h link add docker0 type bridge
  ip_on $h addr add 172.17.0.1/16 dev docker0
  ip_on $h link set docker0 up
done

# The user's own choice counts, and is wrong.
both='no connection from node 0 \(h(.): .*eth0 10.77.0.\1/24.*\) to node 1 \(h(.): .*eth0 10.77.0.\2/24.*\) within 10 s: .*--network'
fails 30 "$both" h1 env FANSTORE_PML=ob1 OMPI_MCA_btl_tcp_if_include=docker0 "${l[@]}"

ip_on h1 route add blackhole 10.77.0.2/32
ip_on h2 route add blackhole 10.77.0.1/32
fails 30 "$both" h3 "${l[@]}"

# A packet filter between h1 and h2 that ssh would pass.
ip_on h1 route del blackhole 10.77.0.2/32
fails 30 "the daemons could not be started: .*Local host: h2, Remote host: h1.*; mpirun waits at eth0 10.77.0.1 \(--network" \
  h1 "${l[@]}"
