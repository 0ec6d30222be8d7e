# shellcheck shell=bash
# SPDX-License-Identifier: BSD-3-Clause
# What pack_resume.sh and pack_resume_kills.sh share: they set `nodes`.
# shellcheck disable=SC2154 # nodes
cd "$work" || exit 1
"$python" "$root/tests/prepare/resume_source.py" 600 $((2 << 20)) 900001
mkdir local
options=(--jobs 1 --codec lz4hc:9 --partitions 5 --replicate '*7')
"$bin/fs-prepare" pack "${options[@]}" source whole >pack.log || fail "$(cat pack.log)"
grep -q 'equal pieces of large files' pack.log || fail "$(cat pack.log)"
pack=("$bin/fs-prepare" pack --emulate "$nodes" --local-dir local "${options[@]}")
export FANSTORE_TEST_CHECKPOINT_MS=20
# Options of this pack, as --nodes-only.
more=()
# kill_pack WHOM WHEN DATASET [OPTION...]: words are for pack_kill.py; sets `ended` to its answer
kill_pack() {
  "$python" "$root/tests/mpi/pack_kill.py" "$1" "$2" "${pack[@]}" "${more[@]}" "${@:4}" source "$3" >out 2>err || fail "$(cat err)"
  ended=$(tail -n 1 out)
}
# Temporary directories, beside DATASET and on the nodes.
left() { find . local -maxdepth 2 \( -name '.pack-*' -o -name '.*.partial-*' \); }
# same DATASET: index and manifest, and each copy of a partition, are those of a run that was not interrupted
same() {
  local name
  for name in index manifest; do cmp "whole/$name" "$1/$name" || fail "$1/$name differs"; done
  [ ${#more[@]} != 0 ] || diff -r whole "$1" >diff.out || fail "$(cat diff.out)"
  for name in local/*/"$(sed -n 's/^dataset_id //p' whole/manifest)"/part-*[0-9]; do
    cmp "whole/${name##*/}" "$name" || fail "$name differs"
  done
  equal "copies on the nodes" $((5 + nodes)) "$(find local -name 'part-*[0-9]' | wc -l)"
  equal "left" "" "$(left)"
}
