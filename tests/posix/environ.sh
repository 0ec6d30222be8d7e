#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# Programs that are started with an environment of their own still see the mount: the library and its variables come
# back. The mount lies over a decoy, which a program without the library reads.
. "$(dirname "$0")/../functions.sh"
need_command cc

text_tree "$work/source"
pack "$work/source" "$work/ds"
decoy "$work/source" "$work/decoy"
file=$work/decoy/b.txt
want=$(cat "$work/source/b.txt")
cc -w -pthread -o "$work/environ" "$root/tests/posix/environ.c"
cc -w -pthread -static -o "$work/static" "$root/tests/posix/environ.c" 2>/dev/null || rm -f "$work/static"
[ "$(cat "$file")" != "$want" ] || fail "the decoy is none"
sees() { plain "$work/ds" "$work/decoy" "$@" 2>&1; }

for call in execve execvpe execle fexecve execveat raw_execve raw_execveat none execv posix_spawn posix_spawnp vfork \
  small_stack system popen; do
  equal "$call" "$want" "$(sees "$work/environ" $call "$file")"
  equal "$call with PATH" "$want" "$(sees "$work/environ" $call "$file" PATH=/bin:/usr/bin)"
  equal "$call, as it is" "$(cat "$file")" "$(FANSTORE_ENV_AS_IS=1 sees "$work/environ" $call "$file" PATH=/bin:/usr/bin)"
done
equal "too large" 0 "$(sees "$work/environ" e2big "$file"; echo $?)"
echo "ok - calls"

equal "env -i" "$want" "$(sees env -i cat "$file")"
equal "env -i, twice" "$want" "$(sees env -i sh -c "env -i cat $file")"
equal "env -u" "$want" "$(sees env -u LD_PRELOAD cat "$file")"
equal "unset" "$want" "$(sees bash -c 'unset LD_PRELOAD; cat "$0"' "$file")"
equal "another library" "$want$(printf '\n%s' "$lib:/no/such.so")" \
  "$(sees bash -c 'export LD_PRELOAD=/no/such.so; cat "$0"; printenv LD_PRELOAD' "$file" 2>/dev/null | grep -v ERROR)"
equal "Python" "$want" "$(sees "$python" -c 'import os, subprocess, sys
subprocess.run(["cat", sys.argv[1]], env={}, check=True)' "$file")"
equal "os.environ.pop" "$want" "$(sees "$python" -c 'import os, sys
os.environ.pop("LD_PRELOAD")
os.execv("/bin/cat", ["cat", sys.argv[1]])' "$file")"
equal "as it is, by a child's environment" "$(cat "$file")" "$(sees env FANSTORE_ENV_AS_IS=1 env -i cat "$file")"
echo "ok - programs"

# What would die of the library does not get it.
[ ! -x "$work/static" ] || equal "static" 0 "$(sees env -i "$work/static" e2big "$file"; echo $?)"
linker=$(find /lib -maxdepth 1 -name 'ld-musl-*' 2>/dev/null | head -n 1)
if [ -n "$linker" ] && command -v musl-gcc >/dev/null; then
  musl-gcc -w -pthread -o "$work/musl" "$root/tests/posix/environ.c"
  equal "musl" 0 "$(sees env -i "$work/musl" e2big "$file"; echo $?)"
  equal "musl, which loses LD_PRELOAD" 0 "$(sees env "$work/musl" e2big "$file"; echo $?)"
fi
if cc -w -pthread -fsanitize=address -o "$work/asan" "$root/tests/posix/environ.c" 2>/dev/null; then
  equal "libasan" 0 "$(sees env -i ASAN_OPTIONS=detect_leaks=0 "$work/asan" e2big "$file"; echo $?)"
  asan=$(cc -print-file-name=libasan.so)
  equal "behind libasan" 0 "$(sees env -i ASAN_OPTIONS=detect_leaks=0 LD_PRELOAD="$asan" "$work/asan" e2big "$file"; echo $?)"
fi
if [ "$(id -u)" = 0 ]; then
  mkdir "$work/root"
  echo "in another root" >"$work/root/file"
  for path in $(ldd /bin/cat | grep -o '/[^ ]*') /bin/cat; do cp --parents "$path" "$work/root"; done
  equal "another root" "in another root" "$(sees "$python" -c 'import os, sys
os.chroot(sys.argv[1])
os.execve("/bin/cat", ["cat", "/file"], {})' "$work/root")"
fi
echo "ok - programs that must not get it"
# The table of open files is larger than this limit. The program is told so, and is not ended by a signal.
expect_status 1 plain "$work/ds" "$work/decoy" sh -c 'ulimit -f 1000 && exec cat "$0"' "$file"
grep -q '^fanstore: a limit of file sizes (ulimit -f) is below 170 MB' "$work/err" || fail "ulimit -f: $(cat "$work/err")"
echo "ok - a limit of file sizes"
