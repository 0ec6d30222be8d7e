#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# long: 20
# rest: 16 more moments, and what cannot be resumed
# fs-prepare pack over emulated nodes that is killed at random moments between its begin and its end: all processes at once, the
# lead, another rank, mpirun, fs-launch. The same command goes on, and the dataset has the bytes of a run that was not
# interrupted. A run that is killed in its last moments has made DATASET, hence --force. pack_kill_steps.sh kills it at each
# step. What cannot be resumed begins anew, and says why. FS_SEED=N repeats the moments.
. "$(dirname "$0")/../functions.sh"
nodes=3 codec=zstd:12 seed=${FS_SEED:-$((${EPOCHREALTIME/./} % 32768))}
. "$(dirname "$0")/pack_resume.bash"
RANDOM=$seed
say "FS_SEED=$seed"

fresh() { rm -rf ds local/*; }
safe() { # DATASET is not there, or whole
  [ ! -e ds ] || diff ds/manifest whole/manifest || fail "DATASET is not whole"
}
packed() {
  same ds
  good ds
}
measure fresh --force
wanted=$(half 2 8)
[ "${FS_HALF-}" != all ] || wanted=10
say "a run takes $took ms"
for each in '' --nodes-only; do
  # shellcheck disable=SC2206 # a word or none
  more=($each)
  kill_often "$wanted" fresh safe packed --force
done
echo "ok - killed $killed times, $resumed runs went on from a checkpoint: the same bytes"
rest || [ "${FS_HALF-}" = all ] || exit 0

more=()
damage() { # FILE...
  local file
  for file in "$@"; do printf x | dd of="$file" bs=1 seek=4096 conv=notrunc status=none; done
}
for case in 'nodes:it had other options or nodes' 'local:what node [0-2] (.*) has of it is damaged' \
  'shared:what node [0-2] (.*) has of it is damaged' 'restart:'; do
  rm -rf ds local/*
  kill_pack int c ds
  equal "$case" killed "$ended"
  words=("${pack[@]}")
  case ${case%%:*} in
    nodes) words+=(--emulate 2) ;;
    local) damage local/*/.pack-*/part-* ;;
    shared) damage .ds.partial-*/part-* ;;
    restart) words+=(--restart) ;;
  esac
  expect_status 0 "${words[@]}" source ds
  if [ -n "${case#*:}" ]; then
    one_line err "the interrupted pack of .*/ds is not resumed, because ${case#*:}; this one begins anew$"
  else
    [ ! -s err ] || fail "--restart says something: $(cat err)"
  fi
  if [ "${case%%:*}" = nodes ]; then # the node that is no longer one
    expect_status 0 "$bin/fs-launch" clean --local-dir local
    one_line err 'removed .*/fanstore-node2/.pack-[2-7a-z]*-2, '
  fi
  equal "left" "" "$(left)"
  "$bin/fs-prepare" verify --local-dir local ds >out || fail "$case: $(cat out)"
done
no_leftovers
echo "ok - what cannot be resumed begins anew, and says why"
