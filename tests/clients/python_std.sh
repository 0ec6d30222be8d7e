#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# Python's own files, paths, modules and processes.
. "$(dirname "$0")/harness.bash"

data() { "$python" "$root/tests/clients/python/make_std.py" "$1"; }
for part in files paths modules processes; do
  many $part "\"\$PYTHON\" \"\$C/python/std_$part.py\" \"\$D\" \"\$W/s\""
done
# The first thing that the process does below the mount, a vfork child does.
many vfork-first - <<'END'
"$PYTHON" -c 'import subprocess, sys
print("=== program")
for i in range(2): print(subprocess.run([sys.argv[1] + "/venv/bin/copied", "-c", "print(1)"], capture_output=True, check=False).stdout)
print("=== parent")
print(len(open(sys.argv[1] + "/bin/big.bin", "rb").read()), len(open(sys.argv[1] + "/venv/bin/copied", "rb").read()) > 1e6)' "$D"
END
compare
