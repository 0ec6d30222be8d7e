#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# long: 20
# fs-launch doctor: makes a program of each kind that bypasses the preload and looks for its line; then looks at real
# programs, of which nothing may be said. Where it matters, the kind is shown to bypass the mount indeed.
. "$(dirname "$0")/../functions.sh"
need_command gcc
cd "$work"

# doctor STATUS ARG...: output in $work/out
doctor() {
  local want=$1
  shift
  expect_status "$want" "$bin/fs-launch" "$@"
}
# says VERDICT FILE PATTERN: exactly one such line, and a summary as the last line
says() {
  [ "$(grep -cE "^$1 +[^:]*$2: .*$3" "$work/out")" = 1 ] || { cat "$work/out" >&2; fail "no line '$1 $2: $3'"; }
  tail -n 1 "$work/out" | grep -qE '^(ok|found|incomplete): [0-9]+ ELF files? looked at' || fail "no summary"
}
finds_nothing() {
  tail -n 1 "$work/out" | grep -q '^ok: ' || { cat "$work/out" >&2; fail "a false alarm"; }
}

cat >show.c <<'END2'
#include <stdio.h>
int main(int argc, char **argv) {
  char line[100];
  FILE *f = argc > 1 ? fopen(argv[1], "r") : NULL;
  if (f == NULL || fgets(line, sizeof(line), f) == NULL) return 1;
  fputs(line, stdout);
  return 0;
}
END2
mkdir source
echo of the dataset >source/file
pack source ds --mount "$mnt"

gcc -o dynamic show.c
doctor 0 doctor dynamic
finds_nothing
equal "the dynamic program" "of the dataset" "$(plain "$work/ds" "$mnt" ./dynamic "$mnt/file")"

gcc -static -o static show.c
gcc -static-pie -o static_pie show.c
head -c -5000 static >static_cut # without the table of sections, which is at the end
chmod +x static_cut
equal "the program that was cut" "of the dataset" "$(./static_cut source/file)"
for p in static static_pie static_cut; do
  plain "$work/ds" "$mnt" ./$p "$mnt/file" && fail "$p sees the mount"
  doctor 1 doctor $p
  says bypass $p 'statically linked'
done
doctor 1 doctor static_pie
says bypass static_pie 'position-independent'
doctor 1 --doctor ./static "$mnt/file"
says bypass static 'statically linked'
launch --dataset "$work/ds" -- ./static "$mnt/file" 2>err && fail "the static program sees the mount"
grep -q 'warning: .*static is statically linked: it will not see the mounts' err || { cat err >&2; fail "no warning"; }
launch --dataset "$work/ds" -- ./dynamic "$mnt/file" 2>err >/dev/null
! grep -q warning: err || fail "a warning without a reason"
echo "ok - static programs, and the warning at launch"

# System calls past libc: by inline assembler, in a program and in a library; in 64-bit code only.
if [ "$(uname -m)" = x86_64 ]; then
  cat >raw.c <<'END2'
long raw_open(const char *path) {
  long r;
  __asm__ volatile("syscall" : "=a"(r) : "0"(257L), "D"(-100L), "S"(path), "d"(0L) : "rcx", "r11", "memory");
  return r;
}
long raw_pid(void) {
  long r;
  __asm__ volatile("syscall" : "=a"(r) : "0"(39L) : "rcx", "r11", "memory");
  return r;
}
END2
  cat >user.c <<'END2'
