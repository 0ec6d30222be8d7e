#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# All scripts under shellcheck, and a syntax check of the Python ones.
. "$(dirname "$0")/files.sh"
need shellcheck
mapfile -t scripts < <(sources '*.sh' '.ci/*')
shellcheck -x -P SCRIPTDIR -e SC1091,SC2016 "${scripts[@]}" || complain "shellcheck"
while IFS= read -r file; do
  python3 -c 'import ast, sys; ast.parse(open(sys.argv[1]).read())' "$file" || complain "$file"
done < <(sources '*.py')
verdict
