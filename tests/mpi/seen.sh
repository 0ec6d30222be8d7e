#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# long: 35
# waits
# rest: other numbers of nodes
# What programs of other nodes see of a file that is open for writing, and whether it is staged out before it is closed.
. "$(dirname "$0")/../functions.sh"

mkdir "$work/source"
echo x >"$work/source/file"
pack "$work/source" "$work/ds" --mount "$mnt"
for nodes in $(half 2 3); do
  expect_status 0 launch --dataset "$work/ds" --emulate "$nodes" --discard -- "$python" "$root/tests/mpi/seen.py" "$mnt" "$nodes"
  sed "s/^ok - /ok - $nodes nodes: /" "$work/out"
done

! rest || exit 0

# On tmpfs no time tells of a store through a mapping. A program without the library maps the descriptor that it got.
cat >"$work/map.c" <<'END'
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
static int received(int from) {
  char c[CMSG_SPACE(sizeof(int))], b;
  struct iovec v = {&b, 1};
  struct msghdr m = {.msg_iov = &v, .msg_iovlen = 1, .msg_control = c, .msg_controllen = sizeof(c)};
  return recvmsg(from, &m, 0) == 1 && CMSG_FIRSTHDR(&m) ? *(int *)CMSG_DATA(CMSG_FIRSTHDR(&m)) : -1;
}
int main(int n, char **arg) {
  int fd = n < 2 ? -1 : n == 3 ? received(atoi(arg[2])) : atoi(arg[1]);
  char *p = mmap(NULL, 4, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  if (p == MAP_FAILED || p[0] != 'a') return 3;
  memcpy(p, "bbbb", 4);
  return 0;
}
END
gcc -static -o "$work/map" "$work/map.c"
cat >"$work/mapped.py" <<'END'
import ctypes, os, socket, subprocess, sys, time
name, program, way = sys.argv[1] + "/mapped", sys.argv[2], sys.argv[3]
with open(name, "w") as f: f.write("aaaa")
other = subprocess.Popen([sys.executable, "-c", "import sys\nfor line in sys.stdin: print(open(sys.argv[1]).read(), flush=True)", name],
                         env=dict(os.environ, FANSTORE_NODE="1"), stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
def look():
    other.stdin.write("\n"), other.stdin.flush()
    return other.stdout.readline().strip()
for i in range(3):  # it is published, and then in the other node's cache
    assert look() == "aaaa"
    time.sleep(0.1)
def done(status): assert status == 0, status
ours, theirs = socket.socketpair()
at_other_end = subprocess.Popen([program, "by", str(theirs.fileno())], pass_fds=[theirs.fileno()]) if "sent" in way else None
fd = os.open(name, os.O_RDWR)
if way == "child": subprocess.run([program, str(fd)], pass_fds=[fd], check=True)
os.set_inheritable(fd, "sent" not in way)
if way == "spawn": done(os.waitpid(os.posix_spawn(program, [program, str(fd)], os.environ), 0)[1])
if way == "shell": done(os.system(f"{program} {fd}"))
if way == "fork":
    child = os.fork()
    if child == 0: os.execv(program, [program, str(fd)])
    done(os.waitpid(child, 0)[1])
if way == "sent": socket.send_fds(ours, [b"x"], [fd]), done(at_other_end.wait())
if way == "sent_copy":
    copy = os.dup(fd)
    socket.send_fds(ours, [b"x"], [copy]), os.close(copy), done(at_other_end.wait())
if way == "protected":  # a mapping to read, which mprotect makes one to write
    libc = ctypes.CDLL(None)
    libc.mmap.restype = ctypes.c_void_p
    p = libc.mmap(None, ctypes.c_size_t(4096), 1, 1, fd, ctypes.c_long(0))
    assert ctypes.string_at(p, 4) == b"aaaa" and libc.mprotect(ctypes.c_void_p(p), ctypes.c_size_t(4096), 3) == 0
    ctypes.memmove(p, b"bbbb", 4)
    assert libc.munmap(ctypes.c_void_p(p), ctypes.c_size_t(4096)) == 0
os.close(fd)
assert look() == "bbbb", "the other node reads old bytes"
END
for dir in "$work" /dev/shm; do
  local_dir=$(mktemp -d "$dir/fs-seen.XXXXXX")
  expect_status 0 "$bin/fs-launch" --local-dir "$local_dir" --dataset "$work/ds" --emulate 2 --discard -- sh -c \
    'for way in child spawn shell fork sent sent_copy protected; do "$@" $way || exit; done' sh "$python" "$work/mapped.py" "$mnt" "$work/map"
  rm -r "$local_dir"
done
echo "ok - stores through a mapping, another program's too, also on tmpfs"

cat >"$work/half.py" <<'END'
import os, subprocess, sys, time
mount, to = sys.argv[1:]
f = open(mount + "/half", "w")
look = "import os, sys; print(os.stat(sys.argv[1]).st_size)"
for i in range(4):
    f.write("x" * 100), f.flush()
    size = subprocess.run([sys.executable, "-c", look, mount + "/half"], env=dict(os.environ, FANSTORE_NODE="1"), capture_output=True, text=True)
    assert 0 <= int(size.stdout) <= 100 * (i + 1), size
    time.sleep(0.2 if i < 3 else 2.5)
    assert not os.path.exists(to + "/half"), "a file that is open was staged out"
f.close()
for i in range(300):
    if os.path.exists(to + "/half"): break
    time.sleep(0.1)
assert os.stat(to + "/half").st_size == 400
with open(mount + "/half", "w") as f:  # emptied, and half of it written: the whole one stays
    f.write("y" * 100), f.flush()
    time.sleep(3.5)
    assert os.stat(to + "/half").st_size == 400, "a file that is open took the place of a whole one"
for i in range(300):
    if open(to + "/half").read() == "y" * 100: break
    time.sleep(0.1)
assert open(to + "/half").read() == "y" * 100
# Another node writes half of it and sleeps, is killed, or closes it.
code = "import os, sys; fd = os.open(sys.argv[1], os.O_WRONLY); os.write(fd, sys.argv[2].encode() * 50); print(flush=True); sys.stdin.read()"
for text, ends in ("z", "close"), ("k", "kill"):
    before = open(to + "/half").read()
    writer = subprocess.Popen([sys.executable, "-c", code, mount + "/half", text], env=dict(os.environ, FANSTORE_NODE="1"),
                              stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    writer.stdout.readline()
    time.sleep(3.5)
    assert open(mount + "/half").read() == text * 50 + "y" * 50
    assert open(to + "/half").read() == before, "half of what another node writes was staged out"
    writer.kill() if ends == "kill" else writer.stdin.close()
    writer.wait()
    for i in range(300):
        if open(to + "/half").read() == text * 50 + "y" * 50: break
        time.sleep(0.1)
    assert open(to + "/half").read() == text * 50 + "y" * 50, ends
END
mkdir "$work/to"
expect_status 0 launch --dataset "$work/ds" --emulate 2 --stage-out "$work/to" -- "$python" "$work/half.py" "$mnt" "$work/to"
echo "ok - staged out when it is whole"
no_leftovers
