#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# Runs one fuzz target under AFL++ for FUZZ_SECONDS: afl.sh fuzz_NAME. What it finds new goes to build/fuzz-corpus, with
# libFuzzer's. Called through tests/run.sh by `make fuzz-afl`.
. "$(dirname "$0")/../functions.sh"
target=$1
program=$root/build/afl/tests/fuzz/$target
[ -x "$program" ] || fail "no $target; make fuzz-afl builds it"
. "$root/tests/fuzz/corpus.bash"

export AFL_SKIP_CPUFREQ=1 AFL_NO_UI=1 AFL_NO_AFFINITY=1 AFL_I_DONT_CARE_ABOUT_MISSING_CRASHES=1 AFL_CMPLOG_ONLY_NEW=1
export AFL_MAP_SIZE=262144 AFL_IGNORE_SEED_PROBLEMS=1 AFL_QUIET=1
[ "$target" != fuzz_daemon ] || export AFL_NO_STARTUP_CALIBRATION=1 # it keeps what it was told: no two runs are alike
out=$work/out
afl-fuzz -i "$corpus" -o "$out" -t 5000 -m none -V "${FUZZ_SECONDS:-60}" -- "$program" >"$work/log" 2>&1 || {
  tail -n 30 "$work/log"
  fail "afl-fuzz"
}
sed -nE 's/^(execs_done|execs_per_sec|corpus_count|bitmap_cvg|stability|saved_crashes|saved_hangs) *: /\1 /p' "$out/default/fuzzer_stats"
find "$out/default/queue" -type f -name 'id:*' ! -name '*orig:*' | while read -r f; do
  cp "$f" "$corpus/$(sha1sum "$f" | cut -d ' ' -f 1)"
done
found=$(find "$out/default/crashes" "$out/default/hangs" -type f -name 'id:*')
[ -z "$found" ] || {
  mkdir -p "$root/build/fuzz-crashes"
  while read -r f; do cp "$f" "$root/build/fuzz-crashes/$target-$(sha1sum "$f" | cut -d ' ' -f 1)"; done <<<"$found"
  fail "$target: $(grep -c . <<<"$found") inputs are in build/fuzz-crashes"
}
