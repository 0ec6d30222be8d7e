#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# alone: how much room the disk has is compared
# rest: other numbers of nodes
# Room for outputs: --output-limit, a disk that is full, and what statfs says of both.
. "$(dirname "$0")/../functions.sh"
. "$(dirname "$0")/outputs.bash"

small_outputs_dataset

# What outputs_space.py's shells have lost: FILE ERROR.
lost_by_shells() {
  for bytes in 6 7; do
    grep -q "warning: node 1 .*: output file $1: $bytes bytes .* lost, node 0 did not take them: $2" "$work/err" ||
      fail "$bytes bytes, not told: $(cat "$work/err")"
  done
}

for n in $(half 2 4); do
  seen_on "$n" --output-limit 8M -- "$python" "$here/outputs_space.py" limit "$mnt" "$n" $((8 << 20))
  grep -q 'outputs take .*, and 8.0 MiB is the limit' "$work/err" || fail "not told: $(cat "$work/err")"
  lost_by_shells fill0 'Disk quota exceeded'
done
if rest; then
  launch --dataset "$work/ds" --emulate 1 --output-limit 512M --discard -- \
    "$python" "$here/outputs_space.py" late "$mnt" 1 $((512 << 20)) >"$work/out" 2>"$work/err" ||
    fail "$(tail -1 "$work/out") $(cat "$work/err")"
  cat "$work/out"
  exit 0
fi
expect_status 0 launch --dataset "$work/ds" --emulate 1 --output-limit 8M --discard -- \
  "$python" -c 'import sys, time; f = open(sys.argv[1] + "/most", "wb"); f.write(bytes(7600 << 10)); f.flush(); time.sleep(1.5)' "$mnt"
grep -q 'outputs take .*, and 8.0 MiB is the limit: beyond it, writes fail (EDQUOT; --output-limit)' "$work/err" ||
  fail "not told before: $(cat "$work/err")"
! grep -q 'no more is written' "$work/err" || fail "told too much: $(cat "$work/err")"
echo "ok - told before the limit is reached"

launch --dataset "$work/ds" --emulate 2 -- "$python" "$here/outputs_space.py" room "$mnt" 2 "$work" >"$work/out" 2>"$work/err" ||
  fail "$(tail -1 "$work/out") $(cat "$work/err")"
cat "$work/out"
launch --dataset "$work/ds" --emulate 2 --read-only -- "$python" "$here/outputs_space.py" none "$mnt" 2 0 2>"$work/err" ||
  fail "$(cat "$work/err")"
echo "ok - no room where nothing can be written"

# The nodes' storage is too small for what is written there.
if [ "$(id -u)" = 0 ] && unshare -m true 2>/dev/null; then
  for full in 0 1; do
    mkdir -p "$work/local" # node 1's is another file system than node 0's; one of them is small
    # shellcheck disable=SC2016
    unshare -m bash -c 'mkdir -p "$1/fanstore-node$2" && mount -t tmpfs -o size=6m none "$1/fanstore-node$2" && shift 2 && exec "$@"' - \
      "$work/local" $full "$bin/fs-launch" --local-dir "$work/local" --dataset "$work/ds" --emulate 2 --discard -- \
      "$python" "$here/outputs_space.py" full$full "$mnt" 2 0 2>"$work/err" >"$work/out" ||
      fail "full node $full: $(tail -1 "$work/out") $(cat "$work/err")"
    cat "$work/out"
    [ $full = 1 ] || lost_by_shells log 'No space left'
    [ $full = 1 ] || grep -q 'warning: node 1 .*: output file log: 5 bytes .* lost, node 0 did not take them: No space left' "$work/err" ||
      fail "not told: $(cat "$work/err")"
  done
else
  say "no mounts here: a full disk is not tried"
fi
