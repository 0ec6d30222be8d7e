# SPDX-License-Identifier: BSD-3-Clause
"""What the tests of interrupted packs pack: resume_source.py FILES EQUAL OWN makes `source`, with a directory for each 100 files, and
three large files, which are cut into segments, in several checkpoints. They begin with the same EQUAL bytes, and then have OWN bytes
of their own."""
import os
import random
import sys

files, equal, own = map(int, sys.argv[1:])
random.seed(30)
text = b"".join(b"line %d of some text\n" % i for i in range(12000))
for i in range(files):
    directory = f"source/{i % (files // 100)}"
    os.makedirs(directory, exist_ok=True)
    with open(f"{directory}/{i:04d}", "wb") as f:
        f.write(text[:i % 90] if i % 5 == 0 else random.randbytes(i % 3000) + text[i * 30:i * 30 + i * 9])
same = random.randbytes(equal)
for i in range(3):
    with open(f"source/large{i}", "wb") as f:
        f.write(same + random.randbytes(own) + text * 3)
