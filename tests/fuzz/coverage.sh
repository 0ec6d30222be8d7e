#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# What the corpora of the fuzz targets reach: for each, the lines of the files that it is about, and how many of them
# were run. coverage.sh PROGRAMS, a directory of targets that were built with -fprofile-instr-generate
# -fcoverage-mapping; the corpora are those of build/fuzz-corpus. Called by `make fuzz-coverage`.
set -euo pipefail
command -v llvm-cov >/dev/null || {
  echo "no llvm-cov here (package llvm)"
  exit 77
}
root=$(cd "$(dirname "$0")/../.." && pwd)
programs=$(cd "$1" && pwd)
work=$(mktemp -d "${TMPDIR:-/tmp}/fuzz-coverage.XXXXXX")
trap 'rm -rf "$work"' EXIT
cd "$root"
declare -A about=(
  [codec]='libfanstore/codec/*.c'
  [control]='libfanstore/ipc/control.c fs-launch/fanstored.c'
  [daemon]="libfanstore/daemon/core/clients.c libfanstore/daemon/outputs/client_calls.c libfanstore/daemon/outputs/service.c libfanstore/daemon/blocks/fetch.c libfanstore/daemon/blocks/exchange.c
    libfanstore/daemon/blocks/serve.c libfanstore/daemon/blocks/datasets.c libfanstore/daemon/blocks/prefetch.c libfanstore/daemon/metadata/ns*.c libfanstore/daemon/metadata/names.c
    libfanstore/daemon/outputs/open_files.c libfanstore/daemon/outputs/snapshots.c libfanstore/daemon/replicas/receive.c libfanstore/daemon/outputs/backing*.c"
  [daemon_names]='libfanstore/daemon/metadata/ns*.c libfanstore/daemon/metadata/names.c libfanstore/daemon/metadata/members.c'
  [elf]='fs-launch/doctor/elfread.c fs-launch/doctor/code.c'
  [handover]='libfanstore/ipc/handover*.c libfanstore/client/node/attach.c libfanstore/client/node/offline.c libfanstore/cache/view.c'
  [index]='libfanstore/index/open.c libfanstore/index/lookup.c libfanstore/index/entry.c libfanstore/index/verify.c'
  [launch_options]='fs-launch/options.c fs-launch/hosts.c libfanstore/util/opt.c'
  [list]='libfanstore/util/text.c libfanstore/util/parse.c libfanstore/util/path.c'
  [live]='fs-launch/watch/view.c fs-launch/watch/rates.c fs-launch/watch/rows.c fs-launch/watch/show.c fs-launch/watch/metrics.c fs-launch/watch/influx.c libfanstore/ipc/latency.c'
  [manifest]=libfanstore/format/manifest.c
  [names]='libfanstore/ipc/op.c libfanstore/ipc/record.c'
  [nodes_lead]='fs-prepare/nodes/wire.c fs-prepare/nodes/lead.c fs-prepare/nodes/answers.c fs-prepare/nodes/walk.c fs-prepare/nodes/owner.c'
  [nodes_worker]='fs-prepare/nodes/wire.c fs-prepare/nodes/plan.c fs-prepare/nodes/worker.c fs-prepare/nodes/walk.c fs-prepare/nodes/owner.c fs-prepare/nodes/partial.c'
  [part]=libfanstore/format/part.c
  [prepare_options]='fs-prepare/pack/options.c fs-prepare/cli.c libfanstore/util/opt.c'
  [prepare_unpack]='fs-prepare/unpack.c fs-prepare/verify.c fs-prepare/dataset.c libfanstore/index/verify.c'
  [path]='libfanstore/client/path/path.c libfanstore/client/path/walk.c libfanstore/client/path/list.c libfanstore/client/path/vdir.c'
  [settings]='libfanstore/client/node/config.c libfanstore/ipc/node.c'
)
printf '%-16s %8s %8s %8s %6s\n' target inputs lines run '%'
for program in "$programs"/fuzz_*; do
  name=${program##*/fuzz_}
  corpus=$root/build/fuzz-corpus/fuzz_$name
  [ -d "$corpus" ] || continue
  # shellcheck disable=SC2206 # patterns
  files=(${about[$name]:-})
  (cd "$work" && TMPDIR=$work LLVM_PROFILE_FILE=$work/$name.raw "$program" -runs=0 -timeout=60 -close_fd_mask=3 "$corpus" >/dev/null 2>&1) ||
    echo "fuzz_$name failed on its corpus"
  llvm-profdata merge -o "$work/$name.prof" "$work/$name.raw"
  llvm-cov export -summary-only -instr-profile "$work/$name.prof" "$program" "${files[@]}" >"$work/$name.json"
  /usr/bin/python3 - "$name" "$(find "$corpus" -type f | wc -l)" "$work/$name.json" <<'END'
import json, sys
lines = json.load(open(sys.argv[3]))["data"][0]["totals"]["lines"]
print("%-16s %8s %8d %8d %6.1f" % (sys.argv[1], sys.argv[2], lines["count"], lines["covered"], lines["percent"]))
END
done
