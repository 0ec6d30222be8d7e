# SPDX-License-Identifier: BSD-3-Clause
"""What training writes, by the libraries that write it; read back here and on another node.

outputs_checkpoints.py MOUNT: writes on node 0, and reads in child processes on node 0 and 1. Libraries that are not installed are told.
"""
import importlib.util
import json
import logging
import os
import sqlite3
import struct
import subprocess
import sys

mount = sys.argv[1]
work = os.path.join(mount, "run")
if len(sys.argv) == 2:
    os.mkdir(work)


def node(number, name, *args):
    env = {**os.environ, "FANSTORE_NODE": str(number)}
    r = subprocess.run([sys.executable, __file__, mount, name, *map(str, args)], env=env, capture_output=True, text=True)
    assert r.returncode == 0, f"{name} on node {number}: {r.stdout} {r.stderr}"
    return r.stdout.strip()


def path(name):
    return os.path.join(work, name)


# ---- torch.save, by a temporary name and a rename; torch.load, whole and mapped ----


def model(torch):
    torch.manual_seed(3)
    return torch.nn.Sequential(torch.nn.Linear(700, 900), torch.nn.ReLU(), torch.nn.Linear(900, 300))


def torch_write():
    import torch

    m = model(torch)
    state = {"epoch": 3, "model": m.state_dict(), "optimizer": torch.optim.Adam(m.parameters()).state_dict()}
    for epoch in range(3):
        torch.save(state, path("checkpoint.tmp"))
        os.replace(path("checkpoint.tmp"), path("checkpoint.pt"))
    torch.save(state, path("old.pt"), _use_new_zipfile_serialization=False)
    torch_read()  # here: a process of its own would import torch for seconds


def torch_read():
    import torch

    for name in ("checkpoint.pt", "old.pt"):
        state = torch.load(path(name), map_location="cpu")
        assert state["epoch"] == 3
        for key, value in model(torch).state_dict().items():
            assert torch.equal(value, state["model"][key]), key


# ---- numpy: save, memmap for writing and for reading ----


def numpy_write():
    import numpy

    a = numpy.arange(300_000, dtype=numpy.float64).reshape(300, 1000)
    numpy.save(path("a.npy"), a)
    numpy.savez_compressed(path("b.npz"), a=a, b=a + 1)
    m = numpy.memmap(path("m.dat"), dtype=numpy.int32, mode="w+", shape=(1000, 1000))
    m[:] = numpy.arange(1_000_000).reshape(1000, 1000)
    m.flush()
    del m


def numpy_read():
    import numpy

    a = numpy.arange(300_000, dtype=numpy.float64).reshape(300, 1000)
    assert (numpy.load(path("a.npy")) == a).all() and (numpy.load(path("a.npy"), mmap_mode="r")[17] == a[17]).all()
    z = numpy.load(path("b.npz"))
    assert (z["a"] == a).all() and (z["b"] == a + 1).all()
    m = numpy.memmap(path("m.dat"), dtype=numpy.int32, mode="r", shape=(1000, 1000))
    assert (m == numpy.arange(1_000_000).reshape(1000, 1000)).all()


# ---- HDF5, written in pieces ----


def h5py_write():
    import h5py
    import numpy

    with h5py.File(path("log.h5"), "w") as f:
        d = f.create_dataset("x", (0, 100), maxshape=(None, 100), chunks=(64, 100), compression="gzip")
        for i in range(10):
            d.resize(((i + 1) * 50, 100))
            d[i * 50 :] = numpy.full((50, 100), i)
        f.attrs["done"] = True


def h5py_locked():
    """The user's own word for locks stays: then HDF5 locks the file."""
    import h5py

    assert os.environ["HDF5_USE_FILE_LOCKING"] == "FALSE"
    code = "import h5py, sys; h5py.File(sys.argv[1], 'r')"
    env = {**os.environ, "HDF5_USE_FILE_LOCKING": "TRUE"}
    print(subprocess.run([sys.executable, "-c", code, path("log.h5")], env=env).returncode)


def h5py_append():
    import h5py
    import numpy

    with h5py.File(path("log.h5"), "a") as f:
        f["later"] = numpy.arange(100_000)


def h5py_appended():
    import h5py

    h5py_read()
    with h5py.File(path("log.h5"), "r") as f:
        assert (f["later"][:] == range(100_000)).all()


def h5py_read():
    import h5py

    with h5py.File(path("log.h5"), "r") as f:
        x = f["x"][:]
        assert f.attrs["done"] and x.shape == (500, 100) and all((x[i * 50 : i * 50 + 50] == i).all() for i in range(10))


