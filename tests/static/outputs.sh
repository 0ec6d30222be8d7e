#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# What static programs see of directories with outputs, on each of two nodes: listings like those of preloaded programs,
# kept positions, removal of what is listed, and current directories that were made during the job or are removed.
. "$(dirname "$0")/../functions.sh"
. "$(dirname "$0")/static.bash"
need_command busybox cc
file -L "$(type -P busybox)" 2>/dev/null | grep -qv dynamically || skip "busybox is not static here"

mkdir -p "$work/source/data" "$work/real/sub"
for i in {1..100}; do echo "$i" >"$work/source/data/f$i"; done
touch "$work/real/file" "$work/real/sub/file"
pack "$work/source" "$work/ds" --partitions 3 --mount "$mnt"
cc -D_GNU_SOURCE -w -static -o "$work/static" "${0%/*}/listing.c"
cc -D_GNU_SOURCE -w -o "$work/dynamic" "${0%/*}/listing.c"

cat >"$work/job" <<'END'
m=$1 work=$2 nodes=$3 supervisor=$4
die() { echo "FAILED: $*" && exit 1; }
static() { "$supervisor" -- "$@"; }
same() { # WHAT: $work/want and $work/got
  cmp -s "$work/want" "$work/got" || { diff "$work/want" "$work/got" | head -n 5; die "node $FANSTORE_NODE: $*"; }
}

mkdir -p "$m/new/sub/sub" "$m/data/made" "$m/many" && ln -s file "$m/new/link" && mkfifo "$m/new/fifo" || die "making"
echo hello >"$m/new/file" && echo x >"$m/data/out" || die "writing"
for i in {1..20}; do mkfifo "$m/data/fifo$i"; done
FANSTORE_NODE=$((nodes - 1)) bash -c 'echo other >"$1/new/other"; echo x >"$1/data/other"; mkfifo "$1/new/fifo2"' - "$m"
(cd "$m/many" && for ((i = 0; i < $5; i++)); do : >"$i.with-a-longer-name" || exit; done) || die "many"

for ((n = 0; n < nodes; n++)); do
  export FANSTORE_NODE=$n
  for d in new new/sub data . many; do
    [ $d != many ] || [ $((n + 1)) = "$nodes" ] || continue
    "$work/dynamic" list "$m/$d" 4096 >"$work/want"
    names=$(wc -l <"$work/want")
    for size in 48 32768; do
      [ $d.$size != many.48 ] || continue
      static "$work/static" list "$m/$d" $size low >"$work/got"; same "$d by $size bytes"
      static "$work/static" old "$m/$d" $size >"$work/got"; same "$d by $size bytes, older call"
    done
    [ "$(static "$work/static" seek "$m/$d")" = "$names" ] || die "node $n: seekdir in $d"
    [ "$(static "$work/static" share "$m/$d")" = "$names" ] || die "node $n: a shared position in $d"
  done
  [ $((n + 1)) != "$nodes" ] || [ "$names" = $(($5 + 2)) ] || die "many: $names"

  (cd "$m/new" && find . | sort) >"$work/want"
  for how in 'busybox find . | sort' 'busybox tar c . | tar t | sed "s|/$||" | sort'; do
    static busybox sh -c "cd $m/new && $how" >"$work/got"; same "$how"
  done
  static busybox sh -c "cd $m/data && busybox mkdir $work/copy$n && busybox cp -r out other made f1 $work/copy$n && cd .. && pwd" >"$work/got"
  [ "$(ls "$work/copy$n" | tr '\n' ' ')$(cat "$work/got")" = "f1 made other out $m" ] || die "node $n: cp -r"
  # A preloaded program's current directory.
  (cd "$m/new" && ls -A && pwd) >"$work/want"
  (cd "$m/new" && static busybox ls -A . && static busybox pwd) >"$work/got"; same "below a preloaded shell"
done

# The same process in a directory that others rename, and remove.
cd "$work/real" || exit
mkdir "$m/a" && : >"$m/a/file"
static busybox sh -c "cd $m/a && busybox mv $m/a $m/b && busybox pwd && busybox ls" >"$work/got"
[ "$(cat "$work/got")" = "$m/b"$'\n'file ] || die "renamed: $(cat "$work/got")"
static busybox sh -c "cd $m/b && busybox rm -r $m/b && exec 2>&1
  for i in ls 'ls ..' pwd 'cat file' 'rm file' 'rm sub/file' 'mv file x' 'touch x' 'mkdir x' 'stat .'; do busybox \$i; done" \
  >"$work/got"
[ "$(grep -c 'No such file' "$work/got") $(find . | sort | tr '\n' ' ')" = "10 . ./file ./sub ./sub/file " ] ||
  die "removed: $(cat "$work/got")"
mkdir "$m/a" && cd "$m/a" && rmdir "$m/a" || exit
static busybox ls .. >"$work/got" 2>&1 && die "removed, from a preloaded shell: $(cat "$work/got")"
cd / || exit

for ((n = 0; n < nodes; n++)); do
  export FANSTORE_NODE=$n
  mkdir -p "$m/tree/sub" && : >"$m/tree/sub/file" && mkfifo "$m/tree/fifo" &&
    (cd "$m/tree" && for i in {1..300}; do : >"$i" || exit; done) || die "tree"
  static "$work/static" remove "$m/tree" || die "node $n: removing what is listed"
  [ ! -e "$m/tree" ] || die "node $n: it is there"
done
static busybox rm -rf "$m/many" || die "rm -rf"
[ "$(static busybox ls "$m" | tr '\n' ' ')" = "data new " ] || die "rm -rf: $(ls "$m")"
END
for nodes in 1 2; do
  [ $nodes = 1 ] && many=100 || many=1500
  # A real directory of an output directory's path, as --stage-out makes it, must not be seen.
  [ $nodes = 2 ] || { mkdir -p "$mnt/new" && touch "$mnt/new/decoy"; }
  expect_status 0 launch --emulate "$nodes" --discard --dataset "$work/ds" -- \
    bash "$work/job" "$mnt" "$work" "$nodes" "$bin/fanstore-static" "$many"
  [ ! -s "$work/out" ] || fail "$(cat "$work/out")"
  rm -rf "$work"/copy* "$mnt"
  echo "ok - listings of static programs, $nodes nodes"
done
no_leftovers
