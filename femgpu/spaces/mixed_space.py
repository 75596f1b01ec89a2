"""Spaces of several named fields, and the parts of them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from femgpu.errors import FormError, told
from femgpu.mesh.restriction import FieldShape, set_fields
from femgpu.spaces.field import Field
from femgpu.spaces.function_space import FunctionSpace
from femgpu.spaces.space import SingleSpace, Space
from femgpu.spaces.ufl_element import UFLMixed


class MixedSpace(Space):
    """Several fields solved for together, for example velocity and pressure.

    Values are the entries of all fields one after the other; `ufl.split(w)` and `w.sub(name)` take them apart. PETSc sees the
    names: `-pc_type fieldsplit -fieldsplit_velocity_pc_type ...`.

    Args:
        spaces: a FunctionSpace per name, all on one mesh. They give family, degree and shape; the mixed space has vectors of its
            own.

    Raises:
        FormError: for fewer than one space, names that PETSc cannot take, or spaces that are not FunctionSpaces of one mesh.
    """

    def __init__(self, spaces: Mapping[str, FunctionSpace]):
        _check(spaces)
        mesh = next(iter(spaces.values())).mesh
        dm = mesh.clone_dm()
        shapes = [
            FieldShape(name, space.field.degree, space.field.continuous, space.num_comp, space.field.bubble)
            for name, space in spaces.items()
        ]
        offsets, num_local = set_fields(mesh, dm, shapes)
        fields: list[Field] = []
        for (name, space), positions in zip(spaces.items(), offsets, strict=True):
            first = sum(field.num_comp for field in fields)
            fields.append(replace(space.field, name=name, offset=first, offsets=tuple(positions)))
        element = UFLMixed(tuple(space.ufl_element() for space in spaces.values()))
        super().__init__(mesh, dm, tuple(fields), num_local, element)
        self._parts = {
            field.name: SubSpace(self, field, space.ufl_element()) for field, space in zip(fields, spaces.values(), strict=True)
        }

    def sub(self, name: str | int) -> SubSpace:
        """One field as a space, for boundary conditions.

        Args:
            name: of the field, or its number from 0.

        Raises:
            FormError: for a name or number that is not a field's.
        """
        if isinstance(name, int | np.integer) and 0 <= name < len(self.fields):
            name = self.fields[name].name
        if not isinstance(name, str) or name not in self._parts:
            raise FormError(f"field {name!r} of a mixed space; its fields are {', '.join(self._parts)}, numbered from 0")
        return self._parts[name]


class SubSpace(SingleSpace):
    """One field of a mixed space: positions are those in the mixed space's vectors.

    Args:
        parent: the mixed space.
        field: the field.
        element: its UFL element.

    Attributes:
        parent: the mixed space.
        place: the field as it stands among the components of the mixed space.
    """

    def __init__(self, parent: MixedSpace, field: Field, element: Any):
        super().__init__(parent.mesh, parent.dm, (replace(field, offset=0),), parent.num_local, element)
        self.parent = parent
        self.place = field

    @property
    def root(self) -> Space:
        """The mixed space."""
        return self.parent

    @property
    def numbering(self) -> Any:
        """The T-L map of the mixed space."""
        return self.parent.numbering

    def collapse(self) -> FunctionSpace:
        """A space like the field with vectors of its own, in which dofs follow each other as in those of all fields; collective."""
        return FunctionSpace(self.dm, self.field.family, self.field.degree, self.field.shape, self.field.symmetric, reorder=False)


def _check(spaces: Any) -> None:
    if not isinstance(spaces, Mapping) or not spaces:
        what = "nothing" if spaces == {} else told(spaces)
        raise FormError(f"a MixedSpace of {what}; expected a mapping of names to FunctionSpaces: {{'velocity': V, 'pressure': Q}}")
    for name, space in spaces.items():
        if not isinstance(name, str) or not name.isidentifier():
            raise FormError(f"field name {name!r}: expected letters, digits and underscores, as options can be called")
        if not isinstance(space, FunctionSpace):
            raise FormError(f"field {name!r} is of type {type(space).__name__}; expected a FunctionSpace")
    if len({id(space.mesh) for space in spaces.values()}) > 1:
        raise FormError(f"the fields {', '.join(spaces)} live on several meshes; build all spaces from one DM")
