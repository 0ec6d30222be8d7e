# SPDX-License-Identifier: BSD-3-Clause
"""h5py over files of a dataset: drivers, filters, links to other files, many handles. See cases.py."""
import multiprocessing
import os
import threading

import h5py
import numpy as np

from cases import attempt, base, case, digest, main, scratch, set_directories, show

DRIVERS = {"sec2": {}, "stdio": {}, "core": {"backing_store": False}}


def of(array):
    array = np.asarray(array)
    return array.shape, array.dtype.str, digest(
        array.tobytes() if array.dtype != object else repr(array.tolist()).encode())


def short(result):
    """HDF5's own messages hold times and addresses; their beginning is what matters."""
    return result.split("(")[0] if isinstance(result, str) else result


@case
def drivers():
    for driver, options in DRIVERS.items():
        with h5py.File(base("h5/a.h5"), "r", driver=driver, **options) as f:
            for name in "plain", "chunked", "gzip", "lzf", "strings", "records", "group/inner/deep":
                show(driver, name, of(f[name][...]), f[name].chunks, f[name].compression)
            show(f.driver, f.mode, f["plain"][5:70:3, 7].sum(), f["group"].attrs["note"], sorted(f), f.filename)


@case
def opening():
    name = base("h5/a.h5")
    for mode in "r+", "w", "a", "w-", "x":
        show(mode, short(attempt(h5py.File, name, mode)))
    show(short(attempt(h5py.File, base("h5/none.h5"), "r")), short(attempt(h5py.File, base("h5"), "r")))
    for options in {
            "locking": True
    }, {
            "locking": False
    }, {
            "locking": "best-effort"
    }, {
            "libver": "latest"
    }, {
            "rdcc_nbytes": 0
    }:

        def opened(options=options):
            with h5py.File(name, "r", **options) as f:
                return of(f["gzip"][...])

        show(options, short(attempt(opened)))
    show(h5py.is_hdf5(name), h5py.is_hdf5(base("np/a.npy")))


@case
def file_objects():
    with open(base("h5/a.h5"), "rb") as raw, h5py.File(raw, "r") as f:
        show(of(f["gzip"][...]), of(f["plain"][10:20]))
    with open(base("h5/b.h5"), "rb") as raw:
        show(of(h5py.File(raw, "r")["values"][...]))
    fapl = h5py.h5p.create(h5py.h5p.FILE_ACCESS)
    fapl.set_fapl_core(backing_store=False)
    with open(base("h5/a.h5"), "rb") as raw:
        fapl.set_file_image(raw.read())
    show(of(h5py.File(h5py.h5f.open(b"image", h5py.h5f.ACC_RDONLY, fapl))["lzf"][...]))


@case
def links():
    with h5py.File(base("h5/a.h5"), "r") as f:
        show(of(f["soft"][...]), of(f["external"][...]), f["external"].file.filename, short(attempt(lambda: f["gone"])))
        show(f.get("external", getlink=True).filename, f.get("soft", getlink=True).path)
    os.chdir(base("h5"))
    with h5py.File("a.h5", "r") as f:
        show(of(f["external"][...]))


@case
def virtual_datasets():
    with h5py.File(base("h5/virtual.h5"), "r") as f:
        show(of(f["all"][...]), f["all"].is_virtual, [s.file_name for s in f["all"].virtual_sources()], f["all"][2,
                                                                                                                 5:9])


@case
def single_writer_many_readers():
    with h5py.File(base("h5/swmr.h5"), "r", libver="latest", swmr=True) as f:
        show(f.swmr_mode, f["grown"].shape, f["grown"].refresh(), of(f["grown"][...]))
    with h5py.File(base("h5/swmr.h5"), "r", swmr=False) as f:
        show(of(f["grown"][100:300]))


@case
def many_handles():
    files = [h5py.File(base(f"h5/part{i % 4}.h5"), "r") for i in range(200)]
    show(sum(int(f["data"][0]) for f in files))
    for f in files[::2]:
        f.close()
    show(sum(int(f["data"][-1]) for f in files[1::2]))
    for f in files:
        f.close()


@case
def partial_reads():
    with h5py.File(base("h5/large.h5"), "r") as f:
        d = f["x"]
        order = np.random.default_rng(1).integers(0, 2990, 60)
        show([int(d[i:i + 10].sum()) for i in order])
        show(of(d[sorted(set(order.tolist()))]), of(d[::500, ::100]),
             of(next(d.iter_chunks()) and d[d.chunks[0]:d.chunks[0] + 1]))
        out = np.empty((10, 256), d.dtype)
        d.read_direct(out, np.s_[50:60])
        show(of(out), of(d.id.read_direct_chunk((0, 0))[1][:100]) if d.compression else "")


@case
def threads():
    results = [None] * 6

    def work(k):
        with h5py.File(base("h5/large.h5"), "r") as f:
            results[k] = int(f["x"][k * 100:k * 100 + 100].sum())

    pool = [threading.Thread(target=work, args=(k, )) for k in range(6)]
    for t in pool:
        t.start()
    for t in pool:
        t.join()
    show(results)


def part_sum(i):
    with h5py.File(base("h5/large.h5"), "r") as f:
        return int(f["x"][i * 10:i * 10 + 10].sum())


@case
def processes():
    for method in "fork", "spawn":
        with multiprocessing.get_context(method).Pool(2, set_directories, (base(""), scratch(""))) as pool:
            show(method, pool.map(part_sum, range(50)))
    f = h5py.File(base("h5/large.h5"), "r")
    pid = os.fork()
    if pid == 0:
        os._exit(int(f["x"][7].sum()) % 251)
    show(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == int(f["x"][7].sum()) % 251)
    f.close()


@case
def copies():
    with h5py.File(base("h5/a.h5"), "r") as f, h5py.File(scratch("out.h5"), "w") as out:
        f.copy("gzip", out)
        f.copy("group", out)
        show(of(out["gzip"][...]), of(out["group/inner/deep"][...]))
        out["linked"] = h5py.ExternalLink(base("h5/b.h5"), "/values")
        show(short(attempt(lambda: of(out["linked"][...]))))
    with h5py.File(scratch("out.h5"), "r") as out:
        show(of(out["linked"][...]))
    os.unlink(scratch("out.h5"))


if __name__ == "__main__":
    main()
