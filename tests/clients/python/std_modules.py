# SPDX-License-Identifier: BSD-3-Clause
"""Python's standard library on top of files: formats, archives, databases, and modules imported from the dataset. See
cases.py."""
import bz2
import compileall
import configparser
import csv
import ctypes
import dbm.dumb
import gzip
import hashlib
import inspect
import importlib
import importlib.machinery
import importlib.resources
import importlib.util
import json
import lzma
import mimetypes
import os
import pickle
import pkgutil
import py_compile
import pyclbr
import runpy
import shelve
import sqlite3
import sys
import tarfile
import tokenize
import tomllib
import traceback
import urllib.request
import xml.etree.ElementTree
import zipfile
import zipimport

from cases import attempt, base, case, digest, main, scratch, show


@case
def tables():
    with open(base("text/data.csv"), newline="", encoding="ascii") as f:
        rows = list(csv.DictReader(f))
    show(len(rows), rows[17], csv.Sniffer().sniff(open(base("text/data.csv"), encoding="ascii").read(500)).delimiter)
    with open(base("text/data.json"), encoding="ascii") as f:
        show(json.load(f)["nested"])
    with open(base("text/data.pickle"), "rb") as f:
        show(pickle.load(f)[199], f.tell(), attempt(pickle.load, f))
    with open(base("text/data.pickle"), "rb", buffering=0) as f:
        show(len(pickle.Unpickler(f).load()))


@case
def settings():
    c = configparser.ConfigParser()
    show(c.read([base("text/conf.ini"), base("none")]), c["other"]["path"])
    show([e.text for e in xml.etree.ElementTree.parse(base("text/tree.xml")).getroot()][-2:])
    with open(base("text/conf.toml"), "rb") as f:
        show(tomllib.load(f))
    show(mimetypes.guess_type(base("archives/t.gz")), mimetypes.read_mime_types(base("text/empty.txt")))


@case
def digests():
    for name in "text/empty.txt", "text/a.txt", "bin/big.bin", "bin/compressible.bin":
        with open(base(name), "rb") as f:
            show(name, hashlib.file_digest(f, "sha256").hexdigest(), f.tell())
        with open(base(name), "rb", buffering=0) as f:
            show(hashlib.file_digest(f, hashlib.blake2b).hexdigest()[:32])


@case
def tar_files():
    for suffix in "tar", "tar.gz", "tar.bz2", "tar.xz":
        with tarfile.open(base("archives/a." + suffix)) as t:
            members = t.getmembers()
            show(suffix, len(members), [(m.name, m.size, oct(m.mode), m.linkname) for m in members[:12]])
            show(digest(t.extractfile("page.bin").read()), t.extractfile("walk/d0/data0.csv").read())
            t.extractall(scratch(suffix))
            show(sorted(os.listdir(scratch(suffix, "walk"))), os.readlink(scratch(suffix, "links/file")))
    with open(base("archives/a.tar.gz"), "rb") as f, tarfile.open(fileobj=f, mode="r|gz") as t:
        show([m.name for m in t][-3:])
    show(tarfile.is_tarfile(base("archives/a.tar")), tarfile.is_tarfile(base("text/a.txt")))
    with tarfile.open(scratch("new.tar"), "w") as t:
        t.add(base("walk"), "w")
        t.add(base("links/file"), "l")
        show(sorted((m.name, oct(m.mode), m.mtime, m.size, m.type) for m in t.getmembers()))


@case
def zip_files():
    for kind in "stored", "deflated", "lzma":
        with zipfile.ZipFile(base(f"archives/{kind}.zip")) as z:
            show(kind, z.namelist(), z.testzip(), [(i.file_size, i.compress_size, hex(i.CRC)) for i in z.infolist()])
            with z.open("text/a.txt") as f:
                f.seek(4000)
                show(f.readline())
            z.extractall(scratch(kind))
    with zipfile.ZipFile(scratch("new.zip"), "w") as z:
        z.write(base("modes/755"), "x")
        show(z.infolist()[0].date_time, oct(z.infolist()[0].external_attr))
    show(zipfile.is_zipfile(base("archives/lzma.zip")), attempt(zipfile.ZipFile, base("archives/lzma.zip"), "a"))


@case
def compressed_files():
    for module, name in ((gzip, "t.gz"), (gzip, "two.gz"), (bz2, "t.bz2"), (lzma, "t.xz")):
        with module.open(base("archives", name), "rb") as f:
            data = f.read()
            f.seek(100)
            show(name, len(data), digest(data), f.tell(), f.read(20), f.fileno() > 2)
        with module.open(base("archives", name), "rt", encoding="ascii") as f:
            show(f.readline())
    with open(base("archives/t.gz"), "rb") as f:
        show(digest(gzip.decompress(f.read())), gzip.GzipFile(fileobj=open(base("archives/t.gz"), "rb")).read(5))


@case
def sqlite_plain():
    db = sqlite3.connect(base("db/t.sqlite"))
    show(db.execute("select count(*), sum(value) from t").fetchone())
    show(attempt(lambda: db.execute("insert into t values (1000000, 'x', 1)")),
         attempt(lambda: db.execute("create table u (x)")))
    show(db.execute("pragma integrity_check").fetchone(), db.execute("pragma journal_mode").fetchone())
    db.close()


