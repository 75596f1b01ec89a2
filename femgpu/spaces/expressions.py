"""UFL expressions as sources of nodal values.

To lower an expression takes `femgpu.forms`, which builds on this layer. So this module states what it needs, `ExpressionValues`,
and `femgpu.forms` says on import who makes it. The public names of this layer load `femgpu.forms` with them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt
import ufl

from femgpu.errors import DataError, FormError, collective
from femgpu.mesh import Block, Mesh
from femgpu.spaces.space import SingleSpace


class Snapshot(Protocol):
    """An expression with the present values of its Functions and Constants."""

    def at(self, block: Block, points: npt.NDArray[np.float64], cells: npt.NDArray[np.integer]) -> npt.NDArray[np.float64]:
        """Values (num_cells, num_points, num_values) at reference points (num_points, dim) in some of a block's cells."""

    def at_points(self, points: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
        """Values (num_points, num_values) at points of space (num_points, dim), where the expression is `of_points`."""


class ExpressionValues(Protocol):
    """A lowered expression.

    Attributes:
        shape: of its value.
    """

    shape: tuple[int, ...]

    @property
    def of_points(self) -> bool:
        """Whether it depends on constants and on where a point is, and not on the cell."""

    def read(self) -> Snapshot:
        """Takes the present values of Functions and Constants; collective."""


_maker: Callable[[Any, Mesh], ExpressionValues] | None = None


def register(maker: Callable[[Any, Mesh], ExpressionValues]) -> None:
    """Says who lowers an expression for its values on a mesh."""
    global _maker
    _maker = maker


def is_expression(source: Any) -> bool:
    """Whether a source of values is a UFL expression."""
    return isinstance(source, ufl.core.expr.Expr)


def expression_values(expression: Any, space: SingleSpace, shape: tuple[int, ...], what: str) -> ExpressionValues:
    """Lowers an expression for its values at a space's nodes; collective.

    Args:
        expression: a UFL expression.
        space: the space.
        shape: the value shape that is wanted.
        what: names the values in messages.

    Raises:
        DataError: for another value shape, or another mesh.
        FormError: for what UFL or femgpu does not support.
    """
    if _maker is None:
        raise FormError(f"{what} are a UFL expression, which needs femgpu.forms: import femgpu.forms first")
    if tuple(expression.ufl_shape) != tuple(shape):
        raise DataError(f"{what} are an expression of shape {tuple(expression.ufl_shape)}; expected {tuple(shape)}, as {space} has")
    return _maker(expression, space.mesh)


def write_nodal(
    local: npt.NDArray[np.float64],
    source: ExpressionValues,
    space: SingleSpace,
    what: str,
    cells: Sequence[npt.NDArray[np.integer]] | None = None,
    components: Sequence[int] | None = None,
) -> None:
    """Writes an expression's values at the nodes of cells into an L-vector; collective.

    Where the expression differs between the cells of a node, as gradients do, the last cell rules.

    Args:
        local: (num_local,), written at the dofs of the cells' nodes.
        source: the expression.
        space: the space, or a field of a mixed one.
        what: names the values in messages.
        cells: per block, numbers within it; default all cells.
        components: stored ones of the space, one for each value of the expression; default all.

    Raises:
        DataError: on all ranks, where values are not finite, or tensors are not symmetric where the space's are.
    """
    snapshot = source.read()
    places = np.arange(space.num_comp) if components is None else np.array(components)
    nodes, parts = [], []
    with collective(space.mesh.mpi):
        for block, element, offsets in zip(space.mesh.blocks, space.field.elements, space.field.offsets, strict=True):
            chosen = np.arange(block.num_cells) if cells is None else cells[block.index]
            values = snapshot.at(block, element.nodes, chosen)
            _check_finite(values, block, element.nodes, chosen, what)
            nodes.append(offsets[chosen])
            parts.append(values)
    for positions, values in zip(nodes, parts if components else space.stored(parts, what), strict=True):
        local[positions[:, :, None] + places] = values


def _check_finite(values: Any, block: Block, nodes: Any, cells: Any, what: str) -> None:
    bad = np.argwhere(~np.isfinite(values).all(axis=2))
    if len(bad):
        cell, node = bad[0]
        point = block.physical_points(nodes[node : node + 1], cells[cell : cell + 1])[0, 0]
        raise DataError(f"{what} are not finite, first at the point {point.tolist()}: {values[cell, node].tolist()}")
