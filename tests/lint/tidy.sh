#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# timeout: 1200
# clang-tidy with the checks of .clang-tidy, on all product code.
. "$(dirname "$0")/files.sh"
need clang-tidy
flags=(-std=gnu11 -D_GNU_SOURCE -Iinclude -Ilibfanstore)
read -ra mpi < <(mpicc --showme:compile 2>/dev/null || true)
sources 'libfanstore/*.c' 'fs-prepare/*.c' 'fs-launch/*.c' 'bench/*.c' |
  xargs -P "$(nproc)" -I{} sh -c 'f=$1; shift; o=$(clang-tidy --quiet "$f" -- "$@" 2>/dev/null) || { echo "$o"; exit 1; }' \
    sh {} "${flags[@]}" "${mpi[@]}" || complain "clang-tidy"
verdict
