#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# Is what `make install` put below PREFIX complete, and does it work from there? installed.sh PREFIX
. "$(dirname "$0")/../functions.sh"
prefix=$1
for f in bin/fs-prepare bin/fs-launch bin/fanstored lib/libfanstore.so lib/pkgconfig/fanstore.pc \
  share/man/man1/fs-prepare.1 share/man/man1/fs-launch.1 share/fanstore/python/sitecustomize.py; do
  [ -f "$prefix/$f" ] || fail "no $f"
done
bin=$prefix/bin
lib=$prefix/lib/libfanstore.so
mkdir "$work/source"
echo hello >"$work/source/file"
pack "$work/source" "$work/ds" --mount "$mnt"
equal "the library" hello "$(plain "$work/ds" "$mnt" cat "$mnt/file")"
equal "fs-launch" hello "$(launch --dataset "$work/ds" --prefetch torch -- cat "$mnt/file" | grep hello)"

# What docs/api.md says: headers and library by pkg-config.
if command -v pkg-config >/dev/null; then
  export PKG_CONFIG_PATH=$prefix/lib/pkgconfig
  printf '%s\n' '#include <fanstore/fanstore.h>' '#include <stdio.h>' \
    'int main(void) { return puts(fanstore_version()) < 0; }' >"$work/version.c"
  read -ra flags <<<"$(pkg-config --define-variable=prefix="$prefix" --cflags --libs fanstore)"
  gcc -o "$work/version" "$work/version.c" "${flags[@]}"
  equal "by pkg-config" "$(pkg-config --modversion fanstore)" "$(LD_LIBRARY_PATH=$prefix/lib "$work/version")"
fi
