#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# Runs COMMAND on the first of two hosts made of network namespaces, whose links carry RATE (as "10gbit") by tbf:
# hosts.sh DIRECTORY RATE COMMAND... Then DIRECTORY/net/hostfile names the hosts, and DIRECTORY/net/local is a directory
# of its own on each, which stays from run to run. Status 77: not possible here.
. "$(dirname "$0")/../tests/functions.sh"
work=$1 rate=$2
shift 2
. "$root/tests/netns.sh"
need_command tc
rm -f "$work/net/hostfile"
net_tmp=$(mktemp -u /tmp/fs-hosts.XXXXXX) # short, whatever DIRECTORY is: sockets have names of up to 107 bytes
netns_up 2
trap 'netns_down; rmdir "$net_tmp"; [ -n "${FS_TEST_ID:-}" ] || rm -rf "$TMPDIR"' EXIT
for host in 1 2; do
  ip netns exec "$net_id$host" tc qdisc replace dev eth0 root tbf rate "$rate" burst 512k latency 5ms ||
    skip "no tbf here"
done
netns_on h1 "$@"
