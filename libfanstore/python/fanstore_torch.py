# SPDX-License-Identifier: BSD-3-Clause
"""Gives FanStore's daemon the order in which a DataLoader will read its files: install() is called with the module
torch.utils.data.dataloader when it has just been imported (sitecustomize.py).

The sampler knows the order of an epoch from its beginning. So its batches are taken some time before the DataLoader asks
for them, and fanstore_prefetch gets the paths of their files. The batches and their order are the same as without this
module. Nothing happens if the dataset does not tell its paths, if the sampler is not one of torch's own, or if the
library is not there."""
import bisect
import collections
import ctypes
import os
import sys

WINDOW = 64 << 20  # bytes of files between what was asked for and what the DataLoader has taken
FILES = 2048  # the most files in the window; an item without a file counts as one
ALL = sys.maxsize
LISTS = ("samples", "imgs", "paths", "files", "filenames", "image_paths")


# ---- the paths of a dataset's items ----

def path_of(item):
    """The path in an item of a list, or None: torchvision's lists have (path, class)."""
    if isinstance(item, (tuple, list)) and item:
        item = item[0]
    return item if isinstance(item, (str, os.PathLike)) else None


def of_list(items, dataset, below_mount):
    """A list of paths by index, if it is one: the first path tells for all whether they are below a mount."""
    first = path_of(items[0]) if isinstance(items, (list, tuple)) and items else None
    if first is None or len(items) != len(dataset) or not below_mount(first):
        return None
    return lambda index: [path_of(items[index])]


def of_parts(dataset, below_mount):
    """torch's ConcatDataset. A part that does not tell its paths has none."""
    ends, parts = dataset.cumulative_sizes, [paths_of(d, below_mount) for d in dataset.datasets]
    if not any(parts):
        return None

    def paths(index):
        index = index + ends[-1] if index < 0 else index
        part = bisect.bisect_right(ends, index)
        return parts[part](index - (ends[part - 1] if part else 0)) if parts[part] else []
    return paths


def paths_of(dataset, below_mount):
    """A function from an index to the paths that the dataset will open for it, or None."""
    own = getattr(dataset, "fanstore_paths", None)
    if callable(own):
        return own
    if hasattr(dataset, "cumulative_sizes") and hasattr(dataset, "datasets"):
        return of_parts(dataset, below_mount)
    if hasattr(dataset, "indices") and hasattr(dataset, "dataset"):  # torch's Subset
        inner = paths_of(dataset.dataset, below_mount)
        return inner and (lambda index: inner(dataset.indices[index]))
    for name in LISTS:
        found = of_list(getattr(dataset, name, None), dataset, below_mount)
        if found:
            return found
    return None


# ---- samplers ----

def early(batches, module):
    """How many batches of an epoch may be taken early. Batches that are taken early must be the same, and nobody else may
    see that they were taken early. So the sampler must be one of torch's own that draws its random numbers when its first
    batch is taken."""
    sampler = batches
    while type(sampler).__iter__ is module.BatchSampler.__iter__:
        sampler = sampler.sampler
    iterates = type(sampler).__iter__
    if iterates is module.RandomSampler.__iter__:
        return early_of_random(sampler, batches, module)
    from torch.utils.data import distributed, sampler as samplers
    others = (samplers.SequentialSampler, samplers.SubsetRandomSampler, samplers.WeightedRandomSampler,
              distributed.DistributedSampler)
    return ALL if any(iterates is other.__iter__ for other in others) else 0


def early_of_random(sampler, batches, module):
    """torch's RandomSampler. Without a generator of the program's it makes its own one."""
    if sampler.generator is None:
        return ALL
    files = len(sampler.data_source)
    if sampler.replacement or sampler.num_samples > files:
        return 0
    if sampler.num_samples < files:
        return ALL
    # It draws once more after its last index. The program may draw from the same generator, or end the epoch before.
    lengths = (module.BatchSampler.__len__, module.RandomSampler.__len__)
    known = type(batches).__len__ in lengths and type(sampler).__len__ in lengths
    return len(batches) - 1 if known else 0


# ---- the window ----

class Hints:
    """The library's functions, and how far ahead hints are given."""

    def __init__(self):
        library = ctypes.CDLL(None)
        self.call, self.mount_of = library.fanstore_prefetch, library.fanstore_mount_of
        self.call.restype = ctypes.c_int64
        self.window, self.files = int(os.environ.get("FANSTORE_PREFETCH_BYTES", WINDOW)), FILES
        for name in ("LOCAL_WORLD_SIZE", "OMPI_COMM_WORLD_LOCAL_SIZE", "SLURM_NTASKS_PER_NODE"):
            if os.environ.get(name, "").isdigit():
                programs = max(int(os.environ[name]), 1)  # they share the node's cache and the daemon's queue
                self.window, self.files = self.window // programs, max(self.files // programs, 1)
                break

    def below_mount(self, path):
        return self.mount_of(os.fsencode(path), None, None) == 1

    def give(self, paths):
        if paths:
            self.call((ctypes.c_char_p * len(paths))(*paths), ctypes.c_size_t(len(paths)), None)


class Ahead:
    """An iterator over the batches of another one. It takes them early and gives hints of their files."""

    def __init__(self, batches, most, paths, hints):
        self.batches, self.most, self.paths, self.hints = batches, most, paths, hints  # most: that may be taken early
        self.taken = collections.deque()  # (batch, bytes, files)
        self.bytes = self.files = 0

    def __iter__(self):
        return self

    def __next__(self):
        if self.paths:
            self.fill()
        if not self.taken:
            return next(self.batches)
        batch, size, files = self.taken.popleft()
        self.bytes -= size
        self.files -= files
        return batch

    def fill(self):
        hinted = []
        while self.most > 0 and self.bytes < self.hints.window and self.files < self.hints.files:
            batch = next(self.batches, None)
            if batch is None:
                break
            self.most -= 1
            self.taken.append((batch, 0, 0))
            try:
                items = batch if isinstance(batch, list) else [batch]
                found = [os.fsencode(p) for i in items for p in self.paths(i)]
                size = sum(os.stat(p).st_size for p in found)
            except Exception as e:  # the dataset is not what it seems: its own code says what is wrong
                warn(e)
                self.paths = None
                break
            files = max(len(found), len(items))
            self.taken[-1] = (batch, size, files)
            self.bytes += size
            self.files += files
            hinted += found
        self.hints.give(hinted)


def warn(why):
    if not warn.done:
        try:
            print("fanstore: no prefetching: %r" % why, file=sys.stderr)
        except (OSError, ValueError):  # standard error is closed
            pass
    warn.done = True


warn.done = False


def install(module):
    """Wraps the iterator over the sampler that each iterator of a DataLoader has."""
    try:
        hints = Hints()
    except AttributeError:
        return  # a program without the library
    base = module._BaseDataLoaderIter
    init, reset = base.__init__, base._reset

    def wrap(it, loader):
        try:
            most = early(it._index_sampler, module)
            paths = paths_of(loader.dataset, hints.below_mount) if most > 0 else None
            if paths:
                it._sampler_iter = Ahead(it._sampler_iter, most, paths, hints)
        except Exception as e:  # the dataset's own attributes
            warn(e)

    def new_init(self, loader, *more, **named):
        init(self, loader, *more, **named)
        wrap(self, loader)

    def new_reset(self, loader, *more, **named):
        reset(self, loader, *more, **named)
        wrap(self, loader)

    base.__init__, base._reset = new_init, new_reset
