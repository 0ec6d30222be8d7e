#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# timeout: 120
# docs/tutorial.md: its commands, in order in an empty directory, print what the page shows.
. "$(dirname "$0")/../functions.sh"

# mpirun may put a line of one process into another's: then the page is run again.
page() {
  mkdir "$work/$1"
  (cd "$work/$1" && PATH=$bin:/usr/bin:$PATH "$python" "$root/tests/mpi/pages.py" "$root/docs/tutorial.md")
}
page ada || page ada2
