"""Functions of a space, as UFL terminals with numbers behind them."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import ufl
from petsc4py import PETSc

from femgpu import petsc_c
from femgpu.errors import DataError, alive
from femgpu.spaces.field import Field, copy_nodes
from femgpu.spaces.interpolation import interpolate
from femgpu.spaces.mixed_space import MixedSpace, SubSpace
from femgpu.spaces.point_values import point_values
from femgpu.spaces.space import SingleSpace, Space


class Function(ufl.Coefficient):
    """A function of a space; its numbers are the T-vector `vec`.

    Args:
        space: a FunctionSpace or a MixedSpace.
        name: for output.

    Attributes:
        vec: the T-vector, a PETSc.Vec on the host unless the space's DM says otherwise. Kernels see what is written by
            `u.vec.array[:] = ...` or `u.vec.setArray(...)`; after writing through a view that was kept from before, call
            `u.vec.stateIncrease()`: PETSc cannot notice that.
        name: for output.
    """

    def __init__(self, space: Space, name: str = "u"):
        if not isinstance(space, Space) or space.root is not space:
            raise DataError(
                f"a Function in {space}: expected a FunctionSpace or a MixedSpace; sub(name).collapse() makes a field one"
            )
        if not isinstance(name, str):
            raise DataError(f"the name of a Function is {name!r} of type {type(name).__name__}; expected a string")
        super().__init__(space)
        self.name = name
        self._vec = space.dm.createGlobalVec()
        self._vec.setName(name)
        self._constrained: npt.NDArray[np.float64] | None = None
        self._parts: dict[str, SubFunction] = {}

    @property
    def vec(self) -> PETSc.Vec:
        """The T-vector; raises a DataError when it was destroyed."""
        return alive(self._vec, f"the vector of {self.name}")

    @property
    def space(self) -> Any:
        """The space."""
        return self.ufl_function_space()

    def sub(self, name: str) -> SubFunction:
        """One field of a function in a mixed space: to interpolate, to write, and for forms.

        Raises:
            FormError: for a name that is not a field's.
            DataError: when the space has one field only.
        """
        if not isinstance(self.space, MixedSpace):
            raise DataError(f"{self.name} in {self.space} has no field {name!r}: sub() takes functions of a MixedSpace apart")
        if name not in self._parts:
            self._parts[name] = SubFunction(self, self.space.sub(name))
        return self._parts[name]

    def interpolate(self, source: Any) -> None:
        """Sets the nodal values; collective.

        Args:
            source: a callable of x (dim, num_points) that returns (num_points,) or (num_comp, num_points), a number, one number per
                component, or a UFL expression of the space's value shape: of Functions in any spaces of the mesh, their
                gradients, Constants, coordinates, conditionals and so on, evaluated at the nodes of each cell. Where an expression
                differs between the cells that share a node, as gradients do, the last cell of the rank that owns the node rules:
                `femgpu.project` averages instead.

        Raises:
            DataError: when the values have another shape, belong to another mesh, or are not finite.
            FormError: for expressions that are not supported.
        """
        if isinstance(source, Function) and source.space is self.space:
            source.vec.copy(self.vec)
            self._constrained = source._constrained
            return
        if not isinstance(self.space, SingleSpace):
            names = ", ".join(f"{self.name}.sub({field.name!r})" for field in self.space.fields)
            raise DataError(f"{self.name} has several fields; interpolate into each: {names}")
        local = np.zeros(self.space.num_local)
        interpolate(local, self.space, source, self.name)
        self.set_local(local)

    def evaluate(self, points: npt.ArrayLike, outside: str = "raise") -> npt.NDArray[np.float64]:  # type: ignore[override]
        """Values at points of the mesh; collective.

        Args:
            points: (num_points, dim), the same on all ranks. A point that several cells share takes its value from one of them.
            outside: "raise" refuses points outside of the mesh, "nan" makes their values not a number. What is outside by less than
                1e-10 of a cell's size counts as inside.

        Returns:
            (num_points, *value_shape) on all ranks; of a mixed function (num_points, num_comp).

        Raises:
            DataError: on all ranks, naming the first point that lies outside, or for points of another shape, not finite, or not
                the same on all ranks.
        """
        return point_values(self.space, self.local_array(), points, outside)

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
        dm, numbering = self.space.dm, self.space.numbering
        local = dm.getLocalVec()
        local.set(0)
        dm.globalToLocal(self.vec, local)
        constrained = numbering.constrained
        if numbering.any_constrained:
            petsc_c.insert_boundary_values(dm, local)
        values = local.array_r.copy()
        dm.restoreLocalVec(local)
        if self._constrained is not None:
            values[constrained] = self._constrained
        return values

    def __float__(self) -> float:
        raise DataError(f"the function {self} has no single value; expected u.evaluate(points), or femgpu.assemble of an integral")

    def __str__(self) -> str:
        return self.name


class SubFunction(ufl.Coefficient):
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

    def local_array(self) -> npt.NDArray[np.float64]:
        """A copy of the mixed function's L-vector, which the space's positions refer to; collective."""
        return self.parent.local_array()

    def interpolate(self, source: Any) -> None:
        """Sets the field's nodal values and leaves the others; collective. See `Function.interpolate`."""
        local = self.local_array()
        if (
            isinstance(source, Function)
            and source.space.ufl_element() == self.space.ufl_element()
            and source.space.mesh is self.space.mesh
        ):
            copy_nodes(source.local_array(), source.space.field.offsets, local, self.space.field.offsets, self.space.num_comp)
        else:
            interpolate(local, self.space, source, self.name)
        self.parent.set_local(local)

    def evaluate(self, points: npt.ArrayLike, outside: str = "raise") -> npt.NDArray[np.float64]:  # type: ignore[override]
        """The field's values (num_points, *value_shape) at points of the mesh; collective. See `Function.evaluate`."""
        return point_values(self.space, self.local_array(), points, outside)

    def collapse(self) -> Function:
        """A copy of the field as a Function with a vector of its own; collective."""
        copy = Function(self.space.collapse(), self.name)
        local = np.zeros(copy.space.num_local)
        copy_nodes(self.local_array(), self.space.field.offsets, local, copy.space.field.offsets, self.space.num_comp)
        copy.set_local(local)
        return copy

    __float__ = Function.__float__

    def __str__(self) -> str:
        return f"{self.parent.name}.{self.name}"


def fields_of(u: Function | SubFunction) -> list[Function | SubFunction]:
    """The fields of a function in a mixed space; else the function itself."""
    if isinstance(u, Function) and isinstance(u.space, MixedSpace):
        return [u.sub(field.name) for field in u.space.fields]
    return [u]
