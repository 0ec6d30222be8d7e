#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# Functions: half of them under 20 lines, nine in ten under 55, none over 100. Files: at most 500 lines. The sources
# are clang-format's, so a function begins with a line at column 0 that ends in '{' and ends with '}' there.
. "$(dirname "$0")/files.sh"

while read -r lines file; do complain "$file: $lines lines"; done < <(
  sources 'libfanstore/*.[chS]' 'fs-prepare/*.[ch]' 'fs-launch/*.[ch]' 'include/*.h' 'tests/*.[ch]' \
    'tests/*.sh' 'tests/*.py' 'bench/*.[ch]' 'bench/*.sh' 'bench/*.py' | xargs wc -l | awk '$1 > 500 && $2 != "total"')

lengths=$(sources 'libfanstore/*.[ch]' 'fs-prepare/*.[ch]' 'fs-launch/*.[ch]' 'bench/*.c' | xargs -r awk '
  FNR == 1 { start = 0; before = "" }
  /^[A-Za-z_].*\{$/ && !/^(struct|enum|union|typedef|extern)[^()]*\{$/ && !/= *\{$/ {
    start = FNR; name = $0 }
  /^    .*\{$/ && !start && before ~ /^[A-Za-z_][^;{]*[(,]/ { start = FNR; name = before }
  /^\}/ && start { print FNR - start + 1, FILENAME ":" start ": " name; start = 0 }
  /^[^ ]/ { before = $0 }')
[ -n "$lengths" ] || exit 0
while read -r length what; do complain "$length lines: $what"; done < <(awk '$1 > 100' <<<"$lengths")
read -r count median ninth < <(sort -n <<<"$lengths" | awk '{ n[NR] = $1 }
  END { print NR, n[int((NR + 1) / 2)], n[int(NR * 0.9)] }')
echo "$count functions, median $median lines, nine in ten within $ninth"
[ "$median" -lt 20 ] || complain "the median function has $median lines"
[ "${ninth:-0}" -lt 55 ] || complain "one function in ten has $ninth lines or more"
verdict
