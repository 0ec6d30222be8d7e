#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# Model checking with spin: run.sh MODEL.pml. Each line "right: OPTIONS" of the model is gone through completely and must hold; each line
# "wrong: OPTIONS" leaves something out that the code has, and must fail, or the model says nothing about it. The checker is
# compiled without optimization: gcc -O2 takes longer for it than the search does.
set -euo pipefail
model=$(realpath "$1")
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"
check() { # OPTIONS...: prints what pan says
  # shellcheck disable=SC2086
  spin -a $1 "$model" >spin.log || { cat spin.log && return 1; }
  gcc -O0 -w -DSAFETY -DCOLLAPSE -DMEMLIM=4000 -o pan pan.c
  timeout 1200 ./pan -m1000000 >pan.log
  cat pan.log
}
bad=0
while read -r want options; do
  out=$(check "$options")
  errors=$(grep -oP 'errors: \K\d+' <<<"$out" || echo none)
  whole=$(grep -c 'Search not completed\|max search depth too small\|out of memory' <<<"$out" || :)
  states=$(grep -oP '\d+(?= states, stored)' <<<"$out" || :)
  depth=$(grep -oP 'depth reached \K\d+' <<<"$out" || :)
  case $want in
    right:) [ "$errors" = 0 ] && [ "$whole" = 0 ] && verdict=ok || verdict=FAILED ;;
    wrong:) [ "$errors" != none ] && [ "$errors" -gt 0 ] && verdict=ok || verdict=FAILED ;;
  esac
  echo "$verdict - $want $options ($states states, depth $depth, errors: $errors)"
  [ "$verdict" = ok ] || bad=$((bad + 1))
done < <(sed -n 's/^ \* \(right:\|wrong:\)/\1/p' "$model")
[ "$bad" = 0 ]
