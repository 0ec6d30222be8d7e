#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# long: 90
# slow
# --output-replicas 1, files of several writers: what any node has closed or synced of them is read after the death of their
# home's daemon and of a writer's; who writes goes on; random kills (ROUNDS of them); what is staged out and kept then.
. "$(dirname "$0")/../functions.sh"
here=$(cd "$(dirname "$0")" && pwd)
random_files "$work/source" 4 3 1 100 5000
ds=$work/ds
pack "$work/source" "$ds" --partitions 2 --mount "$mnt"

job() { # NODES OPTION... -- CASE...
  local nodes=$1 options=()
  shift
  while [ "$1" != -- ]; do options+=("$1") && shift; done
  shift
  [[ ${options[*]} =~ --keep|--stage-out ]] || options+=(--discard)
  rm -rf "$work/plain" && mkdir "$work/plain"
  expect_status 0 launch --dataset "$ds" --mount "$mnt" --emulate "$nodes" --output-replicas 1 "${options[@]}" -- \
    env FANSTORE_NODE=0 "$python" "$here/output_replicas_segments.py" "$mnt" "$nodes" "$work/plain" "$@"
  sed "s/^ok - /ok - $nodes nodes: /" "$work/out"
}
# A killed daemon's directory stays until the next job, as after any kill.
clean() { rm -rf "$work"/local/*/outputs-* "$TMPDIR"/fanstore-*; }

same() { # DIRECTORY WHAT
  (cd "$1" && find . -path ./.fanstore-staged -prune -o -type f -name '[a-z]*' -exec md5sum {} + | sort) |
    diff "$work/plain/sums" - || fail "other files are $2: $(cat "$work/err")"
}

deaths() { # NODES
  local n=$1 i
  job "$n" -- case_homes
  clean
  job "$n" -- case_open
  clean
  job "$n" -- case_forwarders
  clean
  job "$n" -- case_untold
  clean
  job "$n" -- case_appended
  clean
  for ((i = 0; i < ${ROUNDS:-2}; i++)); do
    job "$n" -- case_random $((i % 2)) "$((RANDOM % 2)).$((RANDOM % 10))"
    clean
  done
  mkdir "$work/durable"
  job "$n" --stage-out "$work/durable" -- case_end
  same "$work/durable" "staged out"
  rm -rf "$work/durable"
  clean
  job "$n" --keep -- case_end
  same "$(echo "$work"/local/fanstore-outputs/job-*)" kept
  rm -rf "$work/local/fanstore-outputs"
  clean
  echo "ok - $n nodes: staged out, and kept, after the death of a home and writer"
}
others() {
  expect_status 0 launch --dataset "$ds" --mount "$mnt" --emulate 3 --output-replicas 1 -- bash -c \
    'env FANSTORE_NODE=0 "$@" && for i in {1..100}; do [ -n "$(find "'"$work/local"'" -path "*/out/*")" ] || exit 0; sleep 0.1; done
     find "'"$work/local"'" -path "*/out/*" -ls; exit 1' - "$python" "$here/output_replicas_segments.py" "$mnt" 3 "$work" case_removed
  echo "ok - segments and their replicas go with the file"

  for option in --keep "--stage-out $work/durable"; do
    rm -rf "$work/durable" "$work/local" && mkdir "$work/durable"
    # shellcheck disable=SC2086 # one or two words
    expect_status 125 launch --dataset "$ds" --mount "$mnt" --emulate 3 --output-replicas 1 --output-limit 8M $option -- \
      env FANSTORE_NODE=0 "$python" "$here/output_replicas_segments.py" "$mnt" 3 "$work" case_full
    grep -q '1 output is lost with its node: lost$' "$work/err" || fail "$option: $(cat "$work/err")"
  done
  echo "ok - what could not be replicated, and is lost, is named"
}
two() { deaths 2; }
four() { deaths 4; }
side_by_side eval two four others
