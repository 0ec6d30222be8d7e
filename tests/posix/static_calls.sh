#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# interposer_calls.c, linked statically, call by call: on a plain directory, then under fanstore-static at a path where
# no directory is and at one where the real directory holds other bytes.
. "$(dirname "$0")/../functions.sh"
. "$(dirname "$0")/static.bash"
need_command cc

source=$work/source
mkdir -p "$source/d/sub"
for i in $(seq 0 799); do echo "line $i"; done >"$source/a.txt"
for i in $(seq 0 9); do head -c $((i * 1000)) /dev/urandom >"$source/d/f$i"; done
echo hello >"$source/d/sub/t.txt"
printf '#!/bin/sh\necho "script $*"\n' >"$source/run.sh"
cp "$(type -P echo)" "$source/echo"
chmod 755 "$source/run.sh" "$source/echo"
chmod 644 "$source/a.txt"
ln -s a.txt "$source/link"
ln -s none "$source/dangling"
ln -s loop "$source/loop"
ln -s d "$source/to-d"
cc -static -std=gnu11 -D_GNU_SOURCE -O1 -w -o "$work/calls" "$(dirname "$0")/interposer_calls.c" 2>"$work/err" ||
  skip "no static C library here: $(tail -n 1 "$work/err")"

say "plain directory"
(cd / && "$work/calls" "$source" rw </dev/null) || fail "the plain directory does not answer as expected"
pack "$source" "$work/ds" --partitions 2
say "no directory at the mount"
(cd / && supervised "$work/ds" "$mnt" "$work/calls" "$mnt" ro </dev/null)
say "decoys at the mount"
mv "$source" "$work/original"
decoy "$work/original" "$source"
touch "$source/extra" "$source/d/extra"
(cd / && supervised "$work/ds" "$source" "$work/calls" "$source" ro </dev/null)
no_leftovers
