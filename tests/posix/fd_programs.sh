#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# Open files that go from one program to another: shells that share an offset with their children, Python's
# subprocesses, programs that do not load the library (static ones, a cleared environment, set-user-ID). Each line runs on
# the plain directory and on a mount where no directory is; output and exit status must be the same.
. "$(dirname "$0")/../functions.sh"
need_command cc

plain_dir=$work/source
text_tree "$plain_dir"
seq -f 'line %.0f, with more words, so that 200 of them do not fit a block' 200 >"$plain_dir/c.txt" # a head for every other one
head -c 100000 /dev/urandom >"$plain_dir/d/random"
printf '#!%s\nhead of a script\n' "$work/lines" >"$work/script"
chmod 755 "$work/script"
pack "$plain_dir" "$work/ds" --partitions 2

# lines FD N: prints N lines of a descriptor, by one read of a byte at a time. Static: it knows nothing of the library.
cat >"$work/lines.c" <<'EOC'
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
int main(int argc, char **argv) {
  const char *fd = argc > 1 ? argv[argc - 2] : "0"; /* a script's path may stand before them */
  char c;
  for (int n = argc > 1 ? atoi(argv[argc - 1]) : 1; n > 0;) {
    if (read(atoi(fd), &c, 1) != 1) return 3;
    if (write(1, &c, 1) != 1) return 4;
    if (c == '\n') n--;
  }
  return 0;
}
EOC
cc -static -O1 -o "$work/lines" "$work/lines.c" 2>/dev/null || fail "no static program can be linked here"
cc -O1 -o "$work/dynamic" "$work/lines.c"
cp "$work/dynamic" "$work/setuid"
if [ "$(id -u)" = 0 ]; then chown nobody "$work/setuid" && chmod 4755 "$work/setuid"; fi

