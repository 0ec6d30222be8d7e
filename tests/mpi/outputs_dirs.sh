#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# timeout: 300
# Output directories are renamed to other parents, by nodes of 2 and of 4, and no directory ends up below itself.
. "$(dirname "$0")/../functions.sh"
. "$(dirname "$0")/outputs.bash"

small_outputs_dataset
for n in 2 4; do
  # shellcheck disable=SC2016
  seen_on $n -- bash -c 'mkdir "$2/dirs" && "$4" "$1" "$2" "$3"' - "$here/outputs_dirs.py" "$mnt" $n "$python"
done
