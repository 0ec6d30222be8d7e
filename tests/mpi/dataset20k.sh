#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# timeout: 900
# slow
# long: 45
# 20,000 files, 1.2 GB, on two emulated nodes: each node reads every file twice, byte for byte, with the dataset renamed
# away once it is staged and each node's storage hidden from the other's processes. What the daemons counted must be what
# the placement says: a file of the other node is fetched once and comes from the cache after that. Then once more with a
# cache that holds a tenth of it.
. "$(dirname "$0")/../functions.sh"
hide_other_nodes
need_space 4500
program=$root/tests/mpi/dataset20k.py

mkdir "$work/source" "$work/meet"
"$python" "$program" make "$work/source" 20000 >"$work/list"
equal "files" 20000 "$(wc -l <"$work/list")"
pack "$work/source" "$work/ds" --partitions 16 --codec lz4 --mount "$mnt"
rm -rf "$work/source"

cat >"$work/node.sh" <<'END'
set -eu
mv "$1/ds" "$1/ds.away" 2>/dev/null || :
while [ -e "$1/ds" ]; do sleep 0.05; done
MEET=$1/meet exec /usr/bin/python3 "$2" read "$3" "$1/list" "$4" "$OMPI_COMM_WORLD_RANK"
END
# read_all PASSES CACHE REPORT
read_all() {
  rm -f "$work/meet/"*
  launch --dataset "$work/ds" --emulate 2 --np 2 --cache "$2" --report "$3" -- \
    "${hidden[@]}" bash "$work/node.sh" "$work" "$program" "$mnt" "$1"
  mv "$work/ds.away" "$work/ds"
}
# on_node N: how many files begin in a partition that is staged there
on_node() {
  find "$work/local/fanstore-node$1" -name 'part-[0-9]*[0-9]' | sed 's/.*part-0*\([0-9]\)/\1/' >"$work/parts.$1"
  awk 'NR == FNR { here[$1] = 1; next } $1 in here { n++ } END { print n + 0 }' "$work/parts.$1" "$work/where"
}
# expect REPORT NODE LOCAL REMOTE CACHE
expect() {
  local report=("$python" "$root/tests/setup/report.py" "$1")
  equal "node $2, local" "$3" "$("${report[@]}" "files.$2.local")"
  equal "node $2, remote" "$4" "$("${report[@]}" "files.$2.remote")"
  equal "node $2, cache" "$5" "$("${report[@]}" "files.$2.cache")"
}
"$python" "$root/tests/setup/fsindex.py" "$work/ds" >"$work/where"

say "two passes, the cache holds everything"
read_all 2 1200M "$work/large.json"
for node in 0 1; do
  here=$(on_node $node)
  say "node $node has $here files of 20000"
  if [ "$here" -le 9000 ] || [ "$here" -ge 11000 ]; then fail "not about half"; fi
  expect "$work/large.json" $node $((2 * here)) $((20000 - here)) $((20000 - here))
done
"$python" "$root/tests/setup/report.py" "$work/large.json" none-shared no-errors

say "one pass, a small cache, the partitions of the first job"
read_all 1 48M "$work/small.json"
for node in 0 1; do
  here=$(on_node $node)
  expect "$work/small.json" $node "$here" $((20000 - here)) 0
done
"$python" "$root/tests/setup/report.py" "$work/small.json" none-shared no-errors
no_leftovers
