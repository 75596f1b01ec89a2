"""The points of a DMPlex in bulk arrays: their types and cones.

PETSc's own functions go point by point. Here everything is computed from the cone arrays of the whole mesh.
"""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
from petsc4py import PETSc

from femgpu import petsc_c
from femgpu.element import reference_cell
from femgpu.errors import MeshError, callers

_Ints = npt.NDArray[np.int32]

POLYTOPES = {
    PETSc.DM.PolytopeType.POINT: "point",
    PETSc.DM.PolytopeType.SEGMENT: "interval",
    PETSc.DM.PolytopeType.TRIANGLE: "triangle",
    PETSc.DM.PolytopeType.QUADRILATERAL: "quadrilateral",
    PETSc.DM.PolytopeType.TETRAHEDRON: "tetrahedron",
    PETSc.DM.PolytopeType.HEXAHEDRON: "hexahedron",
    PETSc.DM.PolytopeType.TRI_PRISM: "prism",
}
# The order of types in `Topology.types`.
TYPE_NAMES = tuple(POLYTOPES.values())
TYPE_DIMS = np.array([0, *(reference_cell(name).dim for name in TYPE_NAMES[1:])])
# Above all points.
_NO_POINT = np.iinfo(np.int32).max
_CONE_SIZES = np.array([0, *(len(reference_cell(name).loops) for name in TYPE_NAMES[1:])])


class Stratum(NamedTuple):
    """The points of one type.

    Attributes:
        points: (num_points,) increasing; a range where they follow each other.
        cones: (num_points, cone_size) points, int32.
        orientations: (num_points, cone_size), int32.
    """

    points: range | _Ints
    cones: _Ints
    orientations: _Ints

    def rows(self, points: _Ints) -> slice | npt.NDArray:
        """As `places` of increasing points, a slice where they follow each other."""
        if isinstance(self.points, range) and len(points) and points[-1] - points[0] == len(points) - 1:
            first = int(points[0]) - self.points.start
            return slice(first, first + len(points))
        return self.places(points)

    def places(self, points: npt.NDArray) -> npt.NDArray:
        """Where points stand among those of the stratum."""
        if isinstance(self.points, range):
            return points - self.points.start
        return np.searchsorted(self.points, points)


class Topology:
    """The points of a rank. Cones are PETSc's own arrays, not copies: it must not outlive the DM.

    Args:
        dm: an interpolated DMPlex.

    Attributes:
        start: the first point.
        types: (num_points,) positions in `TYPE_NAMES`, int8.
        cones: the cones of all points, one after the other.
        orientations: of the points in them.

    Raises:
        MeshError: for points of a type that is not supported.
    """

    def __init__(self, dm: PETSc.DMPlex):
        self.start, end = dm.getChart()
        self.types = point_types(dm, self.start, end)
        self.cones, self.orientations = petsc_c.cones(dm, self.start, end), petsc_c.cone_orientations(dm, self.start, end)
        # Points of one type mostly follow each other: such runs are few.
        changes = np.flatnonzero(self.types[1:] != self.types[:-1]) + 1
        self._bounds = np.unique([0, *changes, len(self.types)])
        self._kinds = self.types[self._bounds[:-1]]
        self._ends = np.cumsum(_CONE_SIZES[self._kinds] * np.diff(self._bounds))
        self._strata: dict[str, Stratum] = {}
        given, needed = len(self.cones), int(self._ends[-1]) if len(self._ends) else 0
        if given != needed:
            raise MeshError(f"the DMPlex has {given} cone entries; its cell types need {needed}")

    @property
    def cone_sizes(self) -> _Ints:
        """(num_points,) how many points of `cones` are each one's, int32."""
        sizes: _Ints = _CONE_SIZES[self.types].astype(np.int32)
        return sizes

    def stratum(self, name: str) -> Stratum:
        """The points of a type."""
        if name not in self._strata:
            self._strata[name] = self._find(TYPE_NAMES.index(name))
        return self._strata[name]

    def _find(self, kind: int) -> Stratum:
        size, runs = int(_CONE_SIZES[kind]), np.flatnonzero(self._kinds == kind)
        low, high = self._bounds[runs], self._bounds[runs + 1]
        first = self._ends[runs] - size * (high - low)
        if len(runs) > 1:
            run = np.repeat(np.arange(len(runs)), high - low)
            points = np.flatnonzero(self.types == kind)
            entries = (first[run] + size * (points - low[run]))[:, None] + np.arange(size)
            return Stratum((points + self.start).astype(np.int32), self.cones[entries], self.orientations[entries])
        begin, count = (int(first[0]), int(high[0] - low[0])) if len(runs) else (0, 0)
        mine = slice(begin, begin + size * count)
        cones, orientations = (array[mine].reshape(count, size) for array in (self.cones, self.orientations))
        at = self.start + (int(low[0]) if len(runs) else 0)
        return Stratum(range(at, at + count), cones, orientations)

    def of_type(self, name: str) -> _Ints:
        """The points of a type, increasing, int32."""
        points = self.stratum(name).points
        # numpy takes a range number by number.
        return np.arange(points.start, points.stop, dtype=np.int32) if isinstance(points, range) else points


