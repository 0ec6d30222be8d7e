#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# Nothing unfinished and nothing of the machine it was written on: no marks for later work, no build-machine paths, no
# trailing blanks, no tabs in C, no CR line ends.
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
verdict
