#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# fs-prepare pack --order: the order of files in the partitions, and info's spread over partitions and nodes.
. "$(dirname "$0")/../functions.sh"

prepare=$bin/fs-prepare
ok() { echo "ok - $*"; }
cd "$work"
json() { "$prepare" info --json "${@:2}" ds | "$python" -c "import json, sys; r = json.load(sys.stdin); print($1)"; }
"$python" - <<'PYTHON'
import os
for d in range(4):
    os.makedirs(f"src/d{d}")
    for f in range(60):
        open(f"src/d{d}/f{f:02}", "wb").write(b"%d %02d " % (d, f) * (17 * (f + 1)))
PYTHON
# The files in the order of their bytes in the only partition
packed() { grep -aobE '[0-3] [0-9]{2} ' ds/part-00000 | awk -F'[: ]' '{ print $2 " " $3 }' | uniq; }
for order in path shuffle size; do
  rm -rf ds ds-4 restored
  expect_status 0 "$prepare" pack --order $order --codec raw --partitions 1 --jobs 1 src ds
  expect_status 0 "$prepare" pack --order $order --codec raw --partitions 1 --jobs 4 src ds-4
  diff -r ds ds-4 || fail "the output depends on --jobs with --order $order"
  expect_status 0 "$prepare" unpack ds restored
  diff -r src restored || fail "contents with --order $order"
  packed >$order
done
equal 'files by path' "$(find src -type f | LC_ALL=C sort | sed 's,src/d\(.\)/f,\1 ,')" "$(cat path)"
equal 'files by size' "$(sort -k 2,2nr -k 1,1n path)" "$(cat size)"
equal 'the same files, shuffled' "$(cat path)" "$(sort shuffle)"
cmp -s path shuffle && fail 'shuffle is the order of the paths'
expect_status 2 "$prepare" pack --order random src other
one_line err "--order 'random': give path, shuffle or size"
ok 'path, shuffle and size'

rm -rf ds
expect_status 0 "$prepare" pack --partitions 8 --codec raw src ds
equal 'files of partitions' 240 "$(json 'sum(p["files"] for p in r["partitions"])')"
equal 'nodes' '[2, 4, 8]' "$(json '[s["nodes"] for s in r["spread"]]')"
equal 'one node' '[1, 240, 240, 1.0]' \
  "$(json '[r["spread"][0][k] for k in ("nodes", "least_files", "most_files", "directories")]' --nodes 1)"
equal 'more nodes than partitions' '[0, 0]' "$(json '[r["spread"][0][k] for k in ("least_files", "least_bytes")]' --nodes 9)"
equal 'balance' True "$(json 'r["spread"][0]["most_bytes"] < 1.1 * r["spread"][0]["least_bytes"]' --nodes 4)"
"$prepare" info --nodes 4 ds | grep -qE '^on 4 nodes +[0-9]+ to [0-9]+ files, .* each; directories spread to 100%$' || fail 'text'
expect_status 2 "$prepare" info --nodes 0 ds
one_line err "--nodes '0': give a number from 1 to 65535"
rm -rf ds
expect_status 0 "$prepare" pack --partitions 8 --replicate d0 src ds
equal 'replicated files are not counted' 180 "$(json 'r["spread"][0]["most_files"]' --nodes 1)"
ok 'the spread over partitions and nodes'
