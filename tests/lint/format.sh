#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# timeout: 1500
# All C sources are as clang-format leaves them. Versions differ in details; 14 is the one that is held to.
. "$(dirname "$0")/files.sh"
need clang-format
case $(clang-format --version) in
  *"version 14."*) ;;
  *) echo "needs clang-format 14"; exit 77 ;;
esac
while read -r n file; do complain "$file: $n places; make format"; done < <(
  sources '*.c' '*.h' | xargs clang-format --dry-run -Werror 2>&1 | grep -E 'error:' | cut -d: -f1 | sort | uniq -c)
verdict
