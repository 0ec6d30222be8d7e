#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# timeout: 240
# Hints on two emulated nodes: what was hinted by posix_fadvise, readahead or fanstore_prefetch is then read from the
# node's cache with no message, by the daemons' counters; 10,000 hints do not hold up a read, nor end in the shared copy.
. "$(dirname "$0")/../functions.sh"

random_files "$work/source" 10400 50 2000
head -c 4194304 /dev/urandom >"$work/source/large"
pack "$work/source" "$work/ds" --partitions 8 --mount "$mnt"
mv "$work/source" "$work/source.away"

hints() { # HOW
  launch --dataset "$work/ds" --emulate 2 --report "$work/r.json" -- "$python" "$root/tests/mpi/prefetch.py" "$1" "$mnt" \
    2>"$work/err" || { cat "$work/err"; fail "$1"; }
  equal "$1: fallbacks" 0 "$(json "$work/r.json" "r['total']['fallbacks']")"
  equal "$1: timeouts" 0 "$(json "$work/r.json" "r['total']['timeouts']")"
}
for how in fadvise readahead api; do
  hints $how
  equal "$how: remote reads" 0 "$(json "$work/r.json" "r['total']['blocks_remote']")"
  [ "$(json "$work/r.json" "r['nodes'][0]['prefetched']")" -ge 1500 ] || fail "$how: prefetched"
  [ "$(json "$work/r.json" "r['nodes'][1]['served']")" -ge 1500 ] || fail "$how: served"
  echo "ok - $how: read from the cache, without a message"
done
FANSTORE_TEST_DELAY_US=10000 hints overtake
equal "messages waited for" 1 "$(json "$work/r.json" "r['total']['blocks_remote']")"
echo "ok - a read overtakes 10,000 hints"
no_leftovers
