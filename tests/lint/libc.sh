#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# Every function of the machine's libc, and every system call it knows, is classified (libc_symbols.tsv, libc_plain.txt),
# and what the tables claim is what libfanstore.so exports, syscall.c routes, and which version of a symbol is called.
# A libc newer than the tables' may have more: those names are told, and the lint is skipped.
. "$(dirname "$0")/files.sh"
lib=$build/lib/libfanstore.so table=tests/lint/libc_symbols.tsv tables_libc=2.36
[ -f "$lib" ] || { echo "no $lib"; exit 1; }
need nm
need "${CC:-cc}"
tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT

libc=$(ldd "$lib" | awk '$1 == "libc.so.6" { print $3 }')
# Functions with their versions, one a line: name version; the default one begins with "@".
nm -D --defined-only "$libc" | awk '$2 ~ /[TWi]/ && $3 ~ /@/ && $3 !~ /GLIBC_PRIVATE/ { sub(/@/, " ", $3); print $3 }' |
  sort >"$tmp/versions"
cut -d ' ' -f 1 "$tmp/versions" | sort -u >"$tmp/functions"
version=$(cut -d ' ' -f 2 "$tmp/versions" | sed -n 's/^@*GLIBC_\([0-9.]*\)$/\1/p' | sort -uV | tail -n 1)
echo '#include <sys/syscall.h>' | "${CC:-cc}" -E -dM -x c - | sed -n 's/^#define \(SYS_[a-z0-9_]*\) .*/\1/p' | sort -u >"$tmp/numbers"
nm -D --defined-only "$lib" | awk '$2 ~ /[TWi]/ { sub(/@.*/, "", $3); print $3 }' | grep -vxE "$not_libc" | sort -u >"$tmp/exports"
grep -o 'X(SYS_[a-z0-9_]*' libfanstore/preload/syscall.c | sed 's/X(//' | sort -u >"$tmp/routed"

sed -n 's/^.*X([a-zA-Z_ *0-9]*, \([a-zA-Z_0-9]*\),.*/\1/p' libfanstore/preload/symbols.h | sort >"$tmp/real"

grep -v '^#' "$table" >"$tmp/table"
grep -v '^#' tests/lint/libc_plain.txt | tr ' ' '\n' | sed '/^$/d' >"$tmp/plain"
cut -f 1 "$tmp/table" | sort - "$tmp/plain" >"$tmp/known"
names() { # PATTERN-OF-CLASSES SYS_|^
  awk -F '\t' -v classes="^($1)$" -v prefix="$2" '$2 ~ classes && $1 ~ "^" prefix { print $1 }' "$tmp/table" | sort
}

while IFS= read -r line; do complain "$table: not a name, a class and a reason: $line"; done < <(
  awk -F '\t' 'NF != 3 || $1 == "" || $3 == "" || $2 !~ /^(intercepted|refused|materialised|safe|real)$/' "$tmp/table")
while IFS= read -r name; do complain "twice in the tables: $name"; done < <(uniq -d "$tmp/known")

# What is claimed, and what is so. Which system calls there are depends on the machine.
claimed='intercepted|refused|materialised'
names "$claimed" '' | grep -v '^SYS_' >"$tmp/claimed"
while IFS= read -r name; do complain "$name: in the table, but not exported"; done < <(
  comm -23 "$tmp/claimed" "$tmp/exports" | comm -12 - "$tmp/functions")
while IFS= read -r name; do complain "$name: exported, but not in the table"; done < <(comm -13 "$tmp/claimed" "$tmp/exports")
while IFS= read -r name; do complain "$name: in the table, but not in syscall.c"; done < <(
  names "$claimed" SYS_ | comm -23 - "$tmp/routed")
while IFS= read -r name; do complain "$name: in syscall.c, but not in the table"; done < <(
  names "$claimed" SYS_ | comm -13 - "$tmp/routed")

# Where a function has several versions, the table says which one is called: the default, which the wrapper finds.
while read -r name default; do
  grep -q "^$name	.*\[calls ${default#@}\]$" "$tmp/table" ||
    complain "$name has several versions: the table should say [calls ${default#@}], if the wrapper suits it"
  ! grep -qx "$name" "$tmp/real" || [ "${default#@}" = GLIBC_2.34 ] ||
    grep -qF "{\"$name\", \"${default#@}\"}" libfanstore/preload/older.c ||
    complain "$name has several versions: older.c should find ${default#@}"
done < <(awk '{ n[$1]++ } $2 ~ /^@/ { d[$1] = $2 } END { for (f in n) if (n[f] > 1) print f, d[f] }' "$tmp/versions" |
  sort | join - "$tmp/claimed")

# What glibc 2.17 lacks has a stand-in, or programs get ENOSYS on older systems. The version of a name is its oldest one.
sed 's/ @*GLIBC_/ /' "$tmp/versions" | sort -k 1,1 -k 2,2V | awk '!seen[$1]++' | sort | join - "$tmp/real" >"$tmp/oldest"
[ "$(wc -l <"$tmp/oldest")" -gt 200 ] || complain "libfanstore/preload/symbols.h: too few rows found"
while read -r name version; do
  [ "$(printf '%s\n' "$version" 2.17 | sort -V | tail -n 1)" = 2.17 ] || grep -qE "X\($name,|FS_NAMED\($name\)|\"$name\"" \
    libfanstore/preload/older.c || complain "$name is of glibc $version: older.c needs a stand-in"
done <"$tmp/oldest"

new=$(sort "$tmp/functions" "$tmp/numbers" | comm -23 - "$tmp/known" | tr '\n' ' ')
newer() { [ "$version" != "$tables_libc" ] && [ "$(printf '%s\n' "$version" "$tables_libc" | sort -V | tail -n 1)" = "$version" ]; }
if [ -n "$new" ]; then
  if [ $complaints -eq 0 ] && newer; then
    echo "libc $version is newer than the tables ($tables_libc); to be classified: $new"
    exit 77
  fi
  complain "to be classified in libc_symbols.tsv or libc_plain.txt: $new"
fi
verdict
