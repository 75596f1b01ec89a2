"""Which cell a point lies in, and where in it: a search over the cells' boxes, then Newton's method on their maps."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache, cached_property
from typing import Any

import numpy as np
import numpy.typing as npt
from mpi4py import MPI

from femgpu.element import LagrangeElement, facet_rules
from femgpu.errors import DataError, collective
from femgpu.mesh.block import Block, places
from femgpu.mesh.box_tree import BoxTree
from femgpu.mesh.geometry import chunks

_Floats = npt.NDArray[np.float64]
_Ints = npt.NDArray[np.integer]

# How far outside of a cell a point may lie that still counts as inside, in units of the cell's size.
TOLERANCE = 1e-10
_ROUNDING = 8 * np.finfo(float).eps
_CHUNK = 1 << 15
_MAX_STEPS = 20
# Newton's method converges quadratically: after a step of this size, the next would be below rounding.
_LAST_STEP = 1e-9
# Reference cells end at 1. Iterates stay within _FAR; some steps in a row beyond _OUTSIDE say that the point is not in the cell.
_FAR = 3.0
_OUTSIDE = 1.3
_PATIENCE = 3


@dataclass(frozen=True, eq=False)
class FoundPoints:
    """Where points lie.

    Attributes:
        cells: (num_points,) int32 cell of this rank that holds the point; -1 where it lies outside of the mesh, or another rank
            was given it: each point inside has one cell of one rank.
        reference: (num_points, dim) coordinates in the reference cell; zero where `cells` is -1.
        inside: (num_points,) whether the point lies in a cell of any rank; the same on all ranks.
    """

    cells: npt.NDArray[np.int32]
    reference: _Floats
    inside: npt.NDArray[np.bool_]


class PointFinder:
    """Finds the cells of points on all ranks.

    Args:
        blocks: the cells of this rank.
        mpi: the mesh's mpi4py communicator.

    Attributes:
        mpi: the communicator.
    """

    def __init__(self, blocks: Sequence[Block], mpi: Any):
        self._blocks = tuple(blocks)
        self._dim = self._blocks[0].dim
        self.mpi = mpi

    def find(self, points: npt.ArrayLike) -> FoundPoints:
        """Finds the cells of points; collective.

        A point that several cells share is given to one of them. A point may lie outside of its cell by `TOLERANCE` times the
        cell's size, and by the rounding of the coordinates.

        Args:
            points: (num_points, dim), the same on all ranks.

        Raises:
            DataError: on all ranks, for points of another shape, not finite, or not the same on all ranks.
        """
        where = self._checked(points)
        with collective(self.mpi):
            cells, reference = self.here.find(where)
        holder = np.where(cells >= 0, self.mpi.rank, self.mpi.size).astype(np.int32)
        self.mpi.Allreduce(MPI.IN_PLACE, holder, op=MPI.MIN)
        other = holder != self.mpi.rank
        cells[other], reference[other] = -1, 0
        return FoundPoints(cells, reference, holder < self.mpi.size)

    @cached_property
    def here(self) -> CellSearch:
        """The search among the cells of this rank."""
        return CellSearch(self._blocks)

    def _checked(self, points: npt.ArrayLike) -> _Floats:
        with collective(self.mpi):
            array = _finite_points(points, self._dim)
        if self.mpi.size > 1:
            with collective(self.mpi):
                if self.mpi.bcast(array).tobytes() != array.tobytes():
                    raise DataError(f"the {len(array)} points differ from those of rank 0; expected the same points on all ranks")
        return array


def _finite_points(points: npt.ArrayLike, dim: int) -> _Floats:
    try:
        array = np.ascontiguousarray(points, np.float64)
    except (TypeError, ValueError) as error:
        raise DataError(f"points {points!r}: expected numbers of shape (num_points, {dim}) ({error})") from None
    if array.ndim != 2 or array.shape[1] != dim:
        raise DataError(
            f"points of shape {array.shape} on a mesh of dimension {dim}; expected (num_points, {dim}), or ({dim},) for one point"
        )
    bad = np.flatnonzero(~np.isfinite(array).all(axis=1))
    if len(bad):
        raise DataError(f"point {bad[0]}, {array[bad[0]].tolist()}, is not finite ({len(bad)} of {len(array)}); expected numbers")
    return array


class CellSearch:
    """Finds points among the cells of this rank.

    Attributes:
        box: (2, dim) the smallest and largest coordinates of all cells, a little enlarged; infinite, the larger first, without any.
    """

    def __init__(self, blocks: tuple[Block, ...]):
        self._blocks = blocks
        self._places = places(blocks)
        num_cells, dim = len(self._places[0]), blocks[0].dim
        lower, upper = np.empty((num_cells, dim)), np.empty((num_cells, dim))
        for block in blocks:
            lower[block.ids], upper[block.ids] = _boxes(block)
        self.box = np.array([lower.min(axis=0, initial=np.inf), upper.max(axis=0, initial=-np.inf)])
        self._centres, self._extents = 0.5 * (lower + upper), upper - lower
        self._tree = BoxTree(lower, upper)

    def find(self, points: _Floats) -> tuple[npt.NDArray[np.int32], _Floats]:
        """Cells (num_points,), -1 where no cell of this rank holds the point, and reference coordinates (num_points, dim)."""
        cells, reference = np.full(len(points), -1, np.int32), np.zeros_like(points)
        for start in range(0, len(points), _CHUNK):
            part = slice(start, start + _CHUNK)
            cells[part], reference[part] = self._find(points[part])
        return cells, reference

    def _find(self, points: _Floats) -> tuple[npt.NDArray[np.int32], _Floats]:
        cells, reference = np.full(len(points), -1, np.int32), np.zeros_like(points)
        point, cell, rank = self._candidates(points)
        last = int(rank.max(initial=-1))
        # Most points are in their first candidate; the last round is for strongly curved cells, which an iterate may have left.
        bounds = [0, *(2**i for i in range(last.bit_length() + 1))]
        rounds = [*((low, high, False) for low, high in itertools.pairwise(bounds)), (0, last + 1, True)]
        for low, high, careful in rounds:
            todo = np.flatnonzero((rank >= low) & (rank < high) & (cells[point] < 0))
            inverted, outside = self._invert(points[point[todo]], cell[todo], careful)
            took = outside <= 0
            cells[point[todo[took]]], reference[point[todo[took]]] = cell[todo[took]], inverted[took]
        return cells, reference

    def _candidates(self, points: _Floats) -> tuple[_Ints, _Ints, _Ints]:
        """Pairs of a point and a cell that may hold it, by point, and the pair's place among those of its point, likely first."""
        point, cell = self._tree.search(points)
        distance = (np.abs(points[point] - self._centres[cell]) / self._extents[cell]).max(axis=1)
        order = np.lexsort((distance, point))
        point, cell = point[order], cell[order]
        return point, cell, np.arange(len(point)) - np.searchsorted(point, point)

    def _invert(self, points: _Floats, cells: _Ints, careful: bool) -> tuple[_Floats, _Floats]:
        """Reference coordinates of point i in cell i, and how far that is outside of the tolerance; infinite without a result."""
        numbers, indices = self._places[0][cells], self._places[1][cells]
        reference, outside = np.zeros_like(points), np.full(len(points), np.inf)
        for block in self._blocks:
            mine = np.flatnonzero(numbers == block.index)
            straight = block.affine[indices[mine]]
            # What a single step could not find in affine cells, more steps will not.
            for affine in (False,) if careful else (False, True):
                some = mine[straight == affine]
                for part in chunks(len(some)):
                    chosen = some[part]
                    reference[chosen], outside[chosen] = _invert(block, points[chosen], indices[chosen], affine, careful)
        return reference, outside


