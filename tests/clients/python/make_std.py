# SPDX-License-Identifier: BSD-3-Clause
"""Makes what the std_*.py cases read: make_std.py DIRECTORY. The same bytes each time, but for the times
in archives and caches."""
import bz2
import dbm.dumb
import gzip
import json
import lzma
import os
import pickle
import py_compile
import random
import shelve
import shutil
import sqlite3
import subprocess
import sys
import sysconfig
import tarfile
import zipfile

from made import path, top

rng = random.Random(3)


def write(name, data, mode=0o644):
    target = path(name)
    with open(target, "wb") as f:
        f.write(data if isinstance(data, bytes) else data.encode())
    os.chmod(target, mode)
    return target


def make_text():
    write("text/a.txt", "".join(f"line {i}\n" for i in range(1000)))
    write("text/empty.txt", b"")
    write("text/long.txt", "x" * 70000)
    write("text/crlf.txt", "one\r\ntwo\rthree\nfour\r\n")
    words = "größe 日本 naïve\nsecond\n"
    write("text/utf8.txt", words)
    write("text/latin1.txt", "größe\n".encode("latin-1"))
    write("text/utf16.txt", words.encode("utf-16"))
    write("text/data.csv", "id,name,value\n" + "".join(f'{i},"n, {i}",{i * 0.5}\n' for i in range(500)))
    write("text/data.json", json.dumps({"list": list(range(100)), "nested": {"a": None, "b": [True, 1.5]}}))
    write("text/data.pickle", pickle.dumps([{"k": i, "v": (i, str(i))} for i in range(200)]))
    write("text/conf.ini", "[main]\nkey = value\n[other]\npath = %(key)s\nkey = 1\n")
    write("text/tree.xml", "<r>" + "".join(f'<e n="{i}">t{i}</e>' for i in range(50)) + "</r>")
    write("text/conf.toml", 'title = "x"\n[table]\nn = [1, 2]\n')


def make_binary():
    for i in range(60):
        write(f"bin/f{i}.bin", rng.randbytes(rng.choice([10, 300, 4096, 5000, 20000, 40000])))
    write("bin/big.bin", rng.randbytes(3_000_000))
    write("bin/page.bin", rng.randbytes(65536))
    write("bin/compressible.bin", "".join(f"{i % 1000} the same words again\n" for i in range(60000)))


def make_names():
    for name in ("plain", "with space", "größe-日本", ".hidden", "new\nline", "*star", "[b]", "~", "n" * 255,
                 "trailing "):
        write(f"names/{name}", f"content of {name}")
    with open(os.path.join(os.fsencode(top), b"names/\xff\xfe"), "wb") as f:
        f.write(b"not UTF-8")
    for d in range(4):
        for e in range(3):
            write(f"walk/d{d}/e{e}/file{e}.txt", f"{d} {e}\n" * 20)
        write(f"walk/d{d}/data{d}.csv", f"{d}\n")
    os.makedirs(os.path.join(top, "walk/empty/deeper"))
    for mode in 0o400, 0o600, 0o644, 0o755:
        write(f"modes/{mode:o}", f"{mode:o}\n", mode)
    os.makedirs(os.path.join(top, "links"))
    for name, target in (("file", "../text/a.txt"), ("directory", "../walk/d0"), ("chain", "file"),
                         ("dangling", "none"), ("loop", "loop"), ("outside", "/etc/passwd"), ("up", "..")):
        os.symlink(target, os.path.join(top, "links", name))
    os.link(os.path.join(top, "text/a.txt"), os.path.join(top, "links/hard"))


EXTENSION = r"""
#include <Python.h>
static PyObject *answer(PyObject *s, PyObject *a) { (void)s; (void)a; return PyLong_FromLong(42); }
static PyMethodDef methods[] = {{"answer", answer, METH_NOARGS, ""}, {0}};
static struct PyModuleDef module = {PyModuleDef_HEAD_INIT, "extension", 0, -1, methods};
PyMODINIT_FUNC PyInit_extension(void);
PyMODINIT_FUNC PyInit_extension(void) { return PyModule_Create(&module); }
"""
LIBRARY = "int twice(int x); int twice(int x) { return 2 * x; }\n"
PROGRAM = r"""
#include <stdio.h>
int main(int argc, char **argv) { printf("%d arguments, last %s\n", argc - 1, argv[argc - 1]); return argc; }
"""


