#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# long: 20
# rest: other numbers of nodes
# Output directories are renamed to other parents, by nodes of 2 and of 4, and no directory ends up below itself; and
# their times, and those of a dataset's directories, move with the names in them.
. "$(dirname "$0")/../functions.sh"
. "$(dirname "$0")/outputs.bash"

small_outputs_dataset
packed=$(cd "$work/source" && find . -mindepth 1 -type d | sed 's|^\./||' | sort | head -1)
for n in $(half 2 4); do
  seen_on "$n" -- "$python" "$here/outputs_times.py" "$mnt" "$n" "$mnt/$packed"
  # shellcheck disable=SC2016
  seen_on "$n" -- bash -c 'mkdir "$2/dirs" && "$4" "$1" "$2" "$3"' - "$here/outputs_dirs.py" "$mnt" "$n" "$python"
done
