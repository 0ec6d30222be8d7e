# SPDX-License-Identifier: BSD-3-Clause
"""Files written by MPI-IO: mpi_write.py DIRECTORY. Each case writes from all ranks, and reads what another rank wrote."""
import os
import sys

import numpy
from mpi4py import MPI

comm = MPI.COMM_WORLD
rank, size = comm.rank, comm.size
top = sys.argv[1]
N = 50_000


def data(of, salt):
    return numpy.random.default_rng(of * 100 + salt).integers(0, 256, N, dtype="u1")


def opened(name, mode):
    return MPI.File.Open(comm, os.path.join(top, name), mode)


def closed(f):
    """By all: a rank may leave Close before another one's descriptor is closed, which is when it is seen elsewhere."""
    f.Close()
    comm.Barrier()


def check(text, good):
    bad = comm.allreduce(0 if good else 1)
    if rank == 0:
        print(f"{text}: {'right' if bad == 0 else f'wrong on {bad}'}", flush=True)


def case(name, write, read):
    f = opened(name, MPI.MODE_CREATE | MPI.MODE_WRONLY)
    write(f)
    closed(f)
    size_now = os.stat(os.path.join(top, name)).st_size
    got, other = numpy.empty(N, "u1"), (rank + 1) % size
    f = opened(name, MPI.MODE_RDONLY)
    read(f, got, other)
    check(name, (got == data(other, len(name))).all() and size_now == N * size and f.Get_size() == N * size)
    f.Close()
    comm.Barrier()


def strided(f, of):
    block = 1000
    vector = MPI.BYTE.Create_vector(N // block, block, block * size).Commit()
    f.Set_view(of * block, MPI.BYTE, vector)


def write_strided(f):
    strided(f, rank)
    f.Write_all(data(rank, len("collective-strided")))


def read_strided(f, got, other):
    strided(f, other)
    f.Read_all(got)


case("each-its-own", lambda f: f.Write_at(rank * N, data(rank, 12)), lambda f, got, other: f.Read_at(other * N, got))
case("collective", lambda f: f.Write_at_all(rank * N, data(rank, 10)), lambda f, got, other: f.Read_at_all(other * N, got))
case("collective-strided", write_strided, read_strided)

# A file that is cut, made longer and removed through MPI.
f = opened("sizes", MPI.MODE_CREATE | MPI.MODE_WRONLY)
f.Write_at(rank * N, data(rank, 1))
closed(f)
f = opened("sizes", MPI.MODE_WRONLY)
f.Set_size(N)
closed(f)
check("set size", os.stat(os.path.join(top, "sizes")).st_size == N)
f = opened("sizes", MPI.MODE_RDONLY | MPI.MODE_DELETE_ON_CLOSE)
f.Close()
comm.Barrier()
check("delete on close", not os.path.exists(os.path.join(top, "sizes")))
