"""How a Mat of type python tells PCPBJACOBI its inverse diagonal blocks, which petsc4py cannot; as in `petsc_c`."""

from __future__ import annotations

from collections.abc import Callable
from ctypes import CDLL, CFUNCTYPE, POINTER, byref, c_char_p, c_double, c_int, c_void_p, cast
from typing import Any

import numpy as np
import numpy.typing as npt
from petsc4py import PETSc

from femgpu.petsc_c import call, declare

declare(
    {
        "MatSetOperation": [c_void_p, c_int, c_void_p],
        "MatGetBlockSize": [c_void_p, c_void_p],
        "PetscObjectGetComm": [c_void_p, c_void_p],
        "PetscError": [c_void_p, c_int, c_char_p, c_char_p, c_int, c_int, c_char_p],
    }
)
# Of PETSc's MatOperation.
_INVERT_BLOCK_DIAGONAL = 116
# PETSc's code for an error in a library that it calls.
_LIBRARY = 76
_LIB = CDLL(PETSc.__file__)
_raised: list[BaseException] = []


def give_inverse_blocks(mat: PETSc.Mat, inverses: Callable[[int], npt.NDArray[np.float64]]) -> Any:
    """Makes a function the MatInvertBlockDiagonal of a matrix.

    Args:
        mat: the matrix.
        inverses: of the block size, gives the entries of all inverse blocks of this rank, each column by column. It is called
            where a preconditioner is set up, which reads that array until it is called again.

    Returns:
        What must be kept as long as the matrix lives.
    """

    def invert(handle: Any, values: Any) -> int:
        size, comm = c_int(), c_void_p()
        try:
            call("MatGetBlockSize", handle, byref(size))
            values[0] = inverses(size.value).ctypes.data_as(POINTER(c_double))
        except BaseException as error:  # PETSc is C
            _raised.append(error)
            call("PetscObjectGetComm", handle, byref(comm))
            text = str(error).replace("%", "%%").encode()
            return int(_LIB.PetscError(comm, 0, b"MatInvertBlockDiagonal", b"femgpu", _LIBRARY, 0, text))
        return 0

    callback = CFUNCTYPE(c_int, c_void_p, POINTER(POINTER(c_double)))(invert)
    call("MatSetOperation", mat.handle, _INVERT_BLOCK_DIAGONAL, cast(callback, c_void_p))
    return callback


def raised(error: PETSc.Error) -> BaseException | None:
    """What such a function raised, where that is what an error of PETSc's came from; it is told once."""
    found = _raised[-1] if _raised and error.ierr == _LIBRARY else None
    _raised.clear()
    return found
