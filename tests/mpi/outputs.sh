#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# long: 40
# rest: other numbers of nodes
# Output files: what programs make of them below a mount is what they make of them in a plain directory; and what one node
# writes, the others see.
. "$(dirname "$0")/../functions.sh"
. "$(dirname "$0")/outputs.bash"

small_outputs_dataset
first=$(cd "$work/source" && find . -type f | sed 's|^\./||' | sort | head -1)

mkdir "$work/plain"
"$python" "$here/outputs_ops.py" "$work/plain" >"$work/plain.txt"
mkdir "$work/long" "$work/outside"
"$python" "$here/outputs_long.py" make "$work/long"
"$python" "$here/outputs_long.py" calls "$work/long" "$work/source/d00" "$work/outside" >>"$work/plain.txt"
[ "$(wc -l <"$work/plain.txt")" -gt 100 ] || fail "too few lines"
for n in $(half 2 1); do
  # shellcheck disable=SC2016
  launch --dataset "$work/ds" --emulate "$n" -- bash -c 'for node in $(seq 0 $(($4 - 1))); do
      export FANSTORE_NODE=$node
      mkdir "$1/on$node" && "$2" "$3/outputs_ops.py" "$1/on$node" >"$5/fanstore-$4-$node.txt" || exit
      mkdir "$1/long$node" && FANSTORE_NODE=0 "$2" "$3/outputs_long.py" make "$1/long$node" || exit
      "$2" "$3/outputs_long.py" calls "$1/long$node" "$1/d00" "$5/outside" >>"$5/fanstore-$4-$node.txt" || exit
    done' - "$mnt" "$python" "$here" "$n" "$work" 2>"$work/err" || fail "$n nodes: $(cat "$work/err")"
  for node in $(seq 0 $((n - 1))); do
    diff "$work/plain.txt" "$work/fanstore-$n-$node.txt" || fail "node $node of $n is different"
  done
done
echo "ok - as in a plain directory"
no_leftovers

# What the dataset has stays as it is. Calls that set the attributes of its directories and change nothing succeed.
mkdir -p "$work/tree/d00/new" && echo x >"$work/tree/d00/new/f" && touch -d 2020-01-01 "$work/tree" "$work/tree/d00"
[ "$(id -u)" != 0 ] || chown -R 65534 "$work/tree"
tar cf "$work/tree.tar" -C "$work/tree" .
chmod 775 "$work/tree/d00"
launch --dataset "$work/ds" --emulate 2 -- bash -c '
  { echo x >"$1/$2"; } 2>/dev/null && exit 1
  rm -f "$1/$2" 2>/dev/null && exit 2
  mv "$1/$2" "$1/other" 2>/dev/null && exit 3
  touch "$1/mine" && { mv "$1/mine" "$1/$2" 2>/dev/null && exit 4; }
  { mkdir "$1/$2" 2>/dev/null && exit 5; }
  { chmod 600 "$1/$2" 2>/dev/null && exit 6; }
  rm "$1/mine" && diff -r "$3" "$1" || exit 7
  for node in 0 1; do
    export FANSTORE_NODE=$node
    tar xpf "$5.tar" -C "$1" && cp -a "$5/." "$1" && cp -a "$5/d00" "$1" || exit 9
    "$4" -c "import shutil, sys; shutil.copytree(*sys.argv[1:], dirs_exist_ok=True)" "$5" "$1" || exit 10
    chmod 700 "$1/d00" && chmod 755 "$1/." && touch -d 2020-01-01 "$1" || exit 11
    [ "$(stat -c %a "$1/d00" && cat "$1/d00/new/f")" = "$(stat -c %a "$3/d00" && echo x)" ] || exit 12
    { touch "$1/d00" || chmod 500 "$1/d00" || touch -d 2020-01-01 "$1/$2"; } 2>/dev/null && exit 13
    rm -r "$1/d00/new" || exit 14
  done
  mkdir "$1/watched" && for directory in "$1" "$1/watched" "$1/d00"; do
    "$4" -c "import ctypes, os, sys
libc = ctypes.CDLL(None, use_errno=True)
r = libc.inotify_add_watch(libc.inotify_init(), os.fsencode(sys.argv[1]), 0x100)
sys.exit(r != -1 or ctypes.get_errno() != 28)" "$directory" || exit 8
  done' - "$mnt" "$first" "$work/source" "$python" "$work/tree" 2>"$work/err" || fail "status $?: $(cat "$work/err")"
echo "ok - a dataset's names cannot be taken"

launch --dataset "$work/ds" --emulate 2 --read-only -- bash -c '
  { echo x >"$1/new"; } 2>/dev/null && exit 1; mkdir "$1/new" 2>/dev/null && exit 2; ls "$1" | grep new && exit 3; exit 0' \
  - "$mnt" 2>"$work/err" || fail "--read-only: status $?"
echo "ok - --read-only"

# The report tells the dataset's files and other nodes' outputs apart.
for n in $(half 4 2); do
  launch --dataset "$work/ds" --emulate "$n" --report "$work/r.json" -- bash -c '
    head -c 1000000 /dev/urandom >"$1/big" || exit
    for node in $(seq 0 $(($3 - 1))); do FANSTORE_NODE=$node md5sum "$1/$2" "$1/big" || exit; done' - "$mnt" "$first" "$n" \
    >"$work/out" 2>"$work/err" || fail "status $?: $(cat "$work/err")"
  equal "different bytes" 2 "$(sort -u "$work/out" | wc -l)"
  for node in $(seq 0 $((n - 1))); do
    other=$((node > 0))
    equal "node $node of $n" "1 $other $((other * 1000000))" \
      "$(json "$work/r.json" '"{opens} {output_opens} {output_bytes}".format(**r["nodes"]['"$node"'])')"
  done
  grep -qE "^fs-launch: node 0 .*: 1 dataset file opened, [^;]*(; [0-9.]+ [KM]iB sent to other nodes)?$" "$work/err" || fail "$(cat "$work/err")"
  grep -q "^fs-launch: node 1 .*: 1 dataset file opened, .*; other nodes' outputs: 1 opened, 976.6 KiB read" "$work/err" ||
    fail "$(cat "$work/err")"
done
echo "ok - what is counted"

for n in $(half 2 4); do seen_on "$n" --cache 16M -- "$python" "$here/outputs_nodes.py" "$mnt" "$n"; done