def _boxes(block: Block) -> tuple[_Floats, _Floats]:
    """Smallest and largest coordinates (num_cells, dim) of each cell, a little enlarged; of curved cells upper bounds."""
    lower, upper = np.empty((block.num_cells, block.dim)), np.empty((block.num_cells, block.dim))
    lebesgue = _lebesgue(block.coord_element)
    for part in chunks(block.num_cells):
        nodes = block.coords[block.coord_dofs[part]]
        low, high = nodes.min(axis=1), nodes.max(axis=1)
        # The map is a sum of nodes, its weights sum to 1: no point is farther from the middle than the nodes times their moduli.
        reach = np.where(block.affine[part, None], 1.0, lebesgue) * (1 + 10 * TOLERANCE) * 0.5 * (high - low)
        reach += _ROUNDING * np.abs(nodes).max(axis=1)
        lower[part], upper[part] = 0.5 * (low + high) - reach, 0.5 * (low + high) + reach
    return lower, upper


def _lebesgue(element: LagrangeElement) -> float:
    """An upper bound of the sum of moduli of an element's basis functions."""
    if element.degree == 1:
        return 1.0
    values = element.tabulate(_lattice(element.cell, 8 * element.degree))[0]
    return 1.1 * float(np.abs(values).sum(axis=1).max())


