# SPDX-License-Identifier: BSD-3-Clause
# shellcheck shell=bash
# What interposer_calls.sh and ../static/calls.sh share, to be sourced after functions.sh: the tree that interposer_calls.c is
# made for, in $source, and its three runs.
need_command cc

source=$work/source
mkdir -p "$source/d/sub"
number_lines 800 >"$source/a.txt"
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

# Makes $work/calls; more options may follow.
# shellcheck disable=SC2034 # for the scripts
compile=(cc -std=gnu11 -D_GNU_SOURCE -O1 -w -o "$work/calls" "$root/tests/posix/interposer_calls.c")

# run_calls HOW: $work/calls on the plain directory, then by HOW (plain, supervised) on mounts
run_calls() {
  say "plain directory"
  (cd / && "$work/calls" "$source" rw </dev/null) || fail "the plain directory does not answer as expected"
  pack "$source" "$work/ds" --partitions 2
  say "no directory at the mount"
  (cd / && "$1" "$work/ds" "$mnt" "$work/calls" "$mnt" ro </dev/null)
  say "decoys at the mount"
  mv "$source" "$work/original"
  decoy "$work/original" "$source"
  touch "$source/extra" "$source/d/extra"
  (cd / && "$1" "$work/ds" "$source" "$work/calls" "$source" ro </dev/null)
  no_leftovers
}
