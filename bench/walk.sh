#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# How long fs-prepare pack takes on 1, 2 and 4 emulated nodes if each look at a name, and each read of an archive, takes
# some milliseconds, as on storage that is far away (bench/README.md): bench/walk.sh --help
set -euo pipefail
root=$(cd "$(dirname "$0")/.." && pwd)
build=${FS_BUILD:-$root/build}
bin=$build/bin
export LC_ALL=C.UTF-8
unset LD_PRELOAD "${!FANSTORE_@}"

wrong() {
  echo "walk.sh: $*" >&2
  exit 2
}
quick='' rounds='' files='' delay=1000 read=40000 jobs=2 dir=${TMPDIR:-/tmp}
while [ $# -gt 0 ]; do
  case $1 in
    --quick) quick=1 ;;
    --help | -h)
      cat <<'END'
walk.sh [OPTION...]: seconds until SOURCE is listed, on 1, 2 and 4 emulated nodes, and how many times as fast several are: of a
tree of directories with 100 files each, and of one directory with as many files; and the seconds of a pack of 8 tar.gz files
of 8 MiB, which are read twice
  --quick     few files, one round: to see that it works; its figures mean nothing
  --rounds N  rounds, in which the sides take turns (3)
  --files N   files of each tree (20000)
  --delay N   microseconds that each fstatat takes (1000)
  --read N    microseconds that each read of 256 KiB of an archive takes (40000)
  --jobs N    threads of a node (2)
  --dir DIR   where all is (TMPDIR, else /tmp)
END
      exit
      ;;
    --rounds | --files | --delay | --read | --jobs | --dir)
      [ $# -ge 2 ] || wrong "$1 needs a value"
      declare "${1#--}=$2"
      shift
      ;;
    *) wrong "no such option: $1 (--help)" ;;
  esac
  shift
done
: "${rounds:=$([ -n "$quick" ] && echo 1 || echo 3)}" "${files:=$([ -n "$quick" ] && echo 1000 || echo 20000)}"
for number in "$rounds" "$files" "$delay" "$read" "$jobs"; do
  [[ $number =~ ^[1-9][0-9]{0,8}$ ]] || wrong "no number: $number"
done
[ -x "$bin/fanstore-pack" ] || wrong "$bin/fanstore-pack is not there: make"

work=$(mktemp -d "$dir/fsb.XXXXXX")
# shellcheck disable=SC2064 # as it is now
trap "rm -rf '$work'" EXIT
trap 'exit 130' INT TERM HUP
cc -shared -fPIC -O2 -o "$work/slow.so" "$root/tests/mpi/slow_walk.c" -ldl
for ((i = 0; i < files; i += 100)); do mkdir -p "$work/tree/$((i / 1000))/$i"; done
mkdir "$work/wide"
seq -f "$work/wide/%.0f" "$files" | xargs touch
for d in "$work"/tree/*/*; do seq -f "$d/%.0f" 100; done | xargs touch
echo x >"$work/tree/x" && echo x >"$work/wide/x"
mkdir "$work/noise" "$work/archives"
for i in 1 2 3 4 5 6 7 8; do
  head -c "$([ -n "$quick" ] && echo 1M || echo 8M)" /dev/urandom >"$work/noise/$i"
  tar czf "$work/archives/$i.tar.gz" -C "$work/noise" "$i"
done

listed() { # TREE NODES: seconds until the walk ended
  rm -rf "$work/local" "$work/ds"
  FANSTORE_MPIRUN_ARGS="-x LD_PRELOAD=$work/slow.so -x SLOW_WALK_US=$delay" "$bin/fs-prepare" pack --codec raw --emulate "$2" \
    --jobs "$jobs" --local-dir "$work/local" --verbose "$work/$1" "$work/ds" 2>&1 |
    sed -nE 's/.*pack: [0-9]+ nodes? walked .* in ([0-9.]+) s, .*/\1/p'
}
packed() { # NODES: seconds of the pack of the archives
  rm -rf "$work/local" "$work/ds"
  local began=${EPOCHREALTIME/./} ended
  FANSTORE_MPIRUN_ARGS="-x LD_PRELOAD=$work/slow.so -x SLOW_READ_US=$read" "$bin/fs-prepare" pack --codec raw --emulate "$1" \
    --jobs "$jobs" --local-dir "$work/local" --nodes-only "$work"/archives/* "$work/ds" >"$work/out" 2>&1 || cat "$work/out" >&2
  ended=${EPOCHREALTIME/./}
  awk -v us=$((ended - began)) 'BEGIN { printf "%.2f", us / 1e6 }'
}
for ((round = 0; round < rounds; round++)); do
  for tree in tree wide; do
    for nodes in $(shuf -e 1 2 4); do echo "$tree $nodes $(listed "$tree" "$nodes")"; done
  done
  for nodes in $(shuf -e 1 2 4); do echo "archives $nodes $(packed "$nodes")"; done
done | tee "$work/figures" >&2
median() { awk -v t="$1" -v n="$2" '$1 == t && $2 == n { print $3 }' "$work/figures" | sort -g | awk '{ v[NR] = $1 } END { print v[int((NR + 1) / 2)] }'; }
for tree in tree wide archives; do
  one=$(median "$tree" 1)
  for nodes in 1 2 4; do
    awk -v t="$tree" -v n="$nodes" -v one="$one" -v s="$(median "$tree" "$nodes")" \
      'BEGIN { printf "%-8s %d node%s %7.2f s  %.2f times as fast as one\n", t, n, n == 1 ? " " : "s", s, one / s }'
  done
done
