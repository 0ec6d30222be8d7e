#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# What fanstore-static costs a system call: trapcost and fsbench, linked statically, on a plain directory with and
# without the supervisor, and on the mount of the same files. The sides take turns; the table shows the fastest of the
# rounds. bench/static.sh [ROUNDS]
set -euo pipefail
root=$(cd "$(dirname "$0")/.." && pwd)
bin=$root/build/bin
rounds=${1:-5}
work=$(mktemp -d "${TMPDIR:-/tmp}/fsb.XXXXXX")
trap 'rm -rf "$work"' EXIT
unset LD_PRELOAD "${!FANSTORE_@}"

for program in trapcost fsbench; do
  "${CC:-cc}" -O2 -static -std=gnu11 -D_GNU_SOURCE -o "$work/$program" "$root/bench/$program.c" -l:liblz4.a
done
mkdir -p "$work/source/d"
for i in $(seq 0 499); do head -c 4096 /dev/urandom >"$work/source/d/file$i"; done
"$bin/fs-prepare" pack "$work/source" "$work/ds" >/dev/null
mnt=$work/mnt/nowhere
export FANSTORE_DATASET=$work/ds FANSTORE_MOUNT=$mnt

run() { # SIDE PROGRAM...
  local side=$1
  shift
  case $side in
    plain) "$@" ;;
    *) "$bin/fanstore-static" -- "$@" ;;
  esac
}
for round in $(seq "$rounds"); do
  for side in plain outside mount; do
    directory=$work/source
    [ $side != mount ] || directory=$mnt
    run $side "$work/trapcost" "$directory/d/file7" "$directory/d" | sed "s/^/$side /"
    run $side "$work/fsbench" -p 2 -s "$round" "$directory" |
      sed 's/.*"stat": \([0-9]*\).*"read": \([0-9]*\).*"readdir": \([0-9]*\).*/each:stat \1\neach:open+fstat+read+close \2\neach:readdir \3/' |
      sed "s/^/$side /"
  done
done >"$work/figures"
awk '!(($2, $1) in v) || $3 < v[$2, $1] { v[$2, $1] = $3 } !($2 in seen) { seen[$2]; name[++n] = $2 }
  END {
    printf "%-28s %10s %10s %10s\n", "ns a call", "plain", "outside", "mount"
    for (i = 1; i <= n; i++) {
      x = name[i]
      printf "%-28s %10d %10d %10d\n", x, v[x, "plain"], v[x, "outside"], v[x, "mount"]
    }
  }' "$work/figures"
