# SPDX-License-Identifier: BSD-3-Clause
"""Makes what torch_cases.py reads: make_torch.py DIRECTORY. Images in classes, tensors, checkpoints."""
import pickle
import shutil

import numpy as np
import torch
import torch.package
from PIL import Image

from made import path, top

rng = np.random.default_rng(9)


def make_images():
    for i in range(96):
        array = rng.integers(0, 256, (24 + i % 5, 32, 3), dtype=np.uint8).repeat(2, 0).repeat(2, 1)
        suffix = ("jpg", "png", "JPEG")[i % 3]
        Image.fromarray(array).save(path(f"images/class{i % 4}/{i:04}.{suffix}"))
    Image.fromarray(array).convert("L").save(path("single/grey.png"))
    Image.fromarray(array).convert("RGBA").save(path("single/alpha.png"))


def make_tensors():
    torch.manual_seed(1)
    model = torch.nn.Sequential(torch.nn.Linear(64, 128), torch.nn.ReLU(), torch.nn.Linear(128, 10))
    torch.save(model.state_dict(), path("tensors/state.pt"))
    torch.save(model, path("tensors/model.pt"))
    torch.save({"epoch": 3, "state": model.state_dict(), "list": [torch.arange(5)]}, path("tensors/checkpoint.pt"))
    torch.save(model.state_dict(), path("tensors/old.pt"), _use_new_zipfile_serialization=False)
    torch.jit.save(torch.jit.script(model), path("tensors/script.pt"))
    torch.arange(50000, dtype=torch.float32).numpy().tofile(path("tensors/raw.bin"))
    np.save(path("tensors/samples.npy"), rng.normal(size=(400, 16)).astype(np.float32))
    with torch.package.PackageExporter(path("tensors/package.pt")) as e:
        e.save_pickle("data", "tensor.pkl", torch.arange(77))
        e.save_text("data", "text.txt", "words")
    with open(path("hub/hubconf.py"), "w", encoding="ascii") as f:
        f.write("dependencies = ['torch']\nimport torch\n\ndef ones(n):\n    return torch.ones(n)\n")
    for i in range(40):
        with open(path(f"samples/{i:03}.pkl"), "wb") as f:
            pickle.dump((rng.normal(size=7), i % 3), f)


def main():
    shutil.rmtree(top, ignore_errors=True)
    make_images()
    make_tensors()


if __name__ == "__main__":
    main()
