# SPDX-License-Identifier: BSD-3-Clause
# shellcheck shell=bash
# What mdtest.sh and ior.sh share: the options, the sides (a plain directory, tmpfs, FanStore on emulated nodes), jobs on a side, and
# the table. The script sets `program` (whose binary is looked for in PATH) and `stand_in` (ours with the same phases),
# sources this with its own arguments, defines `cases`, which calls `measure` for each case, and ends with `compare UNIT`.
set -euo pipefail
: "${program:?}" "${stand_in:?}" "${more_usage:?}"
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
build=${FS_BUILD:-$root/build}
bin=$build/bin
export LC_ALL=C.UTF-8
unset LD_PRELOAD "${!FANSTORE_@}"

usage() {
  cat <<END
$(basename "$0") [OPTION...]: $program, or bench's own program with the same phases, on a plain directory, tmpfs and FanStore.
  --quick        few and small files, one round: to see that it works; its figures mean nothing
  --rounds N     rounds, in which the sides take turns (3)
  --np P         MPI processes on every side (4)
  --sides A,B    of plain, tmpfs and numbers of emulated nodes (plain,tmpfs,1,2,4)
  --only TEXT    only the cases with TEXT in their names
  --dir DIR      where the plain directory and the nodes' storage are (TMPDIR, else /tmp)
  --own          bench's own program, also where $program is installed
  --partial      exit with 0 also when a case failed on some side
$more_usage
END
}

wrong() {
  echo "$(basename "$0"): $*" >&2
  exit 2
}

quick='' rounds='' np=4 sides=(plain tmpfs 1 2 4) dir=${TMPDIR:-/tmp} own='' partial='' size='' only=''
while [ $# -gt 0 ]; do
  case $1 in
    --quick | --own | --partial) declare "${1#--}=1" ;;
    --help | -h)
      usage
      exit
      ;;
    --rounds | --np | --sides | --dir | --size | --only)
      [ $# -ge 2 ] || wrong "$1 needs a value"
      case $1 in --sides) IFS=, read -ra sides <<<"$2" ;; *) declare "${1#--}=$2" ;; esac
      shift
      ;;
    *) wrong "no such option: $1 (--help)" ;;
  esac
  shift
done
[ -n "$rounds" ] || rounds=$([ -n "$quick" ] && echo 1 || echo 3)
[[ $rounds =~ ^[1-9][0-9]*$ && $np =~ ^[1-9][0-9]*$ && ${size:-1} =~ ^[1-9][0-9]*$ ]] || wrong "no number, or 0"
for side in "${sides[@]}"; do
  [[ $side =~ ^(plain|tmpfs|[1-9][0-9]?)$ ]] || wrong "no such side: $side"
done

binary=$(command -v "$program" || :)
tool=$program
if [ -n "$own" ] || [ -z "$binary" ]; then
  binary=$build/bench/$stand_in
  tool=$stand_in
fi
for needed in "$binary" "$bin/fs-launch"; do
  [ -x "$needed" ] || wrong "$needed is not there: make all bench-bin"
done

work=$(mktemp -d "$dir/fsb.XXXXXX")
memory=''
# shellcheck disable=SC2064 # as they are now
trap "rm -rf '$work'; [ -z \"\$memory\" ] || rm -rf \"\$memory\"" EXIT
trap 'exit 130' INT TERM HUP
mkdir "$work/plain" "$work/source"
echo "a dataset" >"$work/source/file"
"$bin/fs-prepare" pack "$work/source" "$work/ds" >/dev/null
mount=$work/mnt/nowhere
: >"$work/figures"
: >"$work/failed"
plain_name=$(df --output=fstype "$work" | tail -n 1)
# ext4 passes over the inodes of files that were removed in the last minutes when it has no journal, each time it makes one.
disk=$(readlink -f "$(df --output=source "$work" | tail -n 1)")
plain_note=''
if [ "$plain_name" = ext4 ] && [ -d "/proc/fs/ext4/${disk##*/}" ] && ! compgen -G "/proc/fs/jbd2/${disk##*/}-*" >/dev/null; then
  plain_note=' without a journal, slow at making files where some were removed minutes ago'
fi

