#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# Every source file names its licence in its first three lines, and C files say what they are for in a comment.
. "$(dirname "$0")/files.sh"

while IFS= read -r line; do complain "$line"; done < <(
  sources '*.c' '*.h' '*.S' '*.sh' '*.py' '*.mk' '*.pml' Makefile '.ci/*' '*.1' | xargs awk '
  function judge() {
    if (file == "") return
    if (!licence) print file ": no SPDX line at its top"
    if (file ~ /\.[ch]$/ && !purpose) print file ": no comment under its SPDX line"
  }
  FNR == 1 { judge(); file = FILENAME; licence = purpose = 0 }
  FNR <= 3 && /SPDX-License-Identifier: BSD-3-Clause/ { licence = 1 }
  (FNR == 2 || FNR == 3) && /^(\/\*|\/\/|#include)/ { purpose = 1 }
  END { judge() }')
verdict
