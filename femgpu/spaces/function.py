"""Functions of a space, as UFL terminals with numbers behind them."""

from __future__ import annotations

from numbers import Real
from typing import Any, NoReturn

import numpy as np
import numpy.typing as npt
import ufl
from petsc4py import PETSc

from femgpu.errors import DataError, alive, meet, told
from femgpu.mesh.garbage import clean_up
from femgpu.spaces.field import Field, copy_nodes
from femgpu.spaces.interpolation import interpolate
from femgpu.spaces.mixed_space import MixedSpace, SubSpace
from femgpu.spaces.point_values import AtPoints, interpolate_between
from femgpu.spaces.space import SingleSpace, Space


class Function(AtPoints, ufl.Coefficient):
    """A function of a space; its numbers are the T-vector `vec`.

    Args:
        space: a FunctionSpace or a MixedSpace.
        name: for output; default "u", which `femgpu.write` numbers where several such functions go into a file.

    Attributes:
        name: for output.
        has_name: whether the name was given.
        unknown: whether a problem solves for it, whose solvers hold its vector.
    """

    unknown = False

    def __init__(self, space: Space, name: str | None = None):
        if not isinstance(space, Space) or space.root is not space:
            raise DataError(
                f"a Function in {told(space)}: expected a FunctionSpace or a MixedSpace; sub(name).collapse() makes a field one"
            )
        self.has_name = name is not None
        name = "u" if name is None else name
        if not isinstance(name, str):
            raise DataError(f"the name of a Function is {name!r} of type {type(name).__name__}; expected a string")
        super().__init__(space)
        self.name = name
        clean_up(space.comm)
        self._vec = space.create_vec()
        self._vec.setName(name)
        self._constrained: npt.NDArray[np.float64] | None = None
        self._parts: dict[str, SubFunction] = {}

    @property
    def space(self) -> Any:
        """The space."""
        return self.ufl_function_space()

    @property
    def vec(self) -> PETSc.Vec:
        """The T-vector, on the host unless the space's DM says otherwise.

        Kernels see what is written by `u.vec.array[:] = ...` or `u.vec.setArray(...)`, and through a view that was kept from before
        (`vector_state`), but for functions that a problem solves for: call `u.vec.stateIncrease()`, for PETSc cannot notice that.
        To set it copies: u keeps the vector that solvers know.

        Raises:
            DataError: when it was destroyed, or is set to something else than a vector of its sizes.
        """
        return alive(self._vec, f"the vector of {self.name}")

    @vec.setter
    def vec(self, values: PETSc.Vec) -> None:
        sizes = self.vec.getSizes()
        what = f"the vector given to {self.name}.vec"
        given = alive(values, what).getSizes() if isinstance(values, PETSc.Vec) else repr(values)
        if given != sizes:
            raise DataError(f"{self.name}.vec = {given}; expected a PETSc.Vec of sizes {sizes} (on this rank, in all)")
        if values.handle != self.vec.handle:
            values.copy(self.vec)

    def sub(self, name: str | int) -> SubFunction:
        """One field of a function in a mixed space: to interpolate, to write, and for forms.

        Args:
            name: of the field, or its number from 0.

        Raises:
            FormError: for a name or number that is not a field's.
            DataError: when the space has one field only.
        """
        self._require_fields("sub")
        space = self.space.sub(name)
        return self._parts.setdefault(space.place.name, SubFunction(self, space))

    def split(self) -> tuple[SubFunction, ...]:
        """All fields of a function in a mixed space, in order; see `sub`. `ufl.split` gives their components for forms.

        Raises:
            DataError: when the space has one field only.
        """
        self._require_fields("split")
        return tuple(self.sub(number) for number in range(len(self.space.fields)))

    def _require_fields(self, call: str) -> None:
        if not isinstance(self.space, MixedSpace):
            raise DataError(
                f"{call}() takes functions of a MixedSpace apart, and {self.name} in {self.space} has no fields; take {self.name} "
                "itself, or its components in forms, u[0]"
            )

    def assign(self, source: Any) -> None:
        """Takes the numbers of a function in an equal space on the same mesh, or a number for all; collective.

        Args:
            source: a Function, a field of one, or a number.

        Raises:
            DataError: for anything else, which `interpolate` may take.
        """
        if isinstance(source, Function) and source.space is self.space:
            source.vec.copy(self.vec)
            self._constrained = None if source._constrained is None else source._constrained.copy()
            return
        local = self.local_array()
        _assign(local, self.space, source, self.name)
        self.set_local(local)

    def copy(self, name: str | None = None) -> Function:
        """A new Function with the same numbers in the same space; collective.

        Args:
            name: for output; default that of this one.
        """
        result = Function(self.space, self.name if name is None and self.has_name else name)
        result.assign(self)
        return result

    def interpolate(self, source: Any, outside: str = "raise") -> None:
        """Sets the nodal values; collective.

        Args:
            source: a callable of x (dim, num_points) that returns (num_points,), (num_comp, num_points), or for each component an
                array or a plain number, of tensors for all entries row by row; a number; one number per component; a Function, or a
                field of one, on this or another mesh (where several of its cells share a point, one of them gives the value); or a
                UFL expression of the space's value shape: of Functions in any spaces of the mesh, their gradients, Constants,
                coordinates, conditionals and so on, evaluated at the nodes of each cell. Where an expression differs between the
                cells that share a node, as gradients do, the last cell of the rank that owns the node rules: `femgpu.project`
                averages instead.
            outside: of nodes that a Function's other mesh does not hold: "raise", or "keep" their values.

        Raises:
            DataError: when the values have another shape, belong to another mesh, are not finite, or, of symmetric tensors, not
                symmetric.
            FormError: for expressions that are not supported.
        """
        if isinstance(source, Function) and source.space is self.space:
            self.assign(source)
            return
        if not isinstance(self.space, SingleSpace):
            names = ", ".join(f"{self.name}.sub({field.name!r})" for field in self.space.fields)
            raise DataError(f"{self.name} has several fields; interpolate into each: {names}")
        local = self.local_array()
        _interpolate(local, self.space, source, self.name, outside)
        self.set_local(local)

    def set_local(self, local: npt.NDArray[np.float64]) -> None:
        """Takes the owned values from an L-vector.

        Args:
            local: (num_local,) values; ghosts are ignored, dofs that the section constrains are kept beside `vec`.
        """
        numbering = self.space.numbering
        self.vec.setArray(local[numbering.local_of_owned])
        self._constrained = local[numbering.constrained]

    def set_constrained(self, values: npt.NDArray[np.float64]) -> None:
        """Takes the values of the dofs that the section constrains, in the order of `Numbering.constrained`."""
        self._constrained = values

    def local_array(self) -> npt.NDArray[np.float64]:
        """A copy of the L-vector: owned, ghost and constrained values, shape (num_local,); collective."""
        meet(self.space.mesh.mpi)
        values = self.space.local_values(self.vec)
        if self._constrained is not None:
            values[self.space.numbering.constrained] = self._constrained
        return values

    def __float__(self) -> float:
        raise DataError(
            f"the function {self} has no single value; expected ufl.exp in forms where this was math.exp, u.evaluate(points), or "
            "femgpu.assemble of an integral"
        )

    def __str__(self) -> str:
        return self.name


