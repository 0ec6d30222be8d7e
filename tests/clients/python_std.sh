#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# Python's own files, paths, modules and processes.
. "$(dirname "$0")/harness.bash"

data() { "$python" "$root/tests/clients/python/make_std.py" "$1"; }
for part in files paths modules processes; do
  many $part "\"\$PYTHON\" \"\$C/python/std_$part.py\" \"\$D\" \"\$W/s\""
done
compare
