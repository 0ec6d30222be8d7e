# SPDX-License-Identifier: BSD-3-Clause
# shellcheck shell=bash
# What mdtest.sh and ior.sh share: the options, the sides (plain directories, FanStore on hosts or emulated nodes), jobs on a
# side, and the table. The script sets `program` (whose binary is looked for in PATH) and `stand_in` (ours with the same
# phases), and sources this with its own arguments. It defines `packed`, which makes the dataset's files by `packs`,
# `figures_of`, and `cases`, which calls `measure` for each case. It ends with `compare UNIT`.
set -euo pipefail
: "${program:?}" "${stand_in:?}" "${more_usage:?}"
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
build=${FS_BUILD:-$root/build}
bin=$build/bin
export LC_ALL=C.UTF-8
unset LD_PRELOAD "${!FANSTORE_@}"

usage() {
  cat <<END
$(basename "$0") [OPTION...]: $program, or bench's own program with the same phases, on plain directories and on FanStore.
  --quick          few and small files, one round: to see that it works; its figures mean nothing
  --rounds N       rounds, in which the sides take turns (3)
  --np P           MPI processes on every side (4, or one on each host if there are more)
  --plain-dir DIR  a scratch directory on the file system to compare with; repeatable (TMPDIR or /tmp, and /dev/shm)
  --local-dir DIR  the nodes' local storage (the first --plain-dir; none if the nodes are hosts)
  --hosts A,B      the nodes are these hosts; else those of a Slurm job of several nodes; else emulated on this host
  --nodes A,B      numbers of nodes (1, 2, 4 and so on up to all hosts, or up to 4 emulated nodes)
  --only TEXT      only the cases with TEXT in their names
  --own            bench's own program, also where $program is installed
  --partial        exit with 0 also when a case failed on some side
$more_usage
END
}

wrong() {
  echo "$(basename "$0"): $*" >&2
  exit 2
}

quick='' rounds='' np='' plain=() local_dir='' hosts='' nodes='' own='' partial='' size='' only=''
while [ $# -gt 0 ]; do
  case $1 in
    --quick | --own | --partial) declare "${1#--}=1" ;;
    --help | -h)
      usage
      exit
      ;;
    --rounds | --np | --plain-dir | --local-dir | --hosts | --nodes | --size | --only)
      [ $# -ge 2 ] && [ -n "$2" ] || wrong "$1 needs a value"
      case $1 in
        --plain-dir) plain+=("$2") ;;
        --local-dir) local_dir=$2 ;;
        *) declare "${1#--}=$2" ;;
      esac
      shift
      ;;
    *) wrong "no such option: $1 (--help)" ;;
  esac
  shift
done
for option in rounds np size; do
  [[ ${!option:-1} =~ ^[1-9][0-9]{0,5}$ ]] || wrong "--$option ${!option}: no number, or 0"
done
[ -n "$rounds" ] || rounds=$([ -n "$quick" ] && echo 1 || echo 3)

# The hosts of the nodes. Without any, the nodes are emulated. In a Slurm job fs-launch and mpirun take the job's.
slurm=''
if [ -n "$hosts" ]; then
  [[ $hosts =~ ^[A-Za-z0-9._-]+(,[A-Za-z0-9._-]+)*$ ]] || wrong "--hosts $hosts: names of hosts, separated by commas"
  IFS=, read -ra host <<<"$hosts"
  [ -z "$(printf '%s\n' "${host[@]}" | sort | uniq -d)" ] || wrong "--hosts $hosts: a host is named twice"
  unset "${!SLURM_@}"
