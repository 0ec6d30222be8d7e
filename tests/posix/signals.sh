#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# signals.c: handlers that read from a mount, or fork in calls on it, jumps out of calls on it, cancelled threads, changed users; on a plain directory
# where that must hold there too, with the library alone, and in a job of two nodes.
# slow
# long: 35
. "$(dirname "$0")/../functions.sh"
need_command cc

plain_dir=$work/source
mkdir -p "$plain_dir"
for i in $(seq 0 9); do head -c $((i * i * 2000)) /dev/urandom >"$plain_dir/f$i"; done
echo secret >"$plain_dir/secret"
pack "$plain_dir" "$work/ds" --partitions 2
pack "$plain_dir" "$work/ds-lz4" --codec lz4
cc -std=gnu11 -D_GNU_SOURCE -O1 -w -pthread -o "$work/signals" "$(dirname "$0")/signals.c"

for case in handler forks async; do
  say "plain directory: $case"
  timeout 120 "$work/signals" "$plain_dir" "$plain_dir" "$case" 10000
done
for case in handler fork forks jump lost cancel async; do
  say "mount: $case"
  plain "$work/ds" "$mnt" timeout 120 "$work/signals" "$plain_dir" "$mnt" "$case"
done
plain "$work/ds-lz4" "$mnt" timeout 120 "$work/signals" "$plain_dir" "$mnt" handler 5000
for case in handler forks cancel async; do
  say "job: $case"
  launch --dataset "$work/ds" --mount "$mnt" --emulate 2 -- timeout 120 "$work/signals" "$plain_dir" "$mnt" "$case" 10000
done

say "the effective user"
chmod 200 "$plain_dir/secret"
pack "$plain_dir" "$work/ds-secret"
chmod -R a+rX "$work/ds-secret"
plain "$work/ds-secret" "$mnt" "$work/signals" "$plain_dir" "$mnt" user
no_leftovers
