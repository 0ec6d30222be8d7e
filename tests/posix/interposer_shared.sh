#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# interposer_shared.c on a plain directory and on a mount, with the library alone and in a job, where real copies are
# files of the node. Then interposer_threads.c: threads that read, fork, vfork and spawn at the same time.
. "$(dirname "$0")/../functions.sh"
here=$(cd "$(dirname "$0")" && pwd)
need_command cc

plain_dir=$work/source
text_tree "$plain_dir"
printf 'äöü\n日本語\n' >"$plain_dir/wide.txt"
for i in $(seq 0 9); do head -c $((i * i * 2000)) /dev/urandom >"$plain_dir/d/f$i"; done
cc -std=gnu11 -D_GNU_SOURCE -O1 -w -o "$work/shared" "$here/interposer_shared.c"
cc -std=gnu11 -D_GNU_SOURCE -O1 -w -pthread -o "$work/threads" "$here/interposer_threads.c"
pack "$plain_dir" "$work/ds" --partitions 2

say "plain directory"
"$work/shared" "$plain_dir" || fail "the plain directory does not answer as expected"
say "mount"
plain "$work/ds" "$mnt" "$work/shared" "$mnt"
say "mount in a job"
for _ in 1 2; do launch --dataset "$work/ds" --mount "$mnt" --emulate 2 -- "$work/shared" "$mnt"; done

# same SCRIPT: '@' in it is the directory
same() {
  want=$(timeout 20 bash -c "${1//@/$plain_dir}" 2>&1 </dev/null) || true
  equal "$1" "$want" "$(plain "$work/ds" "$mnt" timeout 20 bash -c "${1//@/$mnt}" 2>&1 </dev/null)"
}
say "shells"
for shell in bash sh; do
  same "$shell -c 'while read x <&3; do n=\$((n + 1)); [ \$n -gt 900 ] && break; done 3< @/a.txt; echo \$n'"
  same "$shell -c 'exec 3< @/a.txt; read x <&3; read y <&3; echo \$x \$y; cat <&3 | md5sum'"
done
same 'cat /dev/fd/5 5< @/a.txt | md5sum; diff /dev/fd/3 /dev/fd/4 3< @/a.txt 4< @/b.txt | md5sum'
command -v rev >/dev/null && same 'rev @/wide.txt'

say "an allocator whose mmap makes the system call by syscall()"
cat >"$work/other.c" <<'EOC'
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>
void *mmap(void *a, size_t n, int p, int f, int fd, off_t o) { return (void *)syscall(SYS_mmap, a, n, p, f, fd, o); }
EOC
cc -shared -fPIC -w -o "$work/other.so" "$work/other.c"
want=$(md5sum <"$plain_dir/d/f9")
for both in "$lib:$work/other.so" "$work/other.so:$lib"; do
  equal "$both" "$want" "$(plain "$work/ds" "$mnt" env LD_PRELOAD="$both" "$python" -c '
import hashlib, mmap, sys
f = open(sys.argv[1], "rb")
m = mmap.mmap(f.fileno(), 0, access=mmap.ACCESS_READ)
assert m[:] == f.read()
print(hashlib.md5(m).hexdigest(), " -")' "$mnt/d/f9")"
done

say "threads"
plain "$work/ds" "$mnt" timeout 60 "$work/threads" "$plain_dir/d" "$mnt/d" 2
launch --dataset "$work/ds" --mount "$mnt" --emulate 2 -- timeout 60 "$work/threads" "$plain_dir/d" "$mnt/d" 2
no_leftovers
