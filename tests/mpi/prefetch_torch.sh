#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# long: 40
# slow
# --prefetch torch and idle: DataLoaders give the same batches and leave torch's random numbers as without it, and most files of the other
# node are in the node's cache before they are read. Other programs, and a sitecustomize of the user's, work as without it.
. "$(dirname "$0")/../functions.sh"
python=/usr/bin/python3 # Debian's has torch
"$python" -c 'import torch' 2>/dev/null || skip "no torch for $python"

random_files "$work/source" 500 10 20000
pack "$work/source" "$work/ds" --partitions 8 --mount "$mnt"
mv "$work/source" "$work/source.away"
train() { # CASE [OPTION...]
  local how=$1
  shift
  launch --dataset "$work/ds" --emulate 2 --report "$work/r.json" "$@" -- "$python" "$root/tests/mpi/prefetch_torch.py" "$how" "$mnt"
}

train cases >"$work/plain" 2>"$work/err" || fail "$(cat "$work/err")"
train cases --prefetch torch >"$work/ahead" 2>"$work/err" || fail "$(cat "$work/err")"
diff "$work/plain" "$work/ahead" || fail "other batches"
[ "$(wc -l <"$work/plain")" -gt 50 ] || fail "$(wc -l <"$work/plain") lines"
[ "$(json "$work/r.json" "r['nodes'][0]['prefetched']")" -gt 100 ] || fail "nothing was fetched ahead"
grep '^fanstore: ' "$work/err" >"$work/told"
one_line "$work/told" "^fanstore: no prefetching: IndexError.*"
echo "ok - the same batches, and random numbers; a dataset whose paths are wrong is told once"
LOCAL_WORLD_SIZE=16 train limits --prefetch torch >"$work/out" 2>"$work/err" || fail "$(cat "$work/err")"
if grep '^fanstore: ' "$work/err"; then fail "a dataset without paths is told"; fi
echo "ok - the programs of a node share the window; files elsewhere are not looked at"

# Each message takes 3 ms.
export FANSTORE_TEST_DELAY_US=3000
waited() { json "$work/r.json" "r['nodes'][0]['blocks_remote']"; }
train epoch 2>"$work/err" || fail "$(cat "$work/err")"
plain=$(waited)
train epoch --prefetch torch 2>"$work/err" || fail "$(cat "$work/err")"
ahead=$(waited)
[ "$plain" -gt 200 ] || fail "$plain reads waited without it"
[ "$ahead" -lt $((plain / 4)) ] || fail "$ahead reads waited, $plain without it"
echo "ok - reads that had to ask the other node: $plain, with --prefetch torch $ahead"
train pauses 2>"$work/err" || fail "$(cat "$work/err")"
plain=$(waited)
train pauses --prefetch idle 2>"$work/err" || fail "$(cat "$work/err")"
idle=$(waited)
[ "$idle" -lt $((plain / 2)) ] || fail "--prefetch idle: $idle reads waited, $plain without it"
echo "ok - the same, steps of 50 ms: $plain, with --prefetch idle $idle"
train smaller --cache 3M 2>"$work/err" || fail "$(cat "$work/err")"
plain=$(waited)
train smaller --cache 3M --prefetch torch 2>"$work/err" || fail "$(cat "$work/err")"
ahead=$(waited) fetched=$(json "$work/r.json" "r['nodes'][0]['fetched']")
[ "$ahead" -lt $((plain / 2)) ] || fail "a small cache: $ahead reads waited, $plain without it"
train smaller --cache 3M --cache-disk 32M --prefetch torch,idle 2>"$work/err" || fail "$(cat "$work/err")"
disk=$(waited)
[ "$disk" -lt 125 ] || fail "a small cache and the disk: $disk reads waited"
both=$(json "$work/r.json" "r['nodes'][0]['fetched']") # hints push residents out, which are then fetched once more
[ "$both" -le 500 ] || fail "$both blocks were fetched, $fetched without the disk"
echo "ok - a cache smaller than the other node's files: reads that waited $plain, $ahead, with --cache-disk $disk; fetched $fetched, $both"
unset FANSTORE_TEST_DELAY_US

mkdir "$work/own"
echo 'import builtins; builtins.own = "own"' >"$work/own/sitecustomize.py"
run() { launch --dataset "$work/ds" --emulate 2 --prefetch torch -- "$@" 2>"$work/err" || fail "$*: $(cat "$work/err")"; }
equal "a sitecustomize of the user's" own "$(PYTHONPATH=$work/own run "$python" -c 'print(own)')"
equal "and the rest of PYTHONPATH" "$work/own" "$(PYTHONPATH=$work/own run "$python" -c 'import sys; print(*[p for p in sys.path if p.endswith("/own")])')"
echo 'raise ImportError("of the user'"'"'s")' >"$work/own/sitecustomize.py"
PYTHONPATH=$work/own run "$python" -c 'print(1)' >"$work/out"
grep -q "of the user's" "$work/err" || fail "an error in it is not told: $(cat "$work/err")"
for option in -I -E -S -X; do
  [ $option != -X ] || option='-X utf8'
  # shellcheck disable=SC2086 # words
  equal "python3 $option" 3 "$(run "$python" $option -c 'print(1 + 2)')"
done
equal "without torch" "1 0" "$(run "$python" -c 'import sys, json; print("sitecustomize" in sys.modules and 1, len([m for m in sys.modules if "torch" in m]))')"
equal "looked for before it is imported" True "$(run "$python" -c 'import importlib.util
importlib.util.find_spec("torch.utils.data.dataloader")
import torch.utils.data.dataloader as d; print("fanstore" in d._BaseDataLoaderIter.__init__.__module__)')"
equal "of two nodes" 2 "$(launch --dataset "$work/ds" --emulate 2 --prefetch torch --np 2 -- \
  "$python" -c 'import sys; print(type(sys.meta_path[0]).__name__)' 2>/dev/null | grep -o Finder | wc -l)" # the lines of two processes may mix
expect_status 2 launch --dataset "$work/ds" --prefetch tensorflow -- true
one_line "$work/err" '^fs-launch: --prefetch tensorflow: give torch, idle or torch,idle$'
no_leftovers
