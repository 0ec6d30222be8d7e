#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# Nothing unfinished and nothing of the machine it was written on: no marks for later work, no build-machine paths, no
# trailing blanks, no tabs in C, no CR line ends. Each page of docs that is named somewhere exists. Prose in Markdown has at
# most 100 columns; tables and code may have more.
. "$(dirname "$0")/files.sh"

mapfile -t files < <(sources '*' | grep -v '^tests/golden/')
search() { # WHAT PATTERN FILE...
  local what=$1 pattern=$2 hit
  shift 2
  while IFS= read -r hit; do complain "$what: $hit"; done < <(grep -nIE "$pattern" "$@" /dev/null || true)
}
search 'unfinished' '\b(TO''DO|FIX''ME|XX''X:|HA''CK:)' "${files[@]}"
search 'path of a build machine' '(^|[^A-Za-z0-9_.}*$-])/(wo''rk|ro''ot|tmp/br''ief)(/|[^A-Za-z0-9_/]|$)' "${files[@]}"
search 'trailing blank' '[ 	]+$' "${files[@]}"
search 'CR line end' $'\r$' "${files[@]}"
mapfile -t c < <(sources '*.c' '*.h')
[ ${#c[@]} -eq 0 ] || search 'tab' '	' "${c[@]}"
mapfile -t markdown < <(sources '*.md')
while IFS= read -r hit; do complain "more than 100 columns: $hit"; done < <(
  awk 'FNR == 1 { code = 0 } /^ *```/ { code = !code } !code && !/^ *\|/ && !/^    / && length($0) > 100 { print FILENAME ":" FNR }' "${markdown[@]}"
)
# In docs a page is named relative to the page that names it, elsewhere from the top.
while IFS=: read -r file page; do
  [ -f "$page" ] || complain "$file names $page, which is not there"
done < <(printf '%s\0' "${files[@]}" | xargs -0 grep -HoIE 'docs/[A-Za-z/-]+\.(md|1)\b' /dev/null | sort -u)
for file in docs/*.md docs/*/*.md; do
  while IFS= read -r page; do
    [ -f "${file%/*}/$page" ] || [ -f "$page" ] || [ -f "docs/$page" ] || complain "$file names $page, which is not there"
  done < <(grep -oE '[A-Za-z./-]*[A-Za-z-]\.md\b' "$file" | sort -u)
done
verdict
