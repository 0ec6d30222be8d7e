# SPDX-License-Identifier: BSD-3-Clause
"""Libraries and programs that were written below the mount: built on one node, loaded and run on each.
   outputs_libraries.py MOUNT NODES; with LOAD as first argument the part that runs on one node."""
import ctypes, os, subprocess, sys, sysconfig, threading

libc = ctypes.CDLL(None)
libc.dlclose.argtypes = [ctypes.c_void_p]
libc.dlopen.argtypes = [ctypes.c_char_p, ctypes.c_int]
libc.dlopen.restype = ctypes.c_void_p


def equal(what, want, got):
    if want != got:
        sys.exit("FAILED: %s: expected %r, got %r" % (what, want, got))


def on(node, *command, **variables):
    env = {**os.environ, "FANSTORE_NODE": str(node), **variables}
    r = subprocess.run(command, env=env, capture_output=True, text=True)
    return r.stdout.strip() if r.returncode == 0 else "status %d: %s" % (r.returncode, r.stderr[-300:])


def gcc(node, out, text, *options):
    source = "/tmp/.%d.c" % os.getpid() if "TMPDIR" not in os.environ else os.environ["TMPDIR"] + "/x.c"
    with open(source, "w") as f:
        f.write(text)
    equal("gcc -o " + out, "", on(node, "gcc", "-w", "-o", out, source, *options))


MODULE = """
#include <Python.h>
int dep(void);
static PyObject *value(PyObject *s, PyObject *a) { return PyLong_FromLong(dep()); }
static PyMethodDef m[] = {{"value", value, METH_NOARGS, ""}, {0}};
static struct PyModuleDef d = {PyModuleDef_HEAD_INIT, "extension", 0, -1, m};
PyMODINIT_FUNC PyInit_extension(void) { return PyModule_Create(&d); }
"""
LIBRARY = "int dep(void); static int n; int count(void) { return ++n; } int value(void) { return %d + dep(); }"
PROGRAM = '#include <stdio.h>\nint value(void); int main(void) { printf("%d\\n", value()); return 0; }'


def load(path):
    """The value of a library, and its handle."""
    lib = ctypes.CDLL(path)
    return lib.value(), lib._handle


def unload(path):
    for _ in range(20):
        handle = libc.dlopen(path.encode(), os.RTLD_LAZY | os.RTLD_NOLOAD)
        if not handle:
            return
        libc.dlclose(handle)  # what has just been counted, and one more
        libc.dlclose(handle)
    sys.exit("FAILED: %s stays loaded" % path)


def build(node, top):
    """lib/liba.so needs lib/libdep.so, without a soname; package/extension.so; bin/prog; bin/script"""
    for d in "lib", "bin", "package":
        os.makedirs(top + "/" + d)
    origin = "-Wl,-rpath,$ORIGIN"
    shared = "-shared", "-fPIC", "-L" + top + "/lib"
    gcc(node, top + "/lib/libdep.so", "int dep(void) { return 100; }", *shared)
    gcc(node, top + "/lib/liba.so", LIBRARY % 1, *shared, "-ldep", origin)
    gcc(node, top + "/lib/new.so", LIBRARY % 2, *shared, "-ldep", origin)
    gcc(node, top + "/lib/newer.so", LIBRARY % 3, *shared, "-ldep", origin)
    for n, how in (4, "enable"), (5, "disable"):  # found by an absolute path in DT_RUNPATH, in DT_RPATH
        gcc(node, "%s/lib/%s.so" % (top, how), LIBRARY % n, *shared, "-ldep", "-Wl,-rpath,%s/lib" % top,
            "-Wl,--%s-new-dtags" % how)
    gcc(node, top + "/package/extension.so", MODULE, *shared, "-ldep", origin + "/../lib",
        "-I" + sysconfig.get_paths()["include"])
    needs = "-L" + top + "/lib", "-la", "-ldep"
    gcc(node, top + "/bin/prog", PROGRAM, *needs, origin + "/../lib")
    gcc(node, top + "/bin/rpath", PROGRAM, *needs, origin + "/../lib", "-Wl,--disable-new-dtags")
    gcc(node, top + "/bin/bare", PROGRAM, *needs)
    gcc(node, os.environ["TMPDIR"] + "/outside", PROGRAM, *needs, "-Wl,-rpath," + top + "/lib")
    with open(top + "/bin/script", "w") as f:
        f.write('#!/bin/sh\necho "$0"; cat "$(dirname "$0")/beside"\n')
    with open(top + "/bin/beside", "w") as f:
        f.write("beside\n")
    os.chmod(top + "/bin/script", 0o755)