long raw_open(const char *path);
int main(int argc, char **argv) { return argc > 1 && raw_open(argv[1]) < 0; }
END2
  sed '/raw_pid/,$!d' raw.c >pid.c
  for o in -O0 -O2; do
    gcc $o -shared -fPIC -o libraw.so raw.c
    gcc $o -shared -fPIC -o libpid.so pid.c
    gcc $o -o uses_raw user.c -L. -lraw -Wl,-rpath,'$ORIGIN'
    gcc $o -o inlined user.c raw.c
    plain "$work/ds" "$mnt" ./uses_raw "$mnt/file" && fail "the system call sees the mount"
    doctor 1 doctor uses_raw
    says maybe libraw.so 'past libc: openat'
    doctor 1 doctor inlined
    says maybe inlined 'past libc: openat'
    doctor 0 doctor libpid.so
    finds_nothing
  done
  printf '%s\n' '#include <dlfcn.h>' '#include <unistd.h>' \
    'int main(void) { return dlopen("libm.so.6", FLAGS) == 0; }' >bind.c
  for o in -O0 '-O2 -fno-plt' '-O2 -fcf-protection'; do
    # shellcheck disable=SC2086
    gcc $o -D_GNU_SOURCE '-DFLAGS=RTLD_NOW | RTLD_DEEPBIND' -o deep bind.c
    # shellcheck disable=SC2086
    gcc $o -D_GNU_SOURCE '-DFLAGS=RTLD_NOW | RTLD_GLOBAL' -o shallow bind.c
    doctor 1 doctor deep
    says maybe deep RTLD_DEEPBIND
    doctor 0 doctor shallow
    finds_nothing
  done
  printf '%s\n' '#include <unistd.h>' '#include <sys/syscall.h>' \
    'int main(void) { return syscall(SYS_io_uring_setup, 8, (char[256]){0}) == 0; }' >ring.c
  gcc -O2 -o ring ring.c
  doctor 1 doctor ring
  says maybe ring io_uring
  ring_library=$(ldconfig -p 2>/dev/null | sed -n 's/.*liburing\.so\.2 .*x86-64.* => //p' | head -n 1)
  if [ -n "$ring_library" ]; then
    gcc -o uring show.c -Wl,--no-as-needed "$ring_library"
    doctor 1 doctor uring
    says maybe uring 'io_uring \(liburing\).*--no-io-uring'
    doctor 1 doctor "$ring_library"
    says maybe 'liburing.*' 'io_uring'
  fi
  mkdir broken
  for name in $(ldconfig -p 2>/dev/null | grep -o 'libZydis\.so[^ ]*'); do : >"broken/$name"; done
  if [ -n "$(ls broken)" ]; then
    LD_LIBRARY_PATH=$work/broken doctor 2 doctor dynamic
    grep -q '^incomplete: ' out || fail "complete without Zydis"
  fi
  echo "ok - system calls, RTLD_DEEPBIND and io_uring in the code"
fi

printf '%s\n' '#include <dlfcn.h>' 'int main(void) { void *c = dlopen("libc.so.6", 1); return dlsym(c, "open") == 0; }' >byname.c
gcc -o byname byname.c
doctor 0 doctor byname
says note byname 'opens libc.so.6 by name'

# Another MPI than Open MPI, by the libraries' names.
echo 'int MPI_Init(void *a, void *b) { return !a + !b; }' >mpi.c
for name in libmpi.so.12 libmpich.so.12 libmpi_gnu.so.12 libmpi.so.40; do
  gcc -shared -fPIC -Wl,-soname,$name -o $name mpi.c
  gcc -o with_$name show.c -Wl,--no-as-needed $name -Wl,-rpath,"\$ORIGIN"
  doctor 0 doctor with_$name
  case $name in
    *.40) ! grep -q 'rank 0' out || fail "a false alarm of Open MPI" ;;
    *) says note with_$name "needs $name, of MPICH, .* each process is rank 0 of 1; build it with Open MPI, or" ;;
  esac
done
mkdir -p venv/mpi4py
gcc -shared -fPIC -o venv/mpi4py/MPI.so mpi.c -Wl,--no-as-needed libmpi.so.12
doctor 0 doctor venv
says note MPI.so 'needs libmpi.so.12'
launch --dataset "$work/ds" --np 2 -- ./with_libmpi.so.12 "$mnt/file" 2>err >/dev/null
grep -q 'warning: .*/with_libmpi.so.12 needs libmpi.so.12, of another MPI .*: each process is rank 0 of 1' err || { cat err >&2; fail "no warning"; }
launch --dataset "$work/ds" -- ./with_libmpi.so.12 "$mnt/file" 2>err >/dev/null
! grep -q 'another MPI' err || fail "a warning without --np"
# Python's mpi4py: in PYTHONPATH, beside the interpreter, and one with a module for each MPI.
site=conda/lib/python3.9/site-packages/mpi4py
mkdir -p conda/bin $site && cp venv/mpi4py/MPI.so $site/MPI.mpich.so && cp /bin/true conda/bin/python3.9
launch --dataset "$work/ds" --np 2 -- conda/bin/python3.9 2>err
grep -q 'warning: conda/.*/MPI.mpich.so needs libmpi.so.12, of another MPI' err || { cat err >&2; fail "no warning of mpi4py"; }
cp libmpi.so.40 $site/MPI.openmpi.so
launch --dataset "$work/ds" --np 2 -- conda/bin/python3.9 2>err
! grep -q 'another MPI' err || fail "a false alarm of mpi4py"
PYTHONPATH=/none:$PWD/venv launch --dataset "$work/ds" --np 2 -- conda/bin/python3.9 2>err
grep -q 'warning: .*/venv/mpi4py/MPI.so needs' err || { cat err >&2; fail "no warning of PYTHONPATH"; }
echo "ok - another MPI"

