#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# libfanstore.so exports names of libc and fanstore_*, a few of libaio and liburing, and nothing else. It needs libc and
# nothing else (no MPI, no C++, no lz4 that could clash with the program's), no symbol newer than glibc 2.17, is bound at
# load time, and calls nothing that ends the process or prints.
. "$(dirname "$0")/files.sh"
lib=$build/lib/libfanstore.so
[ -f "$lib" ] || { echo "no $lib"; exit 1; }
need nm
need objdump

# FS_LIBC: libc of the processor that the library is for, if this machine's is another
libc=${FS_LIBC:-$(ldd "$lib" | awk '$1 == "libc.so.6" { print $3 }')}
exported() { nm -D --defined-only "$1" | awk '$2 != "A" { sub(/@.*/, "", $3); print $3 }' | sort -u; }
while read -r name; do complain "exports $name, which libc does not"; done < <(
  comm -23 <(exported "$lib") <(exported "$libc") | grep -vxE "$not_libc")

while read -r name; do
  case $name in
    libc.so.6 | libdl.so.2 | ld-linux* | ld64.so.2) ;;
    *) complain "needs $name" ;;
  esac
done < <(readelf -d "$lib" | sed -n 's/.*(NEEDED).*\[\(.*\)\]/\1/p')

# Old and new systems have libdl.so.2. Before glibc 2.34 dlsym is there.
readelf -d "$lib" | grep -q 'NEEDED.*\[libdl\.so\.2\]' || complain "does not need libdl.so.2"
oldest=2.17
while read -r version name; do
  [ "$(printf '%s\n' "$version" $oldest | sort -V | tail -n 1)" = $oldest ] ||
    complain "needs $name of GLIBC_$version, newer than $oldest: preload/oldest.h binds it, or preload/older.c looks it up"
done < <(objdump -T "$lib" | sed -n 's/.*\*UND\*.*GLIBC_\([0-9.]*\))\{0,1\}  *\(.*\)/\1 \2/p')

while read -r name; do complain "calls $name"; done < <(nm -D --undefined-only "$lib" |
  awk '{ sub(/@.*/, "", $2); print $2 }' | grep -xE 'exit|_exit|_Exit|quick_exit|abort|__assert_fail|printf|__printf_chk|__fprintf_chk|vprintf|fprintf|puts|fputs|putc|fputc|putchar|fwrite|perror')
readelf -d "$lib" | grep -q 'BIND_NOW' || complain "is not bound at load time"
readelf -lW "$lib" | grep -q 'GNU_STACK.*RWE' && complain "has an executable stack"

declare -A more=([fs-prepare]=libarchive.so.13 [fs-launch]=-)
for tool in fs-prepare fs-launch; do
  [ -f "$build/bin/$tool" ] || continue
  while read -r name; do complain "$tool needs $name"; done < <(
    readelf -d "$build/bin/$tool" | sed -n 's/.*(NEEDED).*\[\(.*\)\]/\1/p' |
      grep -vE '^(libc|libm|libdl|libpthread|ld-linux.*|ld64)\.so' | grep -vxF "${more[$tool]}")
done
verdict
