"""Checkpoints: functions and a few numbers, read back into functions of the same mesh, however it is distributed now."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from femgpu.errors import DataError
from femgpu.io.h5 import read_h5, read_numbers, write_h5
from femgpu.io.rendezvous import bring
from femgpu.spaces import Function, SubFunction


def write_checkpoint(path: Path, functions: Sequence[Function | SubFunction], numbers: Mapping[str, float]) -> None:
    """Writes an .h5 file that `femgpu.io.read_h5` reads too; it appears under its name when complete; collective.

    Args:
        path: the file.
        functions: of one mesh, with different names.
        numbers: what to keep beside them.

    Raises:
        DataError: on all ranks, when PETSc has no HDF5 or the file cannot be written.
    """
    write_h5(path, functions, numbers)


def read_checkpoint(path: Path, functions: Sequence[Function | SubFunction], names: Sequence[str]) -> dict[str, float]:
    """Fills functions from a checkpoint; collective.

    Args:
        path: the file.
        functions: take the values that were written under their names, on the same mesh, on any number of ranks.
        names: names of the numbers.

    Returns:
        The numbers.

    Raises:
        DataError: on all ranks, when the file is missing, is no checkpoint, or holds other functions or another mesh.
    """
    comm = functions[0].space.comm
    numbers = read_numbers(path, names, comm)
    _, held = read_h5(path, [u.name for u in functions], comm)
    for u in functions:
        source = held[u.name]
        if source.space.ufl_element() != u.space.ufl_element():
            raise DataError(f"{str(path)!r} holds {u.name} in {source.space}; expected {u.space}")
    for u in functions:
        bring(held[u.name], u, str(path))
    return numbers
