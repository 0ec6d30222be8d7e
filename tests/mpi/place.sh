#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# Staging from node to node: each partition is read from shared storage once, whatever the number of copies, and not at
# all if some node has it; what a node that is stopped, killed, or gives wrong bytes does to the others. place_kills.sh kills
# at random moments.
. "$(dirname "$0")/../functions.sh"
cd "$work"
ok() { echo "ok - $* ($SECONDS s)"; }

mkdir source local
for i in 1 2 3 4 5; do head -c $((3000000 + i * 700000)) /dev/urandom >source/$i; done
pack source ds --codec raw --partitions 4 --mount "$mnt"
bytes=$(cat ds/part-* | wc -c)

place() { # NODES REPLICAS [OPTION...]
  "$bin/fs-prepare" place --local-dir "$work/local" --emulate "$1" --replicas "$2" "${@:3}" ds
}
# All copies are whole, and COPIES of each partition are there; `more`: or more.
whole() { # COPIES [more]
  local part copies
  for part in ds/part-*; do
    copies=$(find local -name "${part#ds/}" | wc -l)
    [ "$copies" = "$1" ] || { [ "${2-}" = more ] && [ "$copies" -gt "$1" ]; } || fail "$copies copies of $part, not $1"
  done
  find local -name 'part-?????' | while read -r copy; do
    cmp "$copy" "ds/${copy##*/}" || fail "$copy"
    [ -f "$copy.stamp" ] || fail "$copy has no stamp"
  done
  equal "left" "" "$(find local -name '.new-*')"
}
# Bytes of partitions that are read from shared storage.
traced() { strace -qq --seccomp-bpf -ff -y -o trace -e trace=pread64 "$@"; }
from_shared() {
  cat trace.* | sed -nE 's@^pread64\([0-9]+<[^>]*/ds/part-.*= ([0-9]+)$@\1@p' | awk '{ n += $1 } END { print n + 0 }'
  rm -f trace.*
}

daemon() { "$kill_daemon" "$1" "$work/local" pid; }

if strace -f --seccomp-bpf -o /dev/null true 2>/dev/null; then
  for how in 2:2 3:2 4:3; do
    rm -rf local/*
    traced "$bin/fs-prepare" place --local-dir "$work/local" --emulate "${how%:*}" --replicas "${how#*:}" ds 2>err ||
      fail "$how: $(cat err)"
    equal "$how: read from shared storage" "$bytes" "$(from_shared)"
    grep -q ' of it from other nodes), 0 B reused' err || fail "$how: $(cat err)"
    whole "${how#*:}"
  done
  ok "each partition is read once: 2, 3 and 4 nodes, 2 and 3 copies"
  place 4 4 2>err || fail "$(cat err)"
  rm -rf local/fanstore-node[12]
  traced "$bin/fs-prepare" place --local-dir "$work/local" --emulate 4 --replicas 4 ds 2>err || fail "$(cat err)"
  equal "read from shared storage" 0 "$(from_shared)"
  whole 4
  ok "nodes that have a partition give it to those that do not"
fi

# One copy of each, and a job that reads all of them.
rm -rf local/*
place 3 1 2>err || fail "$(cat err)"
! grep -q 'from other nodes' err || fail "$(cat err)"
launch --emulate 3 --replicas 2 --dataset ds -- diff -r source "$mnt" 2>err || fail "$(cat err)"
grep -q ' staged (.* from other nodes)' err || fail "$(cat err)"
whole 2
ok "fs-launch does the same"

# The nodes have room for a copy of each, and not for the second one of each.
rm -rf local/*
size=$(($(cat ds/part-* ds/index ds/index | wc -c) * 3 / 2048))
short() { # RUN...
  unshare -m sh -c 'mount -t tmpfs -o size="$0"k none local && exec "$@"' "$size" "$@"
}
if [ "$(id -u)" = 0 ] && unshare -m true 2>/dev/null; then
  status=0
  short "$bin/fs-prepare" place --local-dir "$work/local" --emulate 2 --replicas 2 ds 2>err || status=$?
  equal "exit status" 3 "$status"
  grep -q '^fs-prepare: warning: no room for all copies of [1-4] of 4 partitions' err || fail "$(cat err)"
  ok "too little room for the second copies: $(grep 'no room' err)"
else
  say "no mount is possible here"
fi

# A byte of a copy changes, and its time does not: the node that gets it sees that.
rm -rf local/*
place 2 1 2>err
for copy in local/*/*/part-?????; do
  touch -r "$copy" time
  chmod 600 "$copy"
  printf '\377\376' | dd of="$copy" bs=1 seek=5000 conv=notrunc status=none
  chmod 400 "$copy"
  touch -r time "$copy"
  damaged=$copy
done
place 2 2 2>err || fail "$(cat err)"
for part in ds/part-*; do
  sound=0
  for copy in local/*/*/"${part#ds/}"; do ! cmp -s "$copy" "$part" || sound=$((sound + 1)); done
  equal "sound copies of $part" 1 "$sound"
done
[ -n "$damaged" ]
ok "damaged bytes are not passed on"

# Node 0 waits for its lock, and so do those that wait for it.
held() { # a place of which node 0 cannot begin
  rm -rf local/*
  place 2 1 2>err || fail "$(cat err)"
  rm -f local/*/*/part-*
  exec 8>"$(echo local/fanstore-node0/*/.staging)"
  flock 8
  launch --emulate 2 --replicas 2 --deadline 200 --dataset ds -- true 2>err 8>&- &
  placing=$!
  wait_until 30 daemon 1 >/dev/null
  wait_until 30 two_there
}
two_there() { [ "$(find local/fanstore-node1 -name '*.stamp' | wc -l)" -ge 3 ]; } # an index, and node 1's own two
ended() { # STATUS
  local status=0
  exec 8>&-
  wait "$placing" || status=$?
  equal "exit status" "$1" "$status"
}
held
kill -9 "$(daemon 0)"
ended 125
place 2 2 2>err || fail "$(cat err)"
grep -q ', 0 B reused' err && fail "nothing was reused: $(cat err)"
whole 2
ok "a killed node: the next place goes on"

held
stopped=$(daemon 0)
kill -STOP "$stopped"
five_there() { [ "$(find local/fanstore-node1 -name '*.stamp' | wc -l)" = 5 ]; }
wait_until 30 five_there # after ten deadlines
kill -CONT "$stopped"
ended 0
grep -q 'node 0 does not pass its partitions on: they are read from shared storage' err || fail "$(cat err)"
whole 2
ok "a stopped node: the others read shared storage"

# The only copies are on the nodes. With a second one, a node may be lost.
rm -rf local/*
"$bin/fs-prepare" pack --local-dir "$work/local" --emulate 3 --nodes-only --codec raw --partitions 4 --mount "$mnt" \
  source only >pack.log || fail "$(cat pack.log)"
"$bin/fs-prepare" place --local-dir "$work/local" --emulate 3 --replicas 2 only 2>err || fail "$(cat err)"
rm -rf local/fanstore-node1
launch --emulate 3 --dataset only -- diff -r source "$mnt" 2>err || fail "$(cat err)"
! grep -q warning err || fail "$(cat err)"
no_leftovers
ok "second copies of what --nodes-only has packed"
