"""Meshes whose cells stand along a curve."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
from mpi4py import MPI
from petsc4py import PETSc

from femgpu.errors import collective
from femgpu.mesh.cell_types import cell_names
from femgpu.mesh.closures import corners
from femgpu.mesh.coordinates import coordinate_degree, coordinate_fe, section_offsets, set_coordinate_fe
from femgpu.mesh.locality import ITEMS, along_curve, first_met, pieces_read
from femgpu.mesh.mesh import Mesh
from femgpu.mesh.periods import is_periodic
from femgpu.mesh.topology import TYPE_NAMES, Topology
from femgpu.mesh.user_dm import check_dm

# Pieces of a vector that neighbouring cells read, of 32; boxes have 6, meshes of gmsh's 25 to 31, and 10 in order.
_MANY = 16


def reorder(dm: PETSc.DMPlex) -> PETSc.DMPlex:
    """The same mesh with its points in an order that kernels read faster, where there is one; collective.

    Generators of unstructured meshes number cells and vertices almost at random. Here cells stand along Morton's curve, and other
    points as blocks of them meet them. On a GPU actions on gmsh's triangles and tetrahedra then take 0.5 to 0.9 of the time
    (docs/benchmarks, "Unstructured meshes"); the order itself takes 3 us for each cell, which pays in runs of some ten thousand
    products with the operator. `-femgpu_reorder_mesh` has files of meshes put in order where they are read, on several ranks before
    cells are spread over these.

    The mesh keeps its order where it is on several ranks already, periodic, a refinement (order what it refines), of degree 3 or
    higher on several ranks, or would read no faster, such as boxes.

    Args:
        dm: the mesh, without fields.

    Returns:
        A new DMPlex with the labels and coordinates of `dm`, or `dm` itself.

    Raises:
        MeshError: on all ranks, for what is no mesh, or none that femgpu supports.
    """
    check_dm(dm)
    mpi = dm.comm.tompi4py()
    names = cell_names(dm, mpi)
    if _keeps_order(dm) or dm.getCoarseDM() or (mpi.size > 1 and dm.isDistributed()):
        return dm
    dm.getCoordinatesLocal()  # collective where there is only the global vector
    with collective(mpi):
        numbers, better = _order(dm, names)
    if not mpi.allreduce(better, op=MPI.LOR):
        return dm
    fresh = dm.permute(PETSc.IS().createGeneral(numbers, comm=PETSc.COMM_SELF))
    if (fe := coordinate_fe(dm)) is not None:
        set_coordinate_fe(fresh, fe)
    fresh.setName(dm.getName())
    fresh.setOptionsPrefix(dm.getOptionsPrefix())
    return fresh


def _keeps_order(dm: PETSc.DMPlex) -> bool:
    """Whether the mesh is one that PETSc does not permute whole."""
    periodic = is_periodic(dm) or dm.getCoordinatesLocalized()
    # Of a new section that turns dofs PETSc (3.26) distributes the points with cells only, and waits for ever.
    return periodic or (dm.comm.size > 1 and coordinate_degree(dm) > 2)


def _order(dm: PETSc.DMPlex, names: Sequence[str]) -> tuple[npt.NDArray[np.int32], bool]:
    """(num_points,) the new number of each point, and whether cells of the given types read less by them."""
    topology = Topology(dm)
    section, (first, last) = dm.getCoordinateSection(), dm.getDepthStratum(0)
    begin, end = section.getChart()
    # The section of curved cells knows how dofs turn, which PETSc copies for all points or not at all.
    offsets = section_offsets(section, begin, end)[first - begin : last - begin]
    x = dm.getCoordinatesLocal().array_r.reshape(-1, dm.getCoordinateDim())
    x = x[offsets // x.shape[1]]
    cells = [corners(topology, name) for name in names]
    curves = [np.argsort(along_curve(x[each.vertices - first].mean(axis=1)), kind="stable") for each in cells]
    places = {each.cell: np.argsort(curve) for each, curve in zip(cells, curves, strict=True)}
    keys, numbers = first_met(topology, places), np.empty(len(topology.types), np.int32)
    for kind in np.unique(topology.types):
        points = topology.of_type(TYPE_NAMES[kind]) - np.int32(topology.start)
        numbers[points[np.argsort(keys[points])]] = points + np.int32(topology.start)
    before = sum(len(each.cells) * pieces_read(each.vertices) for each in cells)
    ordered = (numbers[each.vertices[curve] - topology.start] for each, curve in zip(cells, curves, strict=True))
    return numbers, sum(len(each) * pieces_read(each) for each in ordered) < before


def advice(mesh: Mesh) -> str:
    """What to do about cells that stand far from their neighbours, for `-femgpu_view`; collective."""
    if _keeps_order(mesh.dm) or mesh.coarser is not None:
        return ""
    # Actions on hexahedra were measured to take the same time in either order.
    cells = [corners(mesh.topology, block.cell) for block in mesh.blocks if block.cell != "hexahedron"]
    pieces = max((pieces_read(each.vertices) for each in cells), default=0.0)
    pieces = mesh.mpi.allreduce(pieces, op=MPI.MAX)
    if pieces <= _MANY:
        return ""
    remedy = "-femgpu_reorder_mesh" if mesh.mpi.size > 1 else "femgpu.mesh.reorder (for files -femgpu_reorder_mesh)"
    found = f"{ITEMS} in a row read vertices from {pieces:.0f} pieces of 32 bytes, in order from about 10"
    return f"cells are numbered far from their neighbours ({found}): {remedy} pays in long runs"
