#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# slow
# long: 30
# docs/checkpoints.md and docs/howto: the commands of each page, in order in an empty directory, print what the page shows.
. "$(dirname "$0")/../functions.sh"
need_module torch numpy lmdb h5py
need_command torchrun

page() { # PAGE: its path, with + for /
  mkdir "$work/ada"
  cd "$work/ada"
  PATH=$bin:/usr/bin:$PATH "$python" "$root/tests/mpi/pages.py" "$root/docs/${1//+//}.md" || fail "$1"
}
mapfile -t pages < <(cd "$root/docs" && grep -lx '```sh' checkpoints.md howto/*.md | sed 's|\.md$||; s|/|+|')
[ ${#pages[@]} -ge 6 ] || fail "${#pages[@]} pages"
side_by_side page "${pages[@]}"
