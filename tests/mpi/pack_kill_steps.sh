#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# long: 30
# rest: the other steps
# fs-prepare pack and pack --update over emulated nodes that are killed at each step of docs/internals/pack-nodes.md: a rank stops
# itself before it (stop_at.c). Then all processes are killed at once, or that rank, or fs-launch. The same command gives the bytes
# of a run that was not interrupted. Until the new dataset has its name, the old one and its copies are whole.
. "$(dirname "$0")/../functions.sh"
cc -shared -fPIC -o "$work/stop_at.so" "$(dirname "$0")/stop_at.c" -ldl
nodes=3
. "$(dirname "$0")/pack_resume.bash"

# Steps as stop_at.c takes them: RANK CALL NUMBER PATTERN.
adopt='1 link 2 */part-*[0-9]'          # ADOPT: one partition of rank 1 has a staged copy, and one has not
journal='0 unlink 1 */ds/journal'       # the new dataset has its name
early=(
  '0 mkdir 1 *.partial-*'               # nothing is walked
  '1 mkdir 1 */.pack-*-1'               # OPEN
  '1 fsync 1 */.pack-*-1'               # SYNC: the partitions of this node are on disk
)
sealed=(
  '0 fdatasync 3 *.partial-*/journal'   # a later checkpoint: they are on all nodes
  '1 fsync 1 */.pack-*/part-*'          # SEAL: FINISH is done
  '0 fsync 1 *.partial-*/index'         # SEAL is done
  '0 fsync 1 *.partial-*/manifest'      # the directory is complete
)
adopted=(
  '1 link 1 */part-*[0-9]'              # ADOPT: no partition has a copy
  '1 fsync 1 */.new-part-*.stamp'       # one has one without a stamp
  '1 fsync 1 */.new-index'              # all have one
  '1 rename 1 */index.stamp'            # and the index, but for its stamp
  '0 rename 1 */ds'                     # ADOPT is done
)
named=(
  '0 unlink 1 *.partial-*/index'         # a part of the older dataset is removed
  '1 unlink 1 */.pack-*/dataset'        # END
)

# A user cannot write files of mode 0400, and root can.
as_user=(setpriv --bounding-set=-dac_override)
if [ "$(id -u)" != 0 ] || ! "${as_user[@]}" true 2>/dev/null; then as_user=(); fi

stop() { # WHOM STEP
  FANSTORE_MPIRUN_ARGS="-x LD_PRELOAD=$work/stop_at.so -x STOP_AT" STOP_AT=$2 kill_pack "$1" s ds "$option"
  equal "$1 at $2" killed "$ended"
}
# kill_at TEXT STEP...: kills a run at each step; the next one says TEXT. After the death of fs-launch, the ranks may go on to any
# later step.
i=0
kill_at() {
  local text step whom said
  for step in "${@:2}"; do
    text=$1
    whom=${victims[i++ % ${#victims[@]}]}
    "$fresh"
    stop "$whom" "$step"
    say "$whom at $step: $(sed 's/^fs-prepare: //' err)"
    "$safe"
    expect_status 0 "${as_user[@]}" "${pack[@]}" "${more[@]}" "$option" "$from" ds
    said=$(cat "$work/err")
    [ "$whom" != launch ] || text=$said
    # shellcheck disable=SC2053 # a pattern
    [[ $said = $text ]] || fail "$whom at $step: $said"
    [[ $said != *anew* ]] || fail "$whom at $step: $said"
    "$done"
  done
}
on='fs-prepare: resuming: * are packed already'

packs() {
  fresh() { rm -rf ds local/*; }
  safe() { [ ! -e ds ] || diff ds/manifest whole/manifest || fail "DATASET is not whole"; }
  packed() { same ds && good ds; }
  fresh=fresh safe=safe done=packed option=--force
}
updates() {
  update_begin
  fresh=update_again safe=update_safe done=update_done option=--update
}
packs
victims=(all rank launch)
if ! rest; then
  kill_at "$on" "$adopt"
  kill_at '' "$journal"
  updates
  kill_at "$on" "$adopt"
  kill_at '' "$journal"
  echo "ok - a pack and an update that are killed when they make staged copies, and when DATASET has its name"
fi
if rest || [ "${FS_HALF-}" = all ]; then
  packs
  victims=(rank all) i=0
  kill_at '' "${early[@]}"
  kill_at "$on" "${sealed[@]}" "${adopted[@]}"
  kill_at '' "${named[1]}"
  # A staged copy may have other names. From an older checkpoint, which --keep-going can leave, other bytes might be written.
  "$fresh"
  stop all "${adopted[4]}"
  "$python" - .ds.partial-*/journal <<'PY'
import os, struct, sys
with open(sys.argv[1], "rb+") as f:
    f.seek(40)
    os.truncate(f.fileno(), 40 + struct.unpack("<Q", f.read(8))[0]) # the first record
PY
  ln local/fanstore-node1/*/part-00001 link
  written=$(stat -c %y link)
  expect_status 0 "${pack[@]}" "$option" source ds
  one_line "$work/err" 'because what node [0-2] (.*) has of it is damaged; this one begins anew$'
  equal "time of a staged copy" "$written" "$(stat -c %y link)"
  "$done"
  echo "ok - a pack that is killed at each step"
  updates
  victims=(all rank) i=0
  kill_at '' "${early[@]}"
  kill_at "$on" "${sealed[@]}" "${adopted[@]}"
  kill_at '' "${named[@]}"
  echo "ok - an update that is killed at each step"
  more=(--nodes-only)
  updates
  victims=(launch all rank) i=0
  kill_at "$on" "$adopt" "${adopted[4]}"
  kill_at '' "$journal" "${named[@]}"
  echo "ok - an update of partitions that are on the nodes only"
fi
no_leftovers
