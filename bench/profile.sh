#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# bench/profile.sh CASE...: where the instructions and the time of a hot path go (docs/internals/profiles.md). CASE is stat,
# small, large, lz4, cache, remote, cold or all. For each: the time of an operation; instructions in user space by
# function (callgrind); system calls (strace); samples by function, the kernel's included, of the reader and of the
# daemons (perf). A tool that is missing is left out. Makes its files below TMPDIR; perf's data stays in build/bench.
# The programs must be built: make all bench-bin.
set -euo pipefail
export LC_ALL=C
here=$(cd "$(dirname "$0")/.." && pwd)
build=${FS_BUILD:-$here/build}
[ $# -gt 0 ] || { sed -n '3,7s/^# //p' "$0"; exit 2; }
[ "$1" != all ] || set -- stat small large lz4 cache remote cold
work=$(mktemp -d "${TMPDIR:-/tmp}/fs-profile.XXXXXX")
trap 'rm -rf "$work"' EXIT

# Files of SIZE bytes; KIND noise, or words, which lz4 makes about half as long.
files() { # NAME SIZE COUNT KIND
  [ ! -d "$work/$1" ] || return 0
  /usr/bin/python3 - "$work/$1" "$2" "$3" "$4" <<'E2'
import os, random, sys
top, size, count, kind = sys.argv[1], int(sys.argv[2]), int(sys.argv[3]), sys.argv[4]
rng = random.Random(size)
words = [rng.randbytes(rng.randrange(3, 9)) for _ in range(3000)]
for i in range(count):
    os.makedirs("%s/d%03d" % (top, i // 500), exist_ok=True)
    with open("%s/d%03d/f%06d" % (top, i // 500, i), "wb") as f:
        f.write(rng.randbytes(size) if kind == "noise" else b"".join(rng.choices(words, k=size // 3))[:size])
E2
  "$build/bin/fs-prepare" pack --partitions 4 --codec "$([ "$4" = noise ] && echo raw || echo lz4)" \
    --mount "$work/mnt-$1" "$work/$1" "$work/$1.fs" >/dev/null
  # Staged before anything is measured.
  for n in 1 2; do "$build/bin/fs-launch" --dataset "$work/$1.fs" --local-dir "$work/$1.$n" --emulate $n -- true 2>/dev/null; done
}

launch() { # COMMAND...
  "$build/bin/fs-launch" --dataset "$work/$set.fs" --local-dir "$work/$set.$nodes" --emulate "$nodes" -- "$@" 2>"$work/err" || {
    cat "$work/err" >&2
    exit 1
  }
}

evict() {
  [ "$case" = cold ] || return 0
  sync
  find "$work/$set.$nodes" -type f -exec dd if={} of=/dev/null iflag=nocache count=0 status=none \;
}

hotpath() { # COUNT [COMMAND...]
  local count=$1
  shift
  evict
  launch "$@" "$build/bench/hotpath" "${options[@]}" "$operation" "$count" "$work/mnt-$set"
}

instructions() {
  command -v valgrind >/dev/null || { echo "  (no valgrind)"; return 0; }
  rm -f "$work"/cg.*
  local operations
  operations=$(hotpath "$few" valgrind -q --tool=callgrind --toggle-collect=measured --callgrind-out-file="$work/cg.%p" |
    sed -n 's/.*"count": \([0-9]*\).*/\1/p')
  callgrind_annotate --threshold=100 --auto=no "$work"/cg.* | awk -v n="$operations" '
    /PROGRAM TOTALS/ { gsub(",", "", $1); printf "  instructions in user space: %.0f\n", $1 / n; all = $1 }
    /:[^ ]+.*$/ && /^ *[0-9,]+ \(/ && !/TOTALS/ && shown < 14 {
      where = $0; sub(/^[^)]*\) */, "", where); sub(/ \[.*/, "", where)
      at = match(where, /:[^:]*$/); file = substr(where, 1, at - 1); sub(/.*\//, "", file)
      gsub(",", "", $1); printf "  %7.0f %5.1f %%  %-22s %s\n", $1 / n, 100 * $1 / all, file, substr(where, at + 1); shown++ }'
}

system_calls() {
  command -v strace >/dev/null || { echo "  (no strace)"; return 0; }
  local n
  # The start and the first pass are in both runs.
  for n in 0 "$few"; do hotpath "$n" strace -f -c -U calls,name -o "$work/strace.$n" >/dev/null; done
  echo "  system calls:"
  awk -v n="$few" 'NF == 2 && $1 ~ /^[0-9]+$/ && $2 != "total" { calls[$2] += FILENAME ~ /\.0$/ ? -$1 : $1 }
    END { for (c in calls) if (calls[c] / n >= 0.01) { printf "  %7.2f  %s\n", calls[c] / n, c; any = 1 }
          if (!any) print "     none" }' "$work/strace.0" "$work/strace.$few"
}

samples() {
  command -v perf >/dev/null || { echo "  (no perf)"; return 0; }
  local data=$build/bench/profile-$case.perf who
  evict
  perf record -q -e cpu-clock -F 5000 -g -o "$data" "$build/bin/fs-launch" --dataset "$work/$set.fs" --local-dir \
    "$work/$set.$nodes" --emulate "$nodes" -- "$build/bench/hotpath" "${options[@]}" "$operation" "$many" "$work/mnt-$set" \
    >/dev/null 2>"$work/err" || { sed 's/^/  perf: /' "$work/err" | head -n 3; return 0; }
  for who in hotpath fanstored; do
    [ $who = hotpath ] || [ "$case" = remote ] || continue
    echo "  samples, $who:"
    # Not by perf report, which leaves out rows of a command (6.1).
    perf script -i "$data" --comm $who -G -F ip,sym 2>/dev/null | awk 'NF { sub(/@plt$/, "", $2); n[$2] += 1; all++
        kernel[$2] = $1 ~ /^ffff/ } END { for (f in n) printf "%7.1f %%  %s%s\n", 100 * n[f] / all, f, kernel[f] ? " (kernel)" : "" }' |
      sort -rn | awk 'NR <= 14 { print "  " $0 }'
  done
}

for case in "$@"; do
  options=() nodes=1 few=20000
  case $case in
    stat) set=small operation=stat many=8000000 what="stat" ;;
    small) set=small operation=read many=4000000 what="open+fstat+read+close, 4 KiB, raw, local" ;;
    large) set=large operation=read many=200000 few=2000 what="open+fstat+read+close, 128 KiB, raw, local" ;;
    lz4) set=words operation=piece many=4000000 what="read, 4 KiB of an lz4 file of 512 KiB, local" ;;
    cache) set=small operation=read many=4000000 nodes=2 options=(-n 1)
      what="open+fstat+read+close, 4 KiB, of another node, cached here" ;;
    remote) set=many operation=read many=20000 few=2000 nodes=2 options=(-o -n 1)
      what="open+fstat+read+close, 4 KiB, of another node, first read" ;;
    cold) set=large operation=read many=4000 few=4000 options=(-o)
      what="open+fstat+read+close, 128 KiB, raw, local, not in memory" ;;
    *) echo "$0: no case $case" >&2; exit 2 ;;
  esac
  case $set in
    small) files small 4096 4000 noise ;;
    large) files large 131072 4000 noise ;;
    words) files words 524288 100 words ;;
    many) files many 4096 40000 noise ;;
  esac
  echo "$case: $what"
  hotpath "$many" | sed -n 's/.*"ns": \([0-9.]*\), "cpu_ns": \([0-9.]*\).*/  \1 ns, of which this process has the processor \2 ns/p'
  instructions
  system_calls
  samples
done
