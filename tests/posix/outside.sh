#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# Calls outside the mount are libc's own: outside.c prints the same with the library as without, in a directory far from
# the mount, in one above it, and after a file of the dataset was opened.
. "$(dirname "$0")/../functions.sh"
here=$(cd "$(dirname "$0")" && pwd)
need_command cc

mkdir -p "$work/source"
echo 'a file' >"$work/source/a.txt"
pack "$work/source" "$work/ds"
cc -std=gnu11 -D_GNU_SOURCE -O1 -w -pthread -o "$work/outside" "$here/outside.c"

# In "above" the mount is to be, "far" is elsewhere.
above=$work/here/above far=$work/here/far
run() { # DIRECTORY FILE [COMMAND...]
  local dir=$1 file=$2
  shift 2
  rm -rf "$dir"
  mkdir -p "$dir/out"
  "$@" "$work/outside" "$dir" "${dir#/}/tXXXXXX" ${file:+"$file"} 2>&1
}
for dir in "$far" "$above"; do
  for file in '' a.txt; do
    say "in $(basename "$dir")${file:+, with an open file}"
    run "$dir" "${file:+$work/source/$file}" env >"$work/want"
    run "$dir" "${file:+$above/mnt/$file}" plain "$work/ds" "$above/mnt" >"$work/got"
    grep -q 'temp_directory(argv\[2\]) = 1' "$work/want" || fail "outside.c does not come to its end"
    diff "$work/want" "$work/got" >&2 || fail "a call outside differs"
  done
done
no_leftovers
