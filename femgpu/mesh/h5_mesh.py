"""Meshes to and from PETSc's HDF5 format."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from petsc4py import PETSc

from femgpu.element import LagrangeElement
from femgpu.errors import DataError
from femgpu.mesh.cell_types import cell_names, has_petsc_elements
from femgpu.mesh.coordinates import set_coordinate_fe
from femgpu.mesh.h5_file import read_integers
from femgpu.mesh.label_names import quote_labels, unquote_labels
from femgpu.mesh.mesh import Mesh
from femgpu.mesh.periods import is_periodic, set_periods
from femgpu.mesh.refine import place_nodes

_NAME = "mesh"


def dm_for_file(mesh: Mesh) -> PETSc.DMPlex:
    """The DM that stands for a mesh in a file, whose sections and vectors may follow; collective.

    A file says of which degree coordinates are, not at which nodes: they are those of PETSc's own elements.

    Raises:
        DataError: when the DM identifies vertices without saying by which periods.
    """
    if mesh.dm.getCoordinatesLocalized() and not is_periodic(mesh.dm):
        raise DataError("the mesh is periodic and its DM does not say with which periods; set them with dm.setPeriodicity()")
    labels = sorted(mesh.labels())
    dm = mesh.clone_dm()
    quote_labels(mesh.label_dm, dm, labels)
    dm.setName(_NAME)
    if mesh.has_petsc_elements and mesh.coord_element.custom_nodes:
        dm.createCoordinateSpace(mesh.coord_element.degree, False, True)
        place_nodes(mesh, dm, mesh.reference.vertices[None])
    return dm


def read_mesh(viewer: PETSc.ViewerHDF5, comm: PETSc.Comm) -> tuple[PETSc.DMPlex, PETSc.SF]:
    """Reads the mesh of a file and distributes it; collective.

    Returns:
        The mesh, and the map from the saved numbering of points to it.
    """
    dm = PETSc.DMPlex().create(comm=comm)
    dm.setName(_NAME)
    sf = dm.topologyLoad(viewer)
    dm.coordinatesLoad(viewer, sf)
    dm.labelsLoad(viewer, sf)
    unquote_labels(dm)
    degree, *periods = read_integers(viewer, "coordinates", comm)
    if periods:
        lower, period = np.array(periods, np.int32).view(np.float64).reshape(2, -1)
        set_periods(dm, lower, period)
    if comm.getSize() > 1:
        dm.getPartitioner().setFromOptions()
        spread = dm.distribute(overlap=0)
        sf = sf if spread is None else sf.compose(spread)
        dm.setName(_NAME)
    cells = cell_names(dm, comm.tompi4py())
    if has_petsc_elements(cells):
        set_coordinate_fe(dm, LagrangeElement(cells[0], int(degree)).petsc_fe(dm.getDimension(), dm.comm))
    return dm, sf


def geometry_numbers(mesh: Mesh) -> NDArray[np.int32]:
    """The degree of the coordinates, and behind it the bits of the lower corner and the lengths of periods, if there are any."""
    degree = np.array([max(block.coord_element.degree for block in mesh.blocks)], np.int32)
    if not is_periodic(mesh.dm):
        return degree
    _, lower, period = mesh.dm.getPeriodicity()
    return np.concatenate([degree, np.concatenate([lower, period]).astype(np.float64).view(np.int32)])
