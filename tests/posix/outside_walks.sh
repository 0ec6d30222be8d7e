#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# What a program does outside all mounts is what it does without the library (outside_walks.c); one real copy of a library is
# enough, however often it is loaded.
. "$(dirname "$0")/../functions.sh"
need_command cc
cc -std=gnu11 -D_GNU_SOURCE -O1 -w -pthread -o "$work/walks" "$(dirname "$0")/outside_walks.c"
mkdir "$work/source" "$work/native" "$work/mounted"
echo 'int answer(void) { return 42; }' | cc -shared -fPIC -x c -o "$work/source/lib.so" -
pack "$work/source" "$work/ds"

"$work/walks" "$work/native" >"$work/native.out"
[ "$(wc -l <"$work/native.out")" -gt 150 ] || fail "too few answers"
grep -q '^nftw deeper 10 0: 0 , 19' "$work/native.out" || fail "the deep walk does not work without the library"
plain "$work/ds" "$mnt" "$work/walks" "$work/mounted" "$mnt/lib.so" >"$work/mounted.out"
diff "$work/native.out" "$work/mounted.out" || fail "another answer with the library"

plain "$work/ds" "$mnt" "$work/walks" library "$mnt/lib.so" >"$work/out"
grep -qx 'descriptors kept: few' "$work/out" || fail "$(cat "$work/out")"

# A walk that begins above a mount sees the real directory that the mount covers, and the library prints nothing.
mkdir -p "$work/above/over"
touch "$work/above/over/real.txt"
for how in env plain; do
  run=(env)
  [ $how = env ] || run=(plain "$work/ds" "$work/above/over")
  "${run[@]}" "$work/walks" names "$work/above" >"$work/names.$how" 2>&1 || fail "a walk above a mount"
done
equal "a walk above a mount" "above over real.txt above over real.txt" "$(tr '\n' ' ' <"$work/names.plain" | sed 's/ $//')"
cmp "$work/names.env" "$work/names.plain"
