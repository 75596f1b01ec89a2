"""PETSc's HDF5 files: checked before HDF5 sees them, opened, and what femgpu keeps in them beside PETSc's data.

The group /femgpu holds numbers that PETSc does not keep; a file without it is of other origin.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from petsc4py import PETSc

from femgpu import petsc_c
from femgpu.errors import DataError, collective, file_errors, petsc_words
from femgpu.mesh.checksums import damage
from femgpu.mesh.trial_read import crash

GROUP = "/femgpu"
_SIGNATURE = b"\x89HDF\r\n\x1a\n"
# For each version of superblocks: which byte says how long addresses are; where three of them start, the last being the file's end.
_ADDRESSES = {0: (13, 24), 1: (13, 28), 2: (9, 12), 3: (9, 12)}
# PETSc's default layout, 1.0.0, keeps vertices only: curved coordinates need 2.0.0, parallel loading 3.0.0.
_STORAGE = ("femio_", "dm_plex_view_hdf5_storage_version", "3.0.0")


def check_h5(path: Path, mpi: Any) -> None:
    """Refuses what HDF5 would crash on; collective.

    A file that femgpu wrote has checksums of all its bytes. From another one a process of its own reads the mesh first.

    Args:
        path: the file; all ranks see it.
        mpi: an mpi4py communicator.

    Raises:
        DataError: on all ranks, when the file is missing, is no HDF5 file, is cut, its bytes changed, or it crashes its reader.
    """
    with collective(mpi), file_errors(path, "read"):
        if mpi.rank == 0:
            _check_head(path)
    wrong = damage(path, mpi)
    if wrong is None:
        end = mpi.bcast(crash(path) if mpi.rank == 0 else "")
        wrong = f"PETSc's reader {end}" if end else ""
    if wrong:
        raise DataError(f"{str(path)!r} is damaged: {wrong}; take a copy of it, or write it again")


def _check_head(path: Path) -> None:
    if not path.is_file():
        raise DataError(f"{str(path)!r} does not exist (working directory {os.getcwd()}); check the path")
    with open(path, "rb") as stream:
        head = stream.read(64)
    if not head.startswith(_SIGNATURE):
        raise DataError(f"{str(path)!r} is not an HDF5 file; expected one that femgpu.write made")
    version = head[len(_SIGNATURE)] if len(head) == 64 else -1
    if version not in _ADDRESSES:
        raise DataError(f"{str(path)!r} is damaged: its head is no HDF5 superblock; take a copy of it, or write it again")
    length_at, start = _ADDRESSES[version]
    length, size = head[length_at], path.stat().st_size
    end = int.from_bytes(head[start + 2 * length : start + 3 * length], "little")
    if end > size:
        raise DataError(f"{str(path)!r} is cut: {size} of {end} bytes are there; take a copy of it, or write it again")


@contextmanager
def h5_viewer(path: Path, comm: PETSc.Comm) -> Iterator[PETSc.ViewerHDF5]:
    """PETSc's HDF5 viewer of a file to read, in its own format; collective.

    Args:
        path: the file.
        comm: communicator.

    Raises:
        DataError: when PETSc has no HDF5, or an error of PETSc comes in the block or when the file is closed.
    """
    if not PETSc.Sys.hasExternalPackage("hdf5"):
        raise DataError("this PETSc has no HDF5; configure it with --with-hdf5")
    viewer = None
    prefix, option, version = _STORAGE
    options = PETSc.Options()
    try:
        try:
            viewer = PETSc.ViewerHDF5().create(str(path), "r", comm=comm)
            viewer.pushFormat(PETSc.Viewer.Format.HDF5_PETSC)  # type: ignore[arg-type]
            viewer.setOptionsPrefix(prefix)
            options[prefix + option] = version
            yield viewer
        finally:
            options.delValue(prefix + option)
            if viewer is not None:
                viewer.destroy()
    except PETSc.Error as error:
        raise DataError(f"cannot read {str(path)!r}: PETSc's HDF5 viewer failed: {petsc_words(error)}") from error


def is_own(viewer: PETSc.ViewerHDF5) -> bool:
    """Whether femgpu wrote the file; collective."""
    return petsc_c.has_h5_group(viewer, GROUP)


def read_integers(viewer: PETSc.ViewerHDF5, name: str, comm: PETSc.Comm, group: str = GROUP) -> NDArray:
    """Integers of 32 bits, on all ranks; collective."""
    entry = PETSc.IS().create(comm=comm)
    entry.setName(name)
    viewer.pushGroup(group)
    entry.load(viewer)
    viewer.popGroup()
    return np.concatenate(comm.tompi4py().allgather(entry.getIndices().copy()))