bad=0
# same SCRIPT: '@' in it is the directory, '%' this test's own one
same() {
  local want got script=${1//%/$work}
  want=$(cd / && timeout 30 bash -c "${script//@/$plain_dir}" 2>&1 </dev/null; echo "status $?")
  got=$(cd / && plain "$work/ds" "$mnt" timeout 30 bash -c "${script//@/$mnt}" 2>&1 </dev/null; echo "status $?")
  want=${want//$plain_dir/@} got=${got//$mnt/@}
  [ "$want" = "$got" ] && return
  printf 'differs: %s\n  want: %s\n  got:  %s\n' "$1" "${want:0:400}" "${got:0:400}" >&2
  bad=$((bad + 1))
}

say "shells and their children share an offset"
for shell in bash sh; do
  same "$shell -c 'exec 3<@/a.txt; head -n1 <&3; head -n1 <&3'"
  same "$shell -c 'exec 3<@/a.txt; read x <&3; head -n1 <&3; read y <&3; echo \$x \$y; head -n1 <&3; cat <&3 | md5sum'"
  same "$shell -c 'exec 3<@/a.txt; (read x <&3; echo \$x); (cat <&3) | head -n 2; read y <&3; echo \$y'"
  same "$shell -c 'while read x; do echo \$x; head -n1 <&0; done < @/c.txt | md5sum'"
  same "$shell -c 'while read x <&3; do echo \$x; head -n1 <&3; done 3< @/c.txt | md5sum'"
  same "$shell -c 'exec 3<@/a.txt 4<&3; read x <&3; read y <&4; head -n1 <&4; read z <&3; echo \$x \$y \$z'"
  same "$shell -c '{ read x; $shell -c \"read y; echo \\\$y\"; head -n1; read z; echo \$x \$z; } < @/a.txt'"
  same "$shell -c 'exec 3<@/a.txt; head -n1 <&3 & wait; head -n1 <&3; exec 3<&-; head -n1 <&3'"
done
same 'exec 3<@/a.txt; (exec 4<&3; (read x <&4; echo $x; head -n1 <&4); head -n1 <&3); head -n1 <&3; read y <&3; echo $y'
same 'for i in $(seq 40); do exec 3<@/a.txt; head -n1 <&3; read x <&3; echo $x; exec 3<&-; done | md5sum'
same 'exec 3<@/a.txt 4<@/b.txt; head -n1 <&3; head -n1 <&4; head -n1 <&3; head -n1 <&4; paste /dev/fd/3 /dev/fd/4 | md5sum'

same 'for i in $(seq 45); do eval "exec $((i + 10))<@/a.txt; head -n1 <&$((i + 10))"; done | md5sum; cat <&30 | md5sum'
same 'for i in $(seq 45); do eval "exec $((i + 10))<@/a.txt"; done; for i in $(seq 45); do head -n1 <&$((i + 10)); done; for i in $(seq 45); do head -n1 <&$((i + 10)); done | md5sum'
for n in 24 64 256; do
  same "ulimit -n $n; cat @/a.txt | md5sum; exec 9<@/b.txt; head -n1 <&9; head -n1 <&9; bash -c 'read x < @/a.txt; echo \$x'; grep -r hello @ | wc -l"
done

say "subprocesses of Python"
same '/usr/bin/python3 -c "
import subprocess as s
f = open(\"@/a.txt\", \"rb\", 0)
print(f.readline(), s.run([\"head\", \"-n1\"], stdin=f, capture_output=True).stdout, f.read(20), f.tell())
f.seek(7)
print(s.run([\"%/lines\", \"0\", \"2\"], stdin=f, capture_output=True).stdout, f.tell(), f.readline())
n = str(f.fileno())
print(s.run([\"%/lines\", n, \"2\"], pass_fds=[f.fileno()], capture_output=True).stdout, f.tell(), f.readline())
print(s.run([\"%/dynamic\", n, \"2\"], pass_fds=[f.fileno()], capture_output=True).stdout, f.tell(), f.readline())
print(s.run([\"%/lines\", n, \"1\"], capture_output=True).returncode, f.tell())
"'
same '/usr/bin/python3 -c "
import os
a = os.open(\"@/a.txt\", os.O_RDONLY)
os.lseek(a, 7, 0)
def spawn(program, fd, actions):
    pid = os.posix_spawn(program, [program, str(fd), \"1\"], os.environ, file_actions=actions)
    print(os.waitpid(pid, 0)[1], os.lseek(a, 0, 1), flush=True)
for p in \"%/dynamic\", \"%/lines\":
    spawn(p, 0, [(os.POSIX_SPAWN_DUP2, a, 0)])
    spawn(p, 9, [(os.POSIX_SPAWN_DUP2, a, 9)])
    spawn(p, 0, [(os.POSIX_SPAWN_CLOSE, 0), (os.POSIX_SPAWN_DUP2, a, 0), (os.POSIX_SPAWN_CLOSE, a)])
    for i in 1, 2:
        spawn(p, 0, [(os.POSIX_SPAWN_OPEN, 0, \"@/b.txt\", os.O_RDONLY, 0)])
        spawn(p, 8, [(os.POSIX_SPAWN_OPEN, 8, \"@/b.txt\", os.O_RDONLY, 0)])
    spawn(p, a, [])
"'

say "programs that do not load the library"
export FANSTORE_ENV_AS_IS=1
same 'exec 5<@/a.txt; %/lines 5 2; read x <&5; echo $x; %/lines 0 1 <&5; read x <&5; echo $x; %/script 5 1; read x <&5; echo $x'
same 'exec 5<@/a.txt 6<&5; read x <&5; %/lines 6 1; read x <&5; echo $x; exec 5<&-; %/lines 5 1'
same 'exec 5<@/a.txt; read x <&5; env -i /bin/cat <&5 | md5sum; read x <&5'
same 'exec 5<@/a.txt; read x <&5; env -i /bin/cat /dev/fd/5 | md5sum; env -i %/dynamic 5 1; read x <&5; echo $x'
same 'exec 5<@/a.txt; env -i /bin/bash -c "read y <&5; echo \$y; exec 6<&5; head -n1 <&6"; read y <&5; echo $y'
same 'exec 5<@/a.txt; env -u LD_PRELOAD bash -c "%/dynamic 5 2"; LD_PRELOAD= %/dynamic 5 1; %/dynamic 5 1; %/setuid 5 1; read x <&5; echo $x'
same 'bash -c "bash -c \"exec %/lines 7 3\"; head -n1 <&7" 7<@/a.txt'
command -v busybox >/dev/null && {
  same 'exec 5<@/a.txt; busybox cat /dev/fd/5 | md5sum; busybox head -n 1 <&5; busybox md5sum <&5; busybox wc -c < @/d/random'
  same 'exec 5<@/a.txt 6<&5; read x <&5; busybox sh -c "read x <&6; echo \$x"; read x <&5; echo $x'
}
unset FANSTORE_ENV_AS_IS
[ $bad = 0 ] || fail "$bad lines"

say "in a job, where real copies are files of the node"
launch --dataset "$work/ds" --mount "$mnt" --emulate 2 -- bash -c 'exec 3<$0/a.txt
  a=$(head -n1 <&3) b=$(head -n1 <&3) c=$($1/lines 3 1) d=$($1/dynamic 3 1)
  [ "$a,$b,$c,$d" = "line 0,line 1,line 2,line 3" ]' "$mnt" "$work" || fail "the job's shells and their children"
no_leftovers
