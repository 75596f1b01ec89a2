"""Values of functions at points anywhere in the mesh."""

from __future__ import annotations

from numbers import Real
from typing import Any

import numpy as np
import numpy.typing as npt
from mpi4py import MPI

from femgpu.errors import DataError, collective
from femgpu.mesh.geometry import chunks
from femgpu.mesh.locate_points import FoundPoints
from femgpu.mesh.remote_points import values_at
from femgpu.spaces.space import SingleSpace, Space

# Part of the way from a node to the middle of its cell at which the function inside of the cell is looked for.
_INWARDS = 1e-6


class AtPoints:
    """Values at points, of a Function or a field of one: what has a `space` and a `local_array`."""

    space: Any

    def local_array(self) -> npt.NDArray[np.float64]:
        """A copy of the L-vector."""
        raise NotImplementedError

    def evaluate(
        self, points: npt.ArrayLike, outside: str = "raise", *of_ufl: Any, derivatives: tuple[Any, ...] = ()
    ) -> npt.NDArray[np.float64]:
        """Values at points of the mesh; collective. `u(0.2, 0.1)` is the value at one point, and UFL expressions have values, too.

        Args:
            points: (num_points, dim), or (dim,) for one point (in 1D also a number), the same on all ranks. A point that several
                cells share takes its value from one of them.
            outside: "raise" refuses points outside of the mesh, "nan" makes their values not a number. What is outside by less than
                1e-10 of a cell's size counts as inside.
            of_ufl: component and index values, where UFL evaluates an expression: `(2 * u)((0.2, 0.1))`.
            derivatives: directions, likewise.

        Returns:
            (num_points, *value_shape) on all ranks, of one point value_shape; those of a mixed function have the entries of
            all fields in one axis.

        Raises:
            DataError: on all ranks, naming the first point that lies outside, or for points of another shape, not finite, or not
                the same on all ranks; for derivatives.
        """
        if derivatives:
            raise DataError(f"a derivative of {self} at a point; expected femgpu.project(grad(u), V), and its values at points")
        values = point_values(self.space, self.local_array(), points, "raise" if of_ufl else outside)
        return values[of_ufl[0]] if of_ufl else values

    def __call__(self, *where: Any, **arguments: Any) -> Any:
        """The value at a point, by coordinates or as a sequence; `u("+")` is UFL's restriction."""
        if where and isinstance(where[0], str):
            return super().__call__(*where, **arguments)  # type: ignore[misc]  # UFL's
        return self.evaluate(where[0] if len(where) == 1 else where, **arguments)


def point_values(space: Space, local: npt.NDArray[np.float64], points: npt.ArrayLike, outside: str) -> npt.NDArray[np.float64]:
    """Values at points; collective.

    Args:
        space: of the function.
        local: (num_local,) its L-vector.
        points: (num_points, dim), or (dim,) for one (in 1D a number, too), the same on all ranks.
        outside: what to do with points outside of the mesh: "raise", or "nan" as their value.

    Returns:
        (num_points, *value_shape), of one point value_shape, on all ranks.

    Raises:
        DataError: on all ranks, for points outside of the mesh, of another shape, not finite, or not the same on all ranks.
    """
    if outside not in ("raise", "nan"):
        raise DataError(f"outside={outside!r}: expected 'raise' or 'nan'")
    mesh = space.mesh
    if mesh.dim == 1 and isinstance(points, Real):
        points = (points,)
    if _is_one(points, mesh.dim):
        return point_values(space, local, np.asarray(points)[None], outside)[0]
    found = mesh.find_points(points)
    missing = np.flatnonzero(~found.inside)
    if len(missing) and outside == "raise":
        first = np.asarray(points, np.float64)[missing[0]].tolist()
        raise DataError(
            f"point {missing[0]}, {first}, lies outside of the mesh ({len(missing)} of {len(found.inside)} do); expected points "
            "inside, or outside='nan'"
        )
    values = _values_here(space, local, found)
    mesh.mpi.Allreduce(MPI.IN_PLACE, values, op=MPI.SUM)
    values[missing] = np.nan
    return values[:, space.entry_components].reshape(len(values), *space.value_shape)


