# SPDX-License-Identifier: BSD-3-Clause
"""JPEG files of about 110 KB for the loader suite, as photographs of 500x375 at quality 90 are; deterministic."""
import io
import os

import numpy
from PIL import Image

CLASSES = 100
PICTURES = 400


def picture(number):
    """Broad colours with grain at half the size: the grain sets the length of the file, 60 to 160 KB."""
    rng = numpy.random.default_rng(number)
    width, height = int(rng.integers(440, 561)), int(rng.integers(330, 421))
    broad = Image.fromarray(rng.integers(0, 256, (6, 8, 3), dtype=numpy.uint8)).resize((width, height), Image.BICUBIC)
    amount = int(rng.integers(26, 60))
    grain = rng.integers(-amount, amount + 1, ((height + 1) // 2, (width + 1) // 2, 3), dtype=numpy.int16)
    pixels = numpy.asarray(broad, dtype=numpy.int16) + grain.repeat(2, 0).repeat(2, 1)[:height, :width]
    out = io.BytesIO()
    Image.fromarray(pixels.clip(0, 255).astype(numpy.uint8)).save(out, "JPEG", quality=90)
    return out.getvalue()


def make(top, count):
    """count files in CLASSES directories, as ImageFolder wants them. Drawing each would take minutes: some hundred are
    drawn, and every file is one of them with a comment of its own, so that no two files are alike."""
    drawn = [picture(n) for n in range(min(PICTURES, count))]
    for n in range(min(CLASSES, count)):
        os.makedirs(os.path.join(top, "class%03d" % n))
    for n in range(count):
        comment = numpy.random.default_rng(n).bytes(62)
        body = drawn[(n * 7 + n // len(drawn)) % len(drawn)]
        with open(os.path.join(top, "class%03d" % (n % CLASSES), "image%06d.jpg" % n), "wb") as f:
            f.write(body[:2] + b"\xff\xfe\x00\x40" + comment + body[2:])
