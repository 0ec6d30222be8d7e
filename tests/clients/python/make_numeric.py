# SPDX-License-Identifier: BSD-3-Clause
"""Makes what the num_*.py cases read: make_numeric.py DIRECTORY. Images, arrays, HDF5, tables, zarr stores."""
import os
import random
import shutil
import zipfile

import cv2
import h5py
import numpy as np
import pandas as pd
import zarr
from PIL import Image

from made import path, top

rng = np.random.default_rng(5)


def picture(width=97, height=61, shift=0):
    x, y = np.meshgrid(np.arange(width), np.arange(height))
    return np.stack([(x * 2 + shift) % 256, (y * 3) % 256, (x + y + shift * 5) % 256], -1).astype(np.uint8)


def make_images():
    image = Image.fromarray(picture())
    noise = Image.fromarray(rng.integers(0, 256, (300, 400, 3), dtype=np.uint8))
    image.save(path("img/a.jpg"), quality=90)
    image.save(path("img/progressive.jpg"), progressive=True, exif=b"Exif\0\0MM\0*\0\0\0\x08\0\0\0\0\0\0")
    image.convert("CMYK").save(path("img/cmyk.jpg"))
    noise.save(path("img/noise.jpg"), quality=95)
    noise.save(path("img/noise.png"))
    image.save(path("img/a.png"))
    image.convert("P").save(path("img/palette.png"))
    image.convert("1").save(path("img/bits.png"))
    image.convert("L").save(path("img/grey.png"))
    Image.fromarray(np.arange(6000, dtype=np.uint16).reshape(60, 100) * 10).save(path("img/deep.png"))
    image.convert("RGBA").save(path("img/alpha.webp"), lossless=True)
    image.save(path("img/lossy.webp"))
    for suffix in "bmp ppm tga pcx tif gif im sgi xbm dib eps jp2 ico icns pdf".split():
        try:
            image.convert("1" if suffix == "xbm" else "RGB").save(path("img/b." + suffix))
        except (OSError, KeyError, ValueError):
            if os.path.exists(path("img/b." + suffix)):
                os.unlink(path("img/b." + suffix))
    frames = [Image.fromarray(picture(shift=i * 9)) for i in range(5)]
    frames[0].save(path("img/frames.gif"), save_all=True, append_images=frames[1:], duration=40)
    frames[0].save(path("img/frames.tif"), save_all=True, append_images=frames[1:], compression="tiff_lzw")
    frames[0].save(path("img/frames.webp"), save_all=True, append_images=frames[1:])
    frames[0].save(path("img/frames.png"), save_all=True, append_images=frames[1:])
    with open(path("img/a.jpg"), "rb") as f:
        data = f.read()
    with open(path("img/truncated.jpg"), "wb") as f:
        f.write(data[:len(data) * 2 // 3])
    with open(path("img/not-an-image.png"), "wb") as f:
        f.write(random.Random(1).randbytes(1000))


def make_arrays():
    a = rng.normal(size=(200, 31))
    np.save(path("np/a.npy"), a)
    np.save(path("np/fortran.npy"), np.asfortranarray(a))
    np.save(path("np/big.npy"), rng.integers(0, 255, (700, 1000), dtype=np.uint8).astype(np.float32))
    np.save(path("np/scalar.npy"), np.float64(3.5))
    np.save(path("np/empty.npy"), np.zeros((0, 3)))
    np.save(path("np/records.npy"), np.array([(1, 2.5, b"abc")] * 50, dtype="i4,f8,S5"))
    np.save(path("np/objects.npy"), np.array([{"a": 1}, [2], "three"], dtype=object), allow_pickle=True)
    np.savez(path("np/plain.npz"), a=a, b=np.arange(1000))
    np.savez_compressed(path("np/compressed.npz"), a=a, b=np.zeros(100000))
    with open(path("np/several.npy"), "wb") as f:
        for i in range(4):
            np.save(f, np.full((i + 1, 5), i))
    a.astype(np.float32).tofile(path("np/raw.bin"))
    np.savetxt(path("np/table.txt"), a[:, :5])
    np.savetxt(path("np/table.csv.gz"), a[:, :5], delimiter=",")
    with open(path("np/gaps.csv"), "w", encoding="ascii") as f:
        f.write("x,y,name\n1,2.5,one\n3,,three\n5,6.5,five\n")


def make_hdf5():
    data = rng.normal(size=(120, 64)).astype(np.float32)
    with h5py.File(path("h5/a.h5"), "w") as f:
        f["plain"] = data
        f.create_dataset("chunked", data=data, chunks=(16, 16))
        f.create_dataset("gzip", data=data, chunks=(32, 64), compression="gzip", shuffle=True, fletcher32=True)
        f.create_dataset("lzf", data=np.arange(50000), chunks=True, compression="lzf")
        f.create_dataset("strings", data=["eins", "zwei", "größe"], dtype=h5py.string_dtype())
        f.create_dataset("records", data=np.array([(1, 2.5)] * 20, dtype="i4,f8"))
        f["group/inner/deep"] = np.arange(10)
        f["group"].attrs["note"] = "an attribute"
        f["soft"] = h5py.SoftLink("/group/inner/deep")
        f["external"] = h5py.ExternalLink("b.h5", "/values")
        f["gone"] = h5py.ExternalLink("none.h5", "/values")
    with h5py.File(path("h5/b.h5"), "w") as f:
        f["values"] = np.arange(1000).reshape(20, 50)
    for i in range(4):
        with h5py.File(path(f"h5/part{i}.h5"), "w") as f:
            f["data"] = np.full(100, i)
    layout = h5py.VirtualLayout(shape=(4, 100), dtype=int)
    for i in range(4):
        layout[i] = h5py.VirtualSource(f"part{i}.h5", "data", shape=(100, ))
    with h5py.File(path("h5/virtual.h5"), "w", libver="latest") as f:
        f.create_virtual_dataset("all", layout, fillvalue=-1)
    with h5py.File(path("h5/swmr.h5"), "w", libver="latest") as f:
        f.create_dataset("grown", data=np.arange(500), chunks=(50, ), maxshape=(None, ))
    with h5py.File(path("h5/large.h5"), "w") as f:
        f.create_dataset("x", data=rng.integers(0, 1000, (3000, 256)), chunks=(100, 256))


def make_vision():
    size = (96, 64)
    for name, code in (("mjpg.avi", "MJPG"), ("raw.avi", "I420"), ("mpeg4.mp4", "mp4v")):
        writer = cv2.VideoWriter(path("cv", name), cv2.VideoWriter_fourcc(*code), 10, size)
        for i in range(12):
            writer.write(picture(*size, shift=i * 11))
        writer.release()
    cv2.imwrite(path("cv/a.png"), picture())
    cv2.imwrite(path("cv/a.jp2"), picture())
    cv2.imwritemulti(path("cv/pages.tif"), [picture(shift=i) for i in range(3)])
    for name in "store.yml", "store.xml", "store.yml.gz", "store.json":
        store = cv2.FileStorage(path("cv", name), cv2.FILE_STORAGE_WRITE)
        store.write("matrix", np.eye(4) * 2.5)
        store.write("text", "words")
        store.release()


def make_tables():
    frame = pd.DataFrame({
        "i": np.arange(2000),
        "x": rng.normal(size=2000),
        "s": [f"text {i % 7}" for i in range(2000)],
        "t": pd.date_range("2001-01-01", periods=2000, freq="H")
    })
    frame.to_csv(path("pd/a.csv"), index=False)
    for suffix in "gz", "bz2", "xz", "zip":
        frame.to_csv(path("pd/a.csv." + suffix), index=False)
    frame.to_json(path("pd/a.json"), orient="records", lines=True)
    frame.to_pickle(path("pd/a.pickle"))
    frame.to_stata(path("pd/a.dta"))
    with open(path("pd/fixed.txt"), "w", encoding="ascii") as f:
        for i in range(100):
            f.write(f"{i:6d}{i * 1.5:10.2f} name{i:3d}\n")


def make_zarr():
    data = rng.normal(size=(100, 80))
    group = zarr.open_group(zarr.DirectoryStore(path("zarr/directory")), "w")
    group.create_dataset("a", data=data, chunks=(30, 40))
    group.create_dataset("deep/b", data=np.arange(10000), chunks=(1000, ), compressor=None)
    group.attrs["note"] = "words"
    zarr.consolidate_metadata(zarr.DirectoryStore(path("zarr/directory")))
    zarr.save_array(zarr.NestedDirectoryStore(path("zarr/nested")), data, chunks=(50, 50))
    with zarr.ZipStore(path("zarr/a.zip"), mode="w", compression=zipfile.ZIP_STORED) as store:
        zarr.save_array(store, data, chunks=(25, 80))


def main():
    shutil.rmtree(top, ignore_errors=True)
    for make in make_images, make_arrays, make_hdf5, make_vision, make_tables, make_zarr:
        make()


if __name__ == "__main__":
    main()
