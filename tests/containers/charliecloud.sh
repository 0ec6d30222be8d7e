#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# Programs in Charliecloud's containers, with the options of fs-launch env --container charliecloud.
# The image is a directory. ch-run shares TMPDIR as /tmp, so once more with another TMPDIR.
. "$(dirname "$0")/../functions.sh"
. "$(dirname "$0")/functions.bash"
need_systems
need_command ch-run
export USER=${USER:-$(id -un)}
from=("$work/image" --)
mkdir "$work/image"
mount -t tmpfs tmpfs "$work/image" # ch-run --write makes directories there for the binds
undo() { umount -l "$work/image"; }
image "$(system_root bullseye)" | tar -C "$work/image" -x
contained() {
  local options=$1
  shift
  # shellcheck disable=SC2086 # as users give the options
  ch-run --write $options "${from[@]}" "$@"
}
contained "" true || skip "ch-run does not work here"
containers_dataset
begin_job
reads own-tmp "$(f env "$job" --container charliecloud)"
(
  unset TMPDIR
  reads shared-tmp "$(f env "$job" --container charliecloud)"
)
dies killed "$(f env "$job" --container charliecloud)"
end_job
kept own-tmp
kept shared-tmp
served_by_daemons
echo "ok - what a container reads and writes; locks of killed programs"

by_command charliecloud ch-run --write
echo "ok - ch-run as COMMAND"
