"""Checks of what problems are given."""

from __future__ import annotations

from typing import Any

import numpy as np

from femgpu.errors import DataError, told
from femgpu.spaces import Constant, Function


def check_unknown(u: Any, call: str) -> None:
    """Refuses what is no Function.

    Args:
        u: what was given.
        call: how the caller is called, for the message.

    Raises:
        DataError: when it is none.
    """
    if isinstance(u, tuple | list):
        raise DataError(
            f"the unknown is {told(u)}; several unknowns are the fields of one femgpu.Function w of a MixedSpace: "
            "u, p = ufl.split(w)"
        )
    if not isinstance(u, Function):
        raise DataError(f"the unknown is {told(u)}; expected a femgpu.Function in a FunctionSpace or MixedSpace: {call}")


def check_diagonal(diagonal: Any) -> None:
    """Refuses what cannot stand on the diagonal of prescribed rows.

    Raises:
        DataError: when it is no finite number.
    """
    if not (isinstance(diagonal, int | float | np.number) and np.isfinite(diagonal)):
        raise DataError(f"diagonal {diagonal!r}: expected a finite number")


def check_time(t: Any, u: Function) -> None:
    """Refuses a time that is no scalar Constant of u's mesh.

    Raises:
        DataError: when it is not.
    """
    if t is not None and (not isinstance(t, Constant) or t.ufl_shape or t.ufl_domain() != u.space.ufl_domain()):
        raise DataError(f"t is {told(t)}; expected a scalar femgpu.Constant of the unknown's mesh: femgpu.Constant(dm, 0.0)")
