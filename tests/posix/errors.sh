#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# Odd calls, and what they answer: on a read-only tmpfs in a namespace of its own, and on a mount of the same files at the
# same path, as root and as an ordinary user, with FANSTORE_READ_ONLY and without. Every row must be the same.
. "$(dirname "$0")/../functions.sh"
need_command cc unshare
unshare -Urm true 2>/dev/null || skip "no user namespaces here"

here=$(cd "$(dirname "$0")" && pwd)
source=$work/source
mkdir -p "$source/d/sub" "$source/no-search/sub" "$source/no-read" "$work/outside" "$mnt"
chmod 755 "$work" "$work/outside"
echo hello >"$source/f"
head -c 1048581 /dev/urandom >"$source/big"
: >"$source/empty"
for name in d/x no-search/x no-search/sub/x no-read/x secret write-only $'new\nline' $'\xff\xfe' \
  "$(printf 'n%.0s' {1..255})"; do echo "$name" >"$source/$name"; done
printf '#!/bin/sh\n' >"$source/script"
ln -s f "$source/link"
ln -s d "$source/to-d"
ln -s none "$source/dangling"
ln -s none/deep "$source/dangling-deep"
ln -s loop "$source/loop"
ln -s "$work/outside/file" "$source/out"
ln -s "$work/outside/none" "$source/out-none"
ln -s f "$source/chain1"
for i in {2..41}; do ln -s "chain$((i - 1))" "$source/chain$i"; done
echo outside >"$work/outside/file"
chmod 644 "$source/f" "$source/big" "$source/empty" "$source/d/x" "$work/outside/file"
chmod 755 "$source" "$source/d" "$source/d/sub" "$source/script"
if [ "$(id -u)" = 0 ]; then
  chmod 000 "$source/secret"
  chmod 200 "$source/write-only"
  chmod 644 "$source/no-search"
  chmod 311 "$source/no-read"
fi
cc -std=gnu11 -D_GNU_SOURCE -O1 -w -o "$work/errors" "$here"/errors.c "$here"/errors_change.c "$here"/errors_fd.c
pack "$source" "$work/ds" --partitions 2
chmod -R a+rX "$work/ds"

# Both in the same kind of namespace: as its root, or as an ordinary user below it.
run='cd / && exec "$@"'
ordinary='cd / && exec unshare -U --map-user=1000 "$@"'
for who in root ordinary; do
  [ $who = root ] || run=$ordinary
  # shellcheck disable=SC2016
  unshare -Urm bash -c 'mount -t tmpfs -o mode=755 none "$1" && cp -a "$2/." "$1" && mount -o remount,ro "$1" && shift 2 &&
    '"$run" - "$mnt" "$source" "$work/errors" "$mnt" "$work/outside" >"$work/native-$who"
done
find "$work/mnt" -depth -type d -exec rmdir {} +
run='cd / && exec "$@"'
for who in root ordinary; do
  [ $who = root ] || run=$ordinary
  for read_only in 0 1; do
    say "$who, read-only $read_only: $(wc -l <"$work/native-$who") rows"
    env FANSTORE_DATASET="$work/ds" FANSTORE_MOUNT="$mnt" FANSTORE_READ_ONLY=$read_only \
      unshare -Urm bash -c "${run/exec/exec env LD_PRELOAD="$lib"}" - "$work/errors" "$mnt" "$work/outside" \
      >"$work/mount-$who" || fail "the program on the mount: exit status $?"
    diff "$work/native-$who" "$work/mount-$who" || fail "$who, read-only $read_only: rows differ (< tmpfs, > mount)"
  done
done

# The same program, linked statically, under the supervisor. The kernel hands over no O_PATH descriptors: what stands for
# them is left out, which are the rows that say EBADF and six more. Two of a directory's offsets are a real directory's,
# and linkat of a descriptor needs a capability.
# shellcheck source=tests/static/static.bash
. "$here/../static/static.bash"
cc -static -std=gnu11 -D_GNU_SOURCE -O1 -w -o "$work/errors" "$here"/errors.c "$here"/errors_change.c "$here"/errors_fd.c \
  2>/dev/null || skip "no static C library here"
for who in root ordinary; do
  [ $who = root ] && run='cd / && exec "$@"' || run=$ordinary
  # shellcheck disable=SC2016
  env FANSTORE_DATASET="$work/ds" FANSTORE_MOUNT="$mnt" unshare -Urm bash -c "${run/\"\$@\"/$bin/fanstore-static '"$@"'}" - \
    "$work/errors" "$mnt" "$work/outside" >"$work/mount-$who" || fail "the static program on the mount: exit status $?"
  paste -d'\n' "$work/native-$who" "$work/mount-$who" | awk 'NR % 2 { native = $0; next }
    native ~ /EBADF|F_GETFL|F_GETFD|^n > 0|polled|lseek\(dir, 0, SEEK_|linkat\(fd, ""/ { left++; next }
    native != $0 { print native "\n    supervised: " $0; bad = 1 }
    END { print NR / 2 - left " rows compared, " left " left out"; exit bad || left > 360 }' >"$work/diff" ||
    { cat "$work/diff"; fail "$who, static: rows differ"; }
  say "$who, static: $(tail -n 1 "$work/diff")"
done