def _invert(block: Block, points: _Floats, cells: _Ints, affine: bool, careful: bool) -> tuple[_Floats, _Floats]:
    """Reference coordinates of point i in cell i of a block, and how far that is outside of the tolerance.

    Args:
        block: the cells of one type.
        points: (num, dim).
        cells: (num,) numbers within the block.
        affine: whether the cells are; then one step is exact.
        careful: start Newton's method at the nearest point of a lattice, instead of the centre.

    Returns:
        (num, dim), and (num,), at most 0 where the point is in the cell; infinite where Newton's method does not converge.
    """
    # Relative to the point: what is subtracted first does not round twice.
    nodes = block.coords[block.coord_dofs[cells]] - points[:, None]
    start = _nearest(block, nodes) if careful else np.broadcast_to(block.reference.vertices.mean(axis=0), points.shape)
    position, jacobian = _map(block.coord_element, nodes, start)
    inverse = _inverse(jacobian)
    rounding = _ROUNDING * np.abs(points).max(axis=1) * np.abs(inverse).sum(axis=2).max(axis=1)
    reference = start - np.matmul(inverse, position[..., None])[..., 0]
    converged = np.ones(len(points), bool)
    if not affine:
        patience = _MAX_STEPS if careful else _PATIENCE
        reference, converged = _newton(block.coord_element, nodes, reference, _LAST_STEP + rounding, patience)
    normals, levels = _half_spaces(block.cell)
    outside = (reference @ normals.T - levels).max(axis=1) - (2 * TOLERANCE + rounding)
    return reference, np.where(converged, outside, np.inf)


def _newton(
    element: LagrangeElement, nodes: _Floats, start: _Floats, last_step: _Floats, patience: int
) -> tuple[_Floats, npt.NDArray[np.bool_]]:
    """Reference coordinates that cells map to the origin, and where the iteration got there.

    Args:
        element: of the coordinates.
        nodes: (num, num_basis, dim) nodes of each cell.
        start: (num, dim).
        last_step: (num,) a step of at most this size ends the iteration.
        patience: steps in a row outside of the cell after which a cell is given up.
    """
    reference = np.clip(start, -_FAR, _FAR)
    strikes = np.zeros(len(start), int)
    converged = np.zeros(len(start), bool)
    active = np.arange(len(start))
    for _ in range(_MAX_STEPS):
        position, jacobian = _map(element, nodes[active], reference[active])
        step = np.matmul(_inverse(jacobian), position[..., None])[..., 0]
        reference[active] = np.clip(reference[active] - step, -_FAR, _FAR)
        strikes[active] = np.where(np.abs(reference[active]).max(axis=1) > _OUTSIDE, strikes[active] + 1, 0)
        done = np.abs(step).max(axis=1) <= last_step[active]
        converged[active[done]] = True
        active = active[~done & (strikes[active] < patience)]
        if not len(active):
            break
    return reference, converged


def _map(element: LagrangeElement, nodes: _Floats, reference: _Floats) -> tuple[_Floats, _Floats]:
    """Images (num, dim) of a point in each cell, and Jacobians (num, dim, dim) there."""
    values, gradients = element.tabulate(reference)
    position = np.matmul(values[:, None], nodes)[:, 0]
    return position, np.matmul(nodes.swapaxes(1, 2), gradients)


def _inverse(jacobian: _Floats) -> _Floats:
    """Inverses; of singular matrices, which Newton's method may meet outside of a cell, the identity."""
    singular = np.linalg.det(jacobian) == 0
    return np.linalg.inv(np.where(singular[:, None, None], np.eye(jacobian.shape[-1]), jacobian))


def _nearest(block: Block, nodes: _Floats) -> _Floats:
    """(num, dim) the point of a lattice on the reference cell whose image is nearest to the origin."""
    lattice = _lattice(block.cell, block.coord_element.degree + 2)
    images = np.matmul(block.coord_element.tabulate(lattice)[0], nodes)
    return lattice[(images**2).sum(axis=2).argmin(axis=1)]


def _lattice(cell: str, steps: int) -> _Floats:
    """(num, dim) equispaced points of a reference cell."""
    normals, levels = _half_spaces(cell)
    dim = normals.shape[1]
    points = np.indices((steps + 1,) * dim).reshape(dim, -1).T * (2 / steps) - 1
    return points[(points @ normals.T - levels <= TOLERANCE).all(axis=1)]


@cache
def _half_spaces(cell: str) -> tuple[_Floats, _Floats]:
    """Outward unit normals (num_facets, dim) of a reference cell, and their products (num_facets,) with points of the facets."""
    rules = facet_rules(cell, 0)
    normals = np.concatenate([rule.normals for rule in rules])
    origins = np.concatenate([rule.points[:, 0] for rule in rules])
    return normals, (normals * origins).sum(axis=1)
