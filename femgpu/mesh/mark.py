"""Regions of a mesh chosen by position, under names."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt
from petsc4py import PETSc

from femgpu.element import ReferenceCell
from femgpu.errors import MeshError, collective, told
from femgpu.mesh.closures import Parts
from femgpu.mesh.geometry import chunks
from femgpu.mesh.mesh import Mesh
from femgpu.mesh.regions import RESERVED, choose
from femgpu.mesh.shared_points import any_rank


def mark(dm: PETSc.DMPlex, name: str, where: Callable[..., Any], dim: int | None = None) -> None:
    """Names a region of a mesh: the facets, or points of another dimension, all of whose vertices lie where a function says.

    Boundary conditions, `ds(name)` and `dx(name)` know the region by its name from then on. It is a label of the DM with the value
    1, which refinement and .h5 files carry along. A region of that name is replaced; what was built with it before keeps the old
    one. Collective.

    Args:
        dm: the DMPlex, or that of a space on it.
        name: of the region.
        where: function of x (dim, num_points), the coordinates of vertices; returns (num_points,) booleans. A periodic mesh's
            vertices on a period count at both of their places.
        dim: dimension of the points: 0 for vertices, that of the mesh for cells; None for the facets of the boundary, whereas
            all facets, those between two cells included, are those of the mesh's dimension less one.

    Raises:
        MeshError: on all ranks, for a name that cannot be one, a dimension that the mesh does not have, results of another shape
            or type, or when no point is chosen.
    """
    mesh = Mesh.of(dm)
    topology = mesh.topology
    exterior = mesh.exterior
    with collective(mesh.mpi):
        _check(mesh, name, dim)
        start, end = mesh.dm.getChart()
        mask = np.zeros(end - start, bool)
        first = mesh.dm.getHeightStratum(0)[0] - start
        inside = [_inside(block, where) for block in mesh.blocks]
        for block, chosen in zip(mesh.blocks, inside, strict=True):
            if dim == mesh.dim:
                mask[block.ids[chosen.all(axis=1)] + first] = True
            elif dim is not None:
                parts = Parts(topology, block.cell, topology.of_type(block.cell))
                for part, vertices in _parts(block.reference, dim):
                    points = parts(part)[0]
                    mask[points[chosen[:, vertices].all(axis=1)] - start] = True
        if dim is None:
            mask[exterior.points[_exterior(mesh, inside)] - start] = True
    mask = any_rank(mesh.dm, mask)
    if not mesh.mpi.allreduce(int(mask.any())):
        what = "facet of the boundary" if dim is None else f"point of dimension {dim}"
        raise MeshError(f"region {name!r}: no {what} has all its vertices where the function is true; expected at least one")
    points = PETSc.IS().createGeneral((np.flatnonzero(mask) + start).astype(PETSc.IntType), comm=PETSc.COMM_SELF)
    for each in {entry.handle: entry for entry in (dm, mesh.dm, mesh.label_dm)}.values():
        if each.hasLabel(name):
            each.removeLabel(name)
        each.createLabel(name)
        each.getLabel(name).insertIS(points, 1)


def _check(mesh: Mesh, name: Any, dim: Any) -> None:
    if not isinstance(name, str) or not name or name in RESERVED:
        raise MeshError(
            f"the name of a region is {told(name)}; expected a word other than {', '.join(map(repr, sorted(RESERVED)))}"
        )
    if dim is not None and dim not in range(mesh.dim + 1):
        raise MeshError(f"region {name!r} of dimension {dim!r}; expected 0 to {mesh.dim}, or None for the facets of the boundary")


def _inside(block: Any, where: Callable[..., Any]) -> npt.NDArray[np.bool_]:
    """(num_cells, num_vertices) which vertices of a block's cells are chosen."""
    vertices = block.reference.vertices
    chosen = np.zeros((block.num_cells, len(vertices)), bool)
    for cells in chunks(block.num_cells):
        points = block.physical_points(vertices, cells)
        chosen[cells] = choose(where, points.reshape(-1, block.dim)).reshape(points.shape[:2])
    return chosen


def _parts(reference: ReferenceCell, dim: int | None) -> list[tuple[int, list[int]]]:
    """Numbers and vertices of a cell's parts of a dimension below its own."""
    facets = len(reference.facets)
    found = []
    for part, vertices in enumerate(reference.entities[1:], 1):
        own = reference.dim - 1 if part <= facets else min(len(vertices), 2) - 1
        if own == dim:
            found.append((part, list(vertices)))
    return found


def _exterior(mesh: Mesh, inside: list[npt.NDArray[np.bool_]]) -> npt.NDArray[np.bool_]:
    """(num_facets,) which facets of the boundary have chosen vertices only."""
    exterior = mesh.exterior
    numbers, indices = mesh.locate(exterior.cells)
    chosen = np.zeros(len(exterior.points), bool)
    for block in mesh.blocks:
        for facet, vertices in enumerate(block.reference.facets):
            these = np.flatnonzero((numbers == block.index) & (exterior.local_facets == facet))
            chosen[these] = inside[block.index][indices[these]][:, list(vertices)].all(axis=1)
    return chosen
