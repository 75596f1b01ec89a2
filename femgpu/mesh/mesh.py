"""One mesh object per DMPlex of the user: cell type, coordinates, geometry and regions."""

from __future__ import annotations

import weakref
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt
from petsc4py import PETSc

from femgpu.element import LagrangeElement, ReferenceCell, basix_rule, reference_cell
from femgpu.errors import collective
from femgpu.mesh import geometry, regions
from femgpu.mesh.coordinates import read_coordinates
from femgpu.mesh.inspect import cell_name

_ATTRIBUTE = "__femgpu__"


class Mesh:
    """A DMPlex seen as arrays. Made by `Mesh.of`, once per DM.

    Cells are those of this rank, numbered from 0 in DMPlex's order; a rank may have none.

    Attributes:
        dm: a clone of the user's DM with a finite element on its coordinates; no fields.
        comm: its petsc4py communicator.
        mpi: its mpi4py communicator.
        dim: topological and geometric dimension.
        cell: name of the cell type.
        num_cells: cells of this rank.
        num_cells_global: cells of all ranks.
        coord_element: the element of the coordinates; degree above 1 on curved meshes.
        coords: (num_coord_nodes, dim) node coordinates, float64.
        coord_dofs: (num_cells, coord_element.num_basis) nodes of each cell, int32.
        affine: (num_cells,) mask of cells whose map is affine.
    """

    dm: PETSc.DMPlex
    coord_element: LagrangeElement
    coords: npt.NDArray[np.float64]
    coord_dofs: npt.NDArray[np.int32]
    affine: npt.NDArray[np.bool_]

    def __init__(self, dm: PETSc.DMPlex) -> None:
        """Reads a DM; collective. Use `Mesh.of` instead, which makes one Mesh per DM.

        Args:
            dm: an interpolated DMPlex without overlap, of one cell type.

        Raises:
            MeshError: when the mesh is not supported, or cells are inverted; on all ranks.
        """
        self.comm = dm.getComm()
        self.mpi = self.comm.tompi4py()
        self.cell = cell_name(dm, self.mpi)
        self.dim = dm.getDimension()
        # The attribute with this object sits on the user's DM: keeping that DM here would be a cycle that nothing collects.
        self.dm = dm.clone()
        self._remember(dm)
        self._coordinates = _coordinate_state(dm)
        start, end = self.dm.getHeightStratum(0)
        self.num_cells = end - start
        self.num_cells_global = self.mpi.allreduce(self.num_cells)
        self.coord_element, self.coords, self.coord_dofs = read_coordinates(self.dm, self.cell, self.mpi)
        self.affine = geometry.affine_mask(self.coord_element, self.coords, self.coord_dofs)
        with collective(self.mpi):
            geometry.check_orientation(self.coord_element, self.coords, self.coord_dofs, self.affine, self._orientation_points())

    @classmethod
    def of(cls, dm: PETSc.DMPlex) -> Mesh:
        """The mesh of a DM: made on the first call, and anew when the coordinates changed; collective then.

        Args:
            dm: an interpolated DMPlex without overlap, of one cell type, or a DM made by `clone_dm`.

        Raises:
            MeshError: when the mesh is not supported, or cells are inverted.
        """
        mesh = dm.getAttr(_ATTRIBUTE)
        if mesh is None or mesh._moved(dm):
            mesh = cls(dm)
            mesh.attach(dm)
        elif dm.handle == mesh._user_handle:
            mesh._remember(dm)
        return mesh

    def _moved(self, dm: PETSc.DMPlex) -> bool:
        """Whether the user changed the coordinates since; clones for spaces keep those of their mesh."""
        return dm.handle == self._user_handle and _coordinate_state(dm) != self._coordinates

    def _remember(self, dm: PETSc.DMPlex) -> None:
        self._user_dm, self._user_handle = weakref.ref(dm), dm.handle

    def _label_dm(self) -> PETSc.DMPlex:
        """The DM to look labels up in: the user's while it lives, because a clone does not see what is labelled after it."""
        dm = self._user_dm()
        return self.dm if dm is None or dm.handle != self._user_handle else dm

    def attach(self, dm: PETSc.DMPlex) -> None:
        """Makes `Mesh.of(dm)` return this mesh."""
        dm.setAttr(_ATTRIBUTE, self)

    def clone_dm(self) -> PETSc.DMPlex:
        """A new clone of the DM for one space, without fields; `Mesh.of` knows it. Collective."""
        dm = self.dm.clone()
        self.attach(dm)
        return dm

    @cached_property
    def halo_comm(self) -> Any:
        """A duplicate of `mpi` for the messages of halo exchanges alone; collective on first use."""
        return self.mpi.Dup()

    @property
    def reference(self) -> ReferenceCell:
        """The reference cell."""
        return reference_cell(self.cell)

    @cached_property
    def exterior(self) -> regions.ExteriorFacets:
        """The facets on the boundary that this rank integrates over; collective on first use."""
        return regions.exterior_facets(self.dm)

    def physical_points(self, points: npt.ArrayLike, cells: slice | npt.NDArray = slice(None)) -> npt.NDArray[np.float64]:
        """Images of reference points in cells.

        Args:
            points: (num_points, dim) points of the reference cell.
            cells: which cells, default all.

        Returns:
            (num_cells, num_points, dim), float64.
        """
        values = self.coord_element.tabulate(points)[0]
        return geometry.map_points(self.coords, self.coord_dofs[cells], values)

    def jacobians(self, points: npt.ArrayLike, cells: slice | npt.NDArray = slice(None)) -> npt.NDArray[np.float64]:
        """Jacobians J[i, k] = dx_i / dX_k of the map from the reference cell.

        Args:
            points: (num_points, dim) points of the reference cell.
            cells: which cells, default all.

        Returns:
            (num_cells, num_points, dim, dim), float64.
        """
        grads = self.coord_element.tabulate(points)[1]
        return geometry.map_jacobians(self.coords, self.coord_dofs[cells], grads)

    def cells(self, ids: int | tuple[int, ...], label: str = regions.CELL_LABEL) -> npt.NDArray[np.int32]:
        """Cells with any of the given label values; collective.

        Args:
            ids: values of the label.
            label: name of the label.

        Returns:
            (num,) sorted cell numbers of this rank, int32.

        Raises:
            MeshError: on all ranks, when no rank has such cells; lists the labels and values that exist.
        """
        values = (ids,) if isinstance(ids, int | np.integer) else tuple(ids)
        return regions.labelled_cells(self._label_dm(), self.mpi, label, tuple(int(value) for value in values))

    def facets(self, region: regions.Region) -> tuple[npt.NDArray[np.int32], npt.NDArray[np.int32]]:
        """Facets of a part of the boundary; collective.

        Facets between two cells are never part of it, whatever their label.

        Args:
            region: "boundary", a value or a tuple of values of the label "Face Sets", or (label name, values).

        Returns:
            The cell of each facet and the facet's number in that cell (PETSc's cone order), both (num,) int32.

        Raises:
            MeshError: on all ranks, when no rank has such facets; lists the labels and values that exist.
        """
        parsed = regions.parse_region(region)
        exterior = self.exterior
        if parsed is None:
            return exterior.cells, exterior.local_facets
        found = regions.labelled_facets(self._label_dm(), self.mpi, exterior, *parsed)
        return exterior.cells[found], exterior.local_facets[found]

    def labels(self) -> dict[str, list[int]]:
        """The labels of the mesh and their values over all ranks; collective."""
        return regions.labels(self._label_dm(), self.mpi)

    def view(self) -> str:
        """One line for `-femgpu_view`; collective."""
        num_affine = self.mpi.allreduce(int(np.count_nonzero(self.affine)))
        share = {0: "no cell affine", self.num_cells_global: "affine"}.get(num_affine, f"{num_affine} affine")
        sets = "; ".join(f"{name} {','.join(map(str, values[:20]))}" for name, values in sorted(self.labels().items()) if values)
        return (
            f"mesh: {self.num_cells_global} {self.cell} cells on {self.mpi.size} rank{'s' * (self.mpi.size > 1)}, "
            f"coordinates of degree {self.coord_element.degree} ({share}){'; ' if sets else ''}{sets}"
        )

    def _orientation_points(self) -> npt.NDArray[np.float64]:
        """(n, dim) points where det J is tested: the nodes of the coordinates and the points of a rule that integrates det J."""
        rule = basix_rule(self.cell, max(1, self.dim * self.coord_element.degree))
        return np.concatenate([self.coord_element.nodes, rule.points])


def _coordinate_state(dm: PETSc.DMPlex) -> tuple[int, int]:
    """Changes when the coordinates are replaced or written to."""
    coordinates = dm.getCoordinatesLocal()
    return coordinates.handle, coordinates.stateGet()