@case
def sqlite_read_only():
    for query in "mode=ro", "immutable=1", "mode=ro&cache=shared", "mode=ro&nolock=1", "mode=rw", "mode=rwc":

        def ask(query=query):
            db = sqlite3.connect(f"file:{base('db/t.sqlite')}?{query}", uri=True)
            try:
                return (db.execute(
                    "select name, count(*), max(value) from t group by name order by name limit 3").fetchall(),
                        db.execute("select id from t where name = 'name 5' order by id").fetchall()[-1],
                        attempt(lambda: db.execute("delete from t")),
                        db.execute("pragma mmap_size = 1000000").fetchall(),
                        db.execute("select sum(id) from t").fetchone())
            finally:
                db.close()

        show(query, attempt(ask))
    show(attempt(lambda: sqlite3.connect(f"file:{base('none.sqlite')}?mode=ro", uri=True)))
    show(attempt(lambda: sqlite3.connect(base("text/a.txt")).execute("select * from t")))


@case
def sqlite_with_a_log():
    for query in "", "?mode=ro", "?immutable=1":

        def ask(query=query):
            db = sqlite3.connect(f"file:{base('db/wal.sqlite')}{query}", uri=True)
            try:
                return db.execute("select sum(i) from t").fetchone(), db.execute("pragma journal_mode").fetchone()
            finally:
                db.close()

        show(query, attempt(ask))


@case
def sqlite_copies():
    source = sqlite3.connect(f"file:{base('db/t.sqlite')}?mode=ro", uri=True)
    with sqlite3.connect(scratch("copy.sqlite")) as copy:
        source.backup(copy)
        show(copy.execute("select count(*), sum(id) from t").fetchone())
        copy.execute("attach database ? as other", (base("db/t.sqlite"), ))
        show(copy.execute("select count(*) from t a join other.t b using (id) where a.value = b.value").fetchone())
    show(digest("".join(source.iterdump()).encode()))
    source.close()
    copy.close()


@case
def dbm_files():
    with dbm.dumb.open(base("db/dumb"), "r") as d:
        show(len(d), d["k7"], attempt(d.__setitem__, "x", "y"))
    with shelve.Shelf(dbm.dumb.open(base("db/shelf"), "r")) as s:
        show(s["a"], s["b"])
    if os.path.exists(base("db/ndbm.db")):
        with dbm.open(base("db/ndbm"), "r") as d:
            show(len(d.keys()), d["k77"], attempt(d.__setitem__, "x", "y"))
    show(attempt(dbm.open, base("db/none"), "r"))


@case
def file_urls():
    with urllib.request.urlopen("file://" + base("text/a.txt")) as f:
        show(len(f.read()), f.headers["Content-length"])


@case
def import_modules():
    sys.path.insert(0, base("lib"))
    importlib.invalidate_caches()
    import package  # pylint: disable=import-error,import-outside-toplevel
    import single  # pylint: disable=import-error,import-outside-toplevel
    import space.inner  # pylint: disable=import-error,import-outside-toplevel
    import compiled  # pylint: disable=import-error,import-outside-toplevel
    show(single.VALUE, single.__file__, single.HERE, package.NAME, package.__path__, space.inner.X, compiled.VALUE,
         compiled.__file__)
    show(attempt(importlib.import_module, "broken"), attempt(importlib.import_module, "nothing_here"))
    try:
        package.part.f()
    except ValueError:
        show(traceback.format_exc())
    show(importlib.reload(single).VALUE, importlib.util.find_spec("package.sub.deep").origin)
    show(importlib.resources.files("package").joinpath("data.txt").read_text(), pkgutil.get_data("package", "data.txt"))
    show([m.name for m in pkgutil.walk_packages([base("lib")]) if m.name != "extension"],
         sorted(pyclbr.readmodule_ex("single")))


@case
def import_extensions():
    if os.path.exists(base("lib/extension.so")):
        loader = importlib.machinery.ExtensionFileLoader("extension", base("lib/extension.so"))
        module = importlib.util.module_from_spec(importlib.util.spec_from_loader("extension", loader))
        show(module.answer(), module.__file__)
    library = ctypes.CDLL(base("lib/libtwice.so"))
    show(library.twice(21), attempt(ctypes.CDLL, base("lib/none.so")))


@case
def import_from_zip():
    sys.path.insert(0, base("lib/modules.zip"))
    import zipped  # pylint: disable=import-error,import-outside-toplevel
    show(zipped.VALUE, zipped.__file__, zipimport.zipimporter(base("lib/modules.zip")).get_source("zipped"))


@case
def look_at_sources():
    sys.path.insert(0, base("lib"))
    package = importlib.import_module("package")
    show(inspect.getsource(package.part.f), inspect.getsourcefile(package.part),
         importlib.util.find_spec("space").origin)
    show(compileall.compile_file(base("lib/single.py"), quiet=2),
         py_compile.compile(base("lib/single.py"), scratch("single.pyc")))
    show(
        runpy.run_path(scratch("single.pyc"))["VALUE"], attempt(py_compile.compile, base("lib/single.py"),
                                                                doraise=True))


@case
def run_modules():
    show(
        runpy.run_path(base("lib/single.py"))["VALUE"],
        runpy.run_path(base("lib/package/sub"), run_name="x") == {} if os.path.exists(
            base("lib/package/sub/__main__.py")) else "")
    runpy.run_path(base("lib/modules.zip"))
    runpy.run_path(base("lib/package"))
    with tokenize.open(base("lib/single.py")) as f:
        show(len(list(tokenize.generate_tokens(f.readline))))


if __name__ == "__main__":
    main()
