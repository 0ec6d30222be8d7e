#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# waits
# Three hosts, each with its own address, /dev/shm, TMPDIR and local directory, by --hostfile: --np 3 with the whole
# tree compared on each while the dataset is renamed away, then COMMAND on the first host alone, from a host that is no
# node, with what is staged; a host that does not answer; clean on all of them.
. "$(dirname "$0")/../functions.sh"
. "$(dirname "$0")/../netns.sh"
netns_up 4
sed -i '/^h4/d' "$net_hostfile" # no node: the login host

make_tree "$work/source"
pack "$work/source" "$work/ds" --partitions 7 --mount "$mnt"
cd "$work"
l=("$bin/fs-launch" --dataset "$work/ds" --local-dir "$net_local" --hostfile "$net_hostfile")

cat >node.sh <<END
set -eu
mv "$work/ds" "$work/away" 2>/dev/null || :
while [ -e "$work/ds" ]; do sleep 0.05; done
hostname
diff -r --no-dereference "$work/source" "$mnt"
END
netns_on h1 "${l[@]}" --np 3 --report "$work/r.json" -- bash "$work/node.sh" >out 2>err || fail "$(cat out err)"
mv away ds
equal "hosts" "h1,h2,h3" "$(sort out | paste -sd,)"
equal "nodes" "h1,h2,h3" "$(json r.json "','.join(sorted(n['host'] for n in r['nodes']))")"
for i in 0 1 2; do
  [ "$(json r.json "r['nodes'][$i]['bytes_remote']")" -gt 0 ] || fail "nothing remote on node $i"
  [ "$(json r.json "r['nodes'][$i]['bytes_local']")" -gt 0 ] || fail "nothing local on node $i"
done
equal "shared" 0 "$(json r.json "r['total']['bytes_shared']")"
equal "served and fetched" "$(json r.json "r['total']['served_bytes']")" "$(json r.json "r['total']['fetched_bytes']")"
echo "ok - --np 3: the tree is the same on each host, the dataset being away, and each reads from the others"

netns_on h4 "${l[@]}" --report "$work/r.json" -- bash -c "hostname; diff -r --no-dereference '$work/source' '$mnt'" \
  >out 2>err </dev/null || fail "$(cat out err)"
equal "the first host" h1 "$(cat out)"
equal "staged again" 0 "$(json r.json "sum(n['staged'] for n in r['nodes'])")"
echo "ok - from a host that is no node COMMAND runs on the first, with what is staged"

rc=0
netns_on h1 "${l[@]}" -- sh -c 'exit 7' 2>err || rc=$?
equal "exit status" 7 "$rc"
rc=0
netns_on h4 "${l[@]}" -- sh -c 'exit 7' >out 2>err || rc=$?
equal "exit status from afar" 7 "$rc"
echo "ok - exit statuses"

rc=0
printf '#!/bin/sh\ncase $1 in h3) sleep 30; exit 255;; esac\nexec %s "$@"\n' "$net_agent" >"$work/agent"
chmod +x "$work/agent"
netns_on h1 env OMPI_MCA_plm_rsh_agent="$work/agent" "${l[@]}" --start-timeout 3 -- true >out 2>err || rc=$?
equal "exit status" 125 "$rc"
one_line err '^fs-launch: no answer from the hosts'
echo "ok - $(cat err)"

# On h2 another directory is where the dataset was packed from.
random_files "$work/own" 3 1 1000
pack "$work/own" "$work/own.fs"
sed "s#set +e\$#[ \"\$0\" != h2 ] || mount -t tmpfs none '$work/own'; set +e#" "$net_agent" >"$work/agent"
netns_on h1 env OMPI_MCA_plm_rsh_agent="$work/agent" "$bin/fs-launch" --dataset "$work/own.fs" --local-dir "$net_local" \
  --hostfile "$net_hostfile" --np 3 -- bash -c 'hostname >"$1/$(hostname)"' - "$work/own" >out 2>err || fail "$(cat out err)"
equal "in the source" "h1,h3" "$(find "$work/own" -name 'h?' -printf '%f\n' | sort | paste -sd,)"
grep -q "node 1 (h2): $work/own: another directory than on fs-launch's host: outputs of this node are kept on it" err ||
  fail "$(cat err)"
echo "ok - outputs go to the source where it is the same directory"

mkdir to
netns_on h1 "$bin/fs-launch" clean --staged --outputs --to "$work/to" --local-dir "$net_local" --hostfile "$net_hostfile" \
  >out 2>&1 || fail "$(cat out)"
equal "kept on h2, copied out" "h2 h2" "$(cd to/job-* && echo * "$(cat h2)")"
equal "staged files" 0 "$(find "$net_root"/h?/local -type f | wc -l)"
no_temporary() { [ -z "$(find "$net_root"/h?/tmp -mindepth 1 2>/dev/null | head)" ]; }
wait_until 30 no_temporary # a daemon of mpirun that was told late removes its own
echo "ok - clean on all hosts; nothing is left in any TMPDIR"
