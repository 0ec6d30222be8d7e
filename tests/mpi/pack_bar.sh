#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# fs-prepare pack over emulated nodes shows a bar on a terminal.
. "$(dirname "$0")/../functions.sh"
need_command script
cd "$work"
mkdir source
seq 1000000 >source/large
for i in {1..40}; do head -c 50000 /dev/urandom >"source/$i"; done

script -qec "$bin/fs-prepare pack --codec lz4hc:12 --jobs 1 --local-dir $work/local --emulate 3 source ds" /dev/null >shown 2>&1 ||
  fail "$(cat shown)"
tr '\r' '\n' <shown >lines
grep -qE $'^\033\\[K\\[[= ]{20}\\] +[0-9]+%  ETA [-:0-9]+  [0-9]+ MB/s  [0-9]+/41 files' lines || fail "$(cat lines)"
! grep -q 'bar: ' lines || fail "$(cat lines)"
grep -q 'ds: 41 files' lines || fail "$(cat lines)"
echo "ok - a bar on a terminal"
