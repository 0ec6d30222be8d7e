#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# Files of every kind of row of the table of codecs, lz4 and zstd with dictionaries and byte shuffles: what verify, unpack, info
# and list say of them, and every byte through the mount, by threads, forked children, signal handlers that read and
# fork, and cancelled threads, with the library alone and on two nodes.
. "$(dirname "$0")/../functions.sh"
here=$(cd "$(dirname "$0")" && pwd)
need_command cc

"$python" "$here/codec_rows.py" make "$work/source" 52
"$build/tests/helpers/rowset" "$work/source" "$work/ds" "$mnt" >"$work/rows"
equal "rows in use" 13 "$(cut -d' ' -f2 "$work/rows" | sort -u | wc -l)"
"$bin/fs-prepare" verify "$work/ds" >/dev/null
"$bin/fs-prepare" unpack "$work/ds" "$work/unpacked"
diff -r "$work/source" "$work/unpacked" || fail "unpack"
"$bin/fs-prepare" info --json "$work/ds" >"$work/info.json"
equal "files of zstd" 28 "$(json "$work/info.json" "r['zstd_files']")"
equal "the codecs" "raw lz4 zstd lz4+dict lz4+dict zstd+dict zstd+dict lz4+shuffle4 zstd+shuffle2 zstd+shuffle8 lz4+dict+shuffle8 zstd+dict+shuffle4 zstd+delta+shuffle2 lz4+dict+delta2+shuffle4" \
  "$(json "$work/info.json" "' '.join(c['codec'] for c in r['codecs'])")"
"$bin/fs-prepare" list -l "$work/ds" | grep ' zstd+dict+shuffle4 .* f' >/dev/null || fail "list -l"
say "verify, unpack, info and list"

cc -std=gnu11 -D_GNU_SOURCE -O1 -w -pthread -o "$work/signals" "$here/../posix/signals.c"
everything() { # COMMAND-PREFIX...
  "$@" "$python" "$here/codec_rows.py" read "$work/source" "$mnt"
  for case in handler forks cancel async; do
    "$@" timeout 60 "$work/signals" "$work/source" "$mnt" "$case" 400 || fail "$*: $case"
  done
}
everything plain "$work/ds" "$mnt"
plain "$work/ds" "$mnt" timeout 60 "$work/signals" "$work/source" "$mnt" jump 4000 || fail "jump"
say "the library alone"
everything launch --dataset "$work/ds" --emulate 2 --
say "two nodes"

# Damage to a row's dictionary is found, whatever is read.
offset=$("$python" - "$work/ds/index" <<'PY'
import struct, sys
data = open(sys.argv[1], "rb").read()
strings, = struct.unpack_from("<Q", data, 96 + 24 * 5)
codecs, = struct.unpack_from("<Q", data, 264)
print(strings + struct.unpack_from("<BBHIQ", data, strings + codecs + 3 * 16)[4] + 100)
PY
)
printf '\377\377\377\377' | dd of="$work/ds/index" bs=1 seek="$offset" conv=notrunc status=none
expect_status 1 "$bin/fs-prepare" verify "$work/ds"
expect_status 1 plain "$work/ds" "$mnt" cat "$mnt/f0"
no_leftovers
