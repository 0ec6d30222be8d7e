#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# Directories and attributes: ls, find, du, stat, file, readlink, realpath, test.
. "$(dirname "$0")/harness.bash"

try ls-lR 'ls -lR "$D"'
try ls-full-iso 'ls -lA --time-style=full-iso "$D/sizes" "$D/links" "$D/odd"'
fails cat-none 'cat "$D/none"'
refused touch 'touch "$D/new" "$D/links/target"'
try cp-a 'cp -a "$D" copy && ls copy | wc -l'
compare
