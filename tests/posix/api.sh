#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# The public functions and attributes: the examples of docs/api.md compiled and run, under the library and without it, by
# C, C++ and Python; getfattr; and what programs that copy attributes make of them.
. "$(dirname "$0")/../functions.sh"
need_command gcc getfattr
cd "$work"

mkdir -p source/d
head -c 100000 /dev/zero >source/zeros
echo hello >source/d/hello
: >source/empty
ln -s d/hello source/link
pack "$work/source" "$work/ds" --mount "$mnt" --partitions 1 --codec lz4

example() { awk -v lang="$1" '$0 == "```" { on = 0 } on { print } $0 == "```" lang { on = 1 }' "$root/docs/api.md"; }
example c >example.c
example python >example.py
if [ ! -s example.c ] || [ ! -s example.py ]; then fail "no examples"; fi
gcc -std=c11 -Wall -Wextra -Werror -D_GNU_SOURCE -I"$root/include" -o example example.c
equal "without the library" "no FanStore here" "$(./example "$mnt/zeros")"
plain "$work/ds" "$mnt" ./example "$mnt/zeros" "$mnt/d/hello" "$mnt/none" /etc/passwd "$mnt/link" >out
cat out
grep -qE "zeros: node -1, partition 0, lz4, [0-9]{3} of 100000 bytes" out || fail "zeros"
grep -q "hello: node -1, partition 0, raw, 6 of 6 bytes" out || fail "hello"
grep -q "none: error 2$" out || fail "none"
grep -q "passwd: error 6$" out || fail "outside"
grep -q "link: node -1, partition 0, raw, 6 of 6 bytes" out || fail "link"
equal "without a mount" "$mnt/zeros: error 6" "$(LD_PRELOAD=$lib ./example "$mnt/zeros")"

plain "$work/ds" "$mnt" "$python" example.py "$mnt/zeros" "$mnt/d/hello" >out
grep -qF "files by place: {'local': 0, 'cache': 0, 'remote': 0, 'shared': 2}" out || { cat out; fail "counters"; }
"$python" example.py source/zeros # and without FanStore
launch --dataset "$work/ds" -- "$python" example.py "$mnt/zeros" "$mnt/d/hello" >out 2>err
grep -qF "'local': 2" out || { cat out err; fail "local"; }
if command -v g++ >/dev/null; then
  printf '%s\n' '#include <fanstore/fanstore.h>' 'int main() {' '  struct fanstore_stats s = {};' '  s.size = sizeof s;' \
    '  return fanstore_stats(FANSTORE_PROCESS, &s) == 0 && s.opens == 0 ? 0 : 1;' '}' >cpp.cc
  g++ -Wall -Wextra -Werror -Wno-missing-field-initializers -I"$root/include" -o cpp cpp.cc -L"$(dirname "$lib")" \
    -lfanstore -Wl,-rpath,"$(dirname "$lib")"
  FANSTORE_DATASET=$work/ds FANSTORE_MOUNT=$mnt ./cpp || fail "C++, linked"
fi
echo "ok - the examples"

attribute() { plain "$work/ds" "$mnt" getfattr --absolute-names --only-values "$@"; }
equal codec lz4 "$(attribute -n user.fanstore.codec "$mnt/zeros")"
equal node shared "$(attribute -n user.fanstore.node "$mnt/zeros")"
equal place shared "$(attribute -n user.fanstore.place "$mnt/link")"
equal partition 0 "$(attribute -n user.fanstore.partition "$mnt/d/hello")"
equal stored 6 "$(attribute -n user.fanstore.stored_size "$mnt/d/hello")"
equal dataset "$work/ds" "$(attribute -n user.fanstore.dataset "$mnt/d")"
equal mount "$mnt" "$(attribute -n user.fanstore.mount "$mnt")"
# shellcheck disable=SC2016 # for the inner shell
equal relative "$mnt" \
  "$(plain "$work/ds" "$mnt" bash -c 'cd "$1" && getfattr --only-values -n user.fanstore.mount d' - "$mnt")"
