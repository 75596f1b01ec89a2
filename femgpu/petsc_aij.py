"""The arrays of PETSc's AIJ matrices, which petsc4py copies or hides; as in `petsc_c`."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from ctypes import POINTER, byref, c_bool, c_double, c_int32, c_int64, c_void_p
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
from petsc4py import PETSc

from femgpu.petsc_c import call, declare

_Int: Any = c_int64 if np.dtype(PETSc.IntType).itemsize == 8 else c_int32
_IntPtr = POINTER(_Int)
_DoublePtr = POINTER(c_double)
_STRUCTURE = [c_void_p, _Int, c_bool, c_bool, _IntPtr, POINTER(_IntPtr), POINTER(_IntPtr), POINTER(c_bool)]

declare(
    {
        "MatGetLocalSize": [c_void_p, _IntPtr, _IntPtr],
        "MatGetRowIJ": _STRUCTURE,
        "MatMPIAIJGetSeqAIJ": [c_void_p, POINTER(c_void_p), POINTER(c_void_p), POINTER(_IntPtr)],
        "MatRestoreRowIJ": _STRUCTURE,
        "MatSeqAIJGetArrayRead": [c_void_p, POINTER(_DoublePtr)],
        "MatSeqAIJGetArrayWrite": [c_void_p, POINTER(_DoublePtr)],
        "MatSeqAIJRestoreArrayRead": [c_void_p, POINTER(_DoublePtr)],
        "MatSeqAIJRestoreArrayWrite": [c_void_p, POINTER(_DoublePtr)],
    }
)


class AIJPart(NamedTuple):
    """PETSc's own arrays of a sequential matrix by rows, which are not to be changed.

    Attributes:
        starts: (num_rows + 1,) int32 where each row begins.
        columns: (num_entries,) int32.
        values: (num_entries,) float64.
    """

    starts: npt.NDArray[np.int32]
    columns: npt.NDArray[np.int32]
    values: npt.NDArray[np.float64]


@contextmanager
def aij_values(mat: PETSc.Mat, sizes: Sequence[int]) -> Iterator[list[npt.NDArray[np.float64]]]:
    """The values of a seqaij or mpiaij matrix, to be written inside the block; the caller assembles it afterwards.

    PETSc may have put other arrays in the place of those that the matrix was made of. There are (sizes[0],) values of this rank's
    columns and, on several ranks, (sizes[1],) of the others, both row by row.
    """
    parts, arrays = [c_void_p(mat.handle)], []
    if mat.getType() == PETSc.Mat.Type.MPIAIJ:
        parts = [c_void_p(), c_void_p()]
        call("MatMPIAIJGetSeqAIJ", mat.handle, byref(parts[0]), byref(parts[1]), None)
    starts = [_DoublePtr() for _ in parts]
    for part, start, size in zip(parts, starts, sizes, strict=False):
        call("MatSeqAIJGetArrayWrite", part, byref(start))
        arrays.append(np.ctypeslib.as_array(start, (size,)) if size else np.empty(0))
    yield arrays
    for part, start in zip(parts, starts, strict=True):
        call("MatSeqAIJRestoreArrayWrite", part, byref(start))


@contextmanager
def aij_parts(mat: PETSc.Mat) -> Iterator[tuple[AIJPart, AIJPart, npt.NDArray[np.int32]]]:
    """What this rank has of a seqaij or mpiaij matrix, to be read inside the block.

    Gives the entries in this rank's columns, counted from its first; those in others' columns, counted as in the third; and the
    numbers of these columns, which ascend. On one rank the latter two are empty.
    """
    own, others, numbers = c_void_p(mat.handle), c_void_p(), _IntPtr()
    if mat.getType() == PETSc.Mat.Type.MPIAIJ:
        call("MatMPIAIJGetSeqAIJ", mat.handle, byref(own), byref(others), byref(numbers))
    with _aij_part(own) as (first, _), _aij_part(others) as (second, num_columns):
        yield first, second, _entries(numbers, num_columns)


@contextmanager
def _aij_part(mat: c_void_p) -> Iterator[tuple[AIJPart, int]]:
    """The arrays of a seqaij matrix, none of a null one, and the number of its columns."""
    num_rows, num_columns, starts, columns, values = _Int(), _Int(), _IntPtr(), _IntPtr(), _DoublePtr()
    if not mat:
        yield AIJPart(np.zeros(1, np.int32), np.empty(0, np.int32), np.empty(0)), 0
        return
    call("MatGetLocalSize", mat, byref(num_rows), byref(num_columns))
    structure = mat, 0, False, False, byref(num_rows), byref(starts), byref(columns), byref(c_bool())
    call("MatGetRowIJ", *structure)
    call("MatSeqAIJGetArrayRead", mat, byref(values))
    try:
        rows = _entries(starts, num_rows.value + 1)
        yield AIJPart(rows, _entries(columns, rows[-1]), _entries(values, rows[-1])), num_columns.value
    finally:
        call("MatSeqAIJRestoreArrayRead", mat, byref(values))
        call("MatRestoreRowIJ", *structure)


def _entries(start: Any, count: int) -> npt.NDArray[Any]:
    """The array behind a pointer, which may be null where there is nothing."""
    return np.ctypeslib.as_array(start, (count,)) if count else np.empty(0, start._type_)
