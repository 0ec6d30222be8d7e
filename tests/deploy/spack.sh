#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# Spack's recipe against a stub of Spack: it knows only the names that the stub has, builds and
# installs by the targets that it gives, and what is installed works.
. "$(dirname "$0")/../functions.sh"

cat >"$work/stub.py" <<'END'
import shutil, subprocess, sys, types

recipe, source, prefix = sys.argv[1:]
called = []

def directive(name):
    return lambda *words, **more: called.append((name, words))

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
print(*sorted({name for name, _ in called}))
print(*(words[0] for name, words in called if name == "version"))
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