# The same mpirun as fs-launch's for --np. Neighbouring ranks are on one emulated node, on all sides by the same words.
mpirun=(mpirun --bind-to none --map-by node --oversubscribe --mca oob_tcp_if_include lo --mca plm isolated --mca ras ^slurm)
[ "$(id -u)" != 0 ] || mpirun+=(--allow-run-as-root)
on_node='FANSTORE_NODE=$((OMPI_COMM_WORLD_RANK * $1 / $2)); export FANSTORE_NODE; shift 2; exec "$@"'

side_name() { # SIDE
  case $1 in
    plain) echo "$plain_name" ;;
    tmpfs) echo tmpfs ;;
    1) echo "1 node" ;;
    *) echo "$1 nodes" ;;
  esac
}

# Where a side's run writes; of FanStore, the mount.
directory_on() { # SIDE
  case $1 in
    plain) echo "$work/plain/run" ;;
    tmpfs) echo "$memory/run" ;;
    *) echo "$mount" ;;
  esac
}

set_aside() { # SIDE CASE REASON
  printf '%s\t%s\t%s\n' "$1" "$2" "$3" >>"$work/failed"
}
failed_before() { # SIDE CASE
  cut -f 1,2 "$work/failed" | grep -qxF -e "$1"$'\t'"$2" -e "$1"$'\t''*'
}

