#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# Programs that LD_PRELOAD does not reach, under fanstore-static: the same command on the source directory and on its
# mount, where no directory is, must give the same output and status.
. "$(dirname "$0")/../functions.sh"
. "$(dirname "$0")/static.bash"
need_command busybox cc
file -L "$(type -P busybox)" 2>/dev/null | grep -qv dynamically || skip "busybox is not static here"

source=$work/source
make_tree "$source"
mkdir "$source/bin"
cp "$(type -P busybox)" "$source/bin/busybox"
cp "$(type -P true)" "$source/bin/dynamic"
printf '#!/bin/sh\necho "$0 $*"; wc -c <"$0"\n' >"$source/bin/script"
chmod 755 "$source"/bin/*
echo 'no program' >"$source/bin/data"
head -c 20000000 /dev/urandom >"$source/large"
pack "$source" "$work/ds" --partitions 3
seen=0

# same COMMAND...: @ stands for the directory
same() {
  local status=0 expected=0
  (cd / && "${@//@/$source}") >"$work/out1" 2>"$work/err1" </dev/null || expected=$?
  (cd / && supervised "$work/ds" "$mnt" "${@//@/$mnt}") >"$work/out2" 2>"$work/err2" </dev/null || status=$?
  sed -i "s|$source|DIR|g" "$work/out1" "$work/err1"
  sed -i "s|$mnt|DIR|g" "$work/out2" "$work/err2"
  equal "status of $*" "$expected" "$status"
  diff "$work/out1" "$work/out2" || fail "output of $*"
  diff "$work/err1" "$work/err2" || fail "errors of $*"
  seen=$((seen + 1))
}
box() { same busybox sh -c "$*"; }

box 'cat @/sizes/* | md5sum'
box 'ls -l @/train @/links @/modes | grep -v ^total'
box 'find @ | sort'
box 'find @ -type f -exec busybox md5sum {} + | sort'
box 'cd @ && ls -lR . | grep -v ^total | sed "s/^d\(.*\) [0-9]* \(.* .* .*\)/\1 \2/"'
box 'tar c -C @ sizes train odd | tar t | sort'
box 'du -s @/none'
box "cp -r @/sizes $work/copy && cd $work/copy && md5sum *; rm -r $work/copy"
box 'cd @/train && pwd && echo * && (cd class0 && pwd && ls | wc -l) && cd .. && pwd && cat < large | md5sum'
box 'cd @/train/class0; cd ../../odd && ls; pwd; cd -; cd /; pwd; cd @; cd train; ls'
box 'while read a; do echo "$a"; done < @/bin/script; exec 5<@/large; head -c 5 <&5 | md5sum; head -c 5 <&5 | md5sum'
box 'stat -c "%n %s %f %Y %h" @/sizes/* @/links/*; readlink @/links/*; test -r @/large; echo $?; test -w @/large; echo $?'
box 'head -c 100 @/none; cat @; ls @/large/x; cd @/large; cat @/links/loop-a'
box '@/bin/busybox echo hello; @/bin/dynamic; echo $?; @/bin/data; @/bin/none; @/bin; cd @/bin && ./busybox echo rel; echo $?'
box 'PATH=@/bin:$PATH; busybox which busybox; script a "b c"; @/bin/script; cd @/bin; ./script x'
box 'exit 7'
box 'seq 1000 | while read i; do echo $i; done | md5sum'
echo "ok - busybox: $seen command lines"

cat >"$work/prog.c" <<'END'
#include <dirent.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>
/* Lists a directory twice, by rewinddir and by seekdir, and maps a file. */
int main(int argc, char **argv) {
  DIR *d = opendir(argv[1]);
  int n = 0, again = 0;
  long middle = 0;
  while (readdir(d)) if (++n == 2) middle = telldir(d);
  rewinddir(d);
  while (readdir(d)) again++;
  seekdir(d, middle);
  struct dirent *e = readdir(d);
  printf("%d %d %d\n", n, again, e != NULL);
  int fd = open(argv[2], O_RDONLY), copy = dup(fd);
  struct stat st, lst;
  char *p = (fstat(copy, &st), mmap(NULL, st.st_size, PROT_READ, MAP_SHARED, fd, 0));
  unsigned sum = 0;
  for (long i = 0; i < st.st_size; i++) sum = sum * 31 + (unsigned char)p[i];
  stat(argv[2], &lst);
  printf("%ld %u %d %ld\n", (long)st.st_size, sum, st.st_ino == lst.st_ino && st.st_dev == lst.st_dev,
         (long)st.st_mtim.tv_nsec);
  char buf[10] = {0};
  if (read(fd, buf, 4) != 4 || lseek(copy, 0, SEEK_CUR) != 4 || pread(copy, buf, 4, 0) != 4) return 1;
  printf("%d\n", fcntl(fd, F_GETFD));
  fflush(stdout);
  if (chdir(argv[1]) != 0) return 1;
  if (fork() == 0) return puts(getcwd(NULL, 0)) < 0;
  return wait(NULL) < 0;
}
END
compilers=0
for compiler in "cc -static" "musl-gcc -static" musl-gcc; do
  if command -v "${compiler%% *}" >/dev/null && $compiler -w -o "$work/prog" "$work/prog.c" 2>/dev/null; then
    same "$work/prog" @/train @/large
    compilers=$((compilers + 1))
  fi
