"""The one function that writes functions to files; the suffix says how."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from pathlib import Path

from femgpu.errors import DataError, collective, file_path
from femgpu.io.files import check_folder
from femgpu.io.h5 import write_h5
from femgpu.io.sampling import check_functions, name_apart
from femgpu.io.vtu import write_one_file, write_parts
from femgpu.spaces import Function, SubFunction, fields_of

_WRITERS: dict[str, Callable[[Path, Sequence[Function | SubFunction]], None]] = {
    ".vtu": write_one_file,
    ".pvtu": write_parts,
    ".h5": write_h5,
}


def write(path: str | os.PathLike[str], *functions: Function | SubFunction) -> None:
    """Writes functions of one mesh to a file; collective.

    A .vtu holds the cells of all ranks as true high-order Lagrange cells (degree of the highest function or of the
    coordinates, at most 10), functions as point data under their names, those of degree 0 as cell data; a .pvtu has one
    part per rank beside it; an .h5 is PETSc's HDF5 format, from which `read_h5` restarts on any number of ranks and
    `femgpu.mesh.read` takes the mesh. The file appears under its name, in the place of an older one, only when complete.

    Args:
        path: file to write; the suffix is the format.
        functions: what to write, with different names, which those made without a name get here ("u", "u_1", ...) and keep; a
            function of a MixedSpace is written field by field, under the
            names of the fields.

    Raises:
        DataError: on all ranks, for another suffix, no function, functions on different meshes or with the same name,
            a folder that does not exist or refuses the file, or a disk without room for it.
    """
    target = file_path(path)
    if target.suffix not in _WRITERS:
        raise DataError(f"cannot write {str(target)!r}: expected a name that ends in {', '.join(_WRITERS)}")
    parts = [part for u in functions for part in fields_of(u)]
    name_apart(parts)
    check_functions(parts)
    mpi = parts[0].space.mesh.mpi
    first = mpi.bcast(str(target))
    with collective(mpi):
        if str(target) != first:
            raise DataError(f"cannot write {str(target)!r}: the first rank writes {first!r}; expected one name on all ranks")
        if mpi.rank == 0:
            check_folder(target)
    _WRITERS[target.suffix](target, parts)
