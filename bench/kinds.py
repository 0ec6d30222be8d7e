# SPDX-License-Identifier: BSD-3-Clause
"""Makes data of the kinds that a codec is chosen for: kinds.py DIRECTORY [MEBIBYTES [KIND...]].

Each kind is a directory of about so many MiB (default 4). The files are the same on each machine, but for `text` and
`source`, which are what Debian has below /usr, and `jpeg`, which PIL draws (without PIL: bytes of a JPEG's entropy).

  json, csv     records of 1 to 4 KiB, a file each      field32, field64  npy, smooth fields in full precision
  notes         pieces of `text` of 1 to 4 KiB          level32           npy float32, of an instrument of 12 bits
  text, source  larger files                            count16           npy int16, of an instrument of 12 bits
  png           photographs with grain                  jpeg              photographs with grain
  int32         .bin, nothing but the numbers           hdf5              chunks of float32 and of uint16
  sparse16      npy int16, mostly 0

Without h5py (Debian: python3-h5py) there is no `hdf5`.
"""
import array
import glob
import gzip
import io
import json
import math
import os
import random
import struct
import sys
import zlib

WORDS = ("amber basin cedar delta ember fjord grove heath inlet jetty knoll ledge marsh north orbit plain quarry ridge "
         "shore tidal upper vale west yard zinc arch bluff cove dune east fen glen hill isle lake mesa ness oak peak").split()


def write(top, name, data):
    os.makedirs(os.path.dirname(os.path.join(top, name)), exist_ok=True)
    with open(os.path.join(top, name), "wb") as f:
        f.write(data)


def record(rng):
    return {
        "id": "%016x" % rng.getrandbits(64), "time": "2024-%02d-%02dT%02d:%02d:%02d.%03dZ" % (
            rng.randint(1, 12), rng.randint(1, 28), rng.randrange(24), rng.randrange(60), rng.randrange(60), rng.randrange(1000)),
        "station": {"name": "%s-%s" % (rng.choice(WORDS), rng.choice(WORDS)), "latitude": round(rng.uniform(-90, 90), 5),
                    "longitude": round(rng.uniform(-180, 180), 5)},
        "status": rng.choice(["ok", "ok", "ok", "late", "calibrating", "fault"]), "labels": rng.sample(WORDS, rng.randint(2, 6)),
        "remark": " ".join(rng.choice(WORDS) for _ in range(rng.randint(4, 14))),
        "readings": [{"channel": c, "temperature": round(rng.gauss(15, 8), 2), "pressure": round(rng.gauss(1013, 9), 1),
                      "valid": rng.random() < 0.95} for c in range(rng.randint(5, 36))]}


