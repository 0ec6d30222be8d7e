#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# Includes go one way only: the stack of docs/design.md, held to. A directory may include its own headers, those of
# include/fanstore, and those of the directories in its line of the table. fs-launch/fanstored.c is the daemon's main.
. "$(dirname "$0")/files.sh"

allowed='
libfanstore/util
libfanstore/codec       util
libfanstore/format      codec util
libfanstore/index       format codec util
libfanstore/ipc         index format codec util
libfanstore/cache       ipc index format codec util
libfanstore/client      cache ipc index format codec util
libfanstore/preload     client cache ipc index format codec util
libfanstore/daemon      cache ipc index format codec util
libfanstore/daemon/mpi  daemon cache ipc index format codec util
fs-prepare              index format codec util
fs-launch               ipc index format util
fs-launch/static        client cache ipc index format codec util
fs-launch/fanstored.c   daemon daemon/mpi cache ipc index format codec util'

for file in $(sources 'libfanstore/*.[chS]' 'fs-prepare/*.[ch]' 'fs-launch/*.[ch]' 'include/*.h'); do
  layer=$(dirname "$file")
  [ "$file" != fs-launch/fanstored.c ] || layer=$file
  may=$(awk -v layer="$layer" '$1 == layer { $1 = ""; print $0 " "; found = 1 } END { exit !found }' <<<"$allowed") || {
    [ "$layer" = include/fanstore ] || complain "$file: its directory is not in the table"
    may=' '
  }
  own=${layer#libfanstore/}
  while read -r name; do
    [ -n "$name" ] || continue
    from=$(dirname "$name")
    case $from in
      fanstore | "$own") continue ;;
      .)
        [ -f "$(dirname "$file")/$name" ] || complain "$file: includes \"$name\", which is not beside it"
        continue
        ;;
    esac
    case "$may" in *" $from "*) ;; *) complain "$file: $own may not include \"$name\"" ;; esac
  done < <(sed -n 's/^[ \t]*#[ \t]*include[ \t]*"\([^"]*\)".*/\1/p' "$file")

  if grep -qE '^[ \t]*#[ \t]*include[ \t]*<mpi\.h>' "$file" && [ "$layer" != libfanstore/daemon/mpi ]; then
    complain "$file: only libfanstore/daemon/mpi includes <mpi.h>"
  fi
done
verdict
