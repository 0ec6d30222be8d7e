#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# fd_replaced.c: a number that threads read by is replaced by dup2, on a plain directory and on a mount. What happens to
# outputs of other nodes is tests/mpi/outputs_replaced.sh.
. "$(dirname "$0")/../functions.sh"
need_command cc

plain_dir=$work/source
mkdir -p "$plain_dir"
letters=ABCDEFGHIJKLMNOP
for i in $(seq 0 15); do
  head -c 300000 /dev/zero | tr '\0' "${letters:i:1}" >"$plain_dir/$(printf 's%02d' "$i")"
done
cc -std=gnu11 -D_GNU_SOURCE -O1 -w -pthread -o "$work/replaced" "$(dirname "$0")/fd_replaced.c"
pack "$plain_dir" "$work/ds" --partitions 2

say "plain directory"
"$work/replaced" "$plain_dir" 1 read || fail "the plain directory does not answer as expected"
say "mount"
plain "$work/ds" "$mnt" timeout 60 "$work/replaced" "$mnt" 1 read
say "mount, where system calls are filtered"
plain "$work/ds" "$mnt" timeout 60 "$work/replaced" "$mnt" 1 filtered
no_leftovers
