"""Functions of a space and constants, as UFL terminals with numbers behind them."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import ufl
from petsc4py import PETSc

from femgpu import petsc_c
from femgpu.errors import DataError, collective
from femgpu.mesh import Mesh
from femgpu.spaces.expressions import expression_values, is_expression, write_nodal
from femgpu.spaces.field import Field
from femgpu.spaces.mixed_space import MixedSpace, SubSpace
from femgpu.spaces.point_values import point_values
from femgpu.spaces.space import SingleSpace, Space, ufl_mesh


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
        super().__init__(space)
        self.name = name
        self.vec = space.dm.createGlobalVec()
        self.vec.setName(name)
        self._constrained: npt.NDArray[np.float64] | None = None
        self._parts: dict[str, SubFunction] = {}

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
        _interpolate(local, self.space, source, self.name)
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
        layout = self.space.layout
        self.vec.setArray(local[layout.local_of_owned])
        self._constrained = local[layout.constrained]

    def set_constrained(self, values: npt.NDArray[np.float64]) -> None:
        """Takes the values of the dofs that the section constrains, in the order of `Layout.constrained`."""
        self._constrained = values

    def local_array(self) -> npt.NDArray[np.float64]:
        """A copy of the L-vector: owned, ghost and constrained values, shape (num_local,); collective."""
        dm, layout = self.space.dm, self.space.layout
        local = dm.getLocalVec()
        local.set(0)
        dm.globalToLocal(self.vec, local)
        constrained = layout.constrained
        if layout.any_constrained:
            petsc_c.insert_boundary_values(dm, local)
        values = local.array_r.copy()
        dm.restoreLocalVec(local)
        if self._constrained is not None:
            values[constrained] = self._constrained
        return values

    def __str__(self) -> str:
        return self.name


def _numbers(value: Any) -> npt.NDArray[np.float64]:
    try:
        return np.array(value, np.float64)
    except (TypeError, ValueError) as error:
        raise DataError(f"Constant {value!r}: expected a number or an array of numbers ({error})") from None


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
            values = source.local_array()
            for target, origin in zip(self.space.field.offsets, source.space.field.offsets, strict=True):
                for component in range(self.space.num_comp):
                    local[target + component] = values[origin + component]
        else:
            _interpolate(local, self.space, source, self.name)
        self.parent.set_local(local)

    def evaluate(self, points: npt.ArrayLike, outside: str = "raise") -> npt.NDArray[np.float64]:  # type: ignore[override]
        """The field's values (num_points, *value_shape) at points of the mesh; collective. See `Function.evaluate`."""
        return point_values(self.space, self.local_array(), points, outside)

    def collapse(self) -> Function:
        """A copy of the field as a Function with a vector of its own; collective."""
        copy = Function(self.space.collapse(), self.name)
        values, local = self.local_array(), np.zeros(copy.space.num_local)
        for origin, target in zip(self.space.field.offsets, copy.space.field.offsets, strict=True):
            for component in range(self.space.num_comp):
                local[target + component] = values[origin + component]
        copy.set_local(local)
        return copy

    def __str__(self) -> str:
        return f"{self.parent.name}.{self.name}"


class Constant(ufl.Constant):
    """A number, vector or tensor that kernels get as an argument: a new value never rebuilds a kernel.

    Args:
        dm: the DM of the mesh it is used on.
        value: a number or an array.
    """

    def __init__(self, dm: PETSc.DM, value: Any):
        array = _numbers(value)
        self._mesh = Mesh.of(dm)  # UFL's mesh does not keep it alive
        super().__init__(ufl_mesh(self._mesh), array.shape)
        self._value = np.empty(array.shape)
        self.value = value

    @property
    def value(self) -> Any:
        """The value: a float for a scalar, else a copy of the array."""
        return float(self._value) if not self._value.shape else self._value.copy()

    @value.setter
    def value(self, value: Any) -> None:
        array = _numbers(value)
        if array.shape != self._value.shape:
            raise DataError(f"value of shape {array.shape} for a Constant of shape {self._value.shape}; make a new Constant")
        if not np.isfinite(array).all():
            raise DataError(f"Constant {value!r}: expected finite numbers")
        self._value[...] = array

    @property
    def flat(self) -> npt.NDArray[np.float64]:
        """The entries in row-major order."""
        return self._value.ravel()


def _interpolate(local: npt.NDArray[np.float64], space: SingleSpace, source: Any, name: str) -> None:
    """Writes nodal values into an L-vector; collective."""
    what = f"values of {name}"
    if is_expression(source) and not isinstance(source, Constant):
        write_nodal(local, expression_values(source, space, space.value_shape, what), space, what)
        return
    with collective(space.mesh.mpi):
        positions, points = space.nodes()
        values = node_values(source, points, space, what)
        for component in range(space.num_comp):
            local[positions + component] = values[:, component]


def node_values(source: Any, points: npt.NDArray[np.float64], space: SingleSpace, what: str) -> npt.NDArray[np.float64]:
    """Values of a callable, number, sequence or Constant at nodes.

    Args:
        source: callable of x (dim, num_points), number, num_comp numbers, or a Constant of them.
        points: (num_points, dim).
        space: gives the number of components.
        what: names the values in messages.

    Returns:
        (num_points, num_comp).

    Raises:
        DataError: for a wrong shape or values that are not finite.
    """
    num_points, num_comp = len(points), space.num_comp
    if isinstance(source, Constant):
        source = source.value
    raw = source(np.ascontiguousarray(points.T)) if callable(source) else source
    try:
        values = np.asarray(raw, np.float64)
    except (TypeError, ValueError) as error:
        raise DataError(f"{what} are {raw!r}; expected numbers, {num_comp} per node ({error})") from None
    if values.shape == () or (not callable(source) and values.size == num_comp):
        values = np.broadcast_to(values.reshape(-1, 1), (num_comp, num_points))
    legal = [(num_comp, num_points), tuple(space.value_shape) + (num_points,)] + ([(num_points,)] if num_comp == 1 else [])
    if values.shape not in legal:
        raise DataError(f"{what} have shape {values.shape}; expected {' or '.join(map(str, dict.fromkeys(legal)))}")
    values = values.reshape(num_comp, num_points).T
    if not np.isfinite(values).all():
        bad = int(np.flatnonzero(~np.isfinite(values).all(axis=1))[0])
        raise DataError(f"{what} are not finite, first at the point {points[bad].tolist()}: {values[bad].tolist()}")
    return values