def make_modules():
    write(
        "lib/single.py", '"""Doc."""\nimport os\nVALUE = 7\nHERE = os.path.dirname(__file__)\n'
        'if __name__ == "__main__":\n    import sys\n    print("main", sys.argv[1:], HERE)\n')
    write("lib/package/__init__.py", "from . import part\nfrom .sub.deep import NAME\n__all__ = ['part']\n")
    write("lib/package/__main__.py", "print('package main', __spec__.name)\n")
    write("lib/package/part.py", "def f():\n    raise ValueError('from part')\n")
    write("lib/package/sub/__init__.py", "")
    write("lib/package/sub/deep.py", "NAME = __name__\n")
    write("lib/package/data.txt", "resource\n")
    write("lib/space/inner.py", "X = 'namespace package'\n")
    write("lib/broken.py", "def (:\n")
    compiled = write("lib/compiled_source.py", "VALUE = 'from a .pyc alone'\n")
    py_compile.compile(compiled, cfile=os.path.join(top, "lib/compiled.pyc"), dfile="compiled.py", doraise=True)
    os.unlink(compiled)
    with zipfile.ZipFile(os.path.join(top, "lib/modules.zip"), "w") as z:
        z.writestr("zipped.py", "VALUE = 'in a zip'\n")
        z.writestr("__main__.py", "print('zip main')\n")
    source = write("lib/extension.c", EXTENSION)
    if os.path.exists(os.path.join(sysconfig.get_path("include"), "Python.h")):
        compile_c(source, "lib/extension.so", "-shared", "-fPIC", "-I", sysconfig.get_path("include"))
    write("venv/pyvenv.cfg", f"home = {os.path.dirname(sys.executable)}\ninclude-system-site-packages = false\n")
    write(f"venv/lib/python{sysconfig.get_python_version()}/site-packages/only_there.py",
          "VALUE = 'in the environment'\n")
    os.makedirs(os.path.join(top, "venv/bin"))
    os.symlink(sys.executable, os.path.join(top, "venv/bin/python"))
    shutil.copy2(os.path.realpath(sys.executable), os.path.join(top, "venv/bin/copied"))
    compile_c(write("lib/library.c", LIBRARY), "lib/libtwice.so", "-shared", "-fPIC")
    compile_c(write("exec/program.c", PROGRAM), "exec/program")
    write("exec/script.sh", '#!/bin/sh\necho "script $0 $*"\nwc -c <"$(dirname "$0")/../text/a.txt"\nexit 3\n', 0o755)
    write("exec/script.py", f"#!{sys.executable} -B\nimport sys\nprint(sys.argv, open(sys.argv[1]).readline())\n",
          0o755)
    write("exec/not-executable.sh", "#!/bin/sh\n")


def compile_c(source, name, *options):
    subprocess.run(["cc", "-O1", *options, "-o", os.path.join(top, name), source], check=True)


def make_archives():
    os.makedirs(os.path.join(top, "archives"))
    for suffix, kind in (("tar", ""), ("tar.gz", "gz"), ("tar.bz2", "bz2"), ("tar.xz", "xz")):
        with tarfile.open(os.path.join(top, "archives/a." + suffix), "w:" + kind) as t:
            t.add(os.path.join(top, "walk"), "walk")
            t.add(os.path.join(top, "links"), "links")
            t.add(os.path.join(top, "bin/page.bin"), "page.bin")
    for name, kind in (("stored", zipfile.ZIP_STORED), ("deflated", zipfile.ZIP_DEFLATED), ("lzma", zipfile.ZIP_LZMA)):
        with zipfile.ZipFile(os.path.join(top, f"archives/{name}.zip"), "w", kind) as z:
            for name_in in "text/a.txt", "bin/page.bin", "bin/compressible.bin":
                z.write(os.path.join(top, name_in), name_in)
    data = b"compressed line\n" * 5000
    write("archives/t.gz", gzip.compress(data))
    write("archives/two.gz", gzip.compress(data) + gzip.compress(b"second member\n"))
    write("archives/t.bz2", bz2.compress(data))
    write("archives/t.xz", lzma.compress(data))


def make_databases():
    os.makedirs(os.path.join(top, "db"))
    db = sqlite3.connect(os.path.join(top, "db/t.sqlite"))
    db.execute("create table t (id integer primary key, name text, value real)")
    db.execute("create index by_name on t (name)")
    db.executemany("insert into t values (?, ?, ?)", [(i, f"name {i % 97}", i / 3) for i in range(5000)])
    db.commit()
    db.close()
    db = sqlite3.connect(os.path.join(top, "db/wal.sqlite"))
    db.execute("pragma journal_mode = wal")
    db.execute("create table t as select value i from json_each('" + json.dumps(list(range(999))) + "')")
    db.commit()
    db.close()
    with dbm.dumb.open(os.path.join(top, "db/dumb"), "n") as d:
        d.update({f"k{i}": f"v{i}" * i for i in range(50)})
    with shelve.Shelf(dbm.dumb.open(os.path.join(top, "db/shelf"), "n")) as s:
        s.update({"a": [1, 2], "b": {"c": None}})
    try:
        from dbm import ndbm  # pylint: disable=import-outside-toplevel
        with ndbm.open(os.path.join(top, "db/ndbm"), "n") as d:
            for i in range(500):
                d[f"k{i}"] = f"v{i}"
    except ImportError:
        pass


def main():
    shutil.rmtree(top, ignore_errors=True)
    for make in make_text, make_binary, make_names, make_modules, make_archives, make_databases:
        make()
    for directory, _, files in os.walk(top, topdown=False):
        for name in [*files, "."]:
            os.utime(os.path.join(directory, name), ns=(1_000_000_000_123_456_789, ) * 2, follow_symlinks=False)


if __name__ == "__main__":
    main()
