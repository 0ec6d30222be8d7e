#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# Is what `make install` put below PREFIX complete, and does it work from there? installed.sh PREFIX
. "$(dirname "$0")/../functions.sh"
prefix=$1
for f in bin/fs-prepare bin/fs-launch bin/fanstored lib/libfanstore.so lib/pkgconfig/fanstore.pc \
  share/man/man1/fs-prepare.1 share/man/man1/fs-launch.1 share/fanstore/python/sitecustomize.py \
  share/doc/fanstore/README.md share/doc/fanstore/docs/deploy/deb/control \
  share/doc/fanstore/docs/examples/slurm/prolog share/bash-completion/completions/fs-prepare; do
  [ -f "$prefix/$f" ] || fail "no $f"
done
bin=$prefix/bin
lib=$prefix/lib/libfanstore.so
mkdir "$work/source"
echo hello >"$work/source/file"
pack "$work/source" "$work/ds" --mount "$mnt"
equal "the library" hello "$(plain "$work/ds" "$mnt" cat "$mnt/file")"
equal "fs-launch" hello "$(launch --dataset "$work/ds" --prefetch torch -- cat "$mnt/file" | grep hello)"

# Each page that the README, a manual page or another page names is there.
while read -r page; do
  [ -f "$prefix/share/doc/fanstore/$page" ] || fail "no $page, which is named in the documents"
done < <(cd "$prefix/share" && grep -hoE 'docs/[a-z_/-]+\.md' doc/fanstore/README.md doc/fanstore/docs/*.md man/man1/f*.1 | sort -u)

# Completion: options of --help, commands, and after -- none of them.
completed() { # WORD...: what the last one may become
  bash -c '. "$1/share/bash-completion/completions/fs-launch"; PATH=$1/bin:$PATH; shift
    COMP_WORDS=("$@") COMP_CWORD=$(($# - 1)); _fanstore "$1"; echo "${COMPREPLY[*]}"' - "$prefix" "$@"
}
equal "options" "--output-limit --output-replicas" "$(completed fs-launch --output)"
equal "options of a command" "--jobs" "$(completed fs-prepare pack --jo)"
equal "commands" "verify" "$(completed fs-prepare v)"
equal "COMMAND's own options" "" "$(completed fs-launch --dataset d -- --output)"

# What docs/api.md says: headers and library by pkg-config.
if command -v pkg-config >/dev/null; then
  export PKG_CONFIG_PATH=$prefix/lib/pkgconfig
  printf '%s\n' '#include <fanstore/fanstore.h>' '#include <stdio.h>' \
    'int main(void) { return puts(fanstore_version()) < 0; }' >"$work/version.c"
  read -ra flags <<<"$(pkg-config --define-variable=prefix="$prefix" --cflags --libs fanstore)"
  gcc -o "$work/version" "$work/version.c" "${flags[@]}"
  equal "by pkg-config" "$(pkg-config --modversion fanstore)" "$(LD_LIBRARY_PATH=$prefix/lib "$work/version")"
fi
