# SPDX-License-Identifier: BSD-3-Clause
"""An ordinary program with DataLoaders: prefetch_torch.py cases|epoch|smaller|pauses|limits DIRECTORY. It knows nothing of
FanStore, but for "limits". It prints what its batches were, and where torch's random numbers stand after each epoch."""
import os
import sys
import time
import zlib

import torch
from torch.utils import data


class Files(data.Dataset):
    """As torchvision's ImageFolder."""

    def __init__(self, top):
        self.samples = sorted((os.path.join(d, n), 0) for d, _, names in os.walk(top) for n in names)

    def __len__(self):
        return len(self.samples)

    def __getitem__(self, index):
        with open(self.samples[index][0], "rb") as f:
            return index, zlib.crc32(f.read())


class Hidden(data.Dataset):
    """It does not tell its paths."""

    def __init__(self, files):
        self.inner = files

    def __len__(self):
        return len(self.inner)

    def __getitem__(self, index):
        return self.inner[index]


class Telling(Hidden):
    def fanstore_paths(self, index):
        return [self.inner.samples[index][0]]


class Wrong(Hidden):
    """It does not know the last index."""

    def fanstore_paths(self, index):
        return [self.inner.samples[index + 1][0]]


class Shards(Hidden):
    """Its list is not by index."""

    def __init__(self, files):
        super().__init__(files)
        self.files = [files.samples[0][0], files.samples[1][0]]


class Many(data.Dataset):
    """Its items are in no file, or all in one."""

    def __init__(self, paths):
        self.paths_of_all, self.asked = paths, 0

    def __len__(self):
        return 100000

    def __getitem__(self, index):
        return index

    def fanstore_paths(self, index):
        self.asked += 1
        return self.paths_of_all


class Odd(Hidden):
    def __getattr__(self, name):
        raise (RuntimeError if name == "samples" else AttributeError)(name)


class Own(data.Sampler):
    """Says how far ahead of the reads it is asked."""

    def __init__(self, n):
        self.n, self.asked = n, 0

    def __len__(self):
        return self.n

    def __iter__(self):
        for i in range(self.n):
            self.asked = i
            yield i


class Stream(data.IterableDataset):
    def __iter__(self):
        return iter(range(100))


def epochs(name, loader, before=None, n=2):
    torch.manual_seed(7)
    for epoch in range(n):
        if before:
            before(epoch)
        digest, count = 0, 0
        for batch in loader:
            digest = zlib.crc32(repr(batch).encode(), digest)
            count += 1
        print(name, epoch, count, digest, torch.rand(1).item())


def own_generator(files, workers, samples, drop_last):
    """The sampler draws from a generator that the program uses, too. The first epochs end early. A program that draws in
    its loop meets the sampler's last draw at a time that workers change, so that is tried without workers."""
    generator = torch.Generator().manual_seed(3)
    sampler = data.RandomSampler(files, num_samples=samples, generator=generator)
    loader = data.DataLoader(files, 8, sampler=sampler, num_workers=workers, drop_last=drop_last)
    for epoch in range(3):
        digest = 0
        for step, batch in enumerate(loader):
            digest = zlib.crc32(repr(batch).encode(), digest)
            if workers == 0:
                digest = zlib.crc32(repr(torch.rand(1, generator=generator)).encode(), digest)
            if step == 2 and epoch < 2:
                break
        print("own generator", workers, samples, drop_last, epoch, digest, torch.rand(1, generator=generator).item())


def cases(files):
    half = data.Subset(files, list(range(0, len(files), 2)))
    both = data.ConcatDataset([half, data.Subset(files, [1, 3, 5, 7])])
    for workers in 0, 2:
        def loader(dataset, batch_size=8, **more):
            return data.DataLoader(dataset, batch_size, num_workers=workers, **more)

        name = "workers %d:" % workers
        epochs(name + " in order", loader(files))
        epochs(name + " shuffled", loader(files, shuffle=True))
        epochs(name + " generator", loader(files, shuffle=True, generator=torch.Generator().manual_seed(3)))
        epochs(name + " parts", loader(both, shuffle=True, drop_last=True))
        weights = data.WeightedRandomSampler(torch.rand(len(files), generator=torch.Generator().manual_seed(1)), 90)
        epochs(name + " weights", loader(files, sampler=weights))
        more = torch.Generator().manual_seed(5)
        epochs(name + " replacement", loader(files, sampler=data.RandomSampler(files, True, 90, more)))
        print(name, torch.rand(2, generator=more).tolist())
        ranks = data.distributed.DistributedSampler(files, 2, 1)
        epochs(name + " ranks", loader(files, sampler=ranks), ranks.set_epoch)
        epochs(name + " single", loader(files, None))
        epochs(name + " hidden", loader(Hidden(files), shuffle=True))
        epochs(name + " telling", loader(Telling(files), shuffle=True))
        epochs(name + " wrong", loader(Wrong(files), shuffle=True))
        epochs(name + " odd", loader(Odd(files), shuffle=True))
        epochs(name + " shards", loader(Shards(files), shuffle=True))
        epochs(name + " stream", loader(Stream()))
    epochs("persistent", data.DataLoader(files, 8, True, num_workers=2, persistent_workers=True), n=3)
    for first, _ in zip(range(3), data.DataLoader(files, 8, shuffle=True)):
        print("broken off", first)
    for workers in 0, 2:
        for samples, drop_last in (None, False), (None, True), (100, False):
            own_generator(files, workers, samples, drop_last)
    own = Own(len(files))
    lead = max(own.asked - batch[0][-1].item() for batch in data.DataLoader(files, 8, sampler=own))
    print("own sampler: asked ahead by", lead)


def ahead(dataset):
    """What stands between a DataLoader and its sampler after the first batch."""
    it = iter(data.DataLoader(dataset, 8))
    next(it)
    return it._sampler_iter


def limits(files):
    """What a program asks for with --prefetch torch and LOCAL_WORLD_SIZE=16: 128 files at a time, and nothing elsewhere."""
    for paths in [], [files.samples[0][0]]:
        many = Many(paths)
        ahead(many)
        assert 120 <= many.asked <= 144, many.asked
    for dataset in files, data.ConcatDataset([files, Hidden(files)]), data.ConcatDataset([Hidden(files), files]):
        assert hasattr(ahead(dataset), "taken"), dataset
    elsewhere = Hidden(files)
    elsewhere.paths = [os.path.join("/proc/self/fd", str(i)) for i in range(len(files))]
    for dataset in Hidden(files), Shards(files), elsewhere:
        assert not hasattr(ahead(dataset), "taken"), dataset
    print("limits")


def epoch(files, n, step=0.004):
    """Computes so many seconds for each batch."""
    torch.manual_seed(1)
    for _ in range(n):
        for _ in data.DataLoader(files, 8, shuffle=True, num_workers=2):
            time.sleep(step)


def main():
    how, top = sys.argv[1:]
    files = Files(top)
    if how == "cases":
        cases(files)
    elif how == "limits":
        limits(files)
    elif how == "pauses":
        epoch(files, 1, 0.05)
    else:
        epoch(files, 1 if how == "epoch" else 4)


if __name__ == "__main__":
    main()
