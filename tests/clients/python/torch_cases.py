# SPDX-License-Identifier: BSD-3-Clause
"""torch and torchvision over files of a dataset: loading, mapping, DataLoaders with all kinds of workers, whose results
must be the same bits in the same order. See cases.py."""
import glob
import hashlib
import os
import pickle
import warnings

import numpy as np
import torch
import torch.hub
import torch.package
import torch.utils.data
import torchvision

from cases import attempt, base, case, main, read, scratch, show


def of(value):
    if isinstance(value, torch.Tensor):
        return tuple(value.shape), str(value.dtype), hashlib.md5(value.contiguous().numpy().tobytes()).hexdigest()
    return {k: of(v) for k, v in value.items()} if isinstance(value, dict) else value


def of_loader(loader, epochs=2):
    """One digest for all batches of all epochs, in their order."""
    h, n = hashlib.md5(), 0
    for _ in range(epochs):
        for batch in loader:
            for part in batch if isinstance(batch, (list, tuple)) else [batch]:
                h.update(part.numpy().tobytes())
            n += 1
    return n, h.hexdigest()


def loader_of(data, **options):
    order = torch.Generator()
    order.manual_seed(3)
    shuffle = {} if isinstance(data, torch.utils.data.IterableDataset) else {"shuffle": True}
    return torch.utils.data.DataLoader(data, generator=order, **shuffle, **{"batch_size": 8, **options})


def transform():
    steps = torchvision.transforms
    return steps.Compose([steps.Resize((32, 32)), steps.RandomHorizontalFlip(), steps.ToTensor()])


class Samples(torch.utils.data.Dataset):

    def __init__(self, top):
        self.names = sorted(glob.glob(top + "/samples/*.pkl"))

    def __len__(self):
        return len(self.names)

    def __getitem__(self, i):
        with open(self.names[i], "rb") as f:
            values, label = pickle.load(f)
        return torch.from_numpy(values), label


class Mapped(torch.utils.data.Dataset):
    """A map that is made in the parent and read in the workers."""

    def __init__(self, top):
        self.rows = np.load(top + "/tensors/samples.npy", mmap_mode="r")

    def __len__(self):
        return len(self.rows)

    def __getitem__(self, i):
        return torch.from_numpy(self.rows[i].copy())


class Stream(torch.utils.data.IterableDataset):
    """One file for all workers, opened in each; each reads its own stripe."""

    def __init__(self, top):
        super().__init__()
        self.name = top + "/tensors/raw.bin"

    def __iter__(self):
        worker = torch.utils.data.get_worker_info()
        first, step = (worker.id, worker.num_workers) if worker else (0, 1)
        with open(self.name, "rb") as f:
            for at in range(first, 48, step):
                f.seek(at * 4096)
                yield torch.frombuffer(bytearray(f.read(4096)), dtype=torch.float32)


@case
def load():
    for name in "state", "model", "checkpoint", "old":
        value = torch.load(base("tensors", name + ".pt"), map_location="cpu")
        show(name, of(value.state_dict() if isinstance(value, torch.nn.Module) else value))
    show(of(torch.load(base("tensors/state.pt"), weights_only=True)))
    for options in {"mmap": True}, {"mmap": True, "weights_only": True}:
        if "mmap" in torch.load.__kwdefaults__ if torch.load.__kwdefaults__ else False:
            show(options, of(torch.load(base("tensors/state.pt"), **options)))
    with open(base("tensors/state.pt"), "rb") as f:
        show(of(torch.load(f)), f.tell() > 0)
    with open(base("tensors/old.pt"), "rb") as f:
        show(of(torch.load(f)), f.tell())
    show(attempt(torch.load, base("tensors/none.pt")), attempt(torch.load, base("tensors")))
    show(attempt(torch.load, base("tensors/raw.bin")))


@case
def load_script():
    model = torch.jit.load(base("tensors/script.pt"))
    show(of(model.state_dict()), of(model(torch.ones(1, 64)).detach() > 0))
    with open(base("tensors/script.pt"), "rb") as f:
        show(of(torch.jit.load(f).state_dict()))
    reader = torch._C.PyTorchFileReader(base("tensors/state.pt"))  # pylint: disable=protected-access
    show(sorted(reader.get_all_records()))


@case
def from_file():
    for shared in False, True:
        for size in 50000, 100, 0:
            show(shared, size, attempt(lambda s=size, h=shared: of(torch.from_file(base("tensors/raw.bin"), h, s))))
    t = torch.from_file(base("tensors/raw.bin"), False, 1000)
    t += 1
    show(of(t), of(torch.from_file(base("tensors/raw.bin"), False, 1000)))
    show(attempt(torch.from_file, base("tensors/none"), False, 1),
         attempt(torch.from_file, base("tensors/raw.bin"), False, 1 << 20))
    for shared in False, True:
        storage = attempt(torch.FloatStorage.from_file, base("tensors/raw.bin"), shared, 500)
        show(storage if isinstance(storage, str) else sum(storage.tolist()))


@case
def save():
    value = torch.load(base("tensors/checkpoint.pt"))
    torch.save(value, scratch("out.pt"))
    show(of(torch.load(scratch("out.pt"))), attempt(torch.save, value, base("tensors/checkpoint.pt")))


@case
def numpy_bridges():
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        mapped = torch.from_numpy(np.load(base("tensors/samples.npy"), mmap_mode="r"))
    show(of(mapped), of(mapped[::7].sum(1)),
         of(torch.from_numpy(np.fromfile(base("tensors/raw.bin"), np.float32, 99, offset=64))))


