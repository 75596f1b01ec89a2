"""Uniform refinement that keeps curved cells curved, and cells of periodic meshes whole.

PETSc puts a new vertex at the mean of the old coordinates around it, mid-side nodes included: on curved cells that is no
point of the cell. Here the new nodes are images of points of the parent's reference cell.

On periodic meshes PETSc takes a new cell for one across the period when it is wider than half the limit for the coarse
cells; the tetrahedra inside of a refined one can be as wide as it. Where PETSc does not know the periods, it gives all
children of cells across a period coordinates of their own.
"""

from __future__ import annotations

from functools import cache

import numpy as np
import numpy.typing as npt
from petsc4py import PETSc

from femgpu import petsc_c
from femgpu.element import LagrangeElement, reference_cell
from femgpu.errors import MeshError, collective, meet
from femgpu.mesh.box import from_cell_list
from femgpu.mesh.cell_types import cell_names
from femgpu.mesh.closures import corners
from femgpu.mesh.coordinates import coordinate_degree, read_coordinates, read_vertices, section_offsets
from femgpu.mesh.geometry import map_points, node_vertices
from femgpu.mesh.mesh import Mesh
from femgpu.mesh.periods import is_periodic
from femgpu.mesh.topology import Topology
from femgpu.mesh.user_dm import check_dm


def is_curved(dm: PETSc.DMPlex) -> bool:
    """Whether the coordinates are of degree above 1."""
    return coordinate_degree(dm) > 1


def refine(dm: PETSc.DMPlex) -> PETSc.DMPlex:
    """Splits every cell into 2^dim cells; collective.

    Args:
        dm: the mesh.

    Returns:
        A new mesh of the same degree, whose `getCoarseDM()` is the given one: `femgpu.PMG` makes levels of it. Its boundary is the
        image of the old one: it does not move towards the geometry.

    Raises:
        MeshError: when a curved mesh is not supported, or PETSc numbers the new cells in an unknown way.
    """
    check_dm(dm)
    meet(dm.comm.tompi4py())
    if is_curved(dm):
        fine = _refine_curved(dm)
    else:
        fine = _refine_periodic(dm) if is_periodic(dm) else dm.refine()
    fine.setCoarseDM(dm)
    fine.setVecType(petsc_c.vec_type(dm))
    fine.setName(dm.getName())
    return fine


@cache
def child_values(cell: str) -> npt.NDArray[np.float64]:
    """(num_children, num_nodes, num_nodes) what the linear basis functions of a cell are at the nodes of those of its children."""
    element = LagrangeElement(cell, 1)
    points = _children(cell)[:, node_vertices(element)]
    values = element.tabulate(points.reshape(-1, element.reference.dim))[0]
    # They are multiples of an eighth: sums of such rows are to be exactly one.
    return np.round(values, 12).reshape(*points.shape[:2], -1)


def _refine_curved(dm: PETSc.DMPlex) -> PETSc.DMPlex:
    coarse = Mesh(dm)
    straight = dm.clone()
    straight.createCoordinateSpace(1, False, True)
    fine = straight.refine()
    template = _children(coarse.cell)
    expected = _vertices(straight, coarse, template.reshape(-1, coarse.dim))
    found = _vertices(fine, coarse, coarse.reference.vertices)
    with collective(coarse.mpi):
        _check_children(coarse.cell, expected, found)
    fine.createCoordinateSpace(coarse.coord_element.degree, False, True)
    place_nodes(coarse, fine, template)
    return fine


def _refine_periodic(dm: PETSc.DMPlex) -> PETSc.DMPlex:
    coarse = dm.clone()
    petsc_c.forget_periods(coarse)
    fine = coarse.refine()
    _, lower, period = (np.asarray(entry) for entry in dm.getPeriodicity())
    fine.setPeriodicity(*dm.getPeriodicity())
    _wrap_vertices(fine, lower, np.where(period > 0, period, np.inf))
    return fine


def _wrap_vertices(dm: PETSc.DMPlex, lower: npt.NDArray[np.float64], period: npt.NDArray[np.float64]) -> None:
    """Moves the vertices of cells across a period, which PETSc put in the middle of the box, to where they are; collective."""
    mpi = dm.comm.tompi4py()
    topology = Topology(dm)
    types = [corners(topology, cell) for cell in cell_names(dm, mpi)]
    coords, nodes = read_vertices(dm, types, mpi)
    first, last = dm.getDepthStratum(0)
    places = section_offsets(dm.getCoordinateSection(), first, last) // dm.getDimension()
    vertices = coords[: last - first]
    for each, own in zip(types, nodes, strict=True):
        across = own[:, 0] >= last - first
        inside = coords[own[across]] - lower
        # The remainder of a division by infinity is the number itself, but for negative ones.
        wrapped = np.where(np.isfinite(period), np.mod(inside, period), inside)
        vertices[places[each.vertices[across] - first]] = lower + wrapped
    local = dm.getCoordinatesLocal().duplicate()
    local.setArray(vertices.ravel())
    dm.setCoordinatesLocal(local)


def _children(cell: str) -> npt.NDArray[np.float64]:
    """(num_children, num_vertices, dim) vertices of the cells into which PETSc refines the reference cell."""
    vertices = reference_cell(cell).vertices
    plex = from_cell_list(cell, np.arange(len(vertices), dtype=np.int32)[None], vertices, PETSc.COMM_SELF)
    return Mesh(plex.refine()).block.physical_points(vertices)


def _vertices(dm: PETSc.DMPlex, coarse: Mesh, points: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
    """(num, dim) images of reference points in all cells of a mesh with straight edges, which may be inverted; collective."""
    element = LagrangeElement(coarse.cell, 1)
    coords, [nodes] = read_vertices(dm, [corners(Topology(dm), coarse.cell)], coarse.mpi)
    return map_points(coords, nodes[:, node_vertices(element)], element.tabulate(points)[0]).reshape(-1, coarse.dim)


def _check_children(cell: str, expected: npt.NDArray[np.float64], found: npt.NDArray[np.float64]) -> None:
    """PETSc documents neither the order of the new cells nor that of their vertices: compare with its own refinement."""
    if expected.shape != found.shape or not np.allclose(expected, found, rtol=0, atol=1e-8 * np.abs(found).max(initial=0)):
        raise MeshError(
            f"PETSc refines these {cell} cells in another way than the reference cell; expected -dm_plex_transform_type "
            "refine_regular: leave that option out, or refine the mesh before it becomes curved"
        )


def place_nodes(coarse: Mesh, fine: PETSc.DMPlex, template: npt.NDArray[np.float64]) -> None:
    """Moves the nodes of a mesh onto the curved cells that it refines; collective.

    Args:
        coarse: the mesh of one cell type.
        fine: the refined one; its coordinates are of the same degree.
        template: (num_children, num_vertices, dim) vertices of the cells into which the reference cell is split.
    """
    element, coords, dofs = read_coordinates(fine, coarse.cell, coarse.mpi)
    corners = LagrangeElement(coarse.cell, 1).tabulate(element.nodes)[0]
    inside = np.matmul(corners, template).reshape(-1, coarse.dim)
    coords[dofs] = coarse.block.physical_points(inside).reshape(-1, element.num_basis, coarse.dim)
    cdm = fine.getCoordinateDM()
    local, owned = cdm.createLocalVec(), cdm.createGlobalVec()
    local.setArray(coords.reshape(-1))
    # Owners decide, so that ranks agree to the last bit.
    cdm.localToGlobal(local, owned)
    fine.setCoordinates(owned)