elif [ -n "${SLURM_JOB_ID:-}" ] && [ "${SLURM_JOB_NUM_NODES:-1}" -gt 1 ]; then
  [ "${SLURM_PROCID:-0}" = 0 ] || wrong "this is task $SLURM_PROCID of a job step: start it once, in the batch script"
  slurm=1
  mapfile -t host < <(scontrol show hostnames "${SLURM_JOB_NODELIST:-}" 2>/dev/null)
  [ ${#host[@]} = "$SLURM_JOB_NUM_NODES" ] || wrong "scontrol does not tell the hosts of Slurm's job"
else
  host=()
fi
most=${#host[@]}
[ "$most" -gt 0 ] || most=4
if [ -z "$nodes" ]; then
  for ((n = 1; n < most; n *= 2)); do nodes+=$n,; done
  nodes+=$most
fi
[[ $nodes =~ ^[1-9][0-9]?(,[1-9][0-9]?)*$ ]] || wrong "--nodes $nodes: numbers from 1 to 64, separated by commas"
IFS=, read -ra node_counts <<<"$nodes"
most=0
for n in "${node_counts[@]}"; do
  most=$((n > most ? n : most))
  [ "$n" -le 64 ] || wrong "--nodes $nodes: numbers from 1 to 64, separated by commas"
  [ ${#host[@]} = 0 ] || [ "$n" -le ${#host[@]} ] || wrong "--nodes $nodes: there are ${#host[@]} hosts"
done
[ -n "$np" ] || np=$((${#host[@]} > 4 ? ${#host[@]} : 4))

binary=$(command -v "$program" || :)
tool=$program
if [ -n "$own" ] || [ -z "$binary" ]; then
  binary=$build/bench/$stand_in
  tool=$stand_in
fi
for needed in "$binary" "$build/bench/$stand_in" "$bin/fs-launch" "$bin/fs-prepare"; do
  [ -x "$needed" ] || wrong "$needed is not there: make all bench-bin"
done

if [ ${#plain[@]} = 0 ]; then
  plain=("${TMPDIR:-/tmp}")
  [ ! -w /dev/shm ] || plain+=(/dev/shm)
fi
for i in "${!plain[@]}"; do
  [ -d "${plain[i]}" ] && [ -w "${plain[i]}" ] || wrong "--plain-dir ${plain[i]}: no directory that can be written"
  plain[i]=$(cd "${plain[i]}" && pwd)
done
[ -n "$local_dir" ] || [ ${#host[@]} = 0 ] ||
  wrong "several hosts need --local-dir: a directory that is each host's own, such as one on its NVMe disk"
local_dir=${local_dir:-${plain[0]}}
[[ $local_dir = /* ]] || local_dir=$PWD/$local_dir

# use_hosts COUNT: sets `mpirun`, for processes on the first COUNT hosts, or with 0 on this one, and `allocation`, which goes
# before fs-launch and mpirun. Neighbouring ranks are on one host; by FANSTORE_MPIRUN_ARGS also those of fs-launch's --np.
export FANSTORE_MPIRUN_ARGS='--rank-by slot'
use_hosts() {
  local names
  mpirun=(mpirun --bind-to none --map-by node --rank-by slot --oversubscribe)
  [ "$(id -u)" != 0 ] || mpirun+=(--allow-run-as-root)
  allocation=()
  if [ "$1" = 0 ]; then
    mpirun+=(--mca oob_tcp_if_include lo --mca plm isolated --mca ras ^slurm)
    return
  fi
  names=$(IFS=, && echo "${host[*]:0:$1}")
  if [ -z "$slurm" ]; then
    mpirun+=(--host "$names")
    return
  fi
  mpirun+=(--mca plm_slurm_args --mem=0) # else its step waits for memory that fs-launch's has
  allocation=(env SLURM_EXPORT_ENV=ALL SLURM_OVERLAP=1 SLURM_JOB_NUM_NODES="$1" SLURM_NNODES="$1"
    SLURM_JOB_NODELIST="$names" SLURM_NODELIST="$names" SLURM_TASKS_PER_NODE="1(x$1)" SLURM_JOB_CPUS_PER_NODE="1(x$1)")
}
everywhere() { # COMMAND...: once on each host, or here
  [ ${#host[@]} -gt 0 ] || {
    "$@"
    return
  }
  use_hosts ${#host[@]}
  "${allocation[@]}" "${mpirun[@]}" -np ${#host[@]} "$@" </dev/null
}

# A directory of this run in each plain one, and on the nodes. The dataset is in the first one.
place=() shared=()
work=$(mktemp -d "${plain[0]}/fsb.XXXXXX")
local=$local_dir/${work##*/}.local
clean_up() {
  everywhere rm -rf "$local" >/dev/null 2>&1 || :
  rm -rf "$work" "${place[@]}"
}
trap clean_up EXIT
trap 'exit 130' INT TERM HUP
for i in "${!plain[@]}"; do
  place[i]=$work
  [ "$i" = 0 ] || place[i]=$(mktemp -d "${plain[i]}/fsb.XXXXXX")
  shared[i]=1
done
everywhere true >"$work/log" 2>&1 || wrong "no answer from the hosts: $(grep -avE '^ *$|^-+$' "$work/log" | head -n 1)"
everywhere test -d "$local_dir" -a -w "$local_dir" >/dev/null 2>&1 ||
  wrong "--local-dir $local_dir: no directory that can be written${host:+, on some host}"
for i in "${!plain[@]}"; do
  everywhere test -d "${place[i]}" >/dev/null 2>&1 || shared[i]=''
done
[ -n "${shared[0]}" ] || wrong "--plain-dir ${plain[0]}: the first one has the dataset, and must be the same on all hosts"

mount=$work/mnt/nowhere
: >"$work/figures"
: >"$work/failed"
: >"$work/order"

# The sides: each plain directory by its number, p0 and so on, then numbers of nodes.
sides=() plain_name=()
for i in "${!plain[@]}"; do
  sides+=("p$i")
  plain_name[i]=$(df --output=fstype "${place[i]}" | tail -n 1)
  for ((n = 0; n < i; n++)); do # two directories of one kind: by their paths
    [ "${plain_name[n]}" != "${plain_name[i]}" ] || plain_name[i]=${plain[i]}
  done
done
sides+=("${node_counts[@]}")
on_node='FANSTORE_NODE=$((OMPI_COMM_WORLD_RANK * $1 / $2)); export FANSTORE_NODE; shift 2; exec "$@"'

side_name() { # SIDE
  case $1 in
    p*) echo "${plain_name[${1#p}]}" ;;
    1) echo "1 node" ;;
    *) echo "$1 nodes" ;;
  esac
}

# What is worth knowing of a plain directory. ext4 without a journal passes over the inodes of files that were removed in the
# last minutes, each time it makes one.
plain_note() { # NUMBER
  local disk
  disk=$(readlink -f "$(df --output=source "${place[$1]}" | tail -n 1)")
  if [ "$(df --output=fstype "${place[$1]}" | tail -n 1)" = ext4 ] && [ -d "/proc/fs/ext4/${disk##*/}" ] &&
    ! compgen -G "/proc/fs/jbd2/${disk##*/}-*" >/dev/null; then
    printf ', without a journal, slow at making files where some were removed minutes ago'
  fi
  [ -n "${shared[$1]}" ] || printf ', all processes on this host: the others have another directory there'
}

# Where a side's run writes, and where it finds the dataset.
directory_on() { # SIDE
  case $1 in
    p*) echo "${place[${1#p}]}/run" ;;
    *) echo "$mount" ;;
  esac
}
dataset_on() { # SIDE
  case $1 in
    p*) echo "${place[${1#p}]}/source" ;;
    *) echo "$mount" ;;
  esac
}

set_aside() { # SIDE CASE REASON
  printf '%s\t%s\t%s\n' "$1" "$2" "$3" >>"$work/failed"
}
failed_before() { # SIDE CASE
  cut -f 1,2 "$work/failed" | grep -qxF -e "$1"$'\t'"$2"
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
# first, and then, in the same job, those of the second (of emulated nodes only).
on_side() {
  local side=$1 count=0 here=${#host[@]} launch=() per_rank=()
  shift
  case $side in
    p*) [ -n "${shared[${side#p}]}" ] || here=0 ;;
    *)
      count=$side here=$((here > 0 ? side : 0))
      launch=("$bin/fs-launch" --dataset "$work/ds" --mount "$mount" --local-dir "$local" --discard)
      [ $here -gt 0 ] || launch+=(--emulate "$count")
      [ $here = 0 ] || [ -n "$slurm" ] || launch+=(--hosts "$(IFS=, && echo "${host[*]:0:count}")")
      ;;
  esac
  [ $here -gt 0 ] || per_rank=(sh -c "$on_node" sh "$((count > 0 ? count : 1))" "$np")
  use_hosts "$here"
  local ranks=("${mpirun[@]}" -np "$np")
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
  timeout -k 20 "$limit" "${allocation[@]}" "$@" </dev/null >"$work/log" 2>&1
}

# measure OF CASE COMMAND...: one round of it. OF is dataset or outputs. In the command, and in that of the array `again` (a
# second command, by other processes), @ stands for the side's directory: of packed files, or where outputs are written.
# `environment` is for all.
limit=$([ -n "$quick" ] && echo 60 || echo 180)
environment=() again=() twice=()
measure() {
  local of=$1 what=$2 side directory status
  [[ $what == *"$only"* ]] || return 0
  what="$of | $what"
  echo "$what" >>"$work/order"
  shift 2
  for side in $(shuf -e "${sides[@]}"); do
    ! failed_before "$side" "$what" || continue
    directory=$("$([ "$of" = dataset ] && echo dataset_on || echo directory_on)" "$side")
    [ "$of" = dataset ] || [ "$directory" = "$mount" ] || mkdir "$directory"
    sync -f "${place[@]}" # what the side before has left is not written out at this one's cost
    everywhere sync -f "$local_dir" >/dev/null 2>&1 || :
    twice=()
    [ ${#again[@]} -eq 0 ] || twice=("${again[@]//@/"$directory"}")
    status=0
    (
      [ ${#environment[@]} -eq 0 ] || export "${environment[@]}"
      on_side "$side" "${@//@/"$directory"}"
    ) || status=$?
    if [ $status = 0 ] && ! grep -qaE "$bad" "$work/log" && figures_of <"$work/log" >"$work/got" && [ -s "$work/got" ]; then
      sed "s/^/$side\t$what\t/" "$work/got" >>"$work/figures"
    else
      set_aside "$side" "$what" "$(reason $status "$directory")"
    fi
    [ "$of" = dataset ] || [ "$directory" = "$mount" ] || rm -rf "$directory"
  done
}

# The dataset of FanStore's sides. Each plain directory has the same files. It is stored raw, as samples mostly are: lz4 makes
# little of ior's bytes, and each read would decode.
make_dataset() {
  local i
  mkdir "$work/source"
  packed
  for i in "${!place[@]}"; do
    [ "$i" = 0 ] || cp -a "$work/source" "${place[i]}/"
  done
  "$bin/fs-prepare" pack --codec raw --partitions $((4 * most)) "$work/source" "$work/ds" >"$work/log" 2>&1 ||
    wrong "the dataset could not be packed: $(tail -n 1 "$work/log")"
}
packs() { # COMMAND...: by $np processes on this host; @ stands for the directory that is packed
  use_hosts 0
  "${mpirun[@]}" -np "$np" "${@//@/"$work/source"}" </dev/null >"$work/log" 2>&1 ||
    wrong "the dataset could not be made: $(reason $? "$work")"
}

# A table in Markdown.
table() { # UNIT
  local side names=''
  for side in "${sides[@]}"; do names="$names|$(side_name "$side")"; done
  awk -F '\t' -v unit="$1" -v sides="${sides[*]}" -v names="${names#|}" '
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
      ratio = " " sides " " ~ / 1 /
      printf "| of | %s |", unit
      for (i = 1; i <= n; i++) printf " %s |", name[i]
      print ratio ? " 1 node / " name[1] " |" : ""
      for (i = 1; i <= n + 2 + ratio; i++) printf "|---"
      print "|"
      for (c = 1; c <= cases; c++) {
        m = split(rows[order[c]], r, "\t")
        if (m == 0) { m = 1; r[1] = "" }
        for (k = 1; k <= m; k++) {
          printf "| %s |", order[c] (r[k] == "" ? "" : ": " r[k])
          for (i = 1; i <= n; i++) printf " %s |", shown(median(side[i] SUBSEP order[c] SUBSEP r[k]))
          p = median("p0" SUBSEP order[c] SUBSEP r[k]); f = median("1" SUBSEP order[c] SUBSEP r[k])
          print !ratio ? "" : p && f != "" ? sprintf(" %.2f |", f / p) : " - |"
        }
      }
    }' "$work/order" "$work/figures"
}

# One line for each case and reason.
failures() {
  local side what why
  for side in "${sides[@]}"; do
    while IFS=$'\t' read -r what why; do
      printf '%s\t%s\n' "$(side_name "$side")" "${what/ | /, }: $why"
    done < <(sed -n "s/^$side\t//p" "$work/failed")
  done | awk -F '\t' '{ if (!($2 in sides)) order[++n] = $2; else sides[$2] = sides[$2] ", "; sides[$2] = sides[$2] $1 }
    END { for (i = 1; i <= n; i++) print "failed on " sides[order[i]] ": " order[i] }'
}

about() {
  local i
  echo "$tool: $np processes, $rounds round(s), medians; $(nproc) CPUs, Linux $(uname -r), page cache warm (what was just written)"
  [ -z "$quick" ] || echo "--quick: these figures mean nothing"
  [ "$tool" = "$stand_in" ] || [ "$program" != mdtest ] || echo "rows of the dataset: $stand_in, since mdtest opens for writing"
  for i in "${!plain[@]}"; do echo "${plain_name[i]}: ${plain[i]}$(plain_note "$i")"; done
  if [ ${#host[@]} -gt 0 ]; then echo "nodes: of ${host[*]}, storage in $local_dir"; else
    echo "nodes: emulated on this host, storage in $local_dir ($(df --output=fstype "$local_dir" | tail -n 1))"
  fi
  [ "$tool" != "$stand_in" ] || [ -n "$own" ] ||
    echo "$program is not installed (no Debian package has it): git clone https://github.com/hpc/ior; ./bootstrap; ./configure; make install"
}

# compare UNIT: all rounds of `cases`, the table and what failed.
compare() {
  local round
  (sides=() && cases) # which there are
  [ -s "$work/order" ] || wrong "--only $only: no case has this in its name"
  make_dataset
  for round in $(seq "$rounds"); do
    echo "round $round of $rounds" >&2
    cases
  done
  about
  echo
  table "$1"
  echo
  failures
  [ ! -s "$work/failed" ] || [ -n "$partial" ]
}
