# SPDX-License-Identifier: BSD-3-Clause
"""An ordinary input pipeline, timed: epoch.py [options] IMAGES

torchvision's ImageFolder on IMAGES and a DataLoader, as a training script has them; it knows nothing of FanStore. Epochs
read parts of the data set in random order, the same for the same seed: as bytes only, and decoded and augmented as for
ImageNet. --storage names the files that hold the images' bytes, which are read once before. With --cold they are dropped
from the page cache instead, and one epoch of all images, as bytes, is all that is done. Prints one line of JSON: images/s by epoch, simulated training steps, and sums
by which the caller sees that two sides read the same."""
import argparse
import ctypes
import json
import mmap
import os
import random
import time
import zlib

import torch
import torchvision

BATCH = 64


def read_bytes(path):
    with open(path, "rb") as f:
        data = f.read()
    return len(data) + data[len(data) // 2]


AUGMENT = torchvision.transforms.Compose([
    torchvision.transforms.RandomResizedCrop(224), torchvision.transforms.RandomHorizontalFlip(),
    torchvision.transforms.ToTensor(),
    torchvision.transforms.Normalize((0.485, 0.456, 0.406), (0.229, 0.224, 0.225))])


def loader(images, indices, workers, decode):
    images.loader = torchvision.datasets.folder.default_loader if decode else read_bytes
    images.transform = AUGMENT if decode else None
    # The workers' random numbers come from this generator: the same crops on all sides.
    seed = torch.Generator()
    seed.manual_seed(1)
    torch.manual_seed(1)
    return torch.utils.data.DataLoader(torch.utils.data.Subset(images, indices), batch_size=BATCH, num_workers=workers,
                                       generator=seed, collate_fn=None if decode else summary)


def summary(samples):
    """Of bytes nothing is handed over but a number, so that what is timed is the reading: a worker's tensors cost the
    training process about a millisecond a batch."""
    return sum(data * (label + 1) for data, label in samples)


def digest(batch):
    """A number for a batch that costs next to nothing: of images, some of their values and the labels."""
    if isinstance(batch, int):
        return batch
    return float(batch[0][:, :, 100, 100].double().sum()) + int(batch[1].sum())


class Epochs:
    def __init__(self, options):
        start = time.perf_counter()
        self.images = torchvision.datasets.ImageFolder(options.images)
        self.result = {"listing": time.perf_counter() - start, "files": len(self.images), "sums": {}}
        order = list(range(len(self.images)))
        random.Random(options.seed).shuffle(order)
        self.order = order
        self.workers = options.workers

    def take(self, count):
        """Images that no epoch has read yet."""
        part, self.order = self.order[:count], self.order[count:]
        return part

    def rate(self, name, indices, workers, decode=False, early=0):
        """early: also the rate after so many batches."""
        start, seen = time.perf_counter(), 0
        for number, batch in enumerate(loader(self.images, indices, workers, decode), 1):
            seen += digest(batch)
            if number == early:
                self.result[name + " early"] = number * BATCH / (time.perf_counter() - start)
        self.result[name] = len(indices) / (time.perf_counter() - start)
        self.result["sums"][name] = seen

    def steps(self, name, indices, compute, decode=False):
        """A step is a wait for a batch and `compute` seconds of an accelerator, in which the workers go on. The first
        wait, for the workers to start, is told apart."""
        waits, last = [], time.perf_counter()
        for _ in loader(self.images, indices, self.workers, decode):
            waits.append(time.perf_counter() - last)
            time.sleep(compute)
            last = time.perf_counter()
        rest = waits[1:]
        self.result[name] = {"steps": len(rest), "first": waits[0], "wait": sum(rest),
                             "stalls": sum(w > 0.001 for w in rest), "longest": max(rest),
                             "use": compute * len(rest) / (compute * len(rest) + sum(rest))}

    def check(self, name, indices):
        """Every byte."""
        total = 0
        for i in indices:
            with open(self.images.samples[i][0], "rb") as f:
                total += zlib.crc32(f.read())
        self.result["sums"][name] = total


def files_below(paths):
    for top in paths:
        if os.path.isfile(top):
            yield top
        for where, _, names in os.walk(top):
            for name in names:
                yield os.path.join(where, name)


def resident(path):
    """(pages in the page cache, pages) of a file, by mincore."""
    with open(path, "rb") as f:
        if os.fstat(f.fileno()).st_size == 0:
            return 0, 0
        with mmap.mmap(f.fileno(), 0, access=mmap.ACCESS_COPY) as m:
            pages = (len(m) + mmap.PAGESIZE - 1) // mmap.PAGESIZE
            there = (ctypes.c_ubyte * pages)()
            start = ctypes.c_char.from_buffer(m)
            failed = ctypes.CDLL(None, use_errno=True).mincore(ctypes.byref(start), ctypes.c_size_t(len(m)), there)
            del start
    if failed:
        raise OSError(ctypes.get_errno(), "mincore", path)
    return sum(page & 1 for page in there), pages


def evict(storage):
    """The part of the storage that is in the page cache afterwards."""
    os.sync()
    for path in files_below(storage):
        with open(path, "rb") as f:
            os.posix_fadvise(f.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)
    if os.geteuid() == 0:
        with open("/proc/sys/vm/drop_caches", "w") as f:
            f.write("3")
    counts = [resident(path) for path in files_below(storage)]
    return sum(c[0] for c in counts) / max(1, sum(c[1] for c in counts))


def prime(storage):
    for path in files_below(storage):
        with open(path, "rb", buffering=0) as f:
            while f.read(4 << 20):
                pass


def warm(e, options):
    first, steps = e.take(options.count), e.take(options.count // 2)
    prime(options.storage)
    e.rate("first", first, options.workers)
    e.steps("steps first", steps, options.compute)
    e.check("bytes", first)
    for workers in (options.workers, 0):
        e.rate("bytes %d" % workers, first, workers)
        e.rate("decode %d" % workers, first[:options.decode // (1 if workers else 2)], workers, True)
    e.steps("steps", first[:options.count // 2], options.compute)
    e.steps("steps 8", first, options.compute / 8)
    e.steps("steps decode", first[:options.decode // 2], options.compute, True)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("images")
    parser.add_argument("--storage", action="append", default=[])
    parser.add_argument("--cold", action="store_true", help="one epoch from an empty page cache")
    parser.add_argument("--count", type=int, default=4096, help="images of an epoch of bytes")
    parser.add_argument("--decode", type=int, default=768, help="images of an epoch of decoded images")
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--compute", type=float, default=0.05, help="seconds of an accelerator for a batch of 64")
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    torch.set_num_threads(1)
    e = Epochs(options)
    if options.cold:
        e.result["resident"] = evict(options.storage)
        e.rate("cold", e.take(len(e.order)), options.workers, early=32)
    else:
        warm(e, options)
    print(json.dumps(e.result))


if __name__ == "__main__":
    main()
