#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# timeout: 200
# What the modes of output files and directories permit, to root and to an ordinary user, is what they permit in a plain
# directory; and who changes modes and times by a descriptor changes them.
. "$(dirname "$0")/../functions.sh"
. "$(dirname "$0")/outputs.bash"

small_outputs_dataset
users=("")
if [ "$(id -u)" = 0 ]; then
  need_command setpriv
  users+=("setpriv --reuid=65534 --regid=65534 --clear-groups env HOME=$work/home TMPDIR=$work/home")
fi
chmod -R a+rX "$work" "$TMPDIR"
for as in "${users[@]}"; do
  user=${as:+other-}
  rm -rf "${work:?}/home" "${work:?}/local" && mkdir "$work/home" "$work/${user}plain" "$work/${user}out" "$work/local"
  [ -z "$as" ] || chown -R 65534:65534 "$work/home" "$work/${user}plain" "$work/${user}out" "$work/local"
  $as "$python" "$here/outputs_modes.py" "$work/${user}plain" "env" >"$work/${user}plain.txt"
  [ "$(wc -l <"$work/${user}plain.txt")" -gt 500 ] || fail "too few lines"
  for n in 1 2 4; do
    # shellcheck disable=SC2016,SC2086
    $as "$bin/fs-launch" --local-dir "$work/local" --dataset "$work/ds" --emulate $n -- bash -c \
      'for node in 0 $(($4 - 1)); do
        export FANSTORE_NODE=$node
        mkdir -p "$1/on$node" && "$2" "$3/outputs_modes.py" "$1/on$node" \
          "env FANSTORE_NODE=$((($node + 1) % $4))" >"$5/fanstore-$4-$node.txt" || exit
        [ $4 -gt 1 ] || break
      done' - "$mnt" "$python" "$here" $n "$work/${user}out" 2>"$work/err" || fail "$n nodes: $(cat "$work/err")"
    for node in 0 $((n - 1)); do
      diff "$work/${user}plain.txt" "$work/${user}out/fanstore-$n-$node.txt" || fail "node $node of $n is different"
    done
    echo "ok - $n nodes, ${as:-as it is}"
  done
done
no_leftovers
