#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# fd_calls.c and fd_processes.c, case by case: on a plain directory and on its mount, where no directory is; what is printed must be the
# same. Descriptor numbers, errors, offsets, close-on-exec, limits, names below /proc.
. "$(dirname "$0")/../functions.sh"
here=$(cd "$(dirname "$0")" && pwd)
need_command cc

plain_dir=$work/source
text_tree "$plain_dir"
printf 'one\ntwo\n' >"$plain_dir/d/e.txt"
seq -f %07.0f 0 4999 >"$plain_dir/numbers"
pack "$plain_dir" "$work/ds" --partitions 2
for program in calls processes; do
  cc -std=gnu11 -D_GNU_SOURCE -O1 -w -pthread -o "$work/$program" "$here/fd_$program.c"
done
cat >"$work/lines.c" <<'EOC'
#include <stdlib.h>
#include <unistd.h>
int main(int argc, char **argv) {
  char c;
  for (int n = atoi(argv[2]); n > 0;) {
    if (read(atoi(argv[1]), &c, 1) != 1) return 3;
    if (write(1, &c, 1) != 1) return 4;
    if (c == '\n') n--;
  }
  return 0;
}
EOC
cc -O1 -o "$work/lines" "$work/lines.c"
cc -static -O1 -o "$work/static" "$work/lines.c"

bad=0
compare() { # PROGRAM CASE: input from /dev/null, or closed
  local want got input=/dev/null
  [ "$2" != closed ] || input='&-'
  want=$(cd / && eval "timeout 60 '$work/$1' '$plain_dir' $2 '$work/static' '$work/lines' <$input" 2>&1)
  got=$(cd / && eval "plain '$work/ds' '$mnt' timeout 60 '$work/$1' '$mnt' $2 '$work/static' '$work/lines' <$input" 2>&1) || true
  [[ $want == *"end of $2"* ]] || fail "$2 does not come to its end: $want"
  [ "$want" = "$got" ] && return
  printf '%s differs:\n%s\n' "$2" "$(diff <(echo "$want") <(echo "$got"))" >&2
  bad=$((bad + 1))
}
for case in numbers copies ranges limits tight many names behind; do compare calls $case; done
for case in forks clones executed unshared low closed messages inherited killed races; do compare processes $case; done
[ $bad = 0 ] || fail "$bad cases"
no_leftovers
