#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# Puts what covers as much as the corpus of `make fuzz` does into tests/fuzz/corpus, as few inputs as libFuzzer finds, of 2 KiB
# at most: minimize.sh [fuzz_NAME...], after `make fuzz`.
set -euo pipefail
cd "$(dirname "$0")/../.."
targets=("$@")
[ $# -gt 0 ] || mapfile -t targets < <(ls build/fuzz-corpus)
for target in "${targets[@]}"; do
  program=$(find build -path "*/san-*fuzzer*/tests/fuzz/$target" | head -n 1)
  [ -x "$program" ] || { echo "no $target; make fuzz builds it" >&2 && exit 1; }
  work=$(mktemp -d)
  mkdir "$work/small" "$work/least"
  find "build/fuzz-corpus/$target" -type f -size -2049c -exec cp -t "$work/small" {} +
  FUZZ_CORPUS=$work TMPDIR=$work ASAN_OPTIONS=detect_leaks=0 "$program" -merge=1 -set_cover_merge=1 -verbosity=0 -close_fd_mask=3 "$work/least" "$work/small"
  to=tests/fuzz/corpus/${target#fuzz_}.tar.gz
  tar --sort=name --mtime=@0 --owner=0 --group=0 --numeric-owner -C "$work/least" -cf - . | gzip -9n >"$to.new"
  mv "$to.new" "$to"
  printf '%-28s %5d inputs, %s\n' "$target" "$(find "$work/least" -type f | wc -l)" "$(du -sh --apparent-size "$to" | cut -f 1)"
  rm -rf "$work"
done
