#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# How long a checkpoint stops a job, on a plain directory and on two emulated nodes without and with --stage-out to a directory
# that is slower than the job writes (bench/README.md): bench/checkpoint.sh --help
set -euo pipefail
root=$(cd "$(dirname "$0")/.." && pwd)
build=${FS_BUILD:-$root/build}
bin=$build/bin
export LC_ALL=C.UTF-8
unset LD_PRELOAD "${!FANSTORE_@}"

wrong() {
  echo "checkpoint.sh: $*" >&2
  exit 2
}
quick='' rounds='' size='' count='' pause='' rate='' dir=${TMPDIR:-/tmp}
while [ $# -gt 0 ]; do
  case $1 in
    --quick) quick=1 ;;
    --help | -h)
      cat <<'END'
checkpoint.sh [OPTION...]: checkpoints, written, synced and renamed, on a plain directory and on two emulated nodes without and
with --stage-out to a slow directory; how long each took, and how many were staged out when the job's program ended
  --quick       small and few, one round: to see that it works; its figures mean nothing
  --rounds N    rounds, in which the sides take turns (5)
  --size N      MiB of a checkpoint (128)
  --count N     checkpoints in a run (6)
  --pause N     milliseconds after each (1500)
  --rate N      MiB a second that the slow directory takes of each file that is copied (40)
  --dir DIR     where all is (TMPDIR, else /tmp)
END
      exit
      ;;
    --rounds | --size | --count | --pause | --rate | --dir)
      [ $# -ge 2 ] || wrong "$1 needs a value"
      declare "${1#--}=$2"
      shift
      ;;
    *) wrong "no such option: $1 (--help)" ;;
  esac
  shift
done
: "${rounds:=$([ -n "$quick" ] && echo 1 || echo 5)}" "${size:=$([ -n "$quick" ] && echo 4 || echo 128)}"
: "${count:=$([ -n "$quick" ] && echo 3 || echo 6)}" "${pause:=1500}" "${rate:=$([ -n "$quick" ] && echo 4 || echo 40)}"
for number in "$rounds" "$size" "$count" "$pause" "$rate"; do
  [[ $number =~ ^[1-9][0-9]{0,8}$ ]] || wrong "no number: $number"
done
for needed in "$build/bench/checkpoint" "$bin/fs-launch"; do
  [ -x "$needed" ] || wrong "$needed is not there: make all bench-bin"
done

work=$(mktemp -d "$dir/fsb.XXXXXX")
# shellcheck disable=SC2064 # as it is now
trap "rm -rf '$work'" EXIT
trap 'exit 130' INT TERM HUP
mkdir "$work/source"
echo "a dataset" >"$work/source/file"
"$bin/fs-prepare" pack "$work/source" "$work/ds" >/dev/null
cc -shared -fPIC -O2 -o "$work/slowdir.so" "$root/bench/slowdir.c" -ldl
mount=$work/mnt/nowhere
job=("$build/bench/checkpoint" DIR "$size" "$count" "$pause")
launch=("$bin/fs-launch" --dataset "$work/ds" --mount "$mount" --local-dir "$work/local" --emulate 2)

side() { # SIDE: one run; its milliseconds go to $work/ms.SIDE
  local out=$work/out status=0
  job[1]=$mount
  case $1 in
    plain)
      job[1]=$work/plain
      mkdir "$work/plain"
      "${job[@]}" >"$out" 2>&1 || status=$?
      rm -rf "$work/plain"
      ;;
    without) "${launch[@]}" --discard -- "${job[@]}" >"$out" 2>&1 || status=$? ;;
    staged)
      mkdir "$work/durable"
      # The last word of COMMAND: how many are there already, so that it is seen that copying went on beside it.
      FANSTORE_MPIRUN_ARGS="-x LD_PRELOAD=$work/slowdir.so -x SLOW_DIR=$work/durable -x SLOW_RATE=$((rate << 20))" \
        "${launch[@]}" --stage-out "$work/durable" -- sh -c '"$@" && ls "$0" | grep -c "^checkpoint"' "$work/durable" "${job[@]}" >"$out" 2>&1 || status=$?
      [ $status != 0 ] || sed -n '/^[0-9]*$/p' "$out" >>"$work/early"
      [ "$(find "$work/durable" -name 'checkpoint.*' -size "$((size * 2048))b" | wc -l)" = "$count" ] || status=1
      rm -rf "$work/durable"
      ;;
  esac
  if [ $status != 0 ] || [ "$(grep -c '^checkpoint ' "$out")" != "$count" ]; then
    cat "$out" >&2
    echo "checkpoint.sh: $1: status $status" >&2
    exit 1
  fi
  sed -n 's/^checkpoint //p' "$out" >>"$work/ms.$1"
}
for round in $(seq "$rounds"); do
  echo "round $round of $rounds"
  for one in $(shuf -e plain without staged); do
    sync -f "$work" # what the side before has left is not written out at this one's cost
    side "$one"
  done
done

row() { # NAME FILE
  sort -n "$2" | awk -v name="$1" -v base="${base:-}" '
    { v[NR] = $1 }
    END {
      m = NR % 2 ? v[(NR + 1) / 2] : (v[NR / 2] + v[NR / 2 + 1]) / 2
      printf "%-52s %9.1f %9.1f%s\n", name, m, v[NR], base == "" ? "" : sprintf(" %9.2f", m / base)
    }'
}
median() { sort -n "$1" | awk '{ v[NR] = $1 } END { print NR % 2 ? v[(NR + 1) / 2] : (v[NR / 2] + v[NR / 2 + 1]) / 2 }'; }
echo "$size MiB by 1 MiB writes, fsync, rename; $count in a run, $pause ms between; $rounds round(s)"
printf '%-52s %9s %9s  %s\n' "milliseconds" median longest "of 2 nodes'"
row "$(df --output=fstype "$work" | tail -n 1)" "$work/ms.plain"
base=$(median "$work/ms.without")
row "2 nodes" "$work/ms.without"
row "2 nodes, --stage-out to $rate MiB/s" "$work/ms.staged"
echo "staged out when the program ended: $(sort -n "$work/early" | tr '\n' ' ')of $count in a run, the rest after it"
