#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# waits
# long: 40
# fs-prepare pack over three hosts, each with its own local directory, from a host that is no node: what a host that ssh
# does not reach, one that is cut off, killed or full, leaves behind. One line says which host it is, no partition is taken
# for a staged copy, and the same command goes on.
. "$(dirname "$0")/../functions.sh"
. "$(dirname "$0")/../netns.sh"
netns_up 4
trap 'umount "$net_root/h2/local" 2>/dev/null; netns_down; [ -n "${FS_TEST_ID:-}" ] || rm -rf "$TMPDIR"' EXIT
random_files "$work/source" 60 4 1 100 5000 100000
seq 4000000 >"$work/source/numbers"
cd "$work"
options=(--codec lz4hc:9 --jobs 1 --mount "$mnt")
pack source plain "${options[@]}"

# Nothing of the environment gets to a host but by the agent.
sed -i 's/env -i /&FANSTORE_TEST_CHECKPOINT_MS=50 /' "$net_agent"
nodes=(--hosts "h1,h2,h3" --local-dir "$net_local")
on_hosts() { netns_plain h4 "$bin/fs-prepare" pack "${options[@]}" --node-timeout 5 "${nodes[@]}" source ds; }
cat >unreachable <<END
#!/bin/sh
case \$1 in
h3)
  [ -e "$work/hangs" ] && sleep 8
  echo "ssh: connect to host h3 port 22: No route to host" >&2
  exit 255
  ;;
esac
exec $net_agent "\$@"
END
chmod +x unreachable

refused() { # PATTERN: by the command's one line
  expect_status 1 netns_plain h4 env OMPI_MCA_plm_rsh_agent="$work/unreachable" "$bin/fs-prepare" pack --start-timeout 3 \
    "${nodes[@]}" source ds
  one_line err "$1"
  [ ! -s out ] || fail "$(cat out)"
}
refused "^fs-prepare: the nodes \(h1,h2,h3\) could not be started: ssh: connect to host h3 port 22: No route to host; "
touch hangs
refused '^fs-prepare: the nodes \(h1,h2,h3\) have not started within 3 s$'
netns_cut h3
expect_status 1 on_hosts
one_line err '^fs-prepare: the nodes \(h1,h2,h3\) could not be started: .*TCP connection.*Local host: h3, Remote host: h4'
[ ! -s out ] || fail "$(cat out)"
netns_heal h3
equal "left" "" "$(find . "$net_root"/h?/local -name '.*.partial-*' -o -name '.pack-*')"
echo "ok - a host that ssh does not reach, one that does not answer, and one that cannot connect"

checkpoint() { [ -n "$(find .ds.partial-*/journal -size +1000c 2>/dev/null)" ]; }
begin() { # until it has a checkpoint
  rm -rf ds "$net_root"/h?/local/*
  on_hosts >out 2>err &
  packing=$!
  wait_until 60 checkpoint
}
ended() { # PATTERN: of one of its lines
  local status=0
  wait "$packing" || status=$?
  equal "exit status" 1 "$status"
  grep -qE "^fs-prepare: $1" err || fail "$(cat err)"
  [ "$(wc -l <err)" -le 2 ] || fail "$(cat err)"
  goes_on
}
goes_on() {
  [ ! -e ds ] || fail "a dataset is there"
  equal "staged copies" "" "$(find "$net_root"/h?/local -name '*.stamp')"
  expect_status 0 on_hosts
  one_line err '^fs-prepare: resuming: [1-9].* are packed already$'
  diff -r plain ds || fail "other bytes than with one process"
}
begin
# shellcheck disable=SC2046 # pids
kill -9 $(ip netns pids "${net_id}2")
ended 'the pack on the nodes ended: .*no connection to node 1 \(h2\): .*; pack again to go on, or to remove what it has left$'
echo "ok - a host that dies"

begin
netns_cut h2
began=$SECONDS
wait_until 40 sh -c "! kill -0 $packing 2>/dev/null"
say "$((SECONDS - began)) s"
netns_heal h2
for pid in $(ip netns pids "${net_id}2"); do kill -9 "$pid" 2>/dev/null || :; done # those whose link was down
ended 'node 1 \(h2\) has not answered for 5 s; '
netns_on h1 "$bin/fs-launch" --dataset "$work/ds" "${nodes[@]}" --np 3 -- diff -r "$work/source" "$mnt" 2>err || fail "$(cat err)"
grep -q ' 0 B staged, ' err || fail "$(cat err)"
echo "ok - a host that is cut off; then a job on the three finds all that was packed"

rm -rf ds "$net_root"/h?/local/*
mount -t tmpfs -o size=4m none "$net_root/h2/local"
expect_status 1 on_hosts
grep -q 'node 1 (h2): .*: cannot be written: No space left on device; free some there, or pack on more nodes$' err ||
  fail "$(cat err)"
mount -o remount,size=100m "$net_root/h2/local"
goes_on
echo "ok - a host without room, and with room again"
