#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# slow
# long: 60
# fs-prepare pack over emulated nodes that is killed at random moments: the lead, another rank, mpirun, fs-launch. The
# same command goes on, and the dataset has the bytes of a run that was not interrupted. A run that is killed in its
# last moments has made DATASET, hence --force. What cannot be resumed begins anew, and says why.
. "$(dirname "$0")/../functions.sh"
nodes=3
. "$(dirname "$0")/pack_resume.bash"

kill_pack launch 20 ds
[ "${ended% *}" = ended ] || fail "the pack takes 20 s"
took=${ended#* } # milliseconds
killed=0 resumed=0 turn=0
victims=(lead rank mpirun launch)
# Kills a pack until it ends, and counts.
kills() {
  local at
  rm -rf ds local/*
  for _ in {1..5}; do
    at=$((took * (RANDOM % 80 + 5) / 100))
    kill_pack "${victims[turn++ % 4]}" "$(printf '%d.%03d' $((at / 1000)) $((at % 1000)))" ds --force
    if grep -q resuming err; then resumed=$((resumed + 1)); fi
    if [ "$ended" != killed ]; then
      took=$((took * 4 / 5))
      return 0
    fi
    killed=$((killed + 1))
  done
  expect_status 0 "${pack[@]}" "${more[@]}" --force source ds
}
SECONDS=0
while [ $killed -lt 16 ] && [ $turn -lt 30 ] && [ $SECONDS -lt 120 ]; do # a slow machine kills fewer
  more=()
  kills
  same ds
  more=(--nodes-only)
  kills
  same ds
done
[ $killed -ge 5 ] || fail "only $killed runs were killed"
[ $resumed -ge 2 ] || fail "only $resumed runs were resumed"
echo "ok - killed $killed times, resumed $resumed times: the same bytes"

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
