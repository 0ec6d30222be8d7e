#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# Programs that were built with a sanitizer, on a mount: they run, give what they give natively, report nothing that is not
# there, and still find what is. With gcc's AddressSanitizer, and clang's as a shared library, the run-time must
# come first in LD_PRELOAD; otherwise it must say so and not run. docs/compatibility.md section 6.
# slow
. "$(dirname "$0")/../functions.sh"
need_command cc clang

plain_dir=$work/source
mkdir -p "$plain_dir"
for i in $(seq 0 5); do head -c $((i * i * 20000)) /dev/urandom >"$plain_dir/f$i"; done
pack "$plain_dir" "$work/ds"
export FANSTORE_DATASET=$work/ds FANSTORE_MOUNT=$mnt
program=$(cd "$(dirname "$0")" && pwd)/sanitizers.c
flags=(-std=gnu11 -D_GNU_SOURCE -w -g -O1 -pthread)
cc "${flags[@]}" -o "$work/plain" "$program"
want=$("$work/plain" "$plain_dir")

# runs NAME PRELOAD ARGUMENT...: built into $work/NAME
runs() {
  equal "$1 with $2" "$want" "$(LD_PRELOAD=$2 timeout 60 "$work/$1" "$mnt" 2>&1)"
}
# finds NAME PRELOAD: a read past the end of a buffer
finds() {
  LD_PRELOAD=$2 timeout 60 "$work/$1" "$mnt" overflow >"$work/out" 2>&1 || true
  grep -q 'AddressSanitizer: heap-buffer-overflow' "$work/out" || fail "$1 with $2 finds no overflow: $(head -c 300 "$work/out")"
}
for kind in address undefined thread memory; do
  say "clang -fsanitize=$kind"
  clang "${flags[@]}" -fsanitize=$kind -o "$work/clang-$kind" "$program"
  # The library's own synchronisation is not seen by ThreadSanitizer.
  for _ in 1 2 3; do TSAN_OPTIONS=ignore_noninstrumented_modules=1 runs clang-$kind "$lib"; done
done
finds clang-address "$lib"
for kind in undefined thread; do
  say "gcc -fsanitize=$kind"
  gcc "${flags[@]}" -fsanitize=$kind -o "$work/gcc-$kind" "$program"
  for _ in 1 2 3; do TSAN_OPTIONS=ignore_noninstrumented_modules=1 runs gcc-$kind "$lib"; done
done
runs gcc-thread "$(realpath "$(gcc -print-file-name=libtsan.so)"):$lib"

# first NAME RUN-TIME: the run-time must come first, and says so
first() {
  for _ in 1 2 3; do runs "$1" "$2:$lib"; done
  finds "$1" "$2:$lib"
  for wrong in "$lib" "$lib:$2"; do
    LD_PRELOAD=$wrong timeout 60 "$work/$1" "$mnt" >"$work/out" 2>&1 && fail "$1 runs with $wrong"
    grep -q 'runtime does not come first' "$work/out" || fail "$1 with $wrong: $(head -c 300 "$work/out")"
  done
  ASAN_OPTIONS=verify_asan_link_order=0 runs "$1" "$lib"
}
say "gcc -fsanitize=address"
gcc "${flags[@]}" -fsanitize=address -o "$work/gcc-address" "$program"
first gcc-address "$(realpath "$(gcc -print-file-name=libasan.so)")"
gcc "${flags[@]}" -fsanitize=address -static-libasan -o "$work/gcc-static-address" "$program"
runs gcc-static-address "$lib"
say "clang -fsanitize=address -shared-libasan"
shared=$(clang -print-file-name="libclang_rt.asan-$(uname -m).so")
clang "${flags[@]}" -fsanitize=address -shared-libasan -Wl,-rpath,"$(dirname "$shared")" -o "$work/clang-shared" "$program"
first clang-shared "$shared"
no_leftovers
