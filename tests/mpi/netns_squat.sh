#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# waits
# As launch_squat.sh, on the second of two hosts only: each host takes what is its own. What a daemon that was killed has
# left there is removed by the end of the job.
. "$(dirname "$0")/../functions.sh"
. "$(dirname "$0")/../netns.sh"
netns_up 2

make_tree "$work/source"
pack "$work/source" "$work/ds" --partitions 4 --mount "$mnt"
cd "$work"
chmod 1777 "$net_root"/h?/tmp
h2=$net_root/h2/tmp
mkdir -m 777 "$h2/fanstore-0"
ln -s "$work/source" "$h2/fanstore-local-0"
chown -h 65534 "$h2"/fanstore*-0
cat >node.sh <<END
set -eu
echo "\$(hostname) \$FANSTORE_RUN"
diff -r --no-dereference "$work/source" "$mnt"
[ -z "\${1:-}" ] || [ "\$(hostname)" != h2 ] || { echo 1 >"$mnt/made" && $kill_daemon 1 "$mnt"; }
END
l=("$bin/fs-launch" --discard --dataset "$work/ds" --hostfile "$net_hostfile" --np 2 --report "$work/r.json")
for again in 0 1; do
  netns_on h1 "${l[@]}" -- bash "$work/node.sh" >out 2>err </dev/null || fail "$(cat out err)"
  grep -qE "^h1 $net_tmp/fanstore-0/job-" out || fail "h1: $(cat out)"
  grep -qE "^h2 $net_tmp/fanstore-0\.[a-zA-Z0-9]{6}/job-" out || fail "h2: $(cat out)"
  [ "$again" = 0 ] || equal "staged again" 0 "$(json r.json "sum(n['staged'] for n in r['nodes'])")"
done
netns_on h1 "${l[@]}" -- bash "$work/node.sh" killed >out 2>err </dev/null || fail "$(cat out err)"
grep -q "node 1 (h2): no report" err || fail "no daemon was killed: $(cat err)"
grep -q "^fs-launch: 1 of 2 nodes, the others gave no report: " err || fail "totals of two nodes: $(cat err)"
[ -z "$(find "$net_root"/h?/tmp -name 'job-*' -o -name 'outputs-*')" ] || fail "left: $(find "$net_root"/h?/tmp -name '*job-*')"
netns_on h1 "$bin/fs-launch" clean --staged --hostfile "$net_hostfile" >out 2>&1 || fail "$(cat out)"
equal "what is left" "fanstore-0 fanstore-local-0" "$(cd "$h2" && echo fanstore*)"
equal "what is there" '' "$(ls "$h2/fanstore-0")"
echo "ok - h2's names are another user's"
