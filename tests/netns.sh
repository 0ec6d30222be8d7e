# SPDX-License-Identifier: BSD-3-Clause
# shellcheck shell=bash disable=SC2154
# Hosts made of network namespaces: h1, h2, ... on a bridge, each with its own address, host name, /dev/shm, TMPDIR and
# local directory (bind-mounted at one path, so that options are the same everywhere). Source functions.sh first, then
#     netns_up COUNT            makes them, or skips the test where that is not allowed
#     netns_on HOST COMMAND...  runs COMMAND there, in a clean environment, in this directory; Open MPI and UCX use eth0
#     netns_plain HOST COMMAND... the same, but nobody has told Open MPI and UCX what to use
# and use $net_agent as mpirun's rsh agent, $net_tmp and $net_local (as seen on a host; $net_root/HOST/{tmp,local} from
# here), $net_hostfile. netns_cut HOST and netns_heal HOST take the host's link down and up. All is undone at exit.
net_id=fs$$-$RANDOM- # a test that was killed may have left those of the same process number
net_root=$work/net
net_tmp=$net_root/tmp
net_local=$net_root/local
net_agent=$net_root/agent
net_hostfile=$net_root/hostfile
net_count=0

netns_down() {
  local i pid
  for i in sw $(seq "$net_count"); do
    for pid in $(ip netns pids "$net_id$i" 2>/dev/null); do kill -9 "$pid" 2>/dev/null || :; done
    ip netns delete "$net_id$i" 2>/dev/null || :
  done
}

netns_host() { # NUMBER
  local ns=$net_id$1
  ip netns add "$ns"
  ip -n "$ns" link add eth0 type veth peer name "p$1" netns "${net_id}sw"
  ip -n "${net_id}sw" link set "p$1" master br0 up
  ip -n "$ns" addr add "10.77.0.$1/24" dev eth0
  ip -n "$ns" link set eth0 up
  ip -n "$ns" link set lo up
  mkdir -p "$net_root/h$1/tmp" "$net_root/h$1/local"
  echo "10.77.0.$1 h$1" >>"$net_root/hosts"
  echo "h$1 slots=1" >>"$net_hostfile"
}

# As ssh: agent HOST COMMAND..., the words joined and given to a shell. Nothing of our environment gets through.
netns_agent() {
  cat >"$net_agent" <<END
#!/usr/bin/env bash
host=\$1
shift
exec env -i PATH="$PATH" HOME="$HOME" LC_ALL=C.UTF-8 FS_TEST_ID="${FS_TEST_ID:-}" \\
  ip netns exec "$net_id\${host#h}" unshare -u -m --propagation private sh -c '
    set -e
    hostname "\$0"
    mount -t tmpfs -o size=64m none /dev/shm
    mount --bind "$net_root/hosts" /etc/hosts
    mount --bind "$net_root/\$0/tmp" "$net_tmp"
    mount --bind "$net_root/\$0/local" "$net_local"
    export TMPDIR="$net_tmp" FANSTORE_RUN_BASE="$net_tmp"
    set +e
    eval "\$1"' "\$host" "\$*"
END
  chmod +x "$net_agent"
}

netns_up() { # COUNT
  need_command ip unshare mount hostname
  [ "$(id -u)" = 0 ] || skip "network namespaces need root"
  ip netns add "${net_id}sw" 2>/dev/null || skip "no network namespaces here"
  trap 'netns_down; [ -n "${FS_TEST_ID:-}" ] || rm -rf "$TMPDIR"' EXIT
  ip -n "${net_id}sw" link add br0 type bridge 2>/dev/null || skip "no bridges here"
  ip -n "${net_id}sw" link set br0 up
  mkdir -p "$net_root" "$net_tmp" "$net_local"
  echo "127.0.0.1 localhost" >"$net_root/hosts"
  for ((net_count = 1; net_count <= $1; net_count++)); do netns_host "$net_count"; done
  net_count=$1
  netns_agent
}

netns_plain() { # HOST COMMAND...
  local host=$1 words
  shift
  words=$(printf '%q ' "$@")
  "$net_agent" "$host" "cd $(printf %q "$PWD") && OMPI_MCA_plm_rsh_agent=$net_agent exec $words"
}

netns_on() { # HOST COMMAND...
  netns_plain "$1" env UCX_TLS=tcp,self UCX_NET_DEVICES=eth0 OMPI_MCA_oob_tcp_if_include=eth0 \
    OMPI_MCA_btl_tcp_if_include=eth0 "${@:2}"
}

netns_cut() { ip -n "${net_id}sw" link set "p${1#h}" down; }
netns_heal() { ip -n "${net_id}sw" link set "p${1#h}" up; }
