#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# fs-launch --static: static programs read the whole dataset from each of two nodes, with the other node's storage and
# the shared copy out of sight; statuses, standard input, --np, what is left running, and a supervisor that dies.
. "$(dirname "$0")/../functions.sh"
. "$(dirname "$0")/static.bash"
need_command busybox

make_tree "$work/source"
head -c 5000000 /dev/urandom >"$work/source/large"
pack "$work/source" "$work/ds" --partitions 5 --mount "$mnt"
sums() { # DIRECTORY, as a command for a static shell
  echo "cd $1 && find . -type f -exec busybox md5sum {} + | sort | md5sum"
}
want=$(busybox sh -c "$(sums "$work/source")")
files=$(find "$work/source" -type f -printf x | wc -c)

# Without the shared copy, which is renamed while COMMAND runs.
alone() { echo "mv $work/ds $work/ds.away; $(sums "$mnt"); mv $work/ds.away $work/ds"; }
for node in 0 1; do
  launch --static --dataset "$work/ds" --emulate 2 --report "$work/r.json" -- env FANSTORE_NODE="$node" \
    busybox sh -c "$(sums "$mnt")" >"$work/out" 2>"$work/err" || fail "node $node: $(cat "$work/err")"
  equal "sums" "$want" "$(cat "$work/out")"
  equal "opens" "$files" "$(json "$work/r.json" "r['total']['opens']")"
  equal "shared" 0 "$(json "$work/r.json" "r['total']['bytes_shared']")"
  [ "$(json "$work/r.json" "r['total']['bytes_remote']")" -gt 0 ] || fail "nothing came from the other node"
  # The supervisor is inside the namespace: neither it nor the program sees the other node's storage.
  hide_other_nodes
  launch --dataset "$work/ds" --emulate 2 -- env FANSTORE_NODE="$node" "${hidden[@]}" "$bin/fanstore-static" \
    busybox sh -c "$(alone)" >"$work/out" 2>"$work/err" || fail "hidden, node $node: $(cat "$work/err")"
  equal "sums, hidden" "$want" "$(cat "$work/out")"
done
echo "ok - the whole tree from each of two nodes, nothing from the shared copy"

launch --static --dataset "$work/ds" --emulate 2 --np 3 -- busybox sh -c "$(sums "$mnt")" >"$work/out" 2>"$work/err" ||
  fail "--np 3: $(cat "$work/err")"
equal "three ranks" "3 $want" "$(sort "$work/out" | uniq -c | sed 's/^ *//')"
echo "ok - --np 3"

status() { # EXPECTED COMMAND...
  local want=$1
  shift
  expect_status "$want" launch --static --dataset "$work/ds" -- "$@"
}
status 3 busybox sh -c 'exit 3'
# shellcheck disable=SC2016
status 137 busybox sh -c 'kill -9 $$'
status 127 env no-such-command
equal "standard input" "$(seq 100000 | md5sum)" \
  "$(seq 100000 | launch --static --dataset "$work/ds" -- busybox md5sum 2>/dev/null)"
equal "with the library" "$(md5sum <"$work/source/large")" \
  "$(launch --static --dataset "$work/ds" -- "$python" -c "import os; os.system('busybox md5sum < $mnt/large')" 2>/dev/null)"
if command -v musl-gcc >/dev/null; then
  printf '%s\n' '#include <stdio.h>' 'int main(int n, char **v) {' '  FILE *f = fopen(v[1], "r");' \
    '  for (int c; f != NULL && (c = getc(f)) != EOF;) putchar(c);' '  return f == NULL;' '}' >"$work/musl.c"
  musl-gcc -o "$work/musl" "$work/musl.c"
  equal "musl, with the library in LD_PRELOAD" "$(md5sum <"$work/source/large")" \
    "$(launch --static --dataset "$work/ds" -- "$work/musl" "$mnt/large" 2>/dev/null | md5sum)"
  equal "musl, from a preloaded program" "$(md5sum <"$work/source/large")" \
    "$(launch --static --dataset "$work/ds" -- sh -c "$work/musl $mnt/large; true" 2>/dev/null | md5sum)"
fi
echo "ok - statuses, standard input, a preloaded program that starts a static one"

