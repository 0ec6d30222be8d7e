#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Reads files, and has the next ones fetched ahead by hand: prefetch.py FILE...

    fs-launch --dataset /shared/imagenet.fs -- sh -c 'python3 docs/examples/prefetch.py /data/imagenet/train/*/*'

A program with a DataLoader of PyTorch needs none of this: `fs-launch --prefetch torch` does it (docs/training.md). Without
FanStore the program works, too, and fetches nothing ahead."""
import ctypes
import os
import sys

AHEAD = 64  # files between the last hint and the read


def find_prefetch():
    """fanstore_prefetch of the preloaded library (include/fanstore/fanstore.h), or None without FanStore."""
    function = getattr(ctypes.CDLL(None), "fanstore_prefetch", None)
    if function:
        function.restype = ctypes.c_int64
    return function


def hint(prefetch, paths):
    """Tells the daemon which files will be read soon. It fetches those of other nodes into the node's cache. If its queue is
    full, the rest of the paths is dropped: a hint may be lost, and the file is then fetched when it is read."""
    if prefetch and paths:
        array = (ctypes.c_char_p * len(paths))(*(os.fsencode(p) for p in paths))
        prefetch(array, ctypes.c_size_t(len(paths)), None)


def main(paths):
    prefetch = find_prefetch()
    hint(prefetch, paths[:AHEAD])
    for i, path in enumerate(paths):
        hint(prefetch, paths[i + AHEAD:i + AHEAD + 1])
        with open(path, "rb") as f:
            print(len(f.read()), path)


if __name__ == "__main__":
    main(sys.argv[1:])
