# SPDX-License-Identifier: BSD-3-Clause
"""PIL and OpenCV over files of a dataset. See cases.py."""
import glob
import multiprocessing
import os
import warnings

import cv2
import numpy as np
from PIL import Image, ImageFile, ImageSequence

from cases import attempt, base, case, digest, main, read, scratch, set_directories, show

IMAGES = "a.jpg", "a.png", "palette.png", "alpha.webp", "b.bmp", "b.gif", "frames.tif", "b.ico"


def of(array):
    return None if array is None else (array.shape, array.dtype.str, digest(np.ascontiguousarray(array).tobytes()))


def pixels(image):
    return image.size, image.mode, image.format, digest(image.tobytes())


@case
def pil_formats():
    warnings.simplefilter("ignore")
    for path in sorted(glob.glob(base("img/*"))):
        if path.endswith(".eps"):
            continue

        def load(path=path):
            with Image.open(path) as image:
                return pixels(image), sorted(image.info)

        show(os.path.basename(path), attempt(load))


@case
def pil_modes_of_opening():
    for name in IMAGES:
        with open(base("img", name), "rb") as f:
            show(name, pixels(Image.open(f)))
        with open(base("img", name), "rb", buffering=0) as f:
            show(pixels(Image.open(f).convert("RGB")))
        image = Image.open(base("img", name))
        show(image.size, image.load() is not None, image.fp is None, image.close())
        show(Image.open(base("img", name)).verify(), digest(np.asarray(Image.open(base("img", name))).tobytes()))


@case
def pil_lazy():
    image = Image.open(base("img/a.jpg"))
    image.draft("RGB", (30, 30))
    show(image.size, pixels(image), pixels(image.resize((10, 10))))
    many = [Image.open(base("img/a.png")) for _ in range(100)]
    show({digest(i.tobytes()) for i in many})
    show(pixels(Image.open(base("img/noise.png")).crop((5, 5, 50, 50))),
         Image.open(base("img/progressive.jpg")).getexif() is not None)


@case
def pil_frames():
    for name in "frames.gif", "frames.tif", "frames.webp", "frames.png":
        with Image.open(base("img", name)) as image:
            show(name, image.n_frames, [pixels(frame.convert("RGB")) for frame in ImageSequence.Iterator(image)])
            image.seek(3)
            show(image.tell(), attempt(image.seek, 99))


@case
def pil_damaged():
    show(attempt(lambda: Image.open(base("img/truncated.jpg")).load()), attempt(Image.open,
                                                                                base("img/not-an-image.png")))
    ImageFile.LOAD_TRUNCATED_IMAGES = True
    show(attempt(lambda: pixels(Image.open(base("img/truncated.jpg")))))
    ImageFile.LOAD_TRUNCATED_IMAGES = False
    show(attempt(Image.open, base("img/none.png")), attempt(Image.open, base("img")))
    parser = ImageFile.Parser()
    parser.feed(read("img/a.jpg"))
    show(pixels(parser.close()))


@case
def pil_writes():
    image = Image.open(base("img/a.png"))
    image.save(scratch("out.png"))
    image.save(scratch("out.bmp"))
    show(digest(open(scratch("out.bmp"), "rb").read()), attempt(image.save, base("img/a.png")),
         attempt(image.save, base("img/a.jpg")))


@case
def cv_images():
    for name in sorted(os.listdir(base("img"))):
        if name.split(".")[-1] in ("png", "jpg", "bmp", "ppm", "tif", "webp", "jp2"):
            for flag in cv2.IMREAD_COLOR, cv2.IMREAD_UNCHANGED, cv2.IMREAD_REDUCED_GRAYSCALE_4:
                show(name, flag, of(attempt(cv2.imread, base("img", name), flag)))
    show(of(cv2.imread(base("img/none.png"))), of(cv2.imread(base("cv/a.jp2"))), cv2.haveImageReader(base("cv/a.png")))
    ok, pages = cv2.imreadmulti(base("cv/pages.tif"))
    show(ok, [of(p) for p in pages], cv2.imcount(base("cv/pages.tif")))
    show(of(cv2.imdecode(np.fromfile(base("img/a.jpg"), np.uint8), 1)),
         of(cv2.imdecode(np.frombuffer(read("img/a.png"), np.uint8), 0)))
    show(cv2.imwrite(scratch("out.png"), cv2.imread(base("cv/a.png"))),
         attempt(cv2.imwrite, base("cv/a.png"), np.zeros((2, 2, 3), np.uint8)))


@case
def cv_videos():
    for name in "mjpg.avi", "raw.avi", "mpeg4.mp4":
        for backend in cv2.CAP_FFMPEG, cv2.CAP_OPENCV_MJPEG, cv2.CAP_ANY:
            video = cv2.VideoCapture(base("cv", name), backend)
            sums = []
            while video.isOpened():
                ok, image = video.read()
                if not ok:
                    break
                sums.append(digest(image.tobytes()))
            show(name, backend, video.isOpened(), len(sums), digest("".join(sums).encode()),
                 video.get(cv2.CAP_PROP_FRAME_COUNT))
            if video.isOpened() and video.set(cv2.CAP_PROP_POS_FRAMES, 5):
                show(of(video.read()[1]))
            video.release()
    show(cv2.VideoCapture(base("cv/none.avi")).isOpened())


@case
def cv_storages():
    for name in "store.yml", "store.xml", "store.yml.gz", "store.json":
        storage = cv2.FileStorage(base("cv", name), cv2.FILE_STORAGE_READ)
        show(name, storage.isOpened(), storage.getNode("matrix").mat(), storage.getNode("text").string())
        storage.release()
    show(
        cv2.FileStorage(base("cv/none.yml"), cv2.FILE_STORAGE_READ).isOpened(),
        cv2.samples.findFile(base("cv/a.png"), False))


def both(i):
    name = base("img", IMAGES[i % 4])
    return digest(Image.open(name).convert("RGB").tobytes()), of(cv2.imread(name))


@case
def pools():
    for method in "fork", "spawn":
        with multiprocessing.get_context(method).Pool(2, set_directories, (base(""), scratch(""))) as pool:
            show(method, digest(repr(pool.map(both, range(40))).encode()))


if __name__ == "__main__":
    cv2.setNumThreads(1)
    main()
