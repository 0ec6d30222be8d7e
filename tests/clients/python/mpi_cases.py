# SPDX-License-Identifier: BSD-3-Clause
"""mpi4py's MPI.File over files of a dataset, with whatever component of Open MPI's I/O mpirun was told to use. Run by
mpirun on 2 ranks as mpi_cases.py BASE SCRATCH [CASE-NOT-TO-RUN...]; rank 0 prints what all ranks have seen. See
cases.py."""
import os
import sys

import numpy as np
from mpi4py import MPI

import cases
from cases import base, digest, failure, read

WORLD = MPI.COMM_WORLD
RANK, SIZE = WORLD.rank, WORLD.size
CASES = []


def case(function):
    CASES.append(function)
    return function


def opened(name, comm=WORLD, mode=MPI.MODE_RDONLY, info=MPI.INFO_NULL):
    return MPI.File.Open(comm, base(name), mode, info)


def mpi_attempt(function, *args):
    try:
        return function(*args)
    except MPI.Exception as e:
        return MPI.Get_error_string(e.Get_error_class())


@case
def whole():
    for name in "small.bin", "large.bin", "empty.bin":
        f = opened(name)
        buffer = bytearray(f.Get_size())
        status = MPI.Status()
        f.Read(buffer, status)
        yield name, f.Get_size(), status.Get_count(
            MPI.BYTE), digest(buffer), f.Get_position(), bytes(buffer) == read(name)
        yield f.Get_amode(), f.Get_atomicity(), f.Get_group().size
        f.Close()


@case
def explicit_offsets():
    f = opened("large.bin")
    buffer = bytearray(5000)
    for at in 0, 4090, 262140, 2_999_000, 3_000_000, 4_000_000:
        status = MPI.Status()
        f.Read_at(at + RANK * 100, buffer, status)
        yield at, status.Get_count(MPI.BYTE), digest(buffer[:status.Get_count(MPI.BYTE)])
    f.Read_at_all(RANK * 100000, buffer)
    yield digest(buffer)
    f.Close()


@case
def individual_pointers():
    f = opened("text.bin")
    f.Seek(RANK * 8000)
    buffer = bytearray(80)
    for _ in range(3):
        f.Read(buffer)
        yield bytes(buffer[:16]), f.Get_position()
    f.Seek(-8, MPI.SEEK_END)
    f.Read([buffer, 8, MPI.BYTE])
    f.Seek(-16, MPI.SEEK_CUR)
    yield bytes(buffer[:8]), f.Get_position(), f.Get_byte_offset(10)
    f.Close()


@case
def collective():
    f = opened("large.bin")
    part = f.Get_size() // SIZE
    buffer = bytearray(part)
    f.Set_view(RANK * part)
    f.Read_all(buffer)
    yield digest(buffer), bytes(buffer) == read("large.bin")[RANK * part:RANK * part + part]
    f.Read_at_all_begin(0, buffer)
    f.Read_at_all_end(buffer)
    yield digest(buffer)
    f.Close()


@case
def views():
    f = opened("text.bin")
    for block, count, kind in ((8, 50, MPI.BYTE), (4, 1000, MPI.BYTE), (2, 100, MPI.INT)):
        filetype = kind.Create_vector(count, block, block * SIZE).Create_resized(0,
                                                                                 block * SIZE * count * kind.Get_size())
        filetype.Commit()
        f.Set_view(RANK * block * kind.Get_size(), kind, filetype, "native")
        buffer = bytearray(block * count * kind.Get_size() * 2)
        f.Read_all(buffer)
        yield block, count, digest(buffer), bytes(buffer[:24]), f.Get_position()
        f.Read_at(3, [buffer, 5, kind])
        yield bytes(buffer[:5 * kind.Get_size()])
        filetype.Free()
    f.Close()


@case
def subarrays():
    f = opened("large.bin")
    shape, part = (1000, 1500), (400, 700)
    filetype = MPI.SHORT.Create_subarray(shape, part, (RANK * 500, RANK * 600))
    filetype.Commit()
    f.Set_view(0, MPI.SHORT, filetype)
    buffer = np.empty(part, np.int16)
    f.Read_all(buffer)
    whole_file = np.frombuffer(read("large.bin"), np.int16).reshape(shape)
    yield digest(buffer.tobytes()), bool((buffer == whole_file[RANK * 500:RANK * 500 + 400,
                                                               RANK * 600:RANK * 600 + 700]).all())
    f.Close()


@case
def nonblocking():
    f = opened("large.bin")
    buffers = [bytearray(10000) for _ in range(6)]
    MPI.Request.Waitall([f.Iread_at(RANK * 7 + i * 300000, b) for i, b in enumerate(buffers)])
    yield [digest(b) for b in buffers]
    f.Seek(RANK * 1000)
    f.Iread(buffers[0]).Wait()
    if not os.environ.get("OMPI_MCA_io", "").startswith("romio"):  # ends with a signal there on any file
        f.Iread_all(buffers[1]).Wait()
    yield digest(buffers[0]), digest(buffers[1]), f.Get_position()
    f.Close()


@case
def shared_pointers():
    f = opened("text.bin")
    found = []
    buffer = bytearray(8)
    for _ in range(10):
        f.Read_shared(buffer)
        found.append(bytes(buffer))
    everyone = WORLD.allgather(found)
    yield sorted(sum(everyone, [])) if RANK == 0 else len(found)
    f.Seek_shared(8000)
    f.Read_ordered(buffer)
    yield bytes(buffer), f.Get_position_shared()
    f.Close()


@case
def own_files():
    for i in range(RANK, 40, SIZE):
        f = opened(f"many/{i}.bin", MPI.COMM_SELF)
        buffer = bytearray(f.Get_size())
        f.Read(buffer)
        f.Close()
        yield i, digest(buffer)


def info_of(words):
    info = MPI.Info.Create()
    for key, value in words.items():
        info.Set(key, value)
    return info


@case
def hints():
    for hint in {"romio_cb_read": "enable"}, {"romio_ds_read": "disable"}, {"cb_buffer_size": "65536", "cb_nodes": "1"}:
        f = opened("large.bin", info=info_of(hint))
        buffer = bytearray(100000)
        f.Set_view(RANK * 10, MPI.BYTE, MPI.BYTE.Create_vector(10000, 10, 10 * SIZE).Commit())
        f.Read_all(buffer)
        yield sorted(hint), digest(buffer)
        f.Close()


@case
def refused():
    yield mpi_attempt(opened, "none.bin")
    for mode in MPI.MODE_RDWR, MPI.MODE_WRONLY, MPI.MODE_WRONLY | MPI.MODE_CREATE:
        yield mode, mpi_attempt(opened, "small.bin", MPI.COMM_SELF, mode)
    yield mpi_attempt(MPI.File.Delete, base("small.bin")) if RANK == 0 else ""
    f = opened("small.bin")
    yield mpi_attempt(f.Write_at, 0, b"x"), mpi_attempt(f.Set_size, 5)
    f.Close()


def main():
    cases.set_directories(sys.argv[1], sys.argv[2])
    for function in CASES:
        if function.__name__ in sys.argv[3:]:
            continue
        seen = []
        try:
            for value in function():
                seen.append(value)
        except Exception as e:  # pylint: disable=broad-except
            seen.append("raised " + failure(e))
        everyone = WORLD.gather(seen)
        if RANK == 0:
            print("===", function.__name__, flush=True)
            for rank, values in enumerate(everyone):
                for value in values:
                    cases.show(rank, value)
    sys.stdout.flush()
    WORLD.Barrier()


if __name__ == "__main__":
    main()
