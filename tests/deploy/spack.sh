#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# Spack's recipe without Spack, which Debian does not have: it knows only the names that the stub here has, asks for variants
# that Spack's packages have, links what it needs, builds and installs by the targets that it gives, and what is installed
# works. docs/install.md says with which Spack it was tried.
. "$(dirname "$0")/../functions.sh"

cat >"$work/stub.py" <<'END'
import shutil, subprocess, sys, types

recipe, source, prefix = sys.argv[1:]
called = []

def directive(name):
    return lambda *words, **more: called.append((name, words, more))

class MakefilePackage:
    build_directory = source
    spec = {"openmpi": types.SimpleNamespace(mpicc="mpicc")}
    prefix = prefix

    def build(self):
        make(*self.build_targets)

    def install(self):
        make(*self.install_targets)

def make(*words):
    subprocess.run(["make", "-C", source, *words], check=True)

package = types.ModuleType("spack.package")
for name in ("license", "version", "depends_on", "conflicts"):
    setattr(package, name, directive(name))
package.spack_cc, package.MakefilePackage = "gcc", MakefilePackage
sys.modules["spack"], sys.modules["spack.package"] = types.ModuleType("spack"), package

names = {}
exec(compile(open(recipe).read(), recipe, "exec"), names)
built = names["Fanstore"]()
built.build()
built.install()
built.check()
# The variants of Spack's packages at commit 1e8cf059 of spack/spack-packages. Spack refuses others.
variants = {"lz4": {"build_system", "libs", "pic"}, "zstd": {"build_system", "compression", "libs", "programs"}, "xxhash": {"pic"},
            "libarchive": {"compression", "crypto", "iconv", "libs", "programs", "xar"}}
for name, words, more in called:
    if name != "depends_on": continue
    package, *asked = words[0].split()
    package = package.split("@")[0]
    for variant in asked: assert variant.lstrip("+~").split("=")[0] in variants[package], words
    # Only of these Spack gives the compiler the directories.
    assert package == "c" or "link" in more.get("type", ("build", "link")), words
print(*sorted({name for name, *_ in called}))
print(*(words[0] for name, words, _ in called if name == "version"))
END
"$python" "$work/stub.py" "$root/docs/deploy/spack/package.py" "$root" "$work/opt" \
  >"$work/out" 2>"$work/err" || {
  cat "$work/out" "$work/err"
  fail "the recipe"
}
equal "directives" "conflicts depends_on license version" "$(tail -n 2 "$work/out" | head -n 1)"
equal "version" "$("$bin/fs-launch" --version)" "fs-launch (FanStore) $(tail -n 1 "$work/out")"
"$root/tests/setup/installed.sh" "$work/opt"
echo "ok - the recipe builds and installs"
