#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# docs/tutorial.md: its commands, in order in an empty directory, print what the page shows.
. "$(dirname "$0")/../functions.sh"

mkdir "$work/ada"
cd "$work/ada"
PATH=$bin:/usr/bin:$PATH "$python" "$root/tests/mpi/pages.py" "$root/docs/tutorial.md"
