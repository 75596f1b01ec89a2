"""Several unknown Functions: solved for as the fields of one Function of a MixedSpace."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import wraps
from typing import Any, TypeVar, cast

import numpy as np
import numpy.typing as npt

from femgpu.errors import DataError
from femgpu.forms import join_parts, part_spaces
from femgpu.solver.arguments import check_unknown
from femgpu.solver.conditions import Conditions, as_tuple
from femgpu.spaces import DirichletBC, Function, MixedSpace, vector_state
from femgpu.spaces.field import copy_nodes

Method = TypeVar("Method", bound=Callable[..., Any])


class Unknowns:
    """The Function that solvers know, and those of the user whose numbers it has.

    Args:
        whole: the Function.
        parts: the user's, where there are several: each is a field of `whole`.
    """

    def __init__(self, whole: Function, parts: Sequence[Function] = ()):
        self.whole, self.parts = whole, tuple(parts)
        self._places = [_places(whole, number, part) for number, part in enumerate(parts)]
        self._seen: list[tuple[int, int]] = []

    @classmethod
    def of(cls, u: Any, call: str, several: bool = True) -> Unknowns:
        """What a user gave as unknown; collective.

        Args:
            u: a Function, or several; what this has returned before is taken as it is.
            call: how the caller is called, for messages.
            several: whether several are taken.

        Raises:
            DataError: for anything else, for a Function that comes twice, and for dofs that a user's own section constrains.
            FormError: for Functions that are not in FunctionSpaces of one mesh.
        """
        if isinstance(u, cls):
            return u
        if not several or not isinstance(u, tuple | list) or not u:
            check_unknown(u, call)
            return cls(u)
        for part in u:
            check_unknown(part, call)
        names = [part.name for part in u]
        if len({id(part) for part in u}) < len(u):
            raise DataError(f"the unknowns {', '.join(names)}: one of them comes twice; expected different Functions")
        space = MixedSpace({f"part_{number}": part.space for number, part in enumerate(u)})
        if any(part.space.numbering.any_constrained for part in u):
            raise DataError("a section constrains dofs of several unknowns; expected boundary conditions, femgpu.DirichletBC")
        return cls(Function(space, f"({', '.join(names)})"), u)

    @classmethod
    def of_forms(cls, *forms: Any) -> Unknowns | None:
        """New Functions for the parts of a MixedFunctionSpace in which forms have arguments; None without such; collective."""
        spaces = part_spaces(*forms)
        return cls.of([Function(space) for space in spaces], "") if spaces else None

    @property
    def given(self) -> Any:
        """The Function, or the tuple of several."""
        return self.parts or self.whole

    def form(self, form: Any) -> Any:
        """A form, or an equation of forms, in terms of the Function of all; see `join_parts`."""
        return join_parts(form, self.whole, self.parts) if self.parts else form

    def conditions(self, bcs: Conditions) -> Conditions:
        """Boundary conditions on the spaces of several unknowns as those on the fields.

        Raises:
            DataError: for a space that none or several of them have.
        """
        return [self._moved(bc) for bc in as_tuple(bcs)] if self.parts else bcs

    def _moved(self, bc: DirichletBC) -> DirichletBC:
        if bc.space.root is self.whole.space:
            return bc
        found = [number for number, part in enumerate(self.parts) if part.space is bc.space]
        if len(found) != 1:
            raise DataError(
                f"a boundary condition on {bc.space}, the space of {len(found)} of the unknowns {self.whole}; expected that of "
                "one, DirichletBC(u.space, value, region), and a FunctionSpace for each unknown"
            )
        return DirichletBC(self.whole.space.sub(found[0]), bc.value, bc.region, bc.component)

    def read(self) -> Function:
        """The Function of all, with the numbers of those that have been written to."""
        states = [vector_state(part) for part in self.parts]
        if states != self._seen:
            values = self.whole.vec.getArray(readonly=True).copy()
            for part, places in zip(self.parts, self._places, strict=True):
                values[places] = part.vec.array_r
            self.whole.vec.setArray(values)
            self._seen = states
        return self.whole

    def write(self) -> None:
        """Gives several unknowns their numbers. Ranks do not wait for each other: one may be here after an error of its own."""
        for part, places in zip(self.parts, self._places, strict=True):
            part.vec.setArray(self.whole.vec.array_r[places])
        self._seen = [vector_state(part) for part in self.parts]


def _places(whole: Function, number: int, part: Function) -> npt.NDArray[np.int64]:
    """(num_owned,) where the dofs of a T-vector stand in that of the Function of all: equal points of the mesh have one owner."""
    space, numbering = part.space, whole.space.numbering
    owned = np.full(numbering.num_local, -1.0)
    owned[numbering.local_of_owned] = np.arange(numbering.num_owned)
    found = np.empty(space.num_local)
    copy_nodes(owned, whole.space.sub(number).field.offsets, found, space.field.offsets, space.num_comp)
    return found[space.numbering.local_of_owned].astype(np.int64)


def solves_for_unknowns(method: Method) -> Method:
    """Makes a method of a problem begin with the numbers of its `unknowns`, and hand them back also when it fails."""

    @wraps(method)
    def wrapped(self: Any, *args: Any, **kwargs: Any) -> Any:
        self.unknowns.read()
        try:
            method(self, *args, **kwargs)
        finally:
            self.unknowns.write()
        return self.unknowns.given

    return cast("Method", wrapped)
