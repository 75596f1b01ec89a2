"""Meshes whose cells stand along a curve."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
from mpi4py import MPI
from petsc4py import PETSc

from femgpu.mesh.closures import corners
from femgpu.mesh.coordinates import coordinate_degree, coordinate_fe, section_offsets, set_coordinate_fe
from femgpu.mesh.locality import ITEMS, along_curve, first_met, pieces_read
from femgpu.mesh.mesh import Mesh
from femgpu.mesh.periods import is_periodic
from femgpu.mesh.topology import TYPE_DIMS, TYPE_NAMES, Topology
from femgpu.mesh.user_dm import check_dm

# Cells of one place on a grid of so fine steps keep the order that they have.
_BITS = 12
# Pieces of a vector that neighbouring cells read, of 32; boxes have 6, meshes of gmsh's 25 to 31, and 10 in order.
_MANY = 16


def reorder(dm: PETSc.DMPlex) -> PETSc.DMPlex:
    """The same mesh with its points in an order that kernels read faster, where there is one; collective.

    Generators of unstructured meshes number cells and vertices almost at random. Here cells stand along Morton's curve, and other
    points as blocks of them meet them. On a GPU products with operators on gmsh's triangles and tetrahedra then take 0.5 to 0.9 of
    the time (docs/benchmarks, "Unstructured meshes"); the order itself takes 3 us for each cell, which pays in runs of some ten
    thousand products. `-femgpu_reorder_mesh` has all meshes that are read put in order.

    A mesh that is spread over ranks keeps its order, so do periodic ones, curved ones of degree 3 and higher on several ranks, and
    those that would read no faster, such as boxes.

    Args:
        dm: the mesh, without fields.

    Returns:
        A new DMPlex with the labels and coordinates of `dm`, or `dm` itself.

    Raises:
        MeshError: for what is no mesh.
    """
    check_dm(dm)
    # Of a new section that turns dofs PETSc distributes the points with cells only, and waits for ever (3.26).
    if is_periodic(dm) or (dm.comm.size > 1 and (dm.isDistributed() or coordinate_degree(dm) > 2)):
        return dm
    order = _order(dm)
    if not dm.comm.tompi4py().allreduce(int(order is not None)):
        return dm
    start, end = dm.getChart()
    permutation = PETSc.IS().createGeneral(np.arange(start, end, dtype=np.int32) if order is None else order, comm=PETSc.COMM_SELF)
    fresh = dm.permute(permutation)
    if (fe := coordinate_fe(dm)) is not None:
        set_coordinate_fe(fresh, fe)
    fresh.setName(dm.getName())
    return fresh


def _order(dm: PETSc.DMPlex) -> npt.NDArray[np.int32] | None:
    """(num_points,) the new number of each point; None where those that there are are as good."""
    if np.subtract(*dm.getChart()) == 0:
        return None
    topology, dim = Topology(dm), dm.getDimension()
    names = [TYPE_NAMES[kind] for kind in np.unique(topology.types) if TYPE_DIMS[kind] == dim]
    section, (first, last) = dm.getCoordinateSection(), dm.getDepthStratum(0)
    begin, end = section.getChart()
    # The section of curved cells knows how dofs turn, which PETSc copies for all points or not at all.
    offsets = section_offsets(section, begin, end)[first - begin : last - begin]
    x = dm.getCoordinatesLocal().array_r.reshape(-1, dm.getCoordinateDim())
    x = x[offsets // x.shape[1]]
    cells = [corners(topology, name) for name in names]
    curves = [np.argsort(along_curve(x[each.vertices - first].mean(axis=1), _BITS), kind="stable") for each in cells]
    places = {each.cell: np.argsort(curve) for each, curve in zip(cells, curves, strict=True)}
    keys, numbers = first_met(topology, places), np.empty(len(topology.types), np.int32)
    for kind in np.unique(topology.types):
        points = topology.of_type(TYPE_NAMES[kind]) - np.int32(topology.start)
        numbers[points[np.argsort(keys[points])]] = points + np.int32(topology.start)
    before = sum(len(each.cells) * pieces_read(each.vertices) for each in cells)
    ordered = (numbers[each.vertices[curve] - topology.start] for each, curve in zip(cells, curves, strict=True))
    return numbers if sum(len(each) * pieces_read(each) for each in ordered) < before else None


def advice(mesh: Mesh) -> str:
    """What to do about cells that stand far from their neighbours, for `-femgpu_view`; collective."""
    pieces = mesh.mpi.allreduce(max(pieces_read(block.coord_dofs) for block in mesh.blocks), op=MPI.MAX)
    if pieces <= _MANY:
        return ""
    told = f"{ITEMS} cells side by side read {pieces:.0f} pieces of a vector"
    return f"{told}; -femgpu_reorder_mesh, or femgpu.mesh.reorder, brings neighbours together, for long runs"