def make_json(top, size):
    rng, done, number = random.Random(1), 0, 0
    while done < size:
        data = json.dumps(record(rng), indent=1 if number % 2 else None).encode()
        if not 1024 <= len(data) <= 4096:
            continue
        write(top, "%02d/record%05d.json" % (number // 1000, number), data)
        done, number = done + len(data), number + 1


def make_csv(top, size):
    rng, done, number = random.Random(2), 0, 0
    while done < size:
        rows = ["timestamp,sensor_id,site,temperature_c,humidity_pct,pressure_hpa,state"]
        clock, length, site = rng.randrange(1700000000, 1710000000), rng.randint(1024, 4000), rng.choice(WORDS)
        temperature, humidity = rng.gauss(15, 8), rng.uniform(30, 90)
        while sum(map(len, rows)) + len(rows) < length:
            clock += rng.choice([60, 60, 60, 61])
            temperature, humidity = temperature + rng.gauss(0, 0.2), min(max(humidity + rng.gauss(0, 0.5), 5), 100)
            rows.append("%d,%d,%s,%.2f,%.1f,%.1f,%s" % (clock, 4000 + number % 97, site, temperature, humidity,
                                                        rng.gauss(1013, 2), rng.choice(["ok", "ok", "ok", "low battery"])))
        data = ("\n".join(rows) + "\n").encode()
        write(top, "%02d/series%05d.csv" % (number // 1000, number), data)
        done, number = done + len(data), number + 1


def debian(patterns, least):
    """The files of Debian that match, in the order of their paths."""
    for path in sorted({os.path.realpath(p) for pattern in patterns for p in glob.glob(pattern, recursive=True)}):
        try:
            with open(path, "rb") as f:
                data = gzip.decompress(f.read()) if path.endswith(".gz") else f.read()
        except (OSError, EOFError, zlib.error):
            continue
        if len(data) >= least:
            yield os.path.basename(path), data


def texts():
    return debian(["/usr/share/common-licenses/*", "/usr/share/doc/*/copyright", "/usr/share/doc/*/README*"], 1024)


def make_text(top, size):
    """Texts one after the other, in files of 1 MiB, as corpora of language are."""
    held, number = b"", 0
    for _, data in texts():
        held += data
        while len(held) >= 1 << 20 and number << 20 < size:
            write(top, "corpus%03d.txt" % number, held[:1 << 20])
            held, number = held[1 << 20:], number + 1
        if number << 20 >= size:
            return


def make_notes(top, size):
    rng, done, number = random.Random(3), 0, 0
    for _, data in texts():
        at = 0
        while at + 1024 <= len(data) and at < 24576 and done < size:
            piece = data[at:at + rng.randint(1024, 4096)]
            if len(piece) >= 1024:
                write(top, "%02d/note%05d.txt" % (number // 1000, number), piece)
                done, number = done + len(piece), number + 1
            at += 4096
        if done >= size:
            return


def make_source(top, size):
    done = 0
    for number, (name, data) in enumerate(debian(["/usr/lib/python3*/*.py", "/usr/lib/python3*/*/*.py", "/usr/include/*.h",
                                                  "/usr/include/linux/*.h"], 512)):
        write(top, "%02d/%04d-%s" % (number // 200, number, name), data)
        done += len(data)
        if done >= size:
            return


def npy(kind, values, shape):
    head = ("{'descr': '<%s', 'fortran_order': False, 'shape': %r, }" % (kind, shape)).encode()
    head += b" " * (117 - len(head)) + b"\n"
    return b"\x93NUMPY\x01\x00" + struct.pack("<H", len(head)) + head + values.tobytes()


def field(rng, rows, columns):
    """A sum of waves, between about -60 and 60 around 280: a temperature over a map."""
    waves = [(rng.gauss(0, 14), rng.gauss(0, 5), rng.gauss(0, 5), rng.uniform(0, 6.28)) for _ in range(6)]
    for y in range(rows):
        along = [0.0] * columns
        for amount, fx, fy, phase in waves:
            step, angle = 6.2832 * fx / columns, 6.2832 * fy * y / rows + phase
            s, c, ds, dc = math.sin(angle), math.cos(angle), math.sin(step), math.cos(step)
            for x in range(columns):
                along[x] += amount * s
                s, c = s * dc + c * ds, c * dc - s * ds
        yield from (280 + v for v in along)


def make_fields(letter, kind, number_of, seed):
    """Files of one field each: npy of numbers of this kind, or the numbers alone."""
    def make(top, size):
        rng, edge = random.Random(seed), 256
        each = edge * edge * array.array(letter).itemsize
        for number in range(max(size // each, 1)):
            values = array.array(letter, (number_of(v, rng) for v in field(rng, edge, edge)))
            name = "%s%04d" % (os.path.basename(top), number)
            write(top, name + (".npy" if kind else ".bin"), npy(kind, values, (edge, edge)) if kind else values.tobytes())
    return make


def make_hdf5(top, size):
    """Files with two arrays of one field, in chunks that HDF5 does not compress."""
    try:
        import h5py
        import numpy
    except ImportError:
        return
    rng, edge = random.Random(12), 256
    os.makedirs(top, exist_ok=True)
    for number in range(max(size // (6 * edge * edge), 1)):
        values = numpy.array([round(v * 8 + rng.gauss(0, 1)) for v in field(rng, edge, edge)]).reshape(edge, edge)
        with h5py.File(os.path.join(top, "hdf5%04d.h5" % number), "w") as f:
            f.create_dataset("field", data=values.astype("f4") / 8, chunks=(64, edge))
            f.create_dataset("count", data=values.astype("u2"), chunks=(64, edge))


def pixels(rng, width, height):
    """Rows of a photograph of 8 bits a colour: smooth, with grain."""
    plane = [int(v) - 152 for v in field(rng, height, width)]
    for y in range(height):
        grain = rng.randbytes(3 * width)
        yield bytes(min(max(plane[y * width + x // 3] + (grain[x] & 31), 0), 255) for x in range(3 * width))


def make_png(top, size):
    rng, done, number, width, height = random.Random(5), 0, 0, 96, 96
    while done < size:
        rows = b"".join(b"\x01" + row[:3] + bytes((a - b) & 255 for a, b in zip(row[3:], row))
                        for row in pixels(rng, width, height))
        data = b"\x89PNG\r\n\x1a\n"
        for kind, body in ((b"IHDR", struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)), (b"IDAT", zlib.compress(rows, 9)),
                           (b"IEND", b"")):
            data += struct.pack(">I", len(body)) + kind + body + struct.pack(">I", zlib.crc32(kind + body))
        write(top, "%02d/image%05d.png" % (number // 1000, number), data)
        done, number = done + len(data), number + 1


def make_jpeg(top, size):
    rng, done, number, image = random.Random(6), 0, 0, None
    try:
        from PIL import Image as image
    except ImportError:
        pass
    while done < size:
        if image:
            out = io.BytesIO()
            image.frombytes("RGB", (192, 144), b"".join(pixels(rng, 192, 144))).save(out, "JPEG", quality=90)
            data = out.getvalue()
        else:
            data = b"\xff\xd8\xff\xe0\x00\x10JFIF\x00\x01" + rng.randbytes(20000).replace(b"\xff", b"\xff\x00") + b"\xff\xd9"
        write(top, "%02d/photo%05d.jpg" % (number // 1000, number), data)
        done, number = done + len(data), number + 1


KINDS = {
    "json": make_json, "csv": make_csv, "notes": make_notes, "text": make_text, "source": make_source,
    "field32": make_fields("f", "f4", lambda v, rng: v, 7), "field64": make_fields("d", "f8", lambda v, rng: v, 8),
    "level32": make_fields("f", "f4", lambda v, rng: round(v * 8 + rng.gauss(0, 1)) / 8, 9),
    "count16": make_fields("h", "i2", lambda v, rng: round(v * 8 + rng.gauss(0, 1)), 10), "png": make_png, "jpeg": make_jpeg,
    "sparse16": make_fields("h", "i2", lambda v, rng: round((v - 300) * 8 + rng.gauss(0, 1)) if v > 300 else 0, 13),
    "int32": make_fields("i", None, lambda v, rng: round(v * 64 + rng.gauss(0, 1)), 11), "hdf5": make_hdf5,
}


def make(top, mebibytes, kinds=tuple(KINDS)):
    for kind in kinds:
        KINDS[kind](os.path.join(top, kind), int(mebibytes * (1 << 20)))


if __name__ == "__main__":
    make(sys.argv[1], float(sys.argv[2]) if len(sys.argv) > 2 else 4, sys.argv[3:] or tuple(KINDS))
