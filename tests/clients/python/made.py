# SPDX-License-Identifier: BSD-3-Clause
"""For the programs make_*.py, which make what the cases read below the directory that is their argument."""
import os
import sys

top = sys.argv[1]


def path(*parts):
    """Of something below the directory, in a directory that is there."""
    name = os.path.join(top, *parts)
    os.makedirs(os.path.dirname(name), exist_ok=True)
    return name