# The first line that tells what failed, without this run's paths.
bad='(^|[^_])ERROR|FAILED|WARNING: unable|Incorrect'
reason() { # STATUS DIRECTORY
  local line
  line=$(grep -m 1 -aE "$bad" "$work/log" || grep -avE '^ *$|^-+$' "$work/log" | tail -n 1)
  line=${line//$2/DIR}
  [ "$1" != 124 ] && [ "$1" != 137 ] || line="not done after $limit s; $line"
  printf '%s (status %s)' "${line:0:200}" "$1"
}

# on_side SIDE COMMAND...: as $np ranks over the nodes of the side; with `twice` set to a second command, the ranks of the
# first, and then, in the same job, those of the second.
on_side() {
  local side=$1 nodes=1 launch=()
  shift
  [[ ! $side =~ ^[0-9] ]] || nodes=$side
  [ "$nodes" != "$side" ] ||
    launch=("$bin/fs-launch" --dataset "$work/ds" --mount "$mount" --local-dir "$work/local" --emulate "$nodes" --discard)
  local ranks=("${mpirun[@]}" -np "$np") per_rank=(sh -c "$on_node" sh "$nodes" "$np")
  if [ ${#twice[@]} -gt 0 ]; then
    printf '%q ' "${ranks[@]}" "${per_rank[@]}" "$@" >"$work/twice.sh"
    printf '&& ' >>"$work/twice.sh"
    printf '%q ' "${ranks[@]}" "${per_rank[@]}" "${twice[@]}" >>"$work/twice.sh"
    set -- "${launch[@]}" ${launch:+--} sh "$work/twice.sh"
  elif [ ${#launch[@]} -gt 0 ]; then
    set -- "${launch[@]}" --np "$np" -- "${per_rank[@]}" "$@"
  else
    set -- "${ranks[@]}" "${per_rank[@]}" "$@"
  fi
  timeout -k 20 "$limit" "$@" </dev/null >"$work/log" 2>&1
}

# measure CASE ARGUMENT...: one round of it; in the arguments, and in those of the array `again` (a second run of the program, by
# other processes), @ stands for the side's directory. `environment` is for all.
limit=$([ -n "$quick" ] && echo 60 || echo 180)
environment=() again=() twice=()
measure() {
  local what=$1 side directory status
  [[ $what == *"$only"* ]] || return 0
  echo "$what" >>"$work/order"
  shift
  for side in $(shuf -e "${sides[@]}"); do
    ! failed_before "$side" "$what" || continue
    directory=$(directory_on "$side")
    [ "$directory" = "$mount" ] || mkdir "$directory"
    sync -f "$work" # what the side before has left is not written out at this one's cost
    twice=()
    [ ${#again[@]} -eq 0 ] || twice=("$binary" "${again[@]//@/$directory}")
    status=0
    (
      [ ${#environment[@]} -eq 0 ] || export "${environment[@]}"
      on_side "$side" "$binary" "${@//@/$directory}"
    ) || status=$?
    if [ $status = 0 ] && ! grep -qaE "$bad" "$work/log" && figures_of <"$work/log" >"$work/got" && [ -s "$work/got" ]; then
      sed "s/^/$side\t$what\t/" "$work/got" >>"$work/figures"
    else
      set_aside "$side" "$what" "$(reason $status "$directory")"
    fi
    [ "$directory" = "$mount" ] || rm -rf "$directory"
  done
}

table() { # UNIT
  local side names=''
  for side in "${sides[@]}"; do names="$names|$(side_name "$side")"; done
  awk -F '\t' -v unit="$1" -v sides="${sides[*]}" -v names="${names#|}" -v plain="$plain_name" '
    function median(key,  n, v, i, j, t) {
      n = split(values[key], v, " ")
      for (i = 2; i <= n; i++) for (j = i; j > 1 && v[j - 1] + 0 > v[j] + 0; j--) { t = v[j]; v[j] = v[j - 1]; v[j - 1] = t }
      return n ? n % 2 ? v[(n + 1) / 2] : (v[n / 2] + v[n / 2 + 1]) / 2 : ""
    }
    function shown(x) { return x == "" ? "-" : x < 10 ? sprintf("%.2f", x) : x < 100 ? sprintf("%.1f", x) : sprintf("%.0f", x) }
    FILENAME ~ /order$/ { if (!($1 in seen)) { seen[$1]; order[++cases] = $1 } next }
    { if (!(($2, $3) in row)) { row[$2, $3]; rows[$2] = rows[$2] (rows[$2] == "" ? "" : "\t") $3 }
      values[$1, $2, $3] = values[$1, $2, $3] " " $4 }
    END {
      n = split(sides, side, " "); split(names, name, "|")
      printf "%-54s", unit
      for (i = 1; i <= n; i++) printf " %9s", name[i]
      ratio = " " sides " " ~ / plain / && " " sides " " ~ / 1 /
      print ratio ? "  1 node/" plain : ""
      for (c = 1; c <= cases; c++) {
        m = split(rows[order[c]], r, "\t")
        if (m == 0) { m = 1; r[1] = "" }
        for (k = 1; k <= m; k++) {
          printf "%-54s", order[c] (r[k] == "" ? "" : ": " r[k])
          for (i = 1; i <= n; i++) printf " %9s", shown(median(side[i] SUBSEP order[c] SUBSEP r[k]))
          p = median("plain" SUBSEP order[c] SUBSEP r[k]); f = median("1" SUBSEP order[c] SUBSEP r[k])
          print !ratio ? "" : p && f != "" ? sprintf("%13.2f", f / p) : sprintf("%13s", "-")
        }
      }
    }' "$work/order" "$work/figures"
}

# One line for each case and reason.
failures() {
  local side what why
  for side in "${sides[@]}"; do
    while IFS=$'\t' read -r what why; do
      printf '%s\t%s\n' "$(side_name "$side")" "${what/#\*/all}: $why"
    done < <(sed -n "s/^$side\t//p" "$work/failed")
  done | awk -F '\t' '{ if (!($2 in sides)) order[++n] = $2; else sides[$2] = sides[$2] ", "; sides[$2] = sides[$2] $1 }
    END { for (i = 1; i <= n; i++) print "failed on " sides[order[i]] ": " order[i] }'
}

# compare UNIT: all rounds of `cases`, the table and what failed.
compare() {
  local round side
  for side in "${sides[@]}"; do
    [ "$side" = tmpfs ] || continue
    if [ "$(stat -f -c %T /dev/shm 2>/dev/null)" = tmpfs ]; then
      memory=$(mktemp -d /dev/shm/fs-bench.XXXXXX)
    else
      set_aside tmpfs '*' "/dev/shm is no tmpfs here"
    fi
  done
  : >"$work/order"
  for round in $(seq "$rounds"); do
    echo "round $round of $rounds" >&2
    cases
  done
  echo "$tool: $np processes, $rounds round(s), medians; $(nproc) CPUs, Linux $(uname -r), page cache warm (what was just written)"
  [ -z "$quick" ] || echo "--quick: these figures mean nothing"
  echo "plain directory and FanStore's nodes: $plain_name$plain_note ($dir)"
  [ "$tool" != "$stand_in" ] || [ -n "$own" ] ||
    echo "$program is not installed (no Debian package has it): git clone https://github.com/hpc/ior; ./bootstrap; ./configure; make install"
  table "$1"
  failures
  [ ! -s "$work/failed" ] || [ -n "$partial" ]
}
