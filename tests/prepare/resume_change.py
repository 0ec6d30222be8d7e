# SPDX-License-Identifier: BSD-3-Clause
"""resume_change.py DIRECTORY COUNT DIRECTORIES: changes what resume_source.py has made: of every eight small files one is
removed and one gets other bytes. Deterministic."""
import os
import random
import sys

random.seed(31)
for i in range(0, int(sys.argv[2]), 4):
    path = "%s/%d/%04d" % (sys.argv[1], i % int(sys.argv[3]), i)
    os.unlink(path)
    if i % 8 == 0:
        with open(path, "wb") as f:
            f.write(random.randbytes(20000) + b"x" * 9000)
