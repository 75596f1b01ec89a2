"""Checks of what problems are given."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from femgpu.errors import DataError
from femgpu.solver.held_fields import HeldField
from femgpu.spaces import DirichletBC, Function


def check_unknown(u: Any) -> None:
    """Refuses what is no Function.

    Raises:
        DataError: when it is none.
    """
    if not isinstance(u, Function):
        raise DataError(
            f"the unknown is {u!r} of type {type(u).__name__}; expected a femgpu.Function in a FunctionSpace or MixedSpace"
        )


def check_prefix(prefix: Any) -> None:
    """Refuses what is no string.

    Raises:
        DataError: when it is none.
    """
    if not isinstance(prefix, str):
        raise DataError(f"options_prefix {prefix!r} of type {type(prefix).__name__}; expected a string such as 'heat_'")


def conditions(bcs: Any) -> tuple[Any, ...]:
    """The conditions as a tuple.

    Raises:
        DataError: for anything else than conditions.
    """
    single = isinstance(bcs, DirichletBC) or not isinstance(bcs, Iterable)
    found = (bcs,) if single else tuple(bcs)
    for bc in found:
        if not isinstance(bc, DirichletBC | HeldField):
            raise DataError(
                f"bcs {'is' if single else 'holds'} {bc!r}; expected femgpu.DirichletBC(space, value, region), or a list of them, "
                "empty for none"
            )
    return found