for args in "-n user.fanstore.node $mnt/empty" "-n user.fanstore.node $mnt/d" "-n user.none $mnt/zeros" \
  "-h -n user.fanstore.codec $mnt/link"; do
  # shellcheck disable=SC2086
  attribute $args 2>err && fail "getfattr $args gives something"
  grep -q 'No such attribute' err || { cat err; fail "$args"; }
done
equal "none listed" "" "$(plain "$work/ds" "$mnt" getfattr -d -m - --absolute-names "$mnt/zeros" "$mnt/d")"
plain "$work/ds" "$mnt" setfattr -n user.fanstore.node -v 1 "$mnt/zeros" 2>err && fail "setfattr"
grep -q 'Read-only file system' err || fail "setfattr: $(cat err)"
plain "$work/ds" "$mnt" cp -a "$mnt" copied
plain "$work/ds" "$mnt" tar --xattrs -C "$mnt" -cf copied.tar .
! command -v rsync >/dev/null || plain "$work/ds" "$mnt" rsync -aX "$mnt/" synced/
diff -r source copied || fail "cp -a"
echo "ok - attributes"

cat >attributes.py <<'END'
import os, sys
def err(call, *args, **kw):
    try:
        return call(*args, **kw)
    except OSError as e:
        return -e.errno
f = os.open(sys.argv[1] + "/zeros", os.O_RDONLY)
print(os.getxattr(f, "user.fanstore.codec"), os.listxattr(f), os.posix_fadvise(f, 0, 0, os.POSIX_FADV_WILLNEED))
print(err(os.getxattr, sys.argv[1] + "/link", "user.fanstore.codec", follow_symlinks=False),
      err(os.getxattr, sys.argv[1] + "/none", "user.fanstore.codec"), err(os.setxattr, f, "user.a", b""))
END
plain "$work/ds" "$mnt" "$python" attributes.py "$mnt" >out
equal "by descriptor" "b'lz4' [] None" "$(head -n 1 out)"
equal "errors" "-61 -2 -30" "$(tail -n 1 out)"
echo "ok - attributes of open files"

# In a forked child and at once in several threads.
cat >threads.py <<'END'
import ctypes, os, sys, threading
lib = ctypes.CDLL(None)
mnt = os.fsencode(sys.argv[1])
names = [mnt + b"/zeros", mnt + b"/d/hello", mnt + b"/none"] * 200
array = (ctypes.c_char_p * len(names))(*names)
def work():
    started = ctypes.c_size_t()
    for _ in range(20):
        assert lib.fanstore_prefetch(array, ctypes.c_size_t(len(names)), ctypes.byref(started)) == len(names)
        assert started.value == 400
pid = os.fork()
threads = [threading.Thread(target=work) for _ in range(4)]
for t in threads: t.start()
for t in threads: t.join()
if pid == 0: os._exit(0)
assert os.waitpid(pid, 0)[1] == 0
assert lib.fanstore_node(None) == (-107 if len(sys.argv) < 3 else 0)
END
plain "$work/ds" "$mnt" "$python" threads.py "$mnt"
launch --dataset "$work/ds" -- "$python" threads.py "$mnt" daemon 2>err || { cat err; fail "threads"; }
echo "ok - threads and forks"

# splice reads no more than the pipe takes.
cat >splice.py <<'END'
import ctypes, os, sys
f, (r, w), got = os.open(sys.argv[1] + "/zeros", os.O_RDONLY), os.pipe(), 0
while n := ctypes.CDLL(None).splice(f, None, w, None, ctypes.c_size_t(1 << 20), 0):
    assert n > 0 and os.read(r, n) == bytes(n)
    got += n
assert got == 100000
END
launch --dataset "$work/ds" --report r.json -- "$python" splice.py "$mnt" 2>err || { cat err; fail "splice"; }
equal "bytes read" 100000 "$(json r.json "sum(r['total']['bytes_' + p] for p in ('local', 'cache', 'remote', 'shared'))")"
echo "ok - splice"