def threads(*paths):
    """Load and unload all the time what needs the same library."""
    def work(path):
        for _ in range(50):
            handle = libc.dlopen(path.encode(), os.RTLD_NOW)
            missed.append(path) if not handle else libc.dlclose(handle)
    missed = []
    all = [threading.Thread(target=work, args=(path,)) for path in paths * 2]
    for t in all:
        t.start()
    for t in all:
        t.join()
    equal("dlopen by several threads", [], missed)


def loads(home, top):
    """On one node: what home has made. Home rewrites it meanwhile, at its word."""
    a = top + "/lib/liba.so"
    threads(top + "/lib/enable.so", top + "/lib/disable.so")
    first, handle = load(a)
    equal("dlopen", 101, first)
    equal("the same handle again", (101, handle), load(a))
    os.symlink("liba.so", a + ".link.%d" % os.getpid())
    equal("one file by two names", handle, load(a + ".link.%d" % os.getpid())[1])
    other = ctypes.CDLL(top + "/lib/new.so")
    equal("two files are two", (102, 1, 1), (other.value(), other.count(), ctypes.CDLL(a).count()))
    sys.path.insert(0, top + "/package")
    import extension
    equal("import", (100, top + "/package/extension.so"), (extension.value(), extension.__file__))
    unload(a)
    for new, how, want in ("new", "cat", 102), ("newer", "mv", 103):
        do = "cat %s > %s" if how == "cat" else "cp %s %s.x && mv %s.x %s"
        names = (top + "/lib/" + new + ".so", a)
        equal(how, "", on(home, "bash", "-c", do % (names if how == "cat" else (names[0], a, a, a))))
        equal("rewritten by " + how, want, load(a)[0])
        unload(a)
    equal("put back", "", on(home, "bash", "-c", "cat > %s" % a + " <%s/lib/first" % top))


def runs(node, top):
    for name, more in ("prog", {}), ("rpath", {}), ("bare", {"LD_LIBRARY_PATH": top + "/lib"}):
        equal(name, "101", on(node, top + "/bin/" + name, **more))
    equal("by a relative name", "101", on(node, "sh", "-c", "cd %s/bin && ./prog" % top))
    equal("outside", "101", on(node, os.environ["TMPDIR"] + "/outside"))
    for library in "new.so", "libdep.so":
        call = "import ctypes; print(ctypes.CDLL('%s').%s())" % (library, "dep" if library == "libdep.so" else "value")
        equal("dlopen by name", "100" if library == "libdep.so" else "102",
              on(node, sys.executable, "-c", call, LD_LIBRARY_PATH="/none:" + top + "/lib"))
    call = "import ctypes, sys; print(*[(lambda l: [l.value(), l.count()])(ctypes.CDLL(n)) for n in sys.argv[1:]])"
    libraries = [top + "/lib/" + name for name in ("enable.so", "disable.so", "enable.so", "liba.so")]
    equal("by an absolute run path", "[104, 1] [105, 1] [104, 2] [101, 1]", on(node, sys.executable, "-c", call, *libraries))
    equal("the variable is as it was", top + "/lib:/x",
          on(node, "sh", "-c", top + '/bin/bare >/dev/null; echo "$LD_LIBRARY_PATH"', LD_LIBRARY_PATH=top + "/lib:/x"))
    script = top + "/bin/script"
    equal("a script's own name", script + "\nbeside", on(node, script))
    equal("by sh", script + "\nbeside", on(node, "sh", "-c", script))


if sys.argv[1] == "LOAD":
    loads(sys.argv[2], sys.argv[3])
    sys.exit()
mnt, nodes = sys.argv[1], int(sys.argv[2])
home = nodes - 1
top = mnt + "/libraries"
build(home, top)
with open(top + "/lib/liba.so", "rb") as f, open(top + "/lib/first", "wb") as to:
    to.write(f.read())
for node in range(nodes):
    equal("loads on node %d" % node, "", on(node, sys.executable, sys.argv[0], "LOAD", str(home), top))
    runs(node, top)
    print("ok - built on node %d, loaded and run on node %d" % (home, node))
