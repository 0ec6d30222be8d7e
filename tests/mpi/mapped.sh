#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# Mappings of compressed files, on the node that has the file's partition and on the other one: one copy a node, made
# by all who want it; a part takes what it shows; killed programs, forks; no room.
. "$(dirname "$0")/../functions.sh"

here=$(dirname "$0")
need_space 300
mkdir -p "$work/source" "$work/real"
ln -s real "$work/local" # the kernel shows a mapping's file by its resolved name
"$python" "$here/mapped.py" make "$work/source"
pack "$work/source" "$work/ds" --codec lz4 --partitions 2 --mount "$mnt"
export here mnt python

# shellcheck disable=SC2016
launch --dataset "$work/ds" --emulate 2 --report "$work/r.json" -- bash -euc '
  for node in 0 1; do
    for what in ${CASES:-whole part killed forked}; do
      FANSTORE_NODE=$node "$python" "$here/mapped.py" "$what" "$mnt" "$1"/fanstore-node$node/outputs-*
    done
    ! FANSTORE_NODE=$node cat "$mnt/whole" | cmp - "$2/whole" || echo "node $node"
  done' - "$work/local" "$work/source" >"$work/out" 2>"$work/err" || {
  cat "$work/err" >&2
  fail "mappings"
}
equal "both nodes" 2 "$(grep -c '^node' "$work/out")"
[ ! -s "$work/err" ] || ! grep -q '^fanstore:' "$work/err" || fail "told: $(cat "$work/err")"
echo "ok - one copy a node; parts, killed programs, forks, 2 nodes"

# Nobody decodes what another has decoded: each file once a node, a chunk for each program that is killed, and what
# cat reads.
whole=$(stat -c %s "$work/source/whole")
part=$(stat -c %s "$work/source/part")
equal "copies" 8 "$(json "$work/r.json" "r['total']['materialized']")"
decoded=$(json "$work/r.json" "sum(r['total']['bytes_' + p] for p in ('local', 'cache', 'remote', 'shared'))")
[ "$decoded" -le $((2 * (2 * whole + 3 * part + 20 * 2097152))) ] ||
  fail "$decoded bytes were read, of a file of $whole and three of $part"
memory=/dev/shm/fanstore-$(id -u)/fanstore
job=$(json "$work/r.json" "r['job']")
[ -z "$(ls -d "$work"/local/fanstore*/outputs-* "$memory/outputs-$job"-* 2>/dev/null)" ] || fail "copies are left"
echo "ok - each byte is decoded once; nothing is left"

unshare -m true 2>/dev/null || skip "no mount namespaces here: directories that are full are not tried"
mkdir -p "$work/small"
export memory bin work
small() { # SIZE of /dev/shm, COMMAND
  # shellcheck disable=SC2016
  unshare -m bash -euc '
    mount -t tmpfs -o size=12m none "$work/small"
    mount -t tmpfs -o size="$1" none /dev/shm
    "$bin/fs-launch" --dataset "$work/ds" --emulate 1 --local-dir "$work/small" -- bash -euc "$2"' - "$@" \
    >"$work/out" 2>"$work/err" || {
    cat "$work/err" >&2
    fail "/dev/shm of $1"
  }
  grep '^fanstore:' "$work/err" >"$work/told" || true
}
# shellcheck disable=SC2016
small 600m '"$python" "$here/mapped.py" whole "$mnt" "$memory/outputs-${FANSTORE_RUN##*/}-0"'
[ ! -s "$work/told" ] || fail "told: $(cat "$work/told")"
# shellcheck disable=SC2016
small 16m '"$python" "$here/mapped.py" full "$mnt" /dev/null'
one_line "$work/told" "^fanstore: $mnt/whole: .* has room for it; .*--codec raw --replicate GLOB"
echo "ok - a local directory that is full: in memory, one copy; no room there: ENOMEM, one line"
