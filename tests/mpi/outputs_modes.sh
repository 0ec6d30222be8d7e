#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# rest: other numbers of nodes
# What the modes of output files and directories permit, to root and to an ordinary user, is what they permit in a plain
# directory; and who changes modes and times by a descriptor changes them.
. "$(dirname "$0")/../functions.sh"
. "$(dirname "$0")/outputs.bash"

small_outputs_dataset
users=("")
if [ "$(id -u)" = 0 ]; then
  need_command setpriv
  users+=("setpriv --reuid=65534 --regid=65534 --clear-groups env HOME=$work/home TMPDIR=$work/home FANSTORE_RUN_BASE=$work/home")
fi
chmod -R a+rX "$work" "$TMPDIR"
for as in "${users[@]}"; do
  user=${as:+other-}
  rm -rf "${work:?}/home" "${work:?}/local" && mkdir "$work/home" "$work/${user}plain" "$work/${user}out" "$work/local"
  [ -z "$as" ] || chown -R 65534:65534 "$work/home" "$work/${user}plain" "$work/${user}out" "$work/local"
  $as "$python" "$here/outputs_modes.py" "$work/${user}plain" "env" >"$work/${user}plain.txt"
  [ "$(wc -l <"$work/${user}plain.txt")" -gt 500 ] || fail "too few lines"
  for n in $(half 2 "1 4"); do
    # shellcheck disable=SC2016,SC2086
    $as "$bin/fs-launch" --local-dir "$work/local" --dataset "$work/ds" --emulate $n -- bash -c \
      'for node in 0 $(($4 - 1)); do
        export FANSTORE_NODE=$node
        mkdir -p "$1/on$node" && "$2" "$3/outputs_modes.py" "$1/on$node" \
          "env FANSTORE_NODE=$((($node + 1) % $4))" >"$5/fanstore-$4-$node.txt" || exit
        [ $4 -gt 1 ] || break
      done' - "$mnt" "$python" "$here" $n "$work/${user}out" 2>"$work/err" || fail "$n nodes: $(cat "$work/err")"
    for node in 0 $((n - 1)); do
      diff -a "$work/${user}plain.txt" "$work/${user}out/fanstore-$n-$node.txt" || fail "node $node of $n is different"
    done
    echo "ok - $n nodes, ${as:-as it is}"
  done
  # What nobody may read is copied all the same, to a replica and to --stage-out.
  # shellcheck disable=SC2016
  printf '%s 5 f%s\n' 0 000 200 200 400 400 644 644 >"$work/wanted"
  for options in "--output-replicas 1" ""; do
    staged="$work/${user}out/staged${options:+-replicas}"
    $as mkdir "$staged"
    # shellcheck disable=SC2016,SC2086
    $as "$bin/fs-launch" --local-dir "$work/local" --dataset "$work/ds" --emulate 2 $options --stage-out "$staged" -- \
      "$python" -c 'import os, sys
for bits in (0o000, 0o200, 0o400, 0o644):
    with open(f"{sys.argv[1]}/f{bits:03o}", "w") as f:
        f.write("data\n")
        os.fchmod(f.fileno(), bits)' "$mnt" 2>"$work/err" || fail "modes $options: $(cat "$work/err")"
    find "$staged" -name 'f*' -printf '%m %s %f\n' | sort >"$work/staged"
    diff "$work/wanted" "$work/staged" || fail "modes $options: $(cat "$work/err")"
    echo "ok - staged out${options:+ with $options}, ${as:-as it is}"
  done
done
no_leftovers
