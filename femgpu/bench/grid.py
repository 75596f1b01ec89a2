"""A bent box of hexahedra as arrays, made without a DMPlex, which takes minutes for ten million cells.

Cells, vertices and dofs have the numbers that `mesh.box` and `FunctionSpace` give them: PETSc numbers cells, vertices, faces and
edges one after the other, faces and edges by their axis; among those of a kind the first of its axes is the fastest. How the dofs
of an edge or a face are ordered in a cell is read from a box of one cell.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from functools import cached_property
from types import SimpleNamespace
from typing import Any, ClassVar, cast

import numpy as np
import numpy.typing as npt
from petsc4py import PETSc

from femgpu import mesh
from femgpu.element import LagrangeElement
from femgpu.errors import DataError
from femgpu.mesh import Mesh, locality
from femgpu.mesh.block import Block
from femgpu.mesh.geometry import always_affine
from femgpu.spaces.field import Field
from femgpu.spaces.function_space import FunctionSpace
from femgpu.spaces.numbering import Numbering
from femgpu.spaces.space import SingleSpace
from femgpu.spaces.ufl_element import UFLLagrange

# How far the box is bent: x becomes x + BEND y z, and so on. Three linear functions in turn, cells are trilinear exactly.
BEND = 0.1
# The integral of det J = 1 - BEND^2 (x^2 + y^2 + z^2) + 2 BEND^3 x y z over the unit cube.
VOLUME = 1 - BEND**2 + BEND**3 / 4
# Axes inside of which the cells, vertices, faces and edges lie, in the order in which PETSc numbers them.
_KINDS = ((0, 1, 2), (), (1, 2), (0, 2), (0, 1), (0,), (1,), (2,))
# A face is numbered along its normal first, an edge along itself first.
_FASTEST = ((0, 1, 2), (0, 1, 2), (0, 1, 2), (1, 0, 2), (2, 0, 1), (0, 1, 2), (1, 0, 2), (2, 0, 1))


class Grid(Mesh):
    """The unit cube in equally many cells per axis as counts say, bent; on this process alone, and without a DM.

    Args:
        counts: cells along x, y and z.

    Raises:
        DataError: for more vertices than 32-bit offsets reach.
    """

    cell: ClassVar[str] = "hexahedron"
    # Cells in each of the boxes that counts say.
    split: ClassVar[int] = 1

    def __init__(self, counts: Sequence[int]):
        self.counts = (int(counts[0]), int(counts[1]), int(counts[2]))
        self.comm, self.dim, self.kept = PETSc.COMM_SELF, 3, {}
        self.mpi = self.comm.tompi4py()
        self.num_cells = self.num_cells_global = self.split * int(np.prod(self.counts))
        self.has_petsc_elements = True
        _check_size(self.counts, np.prod(np.add(self.counts, 1), dtype=float))
        self.coords = bent(_lattice([np.linspace(0, 1, count + 1) for count in self.counts]))
        self.motion = cast(Any, SimpleNamespace(moves=0, bends=0))
        self.blocks = (self._block(),)

    def _block(self) -> Block:
        element = LagrangeElement(self.cell, 1)
        everything = np.arange(self.num_cells, dtype=np.int32)
        affine = np.full(self.num_cells, always_affine(element))
        return Block(0, self.cell, everything, element, self.coords, self.offsets(element), affine)

    def offsets(self, element: LagrangeElement) -> npt.NDArray[np.int32]:
        """(num_cells, num_basis) numbers of the nodes of continuous elements, int32, those of femgpu's spaces."""
        offsets = self.along_axes(element)
        return _side_by_side(offsets, element) if locality.wins(element.degree) else offsets

    def along_axes(self, element: LagrangeElement) -> npt.NDArray[np.int32]:
        """The numbers that PETSc gives the nodes of its boxes."""
        return _offsets(self.counts, element)

    @property
    def volume(self) -> float:
        """Of the bent box."""
        return VOLUME

    def update(self) -> None:
        """It does not move."""

    def neighbours(self, cell: int) -> npt.NDArray[np.int32]:
        """A cell and those that share a vertex with it, increasing."""
        x, y, z = self.counts
        at = (cell % x, cell // x % y, cell // (x * y))
        ranges = (range(max(i - 1, 0), min(i + 2, count)) for i, count in zip(at, self.counts, strict=True))
        return np.sort([i + x * (j + y * k) for i, j, k in itertools.product(*ranges)]).astype(np.int32)

    def first_coordinate(self, element: LagrangeElement) -> Iterator[tuple[npt.NDArray, npt.NDArray]]:
        """Of some cells at a time: offsets and positions along x of the nodes of a continuous element."""
        nodes = 0.5 * (element.nodes + 1)
        # (cells along the axis, num_basis) where the nodes are in the cube.
        x, y, z = ((np.arange(count)[:, None] + nodes[:, axis]) / count for axis, count in enumerate(self.counts))
        for layer, height in zip(self.offsets(element).reshape(len(z), len(y), len(x), -1), z, strict=True):
            yield layer, x + BEND * (y * height)[:, None]


class GridSpace(SingleSpace):
    """Lagrange elements on a `Grid`.

    Args:
        grid: the mesh.
        degree: of the elements, from 1.
        num_comp: components.
        continuous: whether cells share nodes; an L-vector is the E-vector else.

    Raises:
        DataError: for more dofs than 32-bit offsets reach.
    """

    def __init__(self, grid: Grid, degree: int, num_comp: int = 1, continuous: bool = True):
        shape = (num_comp,) if num_comp > 1 else ()
        element = LagrangeElement(grid.cell, degree, continuous)
        broken, joined = grid.num_cells * element.num_basis, int(np.prod(degree * np.array(grid.counts) + 1))
        num_nodes = joined if continuous else broken
        _check_size(grid.counts, num_nodes * num_comp)
        if continuous:
            offsets = grid.offsets(element)
        else:
            offsets = np.arange(num_nodes, dtype=np.int32).reshape(grid.num_cells, -1)
        offsets *= np.int32(num_comp)
        field = Field("u", 0, shape, (element,), (offsets,))
        super().__init__(grid, None, (field,), num_nodes * num_comp, UFLLagrange(grid.cell, degree, shape, continuous))

    @cached_property
    def numbering(self) -> Numbering:
        """T is L."""
        numbers = np.arange(self.num_local)
        ranges = np.array([0, self.num_local])
        return Numbering(self.num_local, self.num_local, 0, ranges, numbers.astype(np.int32), numbers, False)

    @property
    def num_dofs(self) -> int:
        """Length of the vectors."""
        return self.num_local

    @cached_property
    def first_coordinate(self) -> npt.NDArray[np.float64]:
        """(num_local,) the position along x of each node, for all components."""
        values = np.empty(self.num_local)
        for offsets, positions in cast(Grid, self.mesh).first_coordinate(self.field.elements[0]):
            for component in range(self.num_comp):
                values[offsets * np.int32(self.num_comp) + np.int32(component)] = positions
        return values


def _check_size(counts: Sequence[int], dofs: float) -> None:
    if dofs > np.iinfo(np.int32).max:
        raise DataError(
            f"a box of {' x '.join(map(str, counts))} cells has {dofs:.3g} dofs; 32-bit offsets reach 2.1e9: take fewer"
        )


def counts_for(cells: float) -> tuple[int, int, int]:
    """Cells along x, y and z of a box with about so many, as equal as they may be."""
    x = max(1, round(cells ** (1 / 3)))
    y = max(1, round((cells / x) ** 0.5))
    return x, y, max(1, round(cells / (x * y)))


def bent(points: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
    """(n, 3) where the points (n, 3) of the unit cube are in the bent one."""
    x, y, z = points.T
    return np.stack([x + BEND * y * z, y + BEND * x * z, z + BEND * x * y], axis=1)


def _lattice(lines: Sequence[npt.NDArray]) -> npt.NDArray[np.float64]:
    """(n, 3) all combinations of the coordinates along x, y and z, x fastest."""
    z, y, x = np.meshgrid(*lines[::-1], indexing="ij")
    return np.stack([x, y, z], axis=-1).reshape(-1, 3)


def _offsets(counts: tuple[int, int, int], element: LagrangeElement) -> npt.NDArray[np.int32]:
    """(num_cells, num_basis) numbers of the nodes of continuous elements, int32."""
    inside = np.abs(element.nodes) < 1 - 1e-12
    upper = np.where(inside, 0, element.nodes > 0).astype(np.int64)
    first, last = _places(counts, element.degree, inside), _places((1, 1, 1), element.degree, inside)
    # In a box of one cell the number of each part of the cell is `upper` along the axes across it.
    ranks = _one_cell(element.degree) - last[0] - (last[1] * upper).sum(axis=1)
    base, steps = first[0] + ranks + (first[1] * upper).sum(axis=1), first[1]
    along = [(np.arange(count)[:, None] * steps[:, axis]).astype(np.int32) for axis, count in enumerate(counts)]
    offsets = along[2][:, None, None] + along[1][None, :, None] + (along[0] + base.astype(np.int32))[None, None]
    return offsets.reshape(-1, element.num_basis)


def _side_by_side(offsets: npt.NDArray[np.int32], element: LagrangeElement) -> npt.NDArray[np.int32]:
    """Nodes with the numbers that spaces of femgpu's give them in place of PETSc's, as `locality.local_order` says."""
    part, cell = element.reference.entity_of(element.nodes), np.arange(len(offsets))[:, None]
    keys = np.full(offsets.max() + 1, np.iinfo(np.int32).max, np.int64)
    np.minimum.at(keys, offsets, locality.sort_key(cell, part, len(element.reference.entities)))
    inside = part == 0
    keys[offsets[:, inside]] = cell - len(offsets)
    # Sorting words that hold the number, too, takes a fraction of a stable sort by keys.
    words = keys << 32 | np.arange(len(keys))
    words.sort()
    numbers = np.empty(len(keys), np.int32)
    numbers[words.astype(np.int32)] = np.arange(len(keys))
    return numbers[offsets]


def _places(counts: Sequence[int], degree: int, inside: npt.NDArray[np.bool_]) -> tuple[npt.NDArray, npt.NDArray]:
    """Where the nodes stand that lie `inside` of a kind of the cell's parts.

    Args:
        counts: cells along each axis.
        degree: of the elements.
        inside: (num_basis, 3) along which axes a node lies between two vertices.

    Returns:
        (num_basis,) the first node of the kind, and (num_basis, 3) how many nodes farther the next part along each axis begins.
    """
    starts, steps = np.empty(len(inside), np.int64), np.empty((len(inside), 3), np.int64)
    start = 0
    for axes, order in zip(_KINDS, _FASTEST, strict=True):
        mine = (inside == [axis in axes for axis in range(3)]).all(axis=1)
        starts[mine], step = start, (degree - 1) ** len(axes)
        for axis in order:
            steps[mine, axis] = step
            step *= counts[axis] + (axis not in axes)
        start += step
    return starts, steps


def _one_cell(degree: int) -> npt.NDArray[np.int64]:
    """(num_basis,) numbers that PETSc gives the nodes of a box of one cell."""
    box = mesh.box((1, 1, 1), cell="hexahedron", comm=PETSc.COMM_SELF)
    space = FunctionSpace(box, "Lagrange", degree, reorder=False)
    return space.offsets[0].astype(np.int64)
