#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# Includes go one way only: the layers of docs/internals/design.md, held to. A folder may include its own headers, those of
# include/fanstore, and those of the folders in its line of the table. A file with a line of its own is a layer by
# itself. "client/*" means client and all folders below it.
. "$(dirname "$0")/files.sh"

base='ipc index format codec util'
node="client cache $base"
fd="client/node $node"
read="client/fd $fd"
names="client/read $read"
path="client/names $names"
outputs="client/path $path"
real="client/outputs $outputs"
files="client/real $real"
core="daemon cache $base"
work="daemon/core $core"
kept="daemon/outputs daemon/metadata daemon/blocks $work"
allowed="
libfanstore/util
libfanstore/codec             util
libfanstore/format            codec util
libfanstore/index             format codec util
libfanstore/ipc               index format codec util
libfanstore/cache             $base
libfanstore/client            cache $base
libfanstore/client/node       $node
libfanstore/client/fd         $fd
libfanstore/client/read       $read
libfanstore/client/names      $names
libfanstore/client/path       $path
libfanstore/client/outputs    $outputs
libfanstore/client/real       $real
libfanstore/client/files      $files
libfanstore/preload           client/* cache $base
libfanstore/daemon            daemon/sample daemon/staging daemon/replicas daemon/stageout daemon/stagein daemon/finish $kept
libfanstore/daemon/daemon.h   daemon/core cache $base
libfanstore/daemon/core       $core
libfanstore/daemon/mpi        daemon/core $base
libfanstore/daemon/metadata   daemon/core $base
libfanstore/daemon/staging    $work
libfanstore/daemon/blocks     $work
libfanstore/daemon/outputs    daemon/metadata daemon/blocks $work
libfanstore/daemon/replicas   $kept
libfanstore/daemon/stageout   $kept
libfanstore/daemon/stagein    daemon/stageout $kept
libfanstore/daemon/finish     daemon/stagein daemon/stageout daemon/replicas $kept
libfanstore/daemon/sample     $work
fs-prepare                    index format codec util
fs-prepare/pack               fs-prepare index format codec util
fs-prepare/nodes              fs-prepare/pack fs-prepare daemon/staging daemon/core ipc index format codec util
fs-launch                     ipc index format util
fs-launch/doctor              fs-launch util
fs-launch/clean               fs-launch ipc util
fs-launch/replay              fs-launch ipc util
fs-launch/watch               fs-launch ipc util
fs-launch/static              client/* cache $base
fs-launch/fanstored.c         daemon daemon/mpi cache $base"

mapfile -t files < <(sources 'libfanstore/*.[chS]' 'fs-prepare/*.[ch]' 'fs-launch/*.[ch]' 'include/*.h')
while IFS= read -r line; do complain "$line"; done < <(
  awk -v allowed="$allowed" '
  function dirname(path) { return sub("/[^/]*$", "", path) ? path : "." }
  function may(layer, folder) {
    return (layer, folder) in allow || (layer, substr(folder, 1, match(folder "/", "/") - 1) "/*") in allow
  }
  BEGIN {
    lines = split(allowed, line, "\n")
    for (i = 1; i <= lines; i++) {
      words = split(line[i], word, " ")
      if (words == 0) continue
      layers[word[1]]
      for (k = 2; k <= words; k++) allow[word[1], word[k]]
    }
  }
  FNR == 1 {
    here = dirname(FILENAME)
    layer = FILENAME in layers ? FILENAME : here
    if (!(layer in layers) && layer != "include/fanstore") print FILENAME ": its folder is not in the table"
    own = here
    sub("^libfanstore/", "", own)
  }
  /^[ \t]*#[ \t]*include[ \t]*"/ {
    split($0, quoted, "\"")
    name = quoted[2]
    from = dirname(name)
    if (from == "." || from ~ "^\\.\\.(/|$)") {
      beside = (from == "." ? here : dirname(here)) substr("/" name, from == "." ? 1 : 4)
      if ((getline ignored < beside) < 0) print FILENAME ": there is no \"" name "\""
      close(beside)
      from = dirname(beside)
      if (from == here) next
    }
    if (from == "fanstore" || from == own && layer == here || may(layer, from)) next
    print FILENAME ": may not include \"" name "\""
  }
  /^[ \t]*#[ \t]*include[ \t]*<mpi\.h>/ && layer != "libfanstore/daemon/mpi" {
    print FILENAME ": only libfanstore/daemon/mpi includes <mpi.h>"
  }' "${files[@]}")
verdict
