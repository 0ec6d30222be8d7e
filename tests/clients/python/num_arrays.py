# SPDX-License-Identifier: BSD-3-Clause
"""numpy, pandas and zarr over files of a dataset. See cases.py."""
import io
import mmap
import multiprocessing
import os
import sqlite3
import threading
import warnings

import numpy as np
import pandas as pd
import zarr

from cases import attempt, base, case, digest, main, read, scratch, set_directories, show

NPY = "a", "fortran", "big", "scalar", "empty", "records"


def of(array):
    array = np.asarray(array)
    return array.shape, array.dtype.str, digest(array.tobytes())


@case
def load_whole():
    for name in NPY:
        a = np.load(base("np", name + ".npy"))
        show(name, of(a), a.flags.f_contiguous, a.flags.writeable)
    show(np.load(base("np/objects.npy"), allow_pickle=True), attempt(np.load, base("np/objects.npy")))
    show(attempt(np.load, base("np/none.npy")), attempt(np.load, base("np/raw.bin")), attempt(np.load, base("np")))


@case
def load_mapped():
    for mode in "r", "c":
        for name in NPY[:3] + NPY[5:]:
            a = np.load(base("np", name + ".npy"), mmap_mode=mode)
            show(mode, name, of(a), a.flags.writeable, type(a).__name__, a.filename, a.offset, a.mode)
            if mode == "c":
                a.reshape(-1)[0] = np.zeros(1, a.dtype)[0]
                show(of(a), a.flush())
            else:
                show(attempt(a.__setitem__, 0, 0))
        show(mode, attempt(np.load, base("np/empty.npy"), mmap_mode=mode),
             attempt(np.load, base("np/objects.npy"), mmap_mode=mode))
    for mode in "r+", "w+":
        show(mode, attempt(np.load, base("np/a.npy"), mmap_mode=mode))


@case
def load_several_from_one_file():
    with open(base("np/several.npy"), "rb") as f:
        for _ in range(4):
            show(of(np.load(f)), f.tell())
        show(attempt(np.load, f))
    with open(base("np/a.npy"), "rb") as f:
        show(np.lib.format.read_magic(f), np.lib.format.read_array_header_1_0(f), f.tell(), of(np.fromfile(f)))


@case
def load_npz():
    for name in "plain.npz", "compressed.npz":
        with np.load(base("np", name)) as z:
            show(name, z.files, of(z["a"]), of(z["b"]), attempt(lambda z=z: z["c"]))
        z = np.load(base("np", name), mmap_mode="r")
        show(of(z["a"]), z.close())
    with open(base("np/plain.npz"), "rb") as f:
        show(of(np.load(f)["b"]))


@case
def from_file():
    name = base("np/raw.bin")
    for options in {}, {"count": 100}, {"offset": 4000}, {"count": 5, "offset": 8}, {"offset": 1 << 30}, {"count": 0}:
        show(options, attempt(lambda options=options: of(np.fromfile(name, np.float32, **options))))
    with open(name, "rb") as f:
        f.seek(400)
        show(of(np.fromfile(f, np.float32, 10)), f.tell(), of(np.fromfile(f, np.float32, 3, offset=40)), f.tell(),
             f.read(4))
        show(of(np.fromfile(f, np.float32)), f.tell(), of(np.fromfile(f, np.float32)))
    with open(name, "rb", buffering=0) as f:
        f.seek(800)
        show(of(np.fromfile(f, np.float32, 7)), f.tell(), f.read(4))
    show(attempt(np.fromfile, base("np/none")), of(np.fromfile(base("np/table.txt"), sep=" ", count=10)))
    show(attempt(np.arange(3).tofile, base("np/raw.bin")))


