# SPDX-License-Identifier: BSD-3-Clause
"""Sets the access times of a tree to the modification times: access_times.py DIRECTORY."""
import os
import sys

for base, dirs, files in os.walk(sys.argv[1], topdown=False):
    for name in dirs + files + ["."]:
        path = os.path.join(base, name)
        mtime = os.lstat(path).st_mtime_ns
        os.utime(path, ns=(mtime, mtime), follow_symlinks=False)
