#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# timeout: 1500
# clang-tidy with the checks of .clang-tidy, on all product code (with LINT_COMMITS on recent files), or on the files that
# are given. Leaks are left to the sanitizers and valgrind: clang 14 does not know cleanup attributes. The analyzer gives a
# function up after TIDY_NODES states (50000): a third of the time of its own default, 225000.
. "$(dirname "$0")/files.sh"
need clang-tidy
flags=(-std=gnu11 -D_GNU_SOURCE -Iinclude -Ilibfanstore -Xclang -analyzer-config -Xclang "max-nodes=${TIDY_NODES:-50000}")
read -ra mpi < <(mpicc --showme:compile 2>/dev/null || true)
if [ $# -gt 0 ]; then files=("$@"); else
  mapfile -t files < <(recent 'libfanstore/*.c' 'fs-prepare/*.c' 'fs-launch/*.c' 'bench/*.c')
fi
while IFS= read -r line; do complain "${line#"$PWD/"}"; done < <(
  printf '%s\n' "${files[@]}" | xargs -P "$(nproc)" -I{} sh -c 'f=$1; shift; clang-tidy --quiet "$f" -- "$@" 2>/dev/null' \
    sh {} "${flags[@]}" "${mpi[@]}" | grep -aE '(error|warning): .*\[' | sort -u)
verdict
