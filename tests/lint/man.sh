#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# The manual pages and --help name the same options, both ways, and the pages are well-formed.
. "$(dirname "$0")/files.sh"

options() { grep -oE -- '--[a-z][a-z-]+' | sort -u; }
help_of() { # TOOL
  "$build/bin/$1" --help
  if [ "$1" = fs-prepare ]; then
    for command in pack place verify info list diff unpack; do "$build/bin/$1" $command --help; done
  elif [ "$1" = fs-launch ]; then
    for command in attach clean doctor env jobs replay stats stop top; do "$build/bin/$1" $command --help; done
  fi
}
for tool in fs-prepare fs-launch fanstore-static; do
  page=docs/$tool.1
  [ -f "$page" ] || { complain "no $page"; continue; }
  helped=$(help_of $tool | options)
  [ -n "$helped" ] || complain "$tool --help names no option"
  written=$(sed 's/\\-/-/g; s/\\f[A-Z]//g' "$page" | options)
  while read -r o; do [ -z "$o" ] || complain "$page does not name $o"; done < <(comm -23 <(echo "$helped") <(echo "$written"))
  while read -r o; do [ -z "$o" ] || complain "$tool --help does not name $o"; done < <(comm -13 <(echo "$helped") <(echo "$written"))
done
if command -v man >/dev/null; then
  for page in $(sources 'docs/*.1'); do
    warnings=$(man --warnings -E UTF-8 -l -Tutf8 -Z "$page" 2>&1 >/dev/null) || true
    [ -z "$warnings" ] || complain "$page: $warnings"
  done
fi
verdict