status 0 busybox sh -c 'busybox sleep 300 >/dev/null 2>&1 & exit 0'
grep -q 'still ran at its end' "$work/err" || fail "what COMMAND left is not told"
echo "ok - what COMMAND left running is ended"

# shellcheck disable=SC2016
script='y=$(printf "y%.0s" {1..256}) s=${y%y}
  mkdir "$1/d" "$1/e" "$1/e/$s" && echo kept >"$1/d/$s" && ln -s "$y" "$1/d/link" || exit
  for node in 0 1; do
    for call in unlink rm rmdir "mv $1/d/link" cat stat "stat -L" "chmod 700" touch "truncate -s 1" mkdir \
      "ln -s x" ls; do
      for name in "d/$y" "d/../e/$y"; do
        FANSTORE_NODE=$node busybox $call "$1/$name" </dev/null 2>&1 | grep -c "name too long" |
          grep -qx 1 || echo "node $node: $call $name"
      done
    done
    FANSTORE_NODE=$node busybox mv "$1/d/$y" "$1/d/other" 2>&1 | grep -q "name too long" || echo "node $node: mv from"
    FANSTORE_NODE=$node busybox cat "$1/d/link" 2>&1 | grep -q "name too long" || echo "node $node: by a link"
  done
  [ "$(cat "$1/d/$s")" = kept ] && [ -d "$1/e/$s" ] && [ "$(ls "$1/d" | wc -l)" = 2 ] || echo "not as it was"'
expect_status 0 launch --static --emulate 2 --dataset "$work/ds" -- bash -c "$script" - "$mnt"
[ ! -s "$work/out" ] || fail "$(cut -c 1-100 "$work/out")"
echo "ok - names of more than 255 bytes are refused, and nothing is touched"

cat >"$work/lock.c" <<'C'
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/file.h>
#include <unistd.h>
int main(int argc, char **argv) {
  char text[8] = "";
  struct flock f = {.l_type = F_RDLCK};
  int fd = open(argv[1], O_RDONLY);
  (void)!read(fd, text, 5);
  printf("%s", text);
  printf(" %d", flock(fd, LOCK_SH) < 0 ? errno : 0);
  printf(" %d", fcntl(fd, F_SETLK, &f) < 0 ? errno : 0);
  printf(" %d", fcntl(fd, F_OFD_SETLKW, &f) < 0 ? errno : 0);
  f.l_type = F_UNLCK;
  printf(" %d", fcntl(fd, F_SETLK, &f) < 0 ? errno : 0);
  printf(" %d\n", open(argv[1], O_RDWR) < 0 ? errno : 0);
  return 0;
}
C
cc -static -w -o "$work/lock" "$work/lock.c"
# shellcheck disable=SC2016
expect_status 0 launch --static --emulate 2 --np 2 --discard --dataset "$work/ds" -- bash -c '
  r=$OMPI_COMM_WORLD_RANK
  echo hello >"$2/by-$r"
  for ((i = 0; i < 300; i++)); do [ ! -e "$2/by-$((1 - r))" ] || break; sleep 0.1; done
  for n in 0 1; do "$1/lock" "$2/by-$n" >"$1/locked.$r.$n"; done
  touch "$1/done.$r"
  for ((i = 0; i < 300; i++)); do [ ! -e "$1/done.$((1 - r))" ] || break; sleep 0.1; done' - "$work" "$mnt"
for r in 0 1; do
  equal "its own output" "hello 0 0 0 0 0" "$(cat "$work/locked.$r.$r")"
  equal "the other node's: ENOLCK, and not writable" "hello 37 37 37 0 30" "$(cat "$work/locked.$r.$((1 - r))")"
done
echo "ok - another node's output is read; locks of it are refused"

# shellcheck disable=SC2016
script='kill -9 $(sed -n "s/^PPid:.//p" /proc/$$/status); while :; do :; done'
expect_status 125 env FANSTORE_DATASET="$work/ds" FANSTORE_MOUNT="$mnt" "$bin/fanstore-static" sh -c "$script"
one_line "$work/err" 'the supervisor died'
echo "ok - a supervisor that is killed takes COMMAND with it, and this is told"
no_leftovers
