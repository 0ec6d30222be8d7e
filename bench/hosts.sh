#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# Runs COMMAND on the first of two hosts made of network namespaces, whose links carry RATE (as "10gbit") by tbf:
# hosts.sh DIRECTORY RATE[:BURST] COMMAND... A real link delays each byte. tbf lets up to BURST bytes (512k) pass at once if
# the link was idle before. With a BURST of little more than a packet it delays short messages as a link does, but carries
# less than RATE where the processors are busy. Then DIRECTORY/net/hostfile names the hosts, and DIRECTORY/net/local is a
# directory of its own on each, which stays from run to run. Status 77: not possible here.
. "$(dirname "$0")/../tests/functions.sh"
work=$1 rate=${2%:*} burst=512k
[ "$rate" = "$2" ] || burst=${2#*:}
shift 2
. "$root/tests/netns.sh"
need_command tc
rm -f "$work/net/hostfile"
net_tmp=$(mktemp -u /tmp/fs-hosts.XXXXXX) # short, whatever DIRECTORY is: sockets have names of up to 107 bytes
netns_up 2
trap 'netns_down; rmdir "$net_tmp"; [ -n "${FS_TEST_ID:-}" ] || rm -rf "$TMPDIR"' EXIT
for host in 1 2; do
  ip netns exec "$net_id$host" tc qdisc replace dev eth0 root tbf rate "$rate" burst "$burst" latency 5ms ||
    skip "no tbf here"
done
netns_on h1 "$@"
