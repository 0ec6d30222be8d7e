#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# timeout: 1500
# All scripts under shellcheck (with LINT_COMMITS recent ones), and a syntax check of the Python ones.
. "$(dirname "$0")/files.sh"
need shellcheck
mapfile -t scripts < <(recent '*.sh' '.ci/*')
[ ${#scripts[@]} -eq 0 ] || shellcheck -x -P SCRIPTDIR -e SC1091,SC2016 "${scripts[@]}" || complain "shellcheck"
sources '*.py' | xargs python3 -c 'import ast, sys
for name in sys.argv[1:]: ast.parse(open(name).read(), name)' || complain "a Python script"
verdict
