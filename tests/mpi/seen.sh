#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# timeout: 120
# long: 25
# rest: other numbers of nodes
# What programs of other nodes see of a file that is open for writing, and whether it is staged out before it is closed.
. "$(dirname "$0")/../functions.sh"

mkdir "$work/source"
echo x >"$work/source/file"
pack "$work/source" "$work/ds" --mount "$mnt"
for nodes in $(half 2 3); do
  expect_status 0 launch --dataset "$work/ds" --emulate "$nodes" --discard -- "$python" "$root/tests/mpi/seen.py" "$mnt" "$nodes"
  sed "s/^ok - /ok - $nodes nodes: /" "$work/out"
done

! rest || exit 0

cat >"$work/half.py" <<'END'
import os, subprocess, sys, time
mount, to = sys.argv[1:]
f = open(mount + "/half", "w")
look = "import os, sys; print(os.stat(sys.argv[1]).st_size)"
for i in range(4):
    f.write("x" * 100), f.flush()
    size = subprocess.run([sys.executable, "-c", look, mount + "/half"], env=dict(os.environ, FANSTORE_NODE="1"), capture_output=True, text=True)
    assert 0 <= int(size.stdout) <= 100 * (i + 1), size
    time.sleep(0.2 if i < 3 else 2.5)
    assert not os.path.exists(to + "/half"), "a file that is open was staged out"
f.close()
for i in range(100):
    if os.path.exists(to + "/half"): break
    time.sleep(0.1)
assert os.stat(to + "/half").st_size == 400
with open(mount + "/half", "w") as f:  # emptied, and half of it written: the whole one stays
    f.write("y" * 100), f.flush()
    time.sleep(3.5)
    assert os.stat(to + "/half").st_size == 400, "a file that is open took the place of a whole one"
for i in range(100):
    if open(to + "/half").read() == "y" * 100: break
    time.sleep(0.1)
assert open(to + "/half").read() == "y" * 100
END
mkdir "$work/to"
expect_status 0 launch --dataset "$work/ds" --emulate 2 --stage-out "$work/to" -- "$python" "$work/half.py" "$mnt" "$work/to"
echo "ok - staged out when it is whole"
no_leftovers
