# SPDX-License-Identifier: BSD-3-Clause
"""An ordinary training loop without the training: steps.py DIRECTORY SEED WORKERS. A DataLoader reads all files once, in random
order, 64 a batch; a simulated accelerator computes 50 ms on each. Prints one JSON object: stalls, steps that waited for
their batch for more than 5 ms, in percent; wait, how long all steps waited, in milliseconds; seconds. The wait for the first
batch, while the workers start, is in none of them."""
import json
import os
import sys
import time

import torch
from torch.utils import data

BATCH, STEP = 64, 0.05


class Files(data.Dataset):
    def __init__(self, top):
        self.files = sorted(os.path.join(d, n) for d, _, names in os.walk(top) for n in names)

    def __len__(self):
        return len(self.files)

    def __getitem__(self, index):
        with open(self.files[index], "rb") as f:
            return len(f.read())


def main():
    torch.manual_seed(int(sys.argv[2]))
    loader = iter(data.DataLoader(Files(sys.argv[1]), BATCH, shuffle=True, num_workers=int(sys.argv[3])))
    next(loader)
    begin, stalls, waited, steps, batch = time.perf_counter(), 0, 0.0, 0, True
    while batch is not None:
        time.sleep(STEP)
        asked = time.perf_counter()
        batch = next(loader, None)
        took = time.perf_counter() - asked
        stalls += took > 0.005
        waited += took
        steps += 1
    print(json.dumps({"stalls": 100 * stalls / steps, "wait": 1000 * waited, "seconds": time.perf_counter() - begin}))


if __name__ == "__main__":
    main()