@case
def read_images():
    io = torchvision.io
    for name in sorted(glob.glob(base("images/class1/*"))) + [base("single/grey.png"), base("single/alpha.png")]:
        raw = io.read_file(name)
        show(of(raw), bytes(raw.numpy().tobytes()) == read(os.path.relpath(name, base())))
        show(attempt(lambda name=name: of(io.read_image(name))), of(io.decode_image(raw)))
        show(attempt(lambda raw=raw: of(io.decode_jpeg(raw))), attempt(lambda raw=raw: of(io.decode_png(raw)))[0])
    show(of(io.read_image(base("single/alpha.png"), io.ImageReadMode.RGB)))
    show(of(io.read_image(base("images/class0/0000.jpg"), io.ImageReadMode.GRAY)))
    show(attempt(io.read_file, base("none")), attempt(io.read_image, base("tensors/raw.bin")))
    show(attempt(io.read_file, base("images"))[:25])


@case
def write_images():
    io = torchvision.io
    io.write_png(io.read_image(base("images/class0/0000.jpg")), scratch("out.png"))
    io.write_file(scratch("out.jpg"), io.read_file(base("images/class0/0000.jpg")))
    show(attempt(io.write_file, base("images/class0/0000.jpg"), torch.zeros(3, dtype=torch.uint8)))
    show(open(scratch("out.jpg"), "rb").read() == read("images/class0/0000.jpg"))


@case
def image_folder():
    data = torchvision.datasets.ImageFolder(base("images"), transform())
    show(len(data), data.classes, data.samples[:3], data.targets[-5:])
    torch.manual_seed(2)
    show("none", of_loader(loader_of(data)))
    few, more = {"num_workers": 1}, {"num_workers": 2, "persistent_workers": True, "prefetch_factor": 4}
    # A worker that is not forked imports torch for seconds.
    for method, chosen in ("fork", (few, more)), ("spawn", (more,)), ("forkserver", ({**more, "num_workers": 1},)):
        for options in chosen:
            torch.manual_seed(2)
            show(method, options, of_loader(loader_of(data, multiprocessing_context=method, **options)))


@case
def dataset_folder():
    folder = torchvision.datasets.DatasetFolder(base("images"), torchvision.io.read_file, extensions=(".png", ".jpg"))
    show(len(folder), of(folder[5][0]), folder[-1][1], folder.class_to_idx)
    subset = torch.utils.data.Subset(folder, range(0, 60, 7))
    show([of(t) for t, _ in torch.utils.data.DataLoader(subset, batch_size=None)])
    show(attempt(torchvision.datasets.ImageFolder, base("tensors")),
         attempt(torchvision.datasets.ImageFolder, base("none")))
    show(len(torchvision.datasets.folder.make_dataset(base("images"), extensions=(".jpeg", ))))


@case
def other_datasets():
    for data in Samples(base("")), Mapped(base("")), Stream(base("")):
        show(type(data).__name__, "none", of_loader(loader_of(data)))
        for workers in 1, 2:
            show(workers, of_loader(loader_of(data, num_workers=workers, multiprocessing_context="fork")))
    show("spawn", of_loader(loader_of(Samples(base("")), num_workers=1, multiprocessing_context="spawn")))


class Inherited(torch.utils.data.Dataset):
    """A file that is opened in the parent and read by pread in the workers."""

    def __init__(self, top):
        self.file = open(top + "/tensors/raw.bin", "rb")  # pylint: disable=consider-using-with

    def __len__(self):
        return 90

    def __getitem__(self, i):
        return torch.frombuffer(bytearray(os.pread(self.file.fileno(), 512, i * 2048)), dtype=torch.float32)


@case
def inherited_file():
    data = Inherited(base(""))
    show([of_loader(loader_of(data, num_workers=n)) for n in (0, 2)], data.file.tell(), len(data.file.read(50)))


@case
def data_pipes():
    pipes = torch.utils.data.datapipes.iter
    names = sorted(pipes.FileLister(base("images"), "*.png", recursive=True))
    show(len(names), names[0])
    opened = pipes.FileOpener(pipes.IterableWrapper(names), mode="b")
    show([(name, hashlib.md5(f.read()).hexdigest()) for name, f in opened][:3])
    lines = pipes.StreamReader(pipes.FileOpener(pipes.IterableWrapper([base("hub/hubconf.py")]), mode="b"), chunk=10)
    show([part for _, part in lines])


@case
def hub_and_packages():
    show(of(torch.hub.load(base("hub"), "ones", source="local", n=3)))
    importer = torch.package.PackageImporter(base("tensors/package.pt"))
    show(of(importer.load_pickle("data", "tensor.pkl")), importer.load_text("data", "text.txt"))


@case
def training():
    torch.manual_seed(4)
    data = torchvision.datasets.ImageFolder(base("images"), transform())
    model = torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Linear(3 * 32 * 32, 4))
    optimizer = torch.optim.SGD(model.parameters(), 0.01)
    for images, labels in loader_of(data, num_workers=2, multiprocessing_context="fork"):
        optimizer.zero_grad()
        loss = torch.nn.functional.cross_entropy(model(images), labels)
        loss.backward()
        optimizer.step()
        show(loss.item())


if __name__ == "__main__":
    torch.set_num_threads(1)
    warnings.filterwarnings("ignore", category=UserWarning)
    main()
