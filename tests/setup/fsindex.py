# SPDX-License-Identifier: BSD-3-Clause
"""A second, independent reader of the index (docs/internals/format.md), for the tests and the demo: which partition holds the
first byte of each file. As a program: fsindex.py DATASET prints "PARTITION SIZE PATH" for every file, and a last
column * for a partition that is on every node."""
import os
import struct
import sys

ENTRY = struct.Struct("<QqIIIIQQQII")
SECTIONS = ("entries", "buckets", "blocks", "links", "parts", "strings")
BLOCKS = 0x02


class Index:
    def __init__(self, path):
        with open(path, "rb") as f:
            self.data = data = f.read()
        magic, version = struct.unpack_from("<QI", data)
        if magic != 0x5845444E49534600 or version not in (1, 2):
            raise ValueError("not an index of version 1 or 2")
        self.block_size, = struct.unpack_from("<I", data, 40)
        self.section = {name: struct.unpack_from("<QQQ", data, 96 + 24 * i) for i, name in enumerate(SECTIONS)}
        self.dataset_id = data[240:256].hex()

    def record(self, section, layout, number):
        offset, count, _ = self.section[section]
        if number >= count:
            raise ValueError("no record %d in %s" % (number, section))
        return struct.unpack_from(layout, self.data, offset + number * struct.calcsize(layout))

    def replicated(self, partition):
        return bool(self.record("parts", "<QQII", partition)[2] & 1)

    def files(self):
        """(path, size, partition) of every regular file; partition None for an empty one."""
        strings = self.section["strings"][0]
        paths = {}
        for number in range(self.section["entries"][1]):
            size, _, _, mode, parent, _, name, data, _, _, partition = self.record("entries", ENTRY.format, number)
            start = strings + (name & 0xFFFFFFFFFF)
            own = self.data[start:start + (name >> 40 & 0xFF)]
            paths[number] = path = os.path.join(paths[parent], own) if number else b""
            if mode & 0o170000 != 0o100000:
                continue
            if name >> 56 & BLOCKS:
                partition = self.record("blocks", "<QIIQ", data)[2]
            yield path, size, partition if size else None


def main():
    index = Index(os.path.join(sys.argv[1], "index"))
    for path, size, partition in index.files():
        mark = b" *" if partition is not None and index.replicated(partition) else b""
        sys.stdout.buffer.write(b"%d %d %s%s\n" % (-1 if partition is None else partition, size, path, mark))


if __name__ == "__main__":
    main()