def point_types(dm: PETSc.DMPlex, start: int, end: int) -> npt.NDArray[np.int8]:
    """(end - start,) positions in `TYPE_NAMES` of the types of points.

    Raises:
        MeshError: for a type that is not supported.
    """
    types = np.full(end - start, -1, np.int8)
    label = dm.getCellTypeLabel()
    for value in label.getValueIS().getIndices():
        name = POLYTOPES.get(int(value))
        if name is not None:
            points = points_between(label, int(value), start, end)
            where = slice(points.start - start, points.stop - start) if isinstance(points, range) else points - np.int32(start)
            types[where] = TYPE_NAMES.index(name)
    if (types < 0).any():
        raise MeshError(
            f"{np.count_nonzero(types < 0)} points of the DMPlex are of a type that is not supported; expected points, "
            f"segments, {', '.join(TYPE_NAMES[2:])}"
        )
    return types


def points_between(label: PETSc.DMLabel, value: int, start: int, end: int) -> range | _Ints:
    """The points from `start` to before `end` that have a value of a label, increasing; a range where they follow each other."""
    found = label.getStratumIS(value)
    if found.getType() == PETSc.IS.Type.STRIDE and (stride := found.getStride())[2] == 1:
        size, first, _ = stride
        low = min(max(first, start), end)
        return range(low, max(low, min(first + size, end)))
    points = found.getIndices()
    return points[slice(*np.searchsorted(points, (start, end)))]


def cone_offsets(types: npt.NDArray[np.int8]) -> npt.NDArray[np.int64]:
    """(num_points + 1,) where the cones of points of given types begin, one after the other."""
    return np.concatenate([[0], np.cumsum(_CONE_SIZES[types])])


def cone_places(types: npt.NDArray[np.int8], where: npt.NDArray[np.int64]) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
    """The points whose cones some entries of their cones, one after the other, are in, and the places of the entries there."""
    if len(types) and types.min() == types.max():
        return np.divmod(where, _CONE_SIZES[types[0]])
    offsets = cone_offsets(types)
    points = np.searchsorted(offsets, where, side="right") - 1
    return points, where - offsets[points]


def first_repeated(rows: npt.NDArray[np.integer]) -> int | None:
    """The number of a row (num_rows, width) that holds the same integers as one before, in any order; None where none does."""
    ordered = np.sort(rows, axis=1)
    order = np.lexsort(ordered.T)
    same = np.flatnonzero((ordered[order[1:]] == ordered[order[:-1]]).all(axis=1))
    return int(order[same[0] + 1]) if len(same) else None


def check_topology(topology: Topology, cells: Sequence[str], first: int) -> None:
    """Refuses cells of a type with the same facets, which would count twice, and warns of vertices without any.

    Args:
        topology: the points of the mesh.
        cells: names of its types.
        first: the first cell of the mesh.

    Raises:
        MeshError: naming such a cell.
    """
    for cell in cells:
        _check_once(topology.stratum(cell), first)
    used = np.zeros(len(topology.types), bool)
    used[topology.cones - topology.start] = True
    vertices = topology.of_type("point")
    loose = vertices[~used[vertices - topology.start]]
    if len(loose):
        first_loose = loose[0] - vertices[0]
        warnings.warn(
            f"{len(loose)} of {len(vertices)} vertices of the mesh belong to no cell, the first is vertex {first_loose}: "
            "no equation reaches their dofs; leave such nodes out of the list",
            stacklevel=callers(),
        )


def _check_once(stratum: Stratum, first: int) -> None:
    # Those with the lowest facet of another cell, and the highest of another: few, but where cells are there twice.
    cones, suspects = stratum.cones, np.arange(len(stratum.cones))
    for extreme in (np.minimum, np.maximum):
        found = extreme.reduce(np.ascontiguousarray(cones.T))
        kept = np.bincount(found)[found] > 1
        cones, suspects = cones[kept], suspects[kept]
    # Most of these have another partner for either.
    pairs = np.sort(cones.min(axis=1, initial=_NO_POINT).astype(np.int64) << 32 | cones.max(axis=1, initial=0))
    twice = first_repeated(cones) if (pairs[1:] == pairs[:-1]).any() else None
    if twice is not None:
        raise MeshError(
            f"cell {stratum.points[suspects[twice]] - first} of the mesh has the facets of another cell; expected each cell once "
            "in a list of cells"
        )
