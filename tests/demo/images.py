# SPDX-License-Identifier: BSD-3-Clause
"""Draws the demo's data set: images.py DIRECTORY TRAIN VAL.

JPEG files of 8 to 60 KB in DIRECTORY/{train,val}/CLASS, as torchvision's ImageFolder wants them. A class is a shape;
size, place, colours, background, noise and lettering vary. Deterministic: image number n is drawn from the seed n."""
import math
import multiprocessing
import os
import random
import sys

import numpy
from PIL import Image, ImageDraw

CLASSES = ("circle", "cross", "diamond", "ring", "square", "star", "stripes", "triangle")


def polygon(corners, x, y, r, turn, inner=None):
    points = []
    steps = corners * (2 if inner else 1)
    for i in range(steps):
        radius = inner * r if inner and i % 2 else r
        angle = turn + 2 * math.pi * i / steps
        points.append((x + radius * math.cos(angle), y + radius * math.sin(angle)))
    return points


def draw_shape(draw, kind, x, y, r, ink, turn):
    if kind == "circle":
        draw.ellipse((x - r, y - r, x + r, y + r), fill=ink)
    elif kind == "ring":
        draw.ellipse((x - r, y - r, x + r, y + r), outline=ink, width=max(3, int(r / 4)))
    elif kind == "cross":
        w = r / 3
        draw.rectangle((x - r, y - w, x + r, y + w), fill=ink)
        draw.rectangle((x - w, y - r, x + w, y + r), fill=ink)
    elif kind == "square":
        draw.polygon(polygon(4, x, y, r, math.pi / 4 + turn / 8), fill=ink)
    elif kind == "diamond":
        draw.polygon([(x, y - r), (x + r / 2, y), (x, y + r), (x - r / 2, y)], fill=ink)
    elif kind == "star":
        draw.polygon(polygon(5, x, y, r, turn, inner=0.4), fill=ink)
    elif kind == "triangle":
        draw.polygon(polygon(3, x, y, r, turn), fill=ink)
    else:
        for i in range(-2, 3):
            draw.rectangle((x - r, y + i * r / 2.5, x + r, y + i * r / 2.5 + r / 6), fill=ink)


def make(job):
    top, part, number = job
    rng = random.Random(number)
    kind = CLASSES[number % len(CLASSES)]
    width, height = rng.randrange(160, 321, 8), rng.randrange(160, 321, 8)
    pixels = numpy.random.default_rng(number)
    low, high = pixels.integers(0, 200, 3), pixels.integers(56, 256, 3)
    ramp = numpy.linspace(0, 1, width)[None, :, None] * numpy.linspace(0.3, 1, height)[:, None, None]
    back = low + (high - low) * ramp
    # Noise at half the size: grain that JPEG keeps, without files of hundreds of kilobytes.
    grain = pixels.normal(0, rng.uniform(4, 28), (height // 2, width // 2, 3)).repeat(2, 0).repeat(2, 1)
    back[:grain.shape[0], :grain.shape[1]] += grain
    image = Image.fromarray(back.clip(0, 255).astype("uint8"))
    draw = ImageDraw.Draw(image)
    radius = rng.uniform(0.2, 0.42) * min(width, height)
    x, y = rng.uniform(radius, width - radius), rng.uniform(radius, height - radius)
    ink = tuple(rng.choice((rng.randrange(0, 60), rng.randrange(190, 256))) for _ in range(3))
    draw_shape(draw, kind, x, y, radius, ink, rng.uniform(0, 2 * math.pi))
    draw.text((rng.randrange(width // 2), rng.randrange(height - 12)), "image %05d" % number, fill=(255, 255, 255))
    path = os.path.join(top, part, kind, "image%05d.jpg" % number)
    image.save(path, quality=rng.randrange(80, 96))
    return os.path.getsize(path)


def main():
    top, train, val = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
    for part in ("train", "val"):
        for kind in CLASSES:
            os.makedirs(os.path.join(top, part, kind), exist_ok=True)
    jobs = [(top, "train", n) for n in range(train)] + [(top, "val", n) for n in range(train, train + val)]
    with multiprocessing.Pool(len(os.sched_getaffinity(0))) as pool:
        sizes = sorted(pool.imap_unordered(make, jobs, chunksize=50))
    print("%d images, %.1f MB, %.0f to %.0f KB, median %.0f KB" % (
        len(sizes), sum(sizes) / 1e6, sizes[0] / 1e3, sizes[-1] / 1e3, sizes[len(sizes) // 2] / 1e3))


if __name__ == "__main__":
    main()