# A loader that is not there, another processor, 32 bits.
gcc -o noloader show.c -Wl,--dynamic-linker=/nowhere/ld-linux-x86-64.so.2
doctor 1 doctor noloader
says bypass noloader 'its loader /nowhere/.* is not there'
gcc -o private show.c -Wl,--dynamic-linker="$work/ld-linux-x86-64.so.2"
cp "$(readlink -f "$(sed -n 's/.* \(\/.*ld-linux[^ ]*\).*/\1/p' <(ldd dynamic) | head -n 1)")" ld-linux-x86-64.so.2 2>/dev/null ||
  cp /lib64/ld-linux-x86-64.so.2 .
doctor 1 doctor private
says maybe private 'a glibc of its own'
mkdir own
cp "$(ldd dynamic | sed -n 's/.*libc\.so\.6 => \([^ ]*\).*/\1/p')" own/libc.so.6
gcc -o ownlibc show.c -Wl,--disable-new-dtags -Wl,-rpath,"\$ORIGIN/own"
doctor 1 doctor ownlibc
says maybe libc.so.6 'a C library of its own'
"$python" - dynamic <<'END2'
import sys
b = bytearray(open(sys.argv[1], "rb").read())
b[18:20] = (8).to_bytes(2, "little")
open("mips", "wb").write(b)
b[4] = 1
b[16:20] = b"\2\0\3\0"
open("i386", "wb").write(b)
END2
doctor 1 doctor mips i386
says bypass mips 'for another processor'
says bypass i386 'a 32-bit file'
if gcc -m32 -o real32 show.c 2>/dev/null; then
  doctor 1 doctor real32
  says bypass real32 'a 32-bit file'
fi
echo "ok - loaders and processors"

if [ "$(id -u)" = 0 ]; then
  cp dynamic rights
  chown 65534 rights
  chmod 4755 rights
  doctor 1 --doctor ./rights
  says bypass rights set-user-ID
  [ -f /proc/self/mounts ] && echo "ok - rights"
fi
cp dynamic mine
chmod 4755 mine # one's own: no other rights
doctor 0 doctor mine
finds_nothing

if command -v musl-gcc >/dev/null; then
  musl-gcc -o musl show.c
  doctor 1 doctor musl
  says bypass musl 'the musl C library'
  echo "ok - musl"
fi
if command -v go >/dev/null; then
  printf '%s\n' 'package main' 'func main() { println(1) }' >hello.go
  printf '%s\n' 'package main' 'import "C"' 'func main() { println(1) }' >cgo.go
  export GOCACHE=$work/gocache HOME=$work GOFLAGS=-mod=mod GO111MODULE=off
  CGO_ENABLED=0 go build -o gostatic hello.go
  go build -o godynamic cgo.go
  doctor 1 doctor gostatic godynamic
  says bypass gostatic 'statically linked, Go'
  says bypass godynamic 'a Go program'
  echo "ok - Go, static and with cgo"
fi
gcc -fsanitize=address -o asan show.c
doctor 1 doctor asan
says bypass asan 'ASAN_OPTIONS=verify_asan_link_order=0'
plain "$work/ds" "$mnt" ./asan "$mnt/file" 2>err && fail "ASan does not mind"
equal "with the remedy" "of the dataset" \
  "$(plain "$work/ds" "$mnt" env ASAN_OPTIONS=verify_asan_link_order=0:detect_leaks=0 ./asan "$mnt/file")"
ASAN_OPTIONS=verify_asan_link_order=0 doctor 0 doctor asan
if command -v clang >/dev/null && clang -fsanitize=address -o casan show.c 2>/dev/null; then
  doctor 0 doctor casan
  finds_nothing
fi
echo "ok - sanitizers"

