# SPDX-License-Identifier: BSD-3-Clause
"""A recipe for Spack, which builds a source tree: docs/install.md says how."""
try:  # Spack 1
    from spack_repo.builtin.build_systems.makefile import MakefilePackage
except ImportError:  # Spack 0.x has it in spack.package
    pass
from spack.package import *


class Fanstore(MakefilePackage):
    """FanStore feeds deep-learning jobs from node-local storage. It packs a dataset once, spreads
    it over the local disks of a job's nodes, and shows all of it to each process under one path.
    """

    license("BSD-3-Clause")

    version("0.1.0")

    depends_on("c", type="build")
    depends_on("openmpi@4.1:5", type=("build", "link", "run"))  # mpirun must be in PATH
    # The library contains liblz4.a and libzstd.a. zstd is position-independent by CMake only.
    depends_on("lz4 libs=static +pic")
    depends_on("zstd libs=static build_system=cmake")
    depends_on("xxhash")
    depends_on("libarchive")

    conflicts("platform=darwin", msg="FanStore needs Linux")

    @property
    def build_targets(self):
        return ["all", "CC=" + spack_cc, "MPICC=" + self.spec["openmpi"].mpicc]

    @property
    def install_targets(self):
        return self.build_targets[1:] + ["install", "PREFIX=" + self.prefix]

    def check(self):
        """Replaces the default: `make check` would install packages of the system."""
