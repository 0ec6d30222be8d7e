# SPDX-License-Identifier: BSD-3-Clause
# A training program that resumes from its newest checkpoint: stage_in_train.py numpy|torch DIR EPOCHS. Its state is a function of the
# epoch alone, so that a wrong byte shows.
import os, sys

import numpy

torch = None
if sys.argv[1] == "torch":
    import torch
top, epochs = sys.argv[2], int(sys.argv[3])
os.makedirs(top, exist_ok=True)


def step(state, epoch):
    return {"w": state["w"] * 0.5 + epoch, "epoch": epoch}


def save(state, path):
    with open(path + ".tmp", "wb") as f:
        if torch is not None:
            torch.save({k: torch.as_tensor(v) for k, v in state.items()}, f)
        else:
            numpy.savez(f, **state)
        f.flush()
        os.fsync(f.fileno())
    os.rename(path + ".tmp", path)


def load(path):
    if torch is not None:
        return {k: v.numpy() for k, v in torch.load(path).items()}
    with numpy.load(path) as f:
        return {k: f[k] for k in f}


state = {"w": numpy.arange(300000, dtype=numpy.float64), "epoch": 0}
expected = dict(state)
if os.path.exists(top + "/last"):
    state = load(top + "/last")
    print("resumed from", int(state["epoch"]))
for epoch in range(1, epochs + 1):
    expected = step(expected, epoch)
    if epoch == int(state["epoch"]):
        assert numpy.array_equal(expected["w"], state["w"]), "another state"
    if epoch <= int(state["epoch"]):
        continue
    state = step(state, epoch)
    save(state, "%s/epoch%d" % (top, epoch))
    if os.path.exists(top + "/last"):
        os.rename(top + "/last", top + "/before")
    save(state, top + "/last")
    with open(top + "/log", "a") as f:
        f.write("epoch %d\n" % epoch)
    if epoch > 2:
        os.unlink("%s/epoch%d" % (top, epoch - 2))
numpy.save(top + "/final.npy", state["w"])
