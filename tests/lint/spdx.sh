#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# Every source file names its licence in its first three lines, and C files say what they are for in a comment.
. "$(dirname "$0")/files.sh"

for file in $(sources '*.c' '*.h' '*.S' '*.sh' '*.py' '*.mk' '*.pml' Makefile '.ci/*' '*.1'); do
  head -n 3 "$file" | grep -q 'SPDX-License-Identifier: BSD-3-Clause' || complain "$file: no SPDX line at its top"
  case $file in
    *.[ch]) sed -n '2,3p' "$file" | grep -qE '^(/\*|//|#include)' || complain "$file: no comment under its SPDX line" ;;
  esac
done
verdict
