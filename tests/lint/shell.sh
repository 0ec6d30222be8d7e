#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# All scripts under shellcheck, and a syntax check of the Python ones.
. "$(dirname "$0")/files.sh"
need shellcheck
for file in $(sources '*.sh' '.ci/*'); do
  shellcheck -x -P SCRIPTDIR -e SC1091,SC2016 "$file" || complain "$file"
done
for file in $(sources '*.py'); do
  python3 -c 'import ast, sys; ast.parse(open(sys.argv[1]).read())' "$file" || complain "$file"
done
verdict