# Commands: scripts, env, wrappers.
printf '#!%s/static -x\n' "$work" >s1
printf '#!%s/s1\n' "$work" >s2
printf '#!/usr/bin/env -S A=1 %s/static -u\n' "$work" >s3
printf '#!/usr/bin/env bash\nls\n' >s4
printf '#!/nowhere/interpreter\n' >s5
echo text >s6
printf '#!/nowhere/\033[2Jinter\\preter\n' >s7
chmod +x s?
for s in ./s1 ./s2 ./s3 'env A=1 ./s1' 'env -u B ./static' 'nice -n 5 ./static' 'timeout 10 nice ./s2' 'nohup ./static'; do
  # shellcheck disable=SC2086
  doctor 1 --doctor $s
  says bypass static 'statically linked'
done
doctor 0 --doctor ./s4
finds_nothing
says note s4 'a script: only its interpreter is looked at; if it starts another program, give that one'
tail -n 1 "$work/out" | grep -q ' looked at (of 1 script only the interpreter), 0 would' || fail "$(tail -n 1 "$work/out")"
doctor 0 --doctor ./s5
says note s5 'interpreter /nowhere/interpreter is not found'
doctor 0 --doctor ./s7
says note s7 'interpreter /nowhere/\\x1b\[2Jinter\\preter is not found'
doctor 0 --doctor ./s6
says note s6 'neither an ELF file nor a script'
for s in 'env -i ./dynamic' 'env - ./dynamic' 'env -u LD_PRELOAD ./dynamic' 'env --unset=FANSTORE_RUN ./dynamic' \
  'env LD_PRELOAD=libx.so ./dynamic'; do
  # shellcheck disable=SC2086
  doctor 1 --env-as-is --doctor $s
  says bypass env 'env|LD_PRELOAD'
  # shellcheck disable=SC2086
  doctor 0 --doctor $s
  says note env 'gets it back'
done
mkdir path
for w in sudo ssh docker apptainer srun; do
  cp dynamic path/$w
  PATH=$work/path:$PATH doctor 1 --doctor $w ./dynamic
  says '(bypass|maybe)' "$w" '.'
done
doctor 2 --doctor no-such-command
doctor 2 doctor /no/such/file
doctor 2 doctor
LD_PRELOAD=$work/libpid.so doctor 0 --doctor ./dynamic
[ ! -f libpid.so ] || says note libpid.so 'preloaded too'
head -c 100 dynamic >short1
head -c 3000 dynamic >short2
doctor 0 doctor short1 short2 || fail "a damaged file"
echo "ok - commands"

# A directory: all below it, each once.
mkdir -p tree/a tree/b
cp static tree/a
cp dynamic tree/b
ln tree/a/static tree/b/again
ln -s /usr tree/b/away
doctor 1 doctor tree
says bypass 'static|again' 'statically linked'
grep -q '2 ELF files' "$work/out" || fail "$(tail -n 1 "$work/out")"

# The libraries are the loader's.
for p in "$(readlink -f "$python")" "$(command -v bash)"; do
  strace -f -e trace=openat -o trace "$bin/fs-launch" doctor "$p" >/dev/null || true
  grep -v ENOENT trace | grep -o '"/[^"]*"' | tr -d '"' | grep '\.so' | grep -v cache | xargs -n1 readlink -f | sort -u >have
  ldd "$p" | grep -o '/[^ ]*' | xargs -n1 readlink -f | sort -u >want
  comm -23 want <(cat have <(readlink -f /lib64/ld-linux-x86-64.so.2 || :) | sort -u) >missing
  [ ! -s missing ] || fail "of $p not found: $(cat missing)"
done
echo "ok - directories and libraries"

# No false alarms.
for p in /usr/bin/python3 bash ls cat cp tar find md5sum perl git java rsync rg awk ffprobe sqlite3; do
  command -v "$p" >/dev/null || continue
  doctor 0 --doctor "$p"
  finds_nothing
done
for module in torch numpy h5py cv2 pandas PIL mpi4py; do
  dir=$("$python" -c "import importlib.util as u; print(u.find_spec('$module').submodule_search_locations[0])" 2>/dev/null) || continue
  doctor 0 doctor "$dir"
  finds_nothing
done
torch=$("$python" -c 'import torch._C; print(torch._C.__file__)' 2>/dev/null) && { doctor 0 doctor "$torch"; finds_nothing; }
[ ! -d /usr/lib/jvm ] || { doctor 0 doctor /usr/lib/jvm; finds_nothing; }
echo "ok - nothing is said of programs that are all right"
