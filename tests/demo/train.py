# SPDX-License-Identifier: BSD-3-Clause
"""An ordinary training script: train.py DATA EPOCHS OUT

Data-parallel training of a small network on DATA/{train,val}, torchvision's ImageFolder, one process per MPI rank,
gradients averaged over the processes (torch.distributed, gloo). It knows nothing of FanStore. OUT.RANK.json gets the
losses, to the last bit, and the time that each image's open, read and close took."""
import io
import json
import os
import random
import sys
import time

import torch
import torch.distributed as dist
import torchvision
from PIL import Image

SIZE = 48
BATCH = 25


def read_image(path):
    start = time.perf_counter_ns()
    with open(path, "rb") as f:
        data = f.read()
    cost = time.perf_counter_ns() - start
    with Image.open(io.BytesIO(data)) as image:
        image.draft("RGB", (SIZE * 2, SIZE * 2))
        return image.convert("RGB").resize((SIZE, SIZE)), cost


class Images(torchvision.datasets.ImageFolder):
    def __init__(self, root):
        super().__init__(root, loader=read_image)
        self.to_tensor = torchvision.transforms.ToTensor()

    def __getitem__(self, index):
        path, target = self.samples[index]
        image, cost = self.loader(path)
        return self.to_tensor(image), target, index, cost


def network(classes):
    layers = []
    before = 3
    for width in (16, 32, 64):
        layers += [torch.nn.Conv2d(before, width, 3, padding=1), torch.nn.BatchNorm2d(width), torch.nn.ReLU(),
                   torch.nn.MaxPool2d(2)]
        before = width
    layers += [torch.nn.Flatten(), torch.nn.Linear(before * (SIZE // 8) ** 2, classes)]
    return torch.nn.Sequential(*layers)


def average(tensor, world):
    dist.all_reduce(tensor)
    return tensor / world


def main():
    data, epochs, out = sys.argv[1], int(sys.argv[2]), sys.argv[3]
    rank = int(os.environ.get("OMPI_COMM_WORLD_RANK", 0))
    world = int(os.environ.get("OMPI_COMM_WORLD_SIZE", 1))
    os.environ.setdefault("GLOO_SOCKET_IFNAME", "lo")
    dist.init_process_group("gloo", init_method="file://" + os.path.abspath(out) + ".meet", rank=rank,
                            world_size=world)
    torch.set_num_threads(1)
    torch.manual_seed(7)
    train, val = Images(os.path.join(data, "train")), Images(os.path.join(data, "val"))
    net = network(len(train.classes))
    optimizer = torch.optim.Adam(net.parameters(), lr=0.002)
    loss_of = torch.nn.CrossEntropyLoss()
    result = {"rank": rank, "losses": [], "accuracy": [], "reads": [], "seconds": []}

    for epoch in range(epochs):
        # Every process reads another half of the images in every epoch, in random order.
        order = list(range(len(train)))
        random.Random(epoch).shuffle(order)
        mine = order[rank::world][:len(order) // world]
        start = time.perf_counter()
        loader = torch.utils.data.DataLoader(torch.utils.data.Subset(train, mine), batch_size=BATCH, num_workers=2)
        net.train()
        reads = []
        for images, targets, indices, costs in loader:
            optimizer.zero_grad()
            loss = loss_of(net(images), targets)
            loss.backward()
            for p in net.parameters():
                p.grad = average(p.grad, world)
            optimizer.step()
            result["losses"].append(average(loss.detach(), world).item().hex())
            reads += [[train.samples[i][0][len(data):].lstrip("/"), c]
                      for i, c in zip(indices.tolist(), costs.tolist())]
        result["reads"].append(reads)
        result["seconds"].append(time.perf_counter() - start)

        net.eval()
        right = torch.zeros(2)
        mine = range(rank, len(val), world)
        loader = torch.utils.data.DataLoader(torch.utils.data.Subset(val, mine), batch_size=BATCH, num_workers=2)
        with torch.no_grad():
            for images, targets, _, _ in loader:
                right += torch.tensor([(net(images).argmax(1) == targets).sum(), len(targets)])
        right = average(right, 1)
        result["accuracy"].append((right[0] / right[1]).item())
        if rank == 0:
            print("  epoch %d: loss %.4f, accuracy on the validation images %.0f %%, %.1f s" % (
                epoch + 1, float.fromhex(result["losses"][-1]), 100 * result["accuracy"][-1], result["seconds"][-1]),
                flush=True)
    with open("%s.%d.json" % (out, rank), "w") as f:
        json.dump(result, f)
    # Neither process ends while the other one still waits for its part of a sum. Without the end of Python, in which
    # torch's threads abort a process now and then on a busy machine, on the plain directory too.
    dist.barrier()
    sys.stdout.flush()
    os._exit(0)


if __name__ == "__main__":
    main()