def interpolate_between(local: npt.NDArray[np.float64], space: SingleSpace, source: Any, name: str, outside: str) -> None:
    """Writes the values that a function on another mesh has at the nodes of a space into an L-vector; collective.

    Args:
        local: (num_local,), written at the space's dofs.
        space: the space, or a field of a mixed one.
        source: the function, or a field of one, of the space's value shape.
        name: of the function that takes the values, for messages.
        outside: what to do with nodes outside of the other mesh: "raise", or "keep" the values that are there.

    Raises:
        DataError: on all ranks, for nodes outside of the other mesh, or another value shape.
    """
    if outside not in ("raise", "keep"):
        raise DataError(f"outside={outside!r}: expected 'raise' or 'keep'")
    origin = source.space
    if origin.value_shape != space.value_shape:
        raise DataError(f"values of {name} are {source.name} of shape {origin.value_shape}; expected {space.value_shape}")
    if origin.mesh.dim != space.mesh.dim:
        raise DataError(
            f"values of {name} are {source.name} on a mesh in {origin.mesh.dim}D; expected one in {space.mesh.dim}D, or a "
            f"callable of x that asks {source.name}.evaluate"
        )
    positions, points = space.nodes()
    given = source.local_array()

    def at(where: npt.NDArray[np.float64]) -> tuple[npt.NDArray[np.float64], npt.NDArray[np.bool_]]:
        return values_at(origin.mesh.point_finder, where, origin.num_comp, lambda found: _values_here(origin, given, found))

    if space.field.continuous or all(field.continuous for field in origin.fields):
        values, inside = at(points)
    else:
        # Between cells of the source each node takes the value that its own cell sees: extrapolated from two points inside of that.
        step = _INWARDS * _to_middles(space, positions, points)
        (near, inside), (farther, also) = at(points + step), at(points + 2 * step)
        values, inside = 2 * near - farther, inside & also
    with collective(space.mesh.mpi):
        missing = np.flatnonzero(~inside)
        if len(missing) and outside == "raise":
            raise DataError(
                f"{len(missing)} of {len(points)} nodes of {name} lie outside of the mesh of the source, {source.name}, the first "
                f"at {points[missing[0]].tolist()}; expected a mesh within that one, or outside='keep'"
            )
    (taken,) = space.stored([values[inside][:, origin.entry_components]], f"values of {name}, those of {source.name},")
    for component in range(space.num_comp):
        local[positions[inside] + component] = taken[:, component]


def _to_middles(space: SingleSpace, positions: npt.NDArray[np.int32], points: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
    """(num_nodes, dim) from the nodes of discontinuous functions, as `nodes` gives them, to the middles of their cells."""
    number = np.empty(space.num_local, np.int32)
    number[positions] = np.arange(len(positions), dtype=np.int32)
    found = np.zeros_like(points)
    for block, element, offsets in zip(space.mesh.blocks, space.field.elements, space.field.offsets, strict=True):
        for part in chunks(len(offsets)):
            rows = number[offsets[part]]
            middles = block.physical_points(element.nodes.mean(axis=0, keepdims=True), np.arange(len(offsets))[part])
            found[rows] = middles - points[rows]
    return found


def _is_one(points: Any, dim: int) -> bool:
    try:
        return np.shape(points) == (dim,)
    except ValueError:  # rows of different lengths
        return False


def _values_here(space: Space, local: npt.NDArray[np.float64], found: FoundPoints) -> npt.NDArray[np.float64]:
    """(num_points, num_comp) values at the points in this rank's cells, zero at the others."""
    values = np.zeros((len(found.cells), space.num_comp))
    here = np.flatnonzero(found.cells >= 0)
    numbers, indices = space.mesh.locate(found.cells[here])
    for block in space.mesh.blocks:
        mine = np.flatnonzero(numbers == block.index)
        for part in chunks(len(mine)):
            rows, cells = here[mine[part]], indices[mine[part]]
            for field in space.fields:
                basis = field.elements[block.index].tabulate(found.reference[rows])[0]
                coefficients = local[field.dofs(block.index, cells)].reshape(*basis.shape, field.num_comp)
                components = slice(field.offset, field.offset + field.num_comp)
                values[rows, components] = np.matmul(basis[:, None], coefficients)[:, 0]
    return values
