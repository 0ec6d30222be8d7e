#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# long: 20
# waits
# Two hosts where nobody has told Open MPI and UCX which network interface to use (docs/networks.md): a bridge docker0
# with the same address on each, other names of interfaces, a second network by --network, wrong --network, IPv6 alone.
. "$(dirname "$0")/../functions.sh"
. "$(dirname "$0")/../netns.sh"
need_command mpicc
netns_up 2

random_files "$work/source" 8 1 5000
pack "$work/source" "$work/ds" --partitions 4 --mount "$mnt"
cd "$work"
l=("$bin/fs-launch" --dataset "$work/ds" --local-dir "$net_local" --hostfile "$net_hostfile" --start-timeout 20)
ip_on() { ip -n "$net_id${1#h}" "${@:2}"; }
sent() { # HOST INTERFACE: bytes
  ip netns exec "$net_id${1#h}" cat "/sys/class/net/$2/statistics/tx_bytes"
}
is_up() { # HOST INTERFACE: UCX does not take one before this
  [ "$(ip netns exec "$net_id${1#h}" cat "/sys/class/net/$2/operstate")" = up ]
}
# job WHAT TRANSPORTS OPTION...: h1 reads all
job() {
  local what=$1 pml
  for pml in $2; do
    netns_plain h1 env FANSTORE_PML="$pml" "${l[@]}" "${@:3}" --report "$work/r.json" -- \
      diff -r "$work/source" "$mnt" >out 2>err </dev/null || fail "$what, $pml: $(cat out err)"
    [ "$(json r.json "r['nodes'][0]['bytes_remote']")" -gt 0 ] || fail "$what, $pml: nothing remote"
  done
  echo "ok - $what, by $2"
}
wrong() { # HOST WHAT VALUE
  local rc=0
  netns_plain h1 "${l[@]}" --network "$3" -- true >out 2>err </dev/null || rc=$?
  equal "exit status" 125 "$rc"
  one_line err "^fs-launch: $1: --network $3: no interface that is up has $2; there is (.*, )?eth0 10.77.0.${1#h}/24"
  echo "ok - $(cat err)"
}

# A second network of the hosts, as InfiniBand is beside Ethernet.
ip -n "${net_id}sw" link add br1 type bridge
ip -n "${net_id}sw" link set br1 up
for i in 1 2; do
  ip_on "h$i" link add ib0 type veth peer name "q$i" netns "${net_id}sw"
  ip -n "${net_id}sw" link set "q$i" master br1 up
  ip_on "h$i" addr add "10.88.0.$i/24" dev ib0
  ip_on "h$i" link set ib0 up
done

for h in h1 h2; do
  ip_on $h link add docker0 type bridge
  ip_on $h addr add 172.17.0.1/16 dev docker0
  ip_on $h link set docker0 up
done
job "a bridge without carrier" "ucx ob1"
for h in h1 h2; do
  ip_on $h link add v0 type veth peer name v1
  ip_on $h link set v0 master docker0 up
  ip_on $h link set v1 up
done
job "a bridge with carrier" "ucx ob1"

cat >sum.c <<'END'
#include <mpi.h>
#include <stdio.h>
int main(int argc, char **argv) {
  int rank, sum = 0;
  MPI_Init(&argc, &argv);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Allreduce(&rank, &sum, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
  if (rank == 0) printf("%d\n", sum);
  return MPI_Finalize();
}
END
mpicc -o sum sum.c
netns_plain h1 timeout 20 "${l[@]}" --np 2 -- "$work/sum" >out 2>err </dev/null || fail "$(cat out err)"
equal "sum of the ranks" 1 "$(cat out)"
echo "ok - COMMAND's MPI processes use the same interface"

wait_until 20 is_up h2 ib0
for value in "ucx ib0" "ob1 10.88.0.0/16"; do
  pml=${value% *} value=${value#* } before=$(sent h2 ib0) eth0=$(sent h2 eth0)
  job "--network $value" "$pml" --network "$value"
  [ $(($(sent h2 ib0) - before)) -gt 20000 ] || fail "--network $value: $(($(sent h2 ib0) - before)) bytes by ib0"
  [ $(($(sent h2 eth0) - eth0)) -lt 2000 ] || fail "--network $value: $(($(sent h2 eth0) - eth0)) bytes by eth0"
done
wrong h1 "this name and an address" eth7
wrong h1 "an address in it" 10.99.0.0/16
wrong h1 "this name and an address" lo
ip_on h2 link set ib0 down
wrong h2 "this name and an address" ib0
wrong h2 "an address in it" 10.88.0.0/24

for h in h1 h2; do
  ip_on $h addr flush dev eth0
  ip_on $h addr add "10.77.0.${h#h}/24" dev eth0 label eth0:1
  ip_on $h addr add "10.66.0.${h#h}/24" dev eth0
done
job "the address of a label" ucx
for h in h1 h2; do ip_on $h addr del "10.66.0.${h#h}/24" dev eth0; done
job "--network eth0, which has a label's address only" ob1 --network eth0
for h in h1 h2; do
  ip_on $h addr flush dev eth0
  ip_on $h addr add "10.77.0.${h#h}/24" dev eth0
done

mkdir "it's"
cp -r "$build/bin" "$build/lib" "it's"
netns_plain h1 "$work/it's/bin/fs-launch" "${l[@]:1}" -- ls "$mnt" >out 2>err </dev/null || fail "$(cat err)"
echo "ok - a path that a remote shell would take apart"

ip_on h2 link set eth0 down
ip_on h2 link set eth0 name ens5
ip_on h2 link set ens5 up
wait_until 20 is_up h2 ens5
job "another name on h2" ucx

ip_on h1 addr flush dev eth0
ip_on h2 addr flush dev ens5
ip_on h1 addr add fd77::1/64 dev eth0 nodad
ip_on h2 addr add fd77::2/64 dev ens5 nodad
sed -i 's/^10\.77\.0\./fd77::/' "$net_root/hosts"
job "IPv6 alone" "ucx ob1"
job "--network fd77::/64" ob1 --network fd77::/64
