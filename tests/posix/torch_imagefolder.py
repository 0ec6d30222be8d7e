# SPDX-License-Identifier: BSD-3-Clause
"""Hashes what torchvision's ImageFolder gives through DataLoaders of several kinds: torch_imagefolder.py DIRECTORY.
One line a kind; two directories with the same images must give the same lines. Run by torch_imagefolder.sh."""
import hashlib
import sys

import torch
import torchvision


def digest(loader, epochs):
    h = hashlib.sha256()
    for _ in range(epochs):
        for images, targets in loader:
            h.update(images.numpy().tobytes())
            h.update(targets.numpy().tobytes())
    return h.hexdigest()[:32]


def main():
    torch.set_num_threads(1)
    transform = torchvision.transforms.Compose(
        [torchvision.transforms.Resize((64, 64)), torchvision.transforms.ToTensor()])
    data = torchvision.datasets.ImageFolder(sys.argv[1], transform)
    names = hashlib.sha256("\n".join(path[len(sys.argv[1]):] for path, _ in data.samples).encode()).hexdigest()[:32]
    print("samples", len(data), data.classes, names)
    for title, extra in (("none", {"num_workers": 0}),
                         ("fork", {"num_workers": 2, "multiprocessing_context": "fork"}),
                         ("fork, persistent", {"num_workers": 2, "multiprocessing_context": "fork",
                                               "persistent_workers": True}),
                         ("spawn, persistent", {"num_workers": 2, "multiprocessing_context": "spawn",
                                                "persistent_workers": True})):
        order = torch.Generator()
        order.manual_seed(3)
        loader = torch.utils.data.DataLoader(data, batch_size=16, shuffle=True, generator=order, **extra)
        print("workers:", title, digest(loader, 2))
    raw = hashlib.sha256()
    for path, _ in data.samples:  # maps the file
        raw.update(torchvision.io.read_file(path).numpy().tobytes())
    print("read_file:", raw.hexdigest()[:32])


if __name__ == "__main__":
    main()