class SubFunction(AtPoints, ufl.Coefficient):
    """One field of a function in a mixed space; made by `Function.sub`.

    In forms it stands for the components of the mixed function, so that derivatives with respect to that see it.

    Args:
        parent: the mixed function.
        space: the field's space.

    Attributes:
        parent: the mixed function.
        name: for output.
    """

    def __init__(self, parent: Function, space: SubSpace):
        super().__init__(space)
        self.parent = parent
        self.name = space.place.name

    @property
    def space(self) -> Any:
        """The field's space."""
        return self.ufl_function_space()

    @property
    def field(self) -> Field:
        """The field as it stands among the components of the mixed space."""
        return self.space.place

    def _no_vec(self, values: Any = None) -> NoReturn:
        whole = self.parent.name
        copy = f"c = {whole}.sub({self.name!r}).collapse(), and assign(c) to bring it back"
        raise DataError(f"{self} is a field and has no vector of its own; expected {whole}.vec, that of all fields, or {copy}")

    vec = property(_no_vec, _no_vec, doc="There is none: raises a DataError that says what to take.")

    def local_array(self) -> npt.NDArray[np.float64]:
        """A copy of the mixed function's L-vector, which the space's positions refer to; collective."""
        return self.parent.local_array()

    def assign(self, source: Any) -> None:
        """Takes the numbers of a function in an equal space, or one number, and leaves other fields; see `Function.assign`."""
        local = self.local_array()
        _assign(local, self.space, source, self.name)
        self.parent.set_local(local)

    def interpolate(self, source: Any, outside: str = "raise") -> None:
        """Sets the field's nodal values and leaves the others; collective. See `Function.interpolate`."""
        local = self.local_array()
        _interpolate(local, self.space, source, self.name, outside)
        self.parent.set_local(local)

    def collapse(self) -> Function:
        """A copy of the field as a Function with a vector of its own; collective."""
        copy = Function(self.space.collapse(), self.name)
        copy.assign(self)
        return copy

    __float__ = Function.__float__

    def __str__(self) -> str:
        return f"{self.parent.name}.{self.name}"


def fields_of(u: Function | SubFunction) -> list[Function | SubFunction]:
    """The fields of a function in a mixed space; else the function itself."""
    return list(u.split()) if isinstance(u, Function) and isinstance(u.space, MixedSpace) else [u]


def _assign(local: npt.NDArray[np.float64], space: Space, source: Any, name: str) -> None:
    """Writes the numbers of an equal space's function, or one number, into an L-vector at a space's dofs; collective."""
    if _is_equal(source, space):
        values = source.local_array()
        for field, origin in zip(space.fields, source.space.fields, strict=True):
            copy_nodes(values, origin.offsets, local, field.offsets, field.num_comp)
    elif isinstance(source, Real):
        for field in space.fields:
            for block in space.mesh.blocks:
                local[field.dofs(block.index)] = float(source)
    else:
        raise DataError(
            f"{name} in {space} is assigned {source} of type {type(source).__name__}; expected a number, or a function in an equal "
            "space on the same mesh; interpolate() takes others"
        )


def _interpolate(local: npt.NDArray[np.float64], space: SingleSpace, source: Any, name: str, outside: str) -> None:
    """Writes the nodal values of any source into an L-vector; collective."""
    if _is_equal(source, space):
        _assign(local, space, source, name)
    elif isinstance(source, Function | SubFunction) and source.space.mesh is not space.mesh:
        interpolate_between(local, space, source, name, outside)
    else:
        interpolate(local, space, source, name)


def _is_equal(source: Any, space: Space) -> bool:
    """Whether a source is a function whose nodes are those of a space."""
    known = isinstance(source, Function | SubFunction)
    return bool(known and source.space.mesh is space.mesh and source.space.ufl_element() == space.ufl_element())
