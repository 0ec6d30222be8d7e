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

while IFS= read -r line; do complain "$line"; done < <(
  sources 'libfanstore/*.[chS]' 'fs-prepare/*.[ch]' 'fs-launch/*.[ch]' 'include/*.h' | xargs awk -v allowed="$allowed" '
  function dirname(path) { return sub("/[^/]*$", "", path) ? path : "." }
  BEGIN {
    lines = split(allowed, line, "\n")
    for (i = 1; i <= lines; i++) {
      words = split(line[i], word, " ")
      if (words == 0) continue
      may[word[1]] = " "
      for (k = 2; k <= words; k++) may[word[1]] = may[word[1]] word[k] " "
    }
  }
  FNR == 1 {
    here = dirname(FILENAME)
    layer = FILENAME == "fs-launch/fanstored.c" ? FILENAME : here
    if (!(layer in may) && layer != "include/fanstore") print FILENAME ": its directory is not in the table"
    own = layer
    sub("^libfanstore/", "", own)
  }
  /^[ \t]*#[ \t]*include[ \t]*"/ {
    split($0, quoted, "\"")
    name = quoted[2]
    from = dirname(name)
    if (from == ".") {
      beside = here "/" name
      if ((getline ignored < beside) < 0) print FILENAME ": includes \"" name "\", which is not beside it"
      close(beside)
    } else if (from != "fanstore" && from != own && !index(may[layer], " " from " "))
      print FILENAME ": " own " may not include \"" name "\""
  }
  /^[ \t]*#[ \t]*include[ \t]*<mpi\.h>/ && layer != "libfanstore/daemon/mpi" {
    print FILENAME ": only libfanstore/daemon/mpi includes <mpi.h>"
  }')
verdict
