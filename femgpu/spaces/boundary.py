"""Dirichlet conditions."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt
from petsc4py import PETSc

from femgpu.errors import DataError, MeshError, collective, told
from femgpu.mesh.regions import BOUNDARY, choose
from femgpu.spaces.constant import Constant
from femgpu.spaces.expressions import ExpressionValues, Snapshot, expression_values, is_expression, write_nodal
from femgpu.spaces.function import Function
from femgpu.spaces.function_space import FunctionSpace
from femgpu.spaces.interpolation import node_values, shaped_values
from femgpu.spaces.space import SingleSpace, Space, cells_with

_WHAT = "boundary values"


class DirichletBC:
    """Prescribes a space's functions on a part of the boundary, or on any other part of the mesh.

    Where several conditions of a problem prescribe the same dof, the last of them rules; `-femgpu_view` counts the dofs for which
    their values differ.

    Args:
        space: the space of the unknown, or a field of it: `W.sub("velocity")`.
        value: a number, one number per component, a callable of x (dim, num_points), a Function of the unknown's space, or a UFL
            expression of the shape of what is prescribed, of Functions in any spaces of the mesh, Constants, coordinates and so
            on. It is evaluated anew before each solve, with the values that Functions and Constants have then. Where an expression
            differs between the cells that share a node, as gradients do, the last of these cells rules, of the rank that owns the
            node.
        region: `"boundary"`; the name of a region, such as a physical group of gmsh or what `femgpu.mesh.mark` named; value(s) of
            the label "Face Sets"; `(label name, values)`; a tuple of names; or a callable of x (dim, num_points), the space's
            nodes, which returns (num_points,) booleans. Labels may mark facets, those inside the mesh included, edges, vertices or
            whole cells: all nodes in and on these are prescribed.
        component: the one component that is prescribed; all where None. The value then is scalar. Entries of tensors count row by
            row, those of symmetric ones too: either of two equal entries stands for both.

    Raises:
        MeshError: when the mesh lacks the region, or the region has no node; lists the regions that there are.
        DataError: for a component that does not exist, values of another shape, complex ones, or an expression on another mesh.
        FormError: for an expression that is not supported.
    """

    def __init__(self, space: SingleSpace, value: Any, region: Any = "boundary", component: int | None = None):
        if not isinstance(space, SingleSpace):
            names = ", ".join(f"sub({field.name!r})" for field in getattr(space, "fields", ()))
            raise DataError(
                f"a boundary condition on {space if names else told(space)}: expected a FunctionSpace first, "
                "DirichletBC(V, value, region)" + (f", or a field: {names}" if names else "")
            )
        entries = space.entry_components
        if component is not None and component not in range(len(entries)):
            raise DataError(
                f"component {component!r} of a space with {len(entries)} components; they count from 0, those of tensors row by row"
            )
        self.space = space
        self.value = value
        self.region = region
        self.component = component
        self._stored = None if component is None else [int(entries[component])]
        self._expression = self._lower()
        self._cells: list[npt.NDArray[np.int32]] = []
        self._nodes = self._find_nodes()
        self._points: npt.NDArray[np.float64] | None = None
        self._moves = 0
        if self._expression is None and not self._is_unknown_like(value):
            points = self._current_points()
            with collective(space.mesh.mpi):
                values = shaped_values(value, points, self._shape, _WHAT)
            self._components(values)

    def _lower(self) -> ExpressionValues | None:
        """The value where it is an expression, and not simply entries of a vector like the unknown's."""
        value = self.value
        if not is_expression(value) or isinstance(value, Constant) or self._is_unknown_like(value):
            return None
        return expression_values(value, self.space, self._shape, _WHAT)

    @property
    def _shape(self) -> tuple[int, ...]:
        """Shape of the values that are prescribed."""
        return self.space.value_shape if self.component is None else ()

    def _is_unknown_like(self, value: Any) -> bool:
        return isinstance(value, Function) and value.space is self.space.root

    def _find_nodes(self) -> npt.NDArray[np.int32]:
        """Positions in the L-vector of component 0 of the nodes in the region, ghosts included; sorted."""
        space, mpi = self.space, self.space.mesh.mpi
        mark = np.zeros(space.num_local, bool)
        if callable(self.region):
            with collective(mpi):
                positions, points = space.nodes()
                mark[positions[choose(self.region, points)]] = True
        else:
            self._mark_parts(mark)
        nodes = np.flatnonzero(_spread(space, mark)).astype(np.int32)
        # A mesh without a boundary has nothing to prescribe there.
        if mpi.allreduce(len(nodes)) == 0 and (self.region != BOUNDARY or mpi.allreduce(len(space.mesh.exterior.cells))):
            raise MeshError(
                f"the region {self.region!r} has no node of {space}; expected a part of the mesh with nodes on it (those of degree "
                "0 lie inside of cells: write what they are to be on the boundary into a ds term)"
            )
        return nodes

    def _mark_parts(self, mark: npt.NDArray[np.bool_]) -> None:
        """Marks the nodes on the parts of cells that a label marks, and notes these cells; collective."""
        space = self.space
        cells, parts = space.mesh.parts(self.region)
        numbers, indices = space.mesh.locate(cells)
        self._cells = [np.unique(indices[numbers == number]) for number in range(len(space.mesh.blocks))]
        for number, (element, offsets) in enumerate(zip(space.field.elements, space.field.offsets, strict=True)):
            for part, nodes in enumerate(element.entity_nodes()):
                chosen = indices[(numbers == number) & (parts == part)]
                mark[offsets[chosen][:, nodes]] = True

    @property
    def local_rows(self) -> npt.NDArray[np.int32]:
        """(num_rows,) positions in the L-vector of the prescribed dofs, ghosts included."""
        components = range(self.space.num_comp) if self._stored is None else self._stored
        return (self._nodes[:, None] + np.array(components, np.int32)).ravel()

    def values(self) -> npt.NDArray[np.float64]:
        """(num_rows,) values at `local_rows`, evaluated now; collective.

        Raises:
            DataError: when they have the wrong shape or are not finite.
        """
        space = self.space
        if self._is_unknown_like(self.value):
            return self._function_values(self.value)
        value = self.value
        if self._expression is not None:
            if not self._expression.of_points:
                return self._expression_values(self._expression)
            value = partial(self._at_points, self._expression.read())
        points = self._current_points()
        with collective(space.mesh.mpi):
            values = node_values(value, points, self._shape, _WHAT)
        return self._components(values).ravel()

    def _components(self, values: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
        """(num_nodes, num_comp) the stored components of values, or the one that is prescribed; collective."""
        return self.space.stored([values], _WHAT)[0] if self.component is None else values

    def _expression_values(self, expression: ExpressionValues) -> npt.NDArray[np.float64]:
        """(num_rows,) values of an expression at `local_rows`; collective."""
        space = self.space
        marked = np.zeros(space.num_local, bool)
        marked[self._nodes] = True
        # All cells with such a node, not only those with a facet on the region: a rank may hold the node without the facet.
        cells = [cells_with(marked, offsets) for offsets in space.field.offsets]
        local = np.zeros(space.num_local)
        write_nodal(local, expression, space, _WHAT, cells, self._stored)
        return _of_owners(space.root, local)[self.local_rows]

    def _at_points(self, expression: Snapshot, x: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
        """Values (*shape, num_points) of an expression at points (dim, num_points)."""
        return expression.at_points(x.T).T.reshape(*self._shape, -1)

    def _from_owners(self, values: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
        """(num_nodes,) values at the nodes on the region, as the ranks that own these have them; collective."""
        local = np.zeros(self.space.num_local)
        local[self._nodes] = values
        return _of_owners(self.space.root, local)[self._nodes]

    def _function_values(self, function: Function) -> npt.NDArray[np.float64]:
        """(num_rows,) values of a function at `local_rows`; collective."""
        values = function.local_array()[self.local_rows]
        with collective(self.space.mesh.mpi):
            bad = int((~np.isfinite(values)).sum())
            if bad:
                raise DataError(
                    f"boundary values of {function.name} are not finite at {bad} of {len(values)} dofs; expected numbers"
                )
        return values

    def _current_points(self) -> npt.NDArray[np.float64]:
        """(num_nodes, dim) coordinates of the nodes on the region, kept until the mesh moves; zeros where none look; collective."""
        mesh = self.space.mesh
        mesh.update()
        if not callable(self.value):
            return np.broadcast_to(0.0, (len(self._nodes), mesh.dim))
        if self._points is None or self._moves != mesh.motion.moves:
            marked = np.zeros(self.space.num_local, bool)
            marked[self._nodes] = True
            positions, points = self.space.nodes(marked, self._cells)
            with collective(mesh.mpi):
                if len(positions) != len(self._nodes):
                    raise DataError("a boundary node of this rank belongs to none of its cells")
            if mesh.mpi.size > 1:
                # Each rank finds a node in cells of its own: a rounding apart, and on two sides where the mesh is periodic.
                points = np.stack([self._from_owners(places) for places in points.T], axis=1)
            self._points, self._moves = points, mesh.motion.moves
        return self._points


def _of_owners(space: Space, local: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
    """An L-vector whose ghosts have the values of their owners; collective. Dofs that the section constrains stay as they are."""
    if space.mesh.mpi.size == 1:
        return local
    carrier = Function(space)
    carrier.set_local(local)
    values = carrier.local_array()
    carrier.vec.destroy()
    return values


def _spread(space: SingleSpace, mark: npt.NDArray[np.bool_]) -> npt.NDArray[np.bool_]:
    """Marks of any rank reach all ranks that hold the dof: a rank can hold a boundary dof without its facet."""
    if space.mesh.mpi.size == 1:
        return mark
    if not space.numbering.any_constrained:
        return _exchange(space.dm, mark)
    # The global vector has no place for constrained dofs: their marks travel in a space without constraints.
    assert isinstance(space, FunctionSpace)  # only a user's own section constrains dofs
    free = space.unconstrained
    there = np.zeros(free.num_local, bool)
    there[free.offsets] = mark[space.offsets]
    spread = np.zeros(space.num_local, bool)
    spread[space.offsets] = _exchange(free.dm, there)[free.offsets]
    return spread


def _exchange(dm: PETSc.DMPlex, mark: npt.NDArray[np.bool_]) -> npt.NDArray[np.bool_]:
    local, total = dm.getLocalVec(), dm.getGlobalVec()
    local.setArray(mark)
    total.set(0)
    dm.localToGlobal(local, total, addv=PETSc.InsertMode.ADD_VALUES)
    local.set(0)
    dm.globalToLocal(total, local)
    spread = local.array_r > 0
    dm.restoreLocalVec(local)
    dm.restoreGlobalVec(total)
    return spread
