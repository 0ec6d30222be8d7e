#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# timeout: 400
# long: 60
# slow
# torchvision's ImageFolder under DataLoaders without workers, with forked and with spawned and persistent ones: the same
# tensors in the same order as from the plain directory, from a path where no directory is. With the library alone, and on
# two emulated nodes with the dataset renamed away.
. "$(dirname "$0")/../functions.sh"
need_module torch torchvision PIL

"$python" "$root/tests/demo/images.py" "$work/source" 240 8
pack "$work/source" "$work/ds" --partitions 4 --mount "$mnt"
images=$root/tests/posix/torch_imagefolder.py
"$python" "$images" "$work/source/train" >"$work/expected"
cat "$work/expected"
[ "$(sort -u "$work/expected" | wc -l)" = 6 ] || fail "not six lines"
mv "$work/source" "$work/source.away"

say "the library alone"
plain "$work/ds" "$mnt" "$python" "$images" "$mnt/train" >"$work/plain"
diff "$work/expected" "$work/plain" || fail "the library alone differs"

say "two nodes"
cat >"$work/node.sh" <<'END'
set -eu
mv "$1/ds" "$1/ds.away" 2>/dev/null || :
while [ -e "$1/ds" ]; do sleep 0.05; done
exec "$2" "$3" "$4/train" >"$1/node.$OMPI_COMM_WORLD_RANK"
END
launch --dataset "$work/ds" --emulate 2 --np 2 --report "$work/report.json" -- \
  bash "$work/node.sh" "$work" "$python" "$images" "$mnt"
for rank in 0 1; do
  diff "$work/expected" "$work/node.$rank" || fail "node $rank differs"
done
"$python" "$root/tests/setup/report.py" "$work/report.json" every-node-remote none-shared no-errors
no_leftovers
