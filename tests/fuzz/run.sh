#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# Runs one fuzz target for FUZZ_SECONDS: run.sh fuzz_NAME. The corpus stays in build/fuzz-corpus. Called through tests/run.sh
# by `make fuzz`.
. "$(dirname "$0")/../functions.sh"
target=$1
program=$(find "$root/build" -path "*/san-*fuzzer*/tests/fuzz/$target" | head -n 1)
[ -x "$program" ] || fail "no $target; make fuzz builds it"
. "$root/tests/fuzz/corpus.bash"

export ASAN_OPTIONS=detect_leaks=$leaks:allocator_may_return_null=1 UBSAN_OPTIONS=halt_on_error=1:print_stacktrace=1
export FUZZ_CORPUS=$corpus
cd "$work" # a crash leaves its input here
run=()
if [ "$target" = fuzz_path ] && [ "$(id -u)" = 0 ] && unshare -m true 2>/dev/null; then # paths are those of a tmpfs there
  mkdir "$work/tmpfs"
  # shellcheck disable=SC2016
  run=(unshare -m sh -c 'mount -t tmpfs none "$0" && TMPDIR=$0 exec "$@"' "$work/tmpfs")
fi
"${run[@]}" "$program" -max_total_time="${FUZZ_SECONDS:-60}" -timeout=10 -rss_limit_mb=3000 -print_final_stats=1 \
  -verbosity=0 -artifact_prefix="$work/" "${options[@]}" "$corpus" || {
  [ $? != 78 ] || skip "this kernel has no Landlock, and a changed message may write anywhere"
  mkdir -p "$root/build/fuzz-crashes"
  cp crash-* leak-* oom-* timeout-* "$root/build/fuzz-crashes/" 2>/dev/null || true
  fail "$target; its input is in build/fuzz-crashes"
}
