#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# What libc does with files inside itself (libc_calls.c, libc_names.c): results and errors are the same on a plain
# directory, at a mount where no directory is, and at one over a directory with other bytes. Then what a dataset refuses
# (libc_refused.c).
. "$(dirname "$0")/../functions.sh"
need_command cc
here=$(dirname "$0")

source=$work/source
mkdir -p "$source/d" "$source/bin/sub" "$source/lib"
number_lines 800 >"$source/a.txt"
for i in 1 2 10 20; do echo "$i" >"$source/d/f$i"; done
echo hello >"$source/d/t.txt"
echo b >"$source/b.txt"
touch "$source/.hidden"
printf 'gr\303\274n und wei\303\237\nzweite Zeile\n' >"$source/utf8.txt"
ln -s d "$source/to-d"
ln -s none "$source/dangling"
printf 'one:x:101:1::/:/bin/one\ntwo:x:102:1::/:/bin/two\n' >"$source/passwd"
printf 'first:x:11:\nsecond:x:12:\n' >"$source/group"
printf '/dev/x /mnt/x ext4 ro 0 0\n/dev/y /mnt/y xfs ro 0 0\n' >"$source/mtab"
{ printf '\007'; head -c 43 /dev/zero; printf 'someone'; head -c 333 /dev/zero; } >"$source/wtmp"
printf 'echo "bare $*"\n' >"$source/bin/bare-script"
printf '#!/bin/sh\necho "script $*"\n' >"$source/bin/shebang"
cp "$source/bin/shebang" "$source/bin/not-executable"
cp "$(type -P echo)" "$source/bin/hello"
chmod 755 "$source/bin/bare-script" "$source/bin/shebang" "$source/bin/hello"
printf 'static int n = 40;\nint value(void) { return ++n; }\n' >"$work/test.c"
cc -shared -fPIC -o "$source/lib/libtest.so" "$work/test.c"
# A library that needs another one beside it, one that is found by LD_LIBRARY_PATH and needs that one, one whose own is
# missing.
mkdir "$source/lib/deps"
make_library() { # PATH NAME CODE OPTION...
  printf '%s\n' "$3" >"$work/$2.c"
  cc -shared -fPIC -w -o "$source/lib/$1" "$work/$2.c" -Wl,-soname,"${1##*/}" "${@:4}"
}
make_library deps/libinner.so inner 'int inner(void) { return 5; }'
make_library libouter.so outer 'int outer(void) { return inner() + 1; }' -L"$source/lib/deps" -linner "-Wl,-rpath,\$ORIGIN/deps"
make_library libnamed.so named 'int named(void) { return outer() + 10; }' -L"$source/lib" -louter \
  -Wl,-rpath-link,"$source/lib/deps"
make_library deps/libgone.so gone 'int gone(void) { return 5; }'
make_library libbroken.so broken 'int broken(void) { return gone(); }' -L"$source/lib/deps" -lgone
rm "$source/lib/deps/libgone.so"
for program in libc_calls libc_names libc_refused; do
  cc -std=gnu11 -D_GNU_SOURCE -O1 -w -Wl,--no-warnings -o "$work/$program" "$here/$program.c" 2>"$work/err" || { cat "$work/err"; exit 1; }
done

compare() { # PROGRAM
  (cd / && plain "$work/ds" "${at:-$mount}" env LD_LIBRARY_PATH="$mount/lib" "$work/$1" "$mount" </dev/null) >"$work/mounted"
  # What the kernel, or an emulator of it, cannot do on the directory either is not compared.
  awk 'FNR == NR { lacks[FNR] = / ENOSYS$/; next } !lacks[FNR]' "$work/$1.native" "$work/mounted" >"$work/got"
  grep -v ' ENOSYS$' "$work/$1.native" >"$work/want"
  cmp "$work/want" "$work/got" || { diff "$work/want" "$work/got"; fail "$1: answers differ"; }
}

for program in libc_calls libc_names; do
  (cd / && LD_LIBRARY_PATH=$source/lib "$work/$program" "$source" </dev/null) >"$work/$program.native"
done
[ "$(cat "$work"/*.native | wc -l)" -gt 350 ] || fail "too few answers"
pack "$source" "$work/ds" --partitions 2
say "the directory itself, with a mount elsewhere"
mount=$source at=$mnt
compare libc_calls
compare libc_names
at=
say "no directory at the mount"
mount=$mnt
compare libc_calls
compare libc_names
(cd / && plain "$work/ds" "$mount" "$work/libc_refused" "$mount")
say "other bytes at the mount"
mv "$source" "$work/original"
decoy "$work/original" "$source"
touch "$source/extra.txt" "$source/d/f3"
mount=$source
before=$(find "$source" -printf '%p %s %m %T@\n' | sort)
compare libc_calls
compare libc_names
(cd / && plain "$work/ds" "$mount" "$work/libc_refused" "$mount" covers)
equal "the directory under the mount" "$before" "$(find "$source" -printf '%p %s %m %T@\n' | sort)"
no_leftovers

# Requests of libaio are carried out; io_uring is refused on demand.
cc -O1 -w -o "$work/kaio" "$here/kaio.c" -laio -luring
"$work/kaio" "$work/original/a.txt" /etc/passwd >"$work/kaio.native"
plain "$work/ds" "$mnt" "$work/kaio" "$mnt/a.txt" /etc/passwd >"$work/kaio.mounted"
diff "$work/kaio.native" "$work/kaio.mounted" || fail "libaio: answers differ"
# shellcheck disable=SC2016
plain "$work/ds" "$mnt" bash -c '"$0" @7 /etc/passwd 7<"$1"' "$work/kaio" "$mnt/a.txt" >"$work/kaio.inherited"
diff "$work/kaio.native" "$work/kaio.inherited" || fail "libaio, an inherited descriptor: answers differ"
equal "io_uring" "ring -38" "$(FANSTORE_IO_URING=0 plain "$work/ds" "$mnt" "$work/kaio" "$mnt/a.txt" /etc/passwd | grep ring)"
# libuv falls back to its threads; node opens and reads by the ring otherwise.
if command -v node >/dev/null; then
  # shellcheck disable=SC2016
  script='require("fs").promises.readFile(process.argv[1]).then((b) => console.log(b.length), (e) => console.log(e.code))'
  equal "by node with io_uring" "$(wc -c <"$work/original/a.txt")" \
    "$(UV_USE_IO_URING=1 plain "$work/ds" "$mnt" node -e "$script" "$mnt/a.txt")"
fi
