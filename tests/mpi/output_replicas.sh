#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# long: 45
# rest: other numbers of nodes; partners that die
# --output-replicas 1: what a node's programs closed or synced is read on the others after its daemon's death, also after that
# of its partner or of the node that had it then; random kills; what is staged out and kept at the end.
. "$(dirname "$0")/../functions.sh"
here=$(cd "$(dirname "$0")" && pwd)
random_files "$work/source" 20 3 1 100 5000
ds=$work/ds
pack "$work/source" "$ds" --partitions 2 --mount "$mnt"

job() { # NODES STATUS OPTION... -- CASE...
  local nodes=$1 status=$2 options=()
  shift 2
  while [ "$1" != -- ]; do options+=("$1") && shift; done
  shift
  [[ ${options[*]} =~ --keep|--stage-out ]] || options+=(--discard)
  rm -rf "$work/plain" && mkdir "$work/plain"
  expect_status "$status" launch --dataset "$ds" --mount "$mnt" --emulate "$nodes" --output-replicas 1 "${options[@]}" -- \
    env FANSTORE_NODE=0 "$python" "$here/output_replicas.py" "$mnt" "$nodes" "$work/plain" "$@"
  sed "s/^ok - /ok - $nodes nodes: /" "$work/out"
}
# A killed daemon's directory stays until the next job, as after any kill.
clean() { rm -rf "$work"/local/*/outputs-* "$TMPDIR"/fanstore-*; }

deaths() { # NODES
  local n=$1 sent
  job "$n" 0 --report "$work/r.json" -- case_stays
  sent=$(json "$work/r.json" 'sum(x["replicated_bytes"] for x in r["nodes"])')
  # 8 MB of checkpoints, 200 KB of blocks that were changed, a log of 300 lines by its new bytes alone
  if [ "$sent" -le 8000000 ] || [ "$sent" -ge 13000000 ]; then fail "$sent bytes were sent"; fi
  echo "ok - $n nodes: without a death; a log costs what was appended"
  no_leftovers
  job "$n" 0 -- case_kinds
  clean
  job "$n" 0 -- case_mapped
  clean
  job "$n" 0 -- case_sparse
  clean
  mkdir "$work/durable"
  job "$n" 0 --stage-out "$work/durable" -- case_end
  (cd "$work/durable" && find . -path ./.fanstore-staged -prune -o -type f -name '[a-z]*' -exec md5sum {} + | sort) |
    diff "$work/plain/sums" - || fail "other files are staged out: $(cat "$work/err")"
  rm -rf "$work/durable"
  clean
  job "$n" 0 --keep -- case_end
  (cd "$work"/local/fanstore-outputs/job-* && find . -type f -exec md5sum {} + | sort) | diff "$work/plain/sums" - ||
    fail "others are kept: $(cat "$work/err")"
  rm -rf "$work/local/fanstore-outputs"
  clean
  echo "ok - $n nodes: staged out, and kept, after home's death"
}
at_random() { # NODES
  local n=$1 seconds
  for seconds in 0.2 0.5 0.9; do
    job "$n" 0 -- case_random $seconds
    clean
    job "$n" 0 -- case_appended $seconds
    clean
  done
}
others() {
  job 4 0 -- case_partner
  clean
  job 3 0 --report "$work/r.json" -- case_stopped
  equal "its files are told once" 1 "$(json "$work/r.json" 'r["outputs"]["files"]')"
  clean

  mkdir "$work/durable"
  job 3 0 --stage-out "$work/durable" -- case_back "$work/durable"
  rm -rf "$work/durable"
  clean

  expect_status 0 launch --dataset "$ds" --mount "$mnt" --emulate 1 --output-replicas 1 -- sh -c 'echo x >"$1/x" && cat "$1/x"' - "$mnt"
  equal "alone" x "$(cat "$work/out")"
  grep -q 'warning: --output-replicas: there is one node' "$work/err" || fail "not said: $(cat "$work/err")"
  echo "ok - one node"
}
two() { deaths 2; }
four() { deaths 4; }
random_two() { at_random 2; }
random_four() { at_random 4; }
# shellcheck disable=SC2046 # words
side_by_side eval $(half 'two random_two' 'four random_four others')
