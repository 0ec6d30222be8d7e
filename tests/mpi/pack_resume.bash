# shellcheck shell=bash
# SPDX-License-Identifier: BSD-3-Clause
# What the tests of packs and updates over nodes that are killed share: they set `nodes`.
# shellcheck disable=SC2154 # nodes
cd "$work" || exit 1
"$python" "$root/tests/prepare/resume_source.py" 600 $((2 << 20)) 900001
mkdir local
options=(--jobs 1 --codec "${codec:-lz4hc:9}" --partitions 5 --replicate '*7')
"$bin/fs-prepare" pack "${options[@]}" source whole >pack.log || fail "$(cat pack.log)"
grep -q 'equal pieces of large files' pack.log || fail "$(cat pack.log)"
pack=("$bin/fs-prepare" pack --emulate "$nodes" --local-dir local "${options[@]}")
export FANSTORE_TEST_CHECKPOINT_MS=20
# Options of this pack, as --nodes-only.
more=()
# What is packed.
from=source
# kill_pack WHOM WHEN DATASET [OPTION...]: words are for pack_kill.py; sets `ended` to its answer
kill_pack() {
  "$python" "$root/tests/mpi/pack_kill.py" "$1" "$2" "${pack[@]}" "${more[@]}" "${@:4}" "$from" "$3" >out 2>err || fail "$(cat err)"
  ended=$(tail -n 1 out)
}
# Temporary directories and journals, beside DATASET and on the nodes.
left() { find . local -maxdepth 2 \( -name '.pack-*' -o -name '.*.partial-*' -o -name '.*.old-*' -o -name journal \); }
id_of() { sed -n 's/^dataset_id //p' "$1/manifest"; }
# same DATASET: index and manifest, and each copy of a partition, are those of a run that was not interrupted
same() {
  local name
  for name in index manifest; do cmp "whole/$name" "$1/$name" || fail "$1/$name differs"; done
  [ ${#more[@]} != 0 ] || diff -r whole "$1" >diff.out || fail "$(cat diff.out)"
  for name in local/*/"$(id_of whole)"/part-*[0-9]; do
    cmp "whole/${name##*/}" "$name" || fail "$name differs"
  done
  equal "copies on the nodes" $((5 + nodes)) "$(find local -name 'part-*[0-9]' | wc -l)"
  equal "left" "" "$(left)"
}
# good DATASET: each node has its copies of it, and nothing else of it
good() {
  "$bin/fs-prepare" verify --local-dir local "$1" >verify.out || fail "$(cat verify.out)"
  equal "nodes with good copies" "$nodes" "$(grep -c "$(id_of "$1"): good: " verify.out)"
  equal "left by the staging" "" "$(find local -name '.new-*')"
}

# Updates. update_begin makes, with the options `more`, `old`, a dataset of the nodes, `local.old`, their copies, and `new`, which
# is what one process makes of `old` by an update from `changed`.
update_begin() {
  rm -rf old local.old new local changed
  mkdir local
  cp -a source changed
  "$python" "$root/tests/prepare/resume_change.py" changed 600 6
  "$python" - <<'PY'
import random
random.seed(32)
words = [random.randbytes(random.randrange(2, 9)).hex().encode() for i in range(3000)]
for i in range(4):
    with open("changed/more%d" % i, "wb") as f: f.write(b" ".join(random.choice(words) for _ in range(200000)))
PY
  "${pack[@]}" "${more[@]}" source old >out 2>err || fail "$(cat err)"
  mv local local.old
  mkdir local
  cp -a whole new
  "$bin/fs-prepare" pack "${options[@]}" --update changed new >out 2>err || fail "$(cat err)"
  [ "$(id_of new)" != "$(id_of old)" ] || fail "nothing is updated"
  from=changed
}
update_again() { # what is there before an update
  rm -rf ds local
  cp -al old ds
  cp -al local.old local
}
update_safe() { # after a kill, DATASET is the old one and the nodes have all their copies, or DATASET is the new one
  local name names=(new/index)
  [ ${#more[@]} != 0 ] || names=(new/index new/part-*)
  if [ "$(id_of ds)" = "$(id_of new)" ]; then
    for name in "${names[@]}"; do cmp "$name" "ds/${name##*/}" || fail "DATASET has its name and is not whole"; done
  else
    diff -r old ds >diff.out || fail "a killed update has changed the old dataset: $(cat diff.out)"
  fi
  for name in local.old/*/"$(id_of old)"/*; do
    [ "$name" -ef "local/${name#*/}" ] || fail "a killed update has changed $name"
  done
}
update_done() {
  local name
  for name in index manifest; do cmp "new/$name" "ds/$name" || fail "ds/$name differs"; done
  if [ ${#more[@]} = 0 ]; then
    diff -r new ds >diff.out || fail "$(cat diff.out)"
  else
    equal "without DATASET" "index manifest" "$(cd ds && echo *)"
  fi
  equal "left" "" "$(left)"
  good ds
}

victims=(all rank launch lead all mpirun rank launch)
# measure FRESH [OPTION...]: sets `took`, the milliseconds of a run that nobody kills
measure() {
  "$1"
  kill_pack launch 60 ds "${@:2}"
  [ "${ended% *}" = ended ] || fail "it takes a minute"
  took=${ended#* }
}
# kill_often WANTED FRESH SAFE DONE [OPTION...]: kills runs at random moments of `took`. The same command begins each again, and is
# killed again or ends. It goes on until WANTED runs were killed, and a quarter as many have gone on from a checkpoint. FRESH
# makes what is there before the first run, SAFE and DONE check what is there after a kill and at the end. Adds to `killed` and
# `resumed`.
killed=0 resumed=0
kill_often() {
  local wanted=$1 fresh=$2 safe=$3 done=$4 k=$killed r=$resumed runs=0 times at whom
  shift 4
  while [ $((killed - k)) -lt "$wanted" ] || [ $(((resumed - r) * 4)) -lt "$wanted" ]; do
    [ $runs -lt $((8 * wanted)) ] || fail "of $runs runs, only $((killed - k)) were killed, and $((resumed - r)) resumed"
    "$fresh"
    ended=killed
    for times in 1 2 3 4; do
      at=$((took * (RANDOM % 1000) / 1000))
      whom=${victims[runs++ % ${#victims[@]}]}
      kill_pack "$whom" "$(printf '%d.%03d' $((at / 1000)) $((at % 1000)))" ds "$@"
      say "$whom at $at ms: $ended: $(paste -s err)"
      ! grep -q resuming err || resumed=$((resumed + 1))
      [ "$ended" = killed ] || break
      killed=$((killed + 1))
      "$safe"
      [ $((killed - k)) -lt "$wanted" ] || break
    done
    if [ "$ended" = killed ]; then
      expect_status 0 "${pack[@]}" "${more[@]}" "$@" "$from" ds
      ! grep -q resuming "$work/err" || resumed=$((resumed + 1))
    elif [ $times = 1 ]; then
      took=${ended#* } # the machine is less busy now
    fi
    "$done"
  done
}
