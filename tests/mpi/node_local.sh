#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# Names of one node: sockets, FIFOs and lock.mdb below a mount are what they are in a plain directory, to that node alone;
# multiprocessing, DataLoader and LMDB with their files there; nothing of them is published, kept or left.
. "$(dirname "$0")/../functions.sh"
. "$(dirname "$0")/outputs.bash"

random_files "$work/source" 20 3 1 100 5000
mkdir "$work/source/db"
head -c 8192 /dev/urandom >"$work/source/db/lock.mdb"
lmdb=no
if "$python" -c 'import lmdb' 2>/dev/null; then
  lmdb=yes
  rm "$work/source/db/lock.mdb"
  "$python" "$here/node_local.py" lmdb_make "$work/source/db"
else
  say "no python3 module lmdb here: LMDB is not tried"
fi
torch=no
"$python" -c 'import torch' 2>/dev/null && torch=yes
pack "$work/source" "$work/ds" --partitions 2 --mount "$mnt"
first=$(cd "$work/source" && find . -type f -name 'f0*' | sed 's|^\./||' | sort | head -1)

mkdir "$work/plain"
for what in names sockets; do "$python" "$here/node_local.py" $what "$work/plain"; done >"$work/plain.txt"

# shellcheck disable=SC2016
launch --dataset "$work/ds" --emulate 2 --keep --report "$work/r.json" -- bash -c '
  mnt=$1 py="$2 $3/node_local.py" first=$4 source=$5 plain=$6 lmdb=$7 torch=$8
  on() { local node=$1; shift; FANSTORE_NODE=$node $py "$@"; }
  for node in 0 1; do
    mkdir "$mnt/on$node" || exit
    for what in names sockets; do on $node $what "$mnt/on$node" || exit; done >"$plain-$node"
    cmp "$plain" "$plain-$node" || { diff "$plain" "$plain-$node"; exit 1; }
    echo "ok - on node $node as in a plain directory"
    on $node outputs "$mnt" "$first" && on $node dataset_lock "$mnt" "$source/db/lock.mdb" || exit
  done
  export TMPDIR=$mnt/tmp # made on node 0
  mkdir "$TMPDIR" && on 1 processes "$mnt" || exit
  [ -z "$(ls "$mnt/tmp")" ] || { ls -l "$mnt/tmp"; exit 1; }
  [ $torch = no ] || on 1 loader "$mnt" || exit
  TMPDIR=${plain%/*}
  on 0 hold "$mnt" && on 1 not_here "$mnt" && on 0 here "$mnt" || exit
  [ $lmdb = yes ] || exit 0
  mkdir "$mnt/made" && on 0 lmdb_make "$mnt/made" || exit
  for node in 0 1; do on $node lmdb_read "$mnt/db" "$mnt/made" || exit; done' - \
  "$mnt" "$python" "$here" "$first" "$work/source" "$work/plain.txt" $lmdb $torch >"$work/out" 2>"$work/err" ||
  fail "$(cat "$work/out" "$work/err")"
cat "$work/out"
kept=$(find "$work/local" -path '*/fanstore-outputs/*' ! -type d | sed 's|.*/||' | sort | tr '\n' ' ')
equal "kept" "$([ $lmdb = no ] || echo 'data.mdb ')out " "$kept"
find "$work/local" -name fanstore-outputs -exec rm -rf {} +
no_leftovers
echo "ok - they are not kept"

# Without patterns lock.mdb is an output as any other; with the library alone nothing is made.
# shellcheck disable=SC2016
launch --dataset "$work/ds" --emulate 2 --node-local '' --keep -- bash -c '
  echo x >"$1/x.mdb-lock" && [ "$(FANSTORE_NODE=1 cat "$1/x.mdb-lock")" = x ] && rm "$1/x.mdb-lock" &&
  ! { echo x >"$1/db/lock.mdb"; } 2>/dev/null' - "$mnt" 2>"$work/err" || fail "$(cat "$work/err")"
equal "alone" "EROFS EROFS" "$(plain "$work/ds" "$mnt" "$python" -c 'import errno, os, socket, sys
for f in os.mkfifo, socket.socket(socket.AF_UNIX).bind:
    try:
        f(sys.argv[1] + "/new")
    except OSError as e:
        print(errno.errorcode[e.errno], end="" if f != os.mkfifo else " ")' "$mnt")"
expect_status 2 launch --dataset "$work/ds" --node-local a/b -- true
one_line "$work/err" '--node-local a/b: give a pattern of a name'
echo "ok - without patterns, and without daemons"
