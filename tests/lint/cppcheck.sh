#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# timeout: 1500
# cppcheck of all product code; with LINT_COMMITS of recent files. Leaks are left to the sanitizers: it does not know cleanup attributes.
. "$(dirname "$0")/files.sh"
need cppcheck
recent 'libfanstore/*.c' 'fs-prepare/*.c' 'fs-launch/*.c' 'bench/*.c' >"$TMPDIR/files"
[ -s "$TMPDIR/files" ] || verdict
cppcheck -q -j 2 --std=c11 --language=c --enable=warning,performance,portability --inline-suppr --error-exitcode=1 \
  --suppress=memleak --suppress=resourceLeak --suppress=missingIncludeSystem --suppress=unknownMacro --suppress=allocaCalled --suppress=normalCheckLevelMaxBranches \
  -D__x86_64__=1 -D__STDC__ -D__BYTE_ORDER__=1234 -D__ORDER_LITTLE_ENDIAN__=1234 -D_GNU_SOURCE -Iinclude -Ilibfanstore \
  --file-list="$TMPDIR/files" 2>&1 || complain "cppcheck"
verdict
