# SPDX-License-Identifier: BSD-3-Clause
"""Trains a small model with PyTorch's DistributedDataParallel and prints the loss of each epoch. DIRECTORY has one directory for each
class. A sample is the first 768 bytes of a file. Started by torchrun, or with --spawn N, which starts N processes by itself:

    fs-launch --dataset /shared/samples.fs --hosts a,b --np 2 -- torchrun --nnodes=2 --nproc_per_node=2 \\
      --rdzv_backend=c10d --rdzv_endpoint=a:29500 docs/examples/ddp.py /data/samples
    fs-launch --dataset /shared/samples.fs -- python3 docs/examples/ddp.py /data/samples --spawn 4
"""
import argparse
import os
import tempfile

import torch
import torch.distributed as dist
import torch.multiprocessing as mp
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, Dataset, DistributedSampler

FEATURES = 768


class Samples(Dataset):
    def __init__(self, top):
        self.classes = sorted(os.listdir(top))
        self.samples = [(os.path.join(top, name, file), label) for label, name in enumerate(self.classes)
                        for file in sorted(os.listdir(os.path.join(top, name)))]

    def __len__(self):
        return len(self.samples)

    def __getitem__(self, index):
        path, label = self.samples[index]
        with open(path, "rb") as f:
            return torch.frombuffer(bytearray(f.read(FEATURES).ljust(FEATURES)), dtype=torch.uint8).float() / 255, label


def train(args):
    """Runs in each process, after init_process_group."""
    torch.manual_seed(1)
    torch.set_num_threads(1)
    samples = Samples(args.directory)
    sampler = DistributedSampler(samples, seed=1)
    loader = DataLoader(samples, batch_size=8, sampler=sampler, num_workers=args.workers,
                        multiprocessing_context=args.context if args.workers else None)
    model = DistributedDataParallel(torch.nn.Linear(FEATURES, len(samples.classes)))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    for epoch in range(args.epochs):
        sampler.set_epoch(epoch)
        total = torch.zeros(1)
        for inputs, labels in loader:
            loss = torch.nn.functional.cross_entropy(model(inputs), labels)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            total += loss.detach()
        dist.all_reduce(total)
        if dist.get_rank() == 0:
            print(f"epoch {epoch}: loss {total.item() / len(loader) / dist.get_world_size():.5f}", flush=True)
    dist.destroy_process_group()


def spawned(rank, args, meeting):
    dist.init_process_group("gloo", init_method=f"file://{meeting}", rank=rank, world_size=args.spawn)
    train(args)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("directory")
    parser.add_argument("--epochs", type=int, default=2)
    parser.add_argument("--workers", type=int, default=0, help="of each DataLoader")
    parser.add_argument("--context", default="fork", help="how workers are started: fork, spawn or forkserver")
    parser.add_argument("--spawn", type=int, help="processes to start here, without torchrun")
    args = parser.parse_args()
    if args.spawn:
        with tempfile.TemporaryDirectory() as meeting:
            mp.spawn(spawned, (args, os.path.join(meeting, "file")), nprocs=args.spawn)
    else:
        dist.init_process_group("gloo")
        train(args)


if __name__ == "__main__":
    main()