done
echo "ok - $compilers C libraries, linked statically, and musl dynamically"

if command -v go >/dev/null; then
  cp "$(dirname "$0")/client.go" "$work/client.go"
  (cd "$work" && CGO_ENABLED=0 GOCACHE=$work/gocache GOFLAGS=-mod=mod HOME=$work go build -o client client.go) ||
    fail "go build"
  same "$work/client" @
  echo "ok - Go, static"
else
  echo "no go here: its part is left out"
fi

same "$python" -c 'import glob, mmap, os, sys
root = "@"
for directory, subdirs, files in sorted(os.walk(root)):
    print(directory, sorted(subdirs), sorted(files))
    for name in sorted(files):
        path = os.path.join(directory, name)
        if os.path.exists(path):
            with open(path, "rb") as f:
                st = os.fstat(f.fileno())
                print(name, len(f.read()), st.st_mtime_ns, oct(st.st_mode), st == os.stat(path))
os.chdir(root + "/train")
print(os.getcwd(), sorted(os.listdir(".")))
fd = os.open(root, os.O_RDONLY)
print(sorted(os.listdir(fd)), os.stat("large", dir_fd=fd).st_size)
os.fchdir(fd)
print(os.getcwd(), len(glob.glob("*/*")))
os.system("pwd")'
echo "ok - python3 without the preload"

# Attributes that only the mount has, by path and by descriptor.
supervised "$work/ds" "$mnt" "$python" -c "import os
fd = os.open('$mnt/large', os.O_RDONLY)
print(os.getxattr('$mnt/large', 'user.fanstore.codec') == os.getxattr(fd, 'user.fanstore.codec'), os.listxattr(fd))
print(os.getxattr('$mnt/large', 'user.fanstore.mount').decode())" >"$work/out" || fail "getxattr"
equal "attributes" "True [] $mnt" "$(paste -sd' ' "$work/out")"

# A program with the library and one without, in turn: each understands the other's current directory.
LD_PRELOAD=$lib supervised "$work/ds" "$mnt" busybox sh -c "cd $mnt/train && $python -c 'import os
print(os.getcwd()); os.chdir(\"class0\"); os.system(\"busybox pwd; busybox ls | wc -l\")' && busybox pwd" >"$work/out"
equal "with the preload in between" "$mnt/train $mnt/train/class0 $(find "$source/train/class0" -mindepth 1 | wc -l) $mnt/train" \
  "$(paste -sd' ' "$work/out")"
echo "ok - with the preloaded library in between"

say "what is refused"
status=0
supervised "$work/ds" "$mnt" busybox sh -c "echo x >$mnt/new; mkdir $mnt/d; rm $mnt/large; mv $mnt/large $mnt/l; \
  mv $mnt/large $work/l; chmod 0 $mnt/large; ln -s a $mnt/b; touch $mnt/large; echo x >>$mnt/large; rmdir $mnt/train
  exec 5<$mnt/large; echo x >/proc/self/fd/5" >"$work/out" 2>&1 || status=$?
equal "refusals" 11 "$(grep -c 'Read-only file system' "$work/out")" || cat "$work/out"
cmp "$source/large" <(supervised "$work/ds" "$mnt" busybox cat "$mnt/large") || fail "the large file has changed"

say "processes that outlive COMMAND are still served"
# shellcheck disable=SC2016
supervised "$work/ds" "$mnt" busybox sh -c '(sleep 1; cat $0/large | md5sum >$1/late.new; mv $1/late.new $1/late) >/dev/null 2>&1 &' \
  "$mnt" "$work"
[ ! -e "$work/late" ] || fail "COMMAND was waited for longer than it ran"
wait_until 60 test -e "$work/late"
equal "read by the one left behind" "$(md5sum <"$source/large")" "$(cat "$work/late")"

say "sixteen at once"
# shellcheck disable=SC2016
sums='for i in $(seq $1); do (find $0 -type f -exec busybox md5sum {} + | sed "s|$0|DIR|" | sort | md5sum) & done; wait'
supervised "$work/ds" "$mnt" busybox sh -c "$sums" "$mnt" 16 | sort | uniq -c >"$work/out"
equal "all the same" "16 $(busybox sh -c "$sums" "$source" 1)" "$(sed 's/^ *//' "$work/out")"

say "no supervisor below another, and no COMMAND"
expect_status 125 supervised "$work/ds" "$mnt" "$bin/fanstore-static" true
one_line "$work/err" 'one cannot run below another'
# shellcheck disable=SC2016
expect_status 143 supervised "$work/ds" "$mnt" busybox sh -c 'kill -TERM $$'
expect_status 127 supervised "$work/ds" "$mnt" "$work/nothing"
expect_status 126 supervised "$work/ds" "$mnt" "$work"
expect_status 2 "$bin/fanstore-static"
no_leftovers