@case
def memory_maps():
    name = base("np/raw.bin")
    for options in {}, {"offset": 4096}, {"shape": (10, 31)}, {"offset": 124, "shape": (3, )}:
        for mode in "r", "c":
            a = np.memmap(name, np.float32, mode, **options)
            show(mode, options, of(a), a.offset)
            del a
    show(attempt(np.memmap, name, np.float32, "r+"), attempt(np.memmap, name, np.float32, "r", shape=(1 << 24, )))
    a = np.memmap(name, np.uint8, "r")
    parts = [None] * 4

    def part(i):
        parts[i] = int(a[i::4].astype(np.int64).sum())

    threads = [threading.Thread(target=part, args=(i, )) for i in range(4)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    show(parts)
    with open(name, "rb") as f, mmap.mmap(f.fileno(), 0, access=mmap.ACCESS_READ) as m:
        show(of(np.frombuffer(m, np.float32, 50, 12).copy()))


@case
def text_tables():
    show(of(np.loadtxt(base("np/table.txt"))), of(np.loadtxt(base("np/table.csv.gz"), delimiter=",", max_rows=7)))
    show(of(np.loadtxt(base("np/table.txt"), usecols=(1, 3), skiprows=5)))
    show(np.genfromtxt(base("np/gaps.csv"), delimiter=",", names=True, dtype=None, encoding="ascii"))
    show(attempt(np.genfromtxt, base("np/none.csv")), np.fromregex(base("np/gaps.csv"), r"(\d),", [("n", int)]))
    show(np.DataSource(scratch()).exists(base("np/table.txt")))


@case
def save_elsewhere():
    a = np.load(base("np/a.npy"), mmap_mode="r")
    np.savez(scratch("out.npz"), a=a)
    np.save(scratch("out.npy"), a)
    a.tofile(scratch("out.bin"))
    show(of(np.load(scratch("out.npz"))["a"]), digest(open(scratch("out.npy"), "rb").read()),
         digest(open(scratch("out.bin"), "rb").read()))
    show(attempt(np.save, base("np/a.npy"), a))


def row_sum(i):
    whole, mapped = np.load(base("np/a.npy")), np.load(base("np/a.npy"), mmap_mode="r")
    return float(whole[i % 200].sum()), float(mapped[i % 200].sum())


@case
def pools_of_processes():
    shared = np.load(base("np/big.npy"), mmap_mode="r")
    for method in "fork", "spawn":
        with multiprocessing.get_context(method).Pool(2, set_directories, (base(""), scratch(""))) as pool:
            show(method, digest(repr(pool.map(row_sum, range(200))).encode()))
    pid = os.fork()
    if pid == 0:
        os._exit(int(shared.sum()) % 200)
    show(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == int(shared.sum()) % 200)


def frame(f):
    return f.shape, digest(f.to_csv().encode())


@case
def pandas_text():
    for suffix in "", ".gz", ".bz2", ".xz", ".zip":
        show(suffix, frame(pd.read_csv(base("pd/a.csv" + suffix), parse_dates=["t"])))
    show(frame(pd.concat(pd.read_csv(base("pd/a.csv"), chunksize=300))),
         frame(pd.read_csv(base("pd/a.csv"), engine="python", nrows=20)))
    show(frame(pd.read_csv(base("pd/a.csv"), memory_map=True)),
         frame(pd.read_csv(base("pd/a.csv"), usecols=["x"], low_memory=False)))
    with open(base("pd/a.csv"), "rb") as f:
        show(frame(pd.read_csv(f, nrows=5)))
    show(frame(pd.read_fwf(base("pd/fixed.txt"), header=None)), frame(pd.read_json(base("pd/a.json"), lines=True)))
    show(frame(pd.read_table(base("np/table.txt"), sep=" ", header=None)), attempt(pd.read_csv, base("pd/none.csv")))


@case
def pandas_binary():
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        show(frame(pd.read_pickle(base("pd/a.pickle"))), frame(pd.read_stata(base("pd/a.dta"))))
    pd.read_pickle(base("pd/a.pickle")).to_csv(scratch("out.csv"))
    show(digest(open(scratch("out.csv"), "rb").read()), attempt(pd.read_csv(base("pd/a.csv")).to_csv, base("pd/a.csv")))
    db = sqlite3.connect(scratch("t.sqlite"))
    pd.read_csv(base("pd/a.csv")).to_sql("t", db)
    show(frame(pd.read_sql("select * from t where i < 10", db)))
    db.close()
    os.unlink(scratch("t.sqlite"))


@case
def zarr_stores():
    g = zarr.open_group(base("zarr/directory"), mode="r")
    show(of(g["a"][:]), of(g["a"][33:60, 5:45]), of(g["deep/b"][::7]), dict(g.attrs), sorted(g.array_keys()))
    show(attempt(g["a"].__setitem__, 0, 1), g.info_items()[0], str(g.tree()))
    show(of(zarr.open_consolidated(base("zarr/directory"))["a"][:]), of(zarr.open(base("zarr/nested"), mode="r")[:]))
    with zarr.ZipStore(base("zarr/a.zip"), mode="r") as store:
        show(of(zarr.open(store, mode="r")[:]), sorted(store.keys()))
    show(of(zarr.load(base("zarr/nested"))), attempt(zarr.open, base("zarr/none"), mode="r"))
    show(attempt(lambda: zarr.open_group(base("zarr/directory"), mode="r+")["a"].__setitem__(0, 1)))
    copied = zarr.open_group(zarr.DirectoryStore(scratch("copy")), "w")
    show(zarr.copy_all(g, copied), of(copied["a"][:]))


@case
def unusual_readers():
    with open(base("np/big.npy"), "rb") as f:
        show(of(np.load(io.BufferedReader(f.raw, 1 << 16))), of(np.load(io.BytesIO(read("np/a.npy")))))
    buffer = np.empty(1000, np.uint8)
    with open(base("np/raw.bin"), "rb", buffering=0) as f:
        show(f.readinto(buffer), of(buffer), os.preadv(f.fileno(), [buffer[:10], buffer[500:]], 33), of(buffer))


if __name__ == "__main__":
    main()
