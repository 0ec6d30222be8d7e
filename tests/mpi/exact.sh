#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# Every file and attribute from each of two nodes, by find, md5sum, tar, cp and diff; once with the partitions freshly
# staged and once with those that the first job left. The dataset is renamed away once it is staged, and no node can see
# the other's storage: what is not local comes as a message or not at all.
. "$(dirname "$0")/../functions.sh"
hide_other_nodes

make_tree "$work/source"
pack "$work/source" "$work/ds" --partitions 6 --mount "$mnt"
cat >"$work/node.sh" <<'END'
set -eu
mv "$1/ds" "$1/ds.away" 2>/dev/null || :
while [ -e "$1/ds" ]; do sleep 0.05; done
exec "$2/tests/setup/compare.sh" "$1/source" "$3" "$1/scratch.$OMPI_COMM_WORLD_RANK"
END
for round in staged reused; do
  say "$round"
  launch --dataset "$work/ds" --emulate 2 --np 2 --report "$work/$round.json" -- \
    "${hidden[@]}" bash "$work/node.sh" "$work" "$root" "$mnt"
  mv "$work/ds.away" "$work/ds"
  "$python" "$root/tests/setup/report.py" "$work/$round.json" every-node-remote none-shared no-errors
done
no_leftovers