# ---- the format of safetensors, read through a mapping as that library does; and TensorFlow's way to write a file ----


def tensors_write():
    data = [struct.pack("<1000f", *([float(i)] * 1000)) for i in range(5)]
    head, at = {}, 0
    for i, d in enumerate(data):
        head[f"t{i}"] = {"dtype": "F32", "shape": [1000], "data_offsets": [at, at + len(d)]}
        at += len(d)
    text = json.dumps(head).encode()
    name = path("model.safetensors.tempstate123")
    with open(name, "wb", buffering=0) as f:
        f.write(struct.pack("<Q", len(text)) + text)
        for d in data:
            f.write(d)
        os.fsync(f.fileno())
    os.rename(name, path("model.safetensors"))


def tensors_read():
    import mmap

    with open(path("model.safetensors"), "rb") as f, mmap.mmap(f.fileno(), 0, prot=mmap.PROT_READ) as m:
        n = struct.unpack("<Q", m[:8])[0]
        for i, t in enumerate(json.loads(m[8 : 8 + n]).values()):
            a, b = t["data_offsets"]
            assert struct.unpack("<1000f", m[8 + n + a : 8 + n + b]) == (float(i),) * 1000
    assert [n for n in os.listdir(work) if "tempstate" in n] == []


# ---- event files, as tensorboard's: records appended and flushed, followed by a reader elsewhere ----


def record(step):
    body = json.dumps({"step": step, "loss": 1 / (step + 1)}).encode()
    return struct.pack("<Q", len(body)) + body


def events_write():
    with open(path("events.out.tfevents"), "ab", buffering=0) as f:
        for step in range(40):
            f.write(record(step))
            if step % 10 == 9:
                os.fsync(f.fileno())
                assert node(1, "events_follow", step + 1) == str(step + 1)


def events_follow():
    with open(path("events.out.tfevents"), "rb") as f:
        data = f.read()
    steps = 0
    while data:
        n = struct.unpack("<Q", data[:8])[0]
        assert json.loads(data[8 : 8 + n])["step"] == steps
        data, steps = data[8 + n :], steps + 1
    print(steps)


def events_read():
    events_follow()


# ---- python's logging, rotated ----


def logging_write():
    import logging.handlers

    handler = logging.handlers.RotatingFileHandler(path("train.log"), maxBytes=20_000, backupCount=3)
    log = logging.getLogger("train")
    log.addHandler(handler)
    for i in range(1000):
        log.warning("step %d loss %f", i, 1 / (i + 1))
    logging.shutdown()


def logging_read():
    lines = []
    for name in ("train.log.3", "train.log.2", "train.log.1", "train.log"):
        if os.path.exists(path(name)):
            lines += open(path(name)).read().splitlines()
    assert lines[-1] == "step 999 loss 0.001000" and len(lines) > 900
    first = int(lines[0].split()[1])
    assert [int(line.split()[1]) for line in lines] == list(range(first, 1000))


# ---- sqlite, with a journal and in WAL mode, by one node ----


def sqlite_write():
    for mode in ("delete", "wal"):
        db = sqlite3.connect(path(f"{mode}.db"))
        assert db.execute(f"pragma journal_mode={mode}").fetchone()[0] == mode
        db.execute("create table t (i integer, s text)")
        for i in range(200):
            db.execute("insert into t values (?, ?)", (i, "x" * i))
            if i % 20 == 0:
                db.commit()
        db.commit()
        other = sqlite3.connect(path(f"{mode}.db"))
        assert other.execute("select sum(i), sum(length(s)) from t").fetchone() == (19900, 19900)
        other.close()
        db.close()


def sqlite_read():
    for mode in ("delete", "wal"):
        db = sqlite3.connect(f"file:{path(mode + '.db')}?mode=ro&immutable=1", uri=True)
        assert db.execute("select sum(i), sum(length(s)) from t").fetchone() == (19900, 19900)


if len(sys.argv) > 2:
    globals()[sys.argv[2]]()
    sys.exit(0)
for what, library in (("torch", "torch"), ("numpy", "numpy"), ("h5py", "h5py"), ("tensors", None), ("events", None), ("logging", None),
                      ("sqlite", None)):
    if library and not importlib.util.find_spec(library):
        print(f"left out: {library} is not installed")
        continue
    node(0, what + "_write")
    for n in (1,) if what == "torch" else (0, 1):
        node(n, what + "_read")
    if what == "h5py":
        assert [node(n, "h5py_locked") for n in (0, 1)] == ["0", "0"]
        node(1, "h5py_append")
        for n in (0, 1):
            node(n, "h5py_appended")
    print(f"ok - {what}: written on one node, read there and on another")
