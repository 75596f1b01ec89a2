"""What prescribes dofs: Dirichlet conditions, and whole fields that an algebraic field is solved against."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from femgpu.errors import DataError, FormError, told
from femgpu.spaces import DirichletBC, Function, MixedSpace, SubSpace


@dataclass(frozen=True)
class HeldField:
    """Prescribes all dofs of a field at what they are; stands among boundary conditions.

    Attributes:
        u: the mixed function.
        space: the field.
    """

    u: Function
    space: SubSpace

    @property
    def local_rows(self) -> npt.NDArray[np.int32]:
        """(num_rows,) positions in the L-vector."""
        nodes = np.unique(np.concatenate([offsets.ravel() for offsets in self.space.field.offsets]))
        return (nodes[:, None] + np.arange(self.space.num_comp, dtype=np.int32)).ravel()

    def values(self) -> npt.NDArray[np.float64]:
        """(num_rows,) values at `local_rows`; collective."""
        return self.u.local_array()[self.local_rows]


Conditions = Sequence[DirichletBC] | DirichletBC | None


def as_tuple(bcs: Conditions) -> tuple[Any, ...]:
    """The conditions that a user gave: several, a single one, or None.

    Raises:
        DataError: for anything else.
    """
    found = () if bcs is None else (bcs,) if isinstance(bcs, DirichletBC) else bcs
    if not isinstance(found, Iterable) or isinstance(found, str | Function):
        raise DataError(f"bcs is {told(bcs)}; expected a list of femgpu.DirichletBC(space, value, region)")
    found = tuple(found)
    for bc in found:
        if not isinstance(bc, DirichletBC | HeldField):
            raise DataError(f"bcs holds {told(bc)}; expected femgpu.DirichletBC(space, value, region)")
    return found


def consistent_bcs(u: Function, bcs: Sequence[DirichletBC], names: Sequence[str]) -> list[Any]:
    """Conditions that leave only the named fields free; boundary values rule over what fields hold.

    Raises:
        FormError: for names that are not those of fields.
    """
    if not names or not isinstance(u.space, MixedSpace):
        fields = ", ".join(field.name for field in u.space.fields) if isinstance(u.space, MixedSpace) else "one field only"
        raise FormError(
            f"make_consistent({', '.join(map(repr, names))}): expected names of algebraic fields; {u.name} has {fields}"
        )
    for name in names:
        u.space.sub(name)
    others = [field.name for field in u.space.fields if field.name not in names]
    return [*(HeldField(u, u.space.sub(name)) for name in others), *bcs]
