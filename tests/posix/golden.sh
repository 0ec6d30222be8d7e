#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# Datasets of each format version, kept as they were written, still read as what was packed: through the mount and by
# unpack. tests/golden/vN*/dataset is a dataset, tests/golden/vN*/listing what must be seen. v2-rows is of
# tests/helpers/rowset.c, with every kind of row of the table of codecs; the others are of fs-prepare pack.
. "$(dirname "$0")/../functions.sh"

listing() { # DIR
  "$python" - "$1" <<'PY'
import hashlib, os, stat, sys
top = os.fsencode(sys.argv[1])
for where, dirs, files in os.walk(top):
    for name in dirs + files:
        path = os.path.join(where, name)
        st = os.lstat(path)
        what = "-"
        if stat.S_ISREG(st.st_mode):
            with open(path, "rb") as f:
                what = hashlib.sha256(f.read()).hexdigest()
        elif stat.S_ISLNK(st.st_mode):
            what = repr(os.readlink(path))
        size = 0 if stat.S_ISDIR(st.st_mode) else st.st_size
        links = 0 if stat.S_ISDIR(st.st_mode) else st.st_nlink  # file systems count them differently
        print(repr(path[len(top) + 1:]), oct(st.st_mode), size, st.st_mtime_ns, links, what)
PY
}

for version in "$root"/tests/golden/v*/; do
  name=$(basename "$version")
  "$bin/fs-prepare" verify "$version/dataset" >/dev/null
  "$bin/fs-prepare" unpack "$version/dataset" "$work/$name" >/dev/null
  listing "$work/$name" | sort | diff "$version/listing" - || fail "$name unpacked"
  export -f listing
  export python
  # shellcheck disable=SC2016 # for the inner shell
  plain "$version/dataset" "$mnt" bash -c 'listing "$1"' bash "$mnt" | sort | diff "$version/listing" - ||
    fail "$name through the mount"
  say "$name reads as it was packed"
done
