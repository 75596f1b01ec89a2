"""One mesh object per DMPlex of the user: cell type, coordinates, geometry and regions."""

from __future__ import annotations

from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt
from petsc4py import PETSc

from femgpu import petsc_c
from femgpu.element import LagrangeElement, ReferenceCell
from femgpu.errors import MeshError, alive, collective, meet
from femgpu.mesh import regions
from femgpu.mesh.block import Block, places, straight_blocks
from femgpu.mesh.cell_types import cell_names, has_petsc_elements
from femgpu.mesh.closures import corners
from femgpu.mesh.coordinates import is_straight, read_coordinates
from femgpu.mesh.garbage import clean_up, keep_aside
from femgpu.mesh.interior import InteriorFacets, interior_facets, labelled_interior
from femgpu.mesh.locate_points import FoundPoints, PointFinder
from femgpu.mesh.motion import Motion
from femgpu.mesh.region_parts import find_parts
from femgpu.mesh.topology import Topology, check_topology
from femgpu.mesh.user_dm import UserDM, check_dm

_ATTRIBUTE = "__femgpu__"


class Mesh:
    """A DMPlex seen as arrays. Made by `Mesh.of`, once per DM.

    Cells are those of this rank, numbered from 0 in DMPlex's order; a rank may have none.

    Attributes:
        dm: a clone of the user's DM, without fields.
        comm: its petsc4py communicator.
        mpi: its mpi4py communicator.
        dim: topological and geometric dimension.
        num_cells: cells of this rank.
        num_cells_global: cells of all ranks.
        blocks: the cells of each type; the same types in the same order on all ranks.
        kept: what other layers compute once per mesh, by name.
        coords: (num_coord_nodes, dim) node coordinates, float64; `update` follows those of the DMs.
        motion: how often they changed, and who wants to know.
        has_petsc_elements: whether PETSc's own finite elements are right on this mesh: one simplex or tensor type.
    """

    dm: PETSc.DMPlex
    blocks: tuple[Block, ...]
    coords: npt.NDArray[np.float64]
    motion: Motion

    def __init__(self, dm: PETSc.DMPlex) -> None:
        """Reads a DM; collective. Use `Mesh.of` instead, which makes one Mesh per DM.

        Args:
            dm: an interpolated DMPlex without overlap.

        Raises:
            MeshError: when the mesh is not supported, or cells are inverted; on all ranks.
        """
        self.comm = dm.getComm()
        clean_up(self.comm)
        self.mpi = self.comm.tompi4py()
        self._cells = cell_names(dm, self.mpi)
        self.has_petsc_elements = has_petsc_elements(self._cells)
        self.dim = dm.getDimension()
        self.dm = dm.clone()
        self._user_dm = UserDM(dm)
        start, end = self.dm.getHeightStratum(0)
        self.num_cells = end - start
        self.num_cells_global = self.mpi.allreduce(self.num_cells)
        self.kept: dict[str, Any] = {}
        self.blocks = self._read_blocks(self._cells)
        self.coords = self.blocks[0].coords
        with collective(self.mpi):
            for block in self.blocks:
                block.check_orientation()
        self.motion = Motion(self.dm, self._user_dm, self.blocks, self.mpi)
        self._coarse_dm = dm.getCoarseDM()
        self._point_finder: PointFinder | None = None

    def __del__(self) -> None:
        # The user's DM holds this object: PETSc may be about to destroy that one.
        if "dm" in self.__dict__:
            keep_aside((self.dm, self.__dict__.get("motion"), self.__dict__.get("_coarse_dm")))

    def _read_blocks(self, cells: tuple[str, ...]) -> tuple[Block, ...]:
        topology = self.topology
        with collective(self.mpi):
            check_topology(topology, cells, self.dm.getHeightStratum(0)[0])
        if self.has_petsc_elements and not is_straight(self.dm):
            element, coords, dofs = read_coordinates(self.dm, cells[0], self.mpi)
            return (Block.of(0, np.arange(self.num_cells, dtype=np.int32), element, coords, dofs),)
        with collective(self.mpi):
            types = [corners(topology, cell) for cell in cells]
        return straight_blocks(self.dm, types, self.mpi)

    @property
    def topology(self) -> Topology:
        """The points of this rank, read anew: not to be kept; collective."""
        with collective(self.mpi):
            return Topology(self.dm)

    @classmethod
    def of(cls, dm: PETSc.DMPlex) -> Mesh:
        """The mesh of a DM: made on the first call, and anew when its coordinates are of another degree; collective then.

        Args:
            dm: an interpolated DMPlex without overlap, or a DM made by `clone_dm`.

        Raises:
            MeshError: when the mesh is not supported, or cells are inverted.
        """
        check_dm(dm)
        mesh = dm.getAttr(_ATTRIBUTE)
        if mesh is not None and mesh._user_dm.has_other_element(dm):
            mesh._user_dm.forget()
            mesh = None
        if mesh is None:
            mesh = cls(dm)
            dm.setAttr(_ATTRIBUTE, mesh)
        elif mesh._user_dm.is_same(dm):
            mesh._user_dm.see(dm)
        return mesh

    def clone_dm(self) -> PETSc.DMPlex:
        """A new clone of the DM for one space, without fields; `Mesh.of` knows it. Collective."""
        clean_up(self.comm)
        dm = alive(self.dm, "the DM of a mesh").clone()
        dm.setVecType(petsc_c.vec_type(self.label_dm))
        if self._user_dm.is_same(dm):  # the user's DM is gone, and its handle has come back
            self._user_dm.forget()
        dm.setAttr(_ATTRIBUTE, self)
        self.motion.watch(dm)
        return dm

    def update(self) -> None:
        """Reads the coordinates again if they changed, as `Motion.update`; all that computes with coordinates does so first."""
        alive(self.dm, "the DM of a mesh")
        if self.motion.update():
            self._point_finder = None

    @property
    def coarser(self) -> Mesh | None:
        """The mesh that this one refines, where its DM knows it, as `femgpu.mesh.refine` says; collective."""
        return Mesh.of(self._coarse_dm) if self._coarse_dm else None

    @property
    def label_dm(self) -> PETSc.DMPlex:
        """The DM to look labels up in: the user's while it lives, because a clone does not see what is labelled after it."""
        return self._user_dm.alive() or self.dm

    @property
    def cell(self) -> str:
        """Name of the cell type of a mesh that has one; raises a MeshError where there are several."""
        return self.block.cell

    @property
    def reference(self) -> ReferenceCell:
        """The reference cell of a mesh of one cell type."""
        return self.block.reference

    @property
    def coord_element(self) -> LagrangeElement:
        """The element of the coordinates of a mesh of one cell type; degree above 1 on curved meshes."""
        return self.block.coord_element

    @property
    def block(self) -> Block:
        """The cells of a mesh of one cell type; raises a MeshError where there are several."""
        if len(self.blocks) > 1:
            names = ", ".join(block.cell for block in self.blocks)
            raise MeshError(f"the mesh has cells of several types ({names}); expected one type here: go over Mesh.blocks instead")
        return self.blocks[0]

    def locate(self, cells: npt.NDArray) -> tuple[npt.NDArray[np.int32], npt.NDArray[np.int32]]:
        """Which block cells are in, and where.

        Args:
            cells: (n,) numbers of cells of this rank.

        Returns:
            The block of each cell, and its index within the block; both (n,) int32.
        """
        cells = np.asarray(cells, np.int32)
        block, index = self._places
        return block[cells], index[cells]

    @cached_property
    def _places(self) -> tuple[npt.NDArray[np.int32], npt.NDArray[np.int32]]:
        return places(self.blocks)

    @cached_property
    def exterior(self) -> regions.ExteriorFacets:
        """The facets on the boundary that this rank integrates over; collective on first use."""
        meet(self.mpi)
        return regions.exterior_facets(self.dm)

    def points(self, region: regions.Region, label: str = regions.FACET_LABEL) -> npt.NDArray[np.int32]:
        """(num,) sorted DMPlex points of this rank in a region, int32; arguments and errors as for `parts`; collective."""
        return regions.region_points(self.label_dm, self.mpi, self.exterior, region, label)

    def parts(self, region: regions.Region) -> tuple[npt.NDArray[np.int32], npt.NDArray[np.int32]]:
        """The parts of this rank's cells that lie in a region, facets between two cells included; collective.

        Args:
            region: "boundary", the name of a region, a value of the label "Face Sets", several names or values, or
                (label name, values).

        Returns:
            The cell of each part and the part's number in `ReferenceCell.entities`, both (num,) int32.

        Raises:
            MeshError: on all ranks, when the mesh has no such region; lists the labels and values that exist.
        """
        points = self.points(region)
        if region == regions.BOUNDARY:
            return self.exterior.cells, self.exterior.local_facets + np.int32(1)
        return find_parts(self.dm, self.mpi, self.blocks, lambda: self.topology, points)

    def cells(self, region: regions.Region) -> npt.NDArray[np.int32]:
        """Cells of a region; collective.

        Args:
            region: as for `parts`; plain values are those of the label "Cell Sets".

        Returns:
            (num,) sorted cell numbers of this rank, int32.

        Raises:
            MeshError: on all ranks, when no rank has such cells; lists the labels and values that exist.
        """
        return regions.labelled_cells(self.dm, self.mpi, self.points(region, regions.CELL_LABEL), region)

    def facets(self, region: regions.Region) -> tuple[npt.NDArray[np.int32], npt.NDArray[np.int32]]:
        """Facets of a region on the boundary, none of those between two cells; collective.

        Args:
            region: as for `parts`.

        Returns:
            The cell of each facet and the facet's number in that cell (PETSc's cone order), both (num,) int32.

        Raises:
            MeshError: on all ranks, when no rank has such facets; lists the labels and values that exist.
        """
        found = regions.labelled_facets(self.mpi, self.exterior, self.points(region), region)
        return self.exterior.cells[found], self.exterior.local_facets[found]

    @cached_property
    def interior(self) -> InteriorFacets:
        """The facets between two cells that this rank integrates over; collective on first use."""
        return interior_facets(self.dm, self.blocks, self.motion, self.mpi)

    def facets_inside(self, region: regions.Region) -> npt.NDArray[np.int64]:
        """(num,) which of `interior` lie in a region; collective; arguments and errors as for `facets`."""
        return labelled_interior(self.dm, self.mpi, self.interior, self.points(region), region)

    def find_points(self, points: npt.ArrayLike) -> FoundPoints:
        """Finds the cells that points lie in; collective.

        Args:
            points: (num_points, dim), the same on all ranks.

        Returns:
            For each point one cell of one rank, and the coordinates in it; see `FoundPoints`.

        Raises:
            DataError: on all ranks, for points of another shape, not finite, or not the same on all ranks.
        """
        return self.point_finder.find(points)

    @property
    def point_finder(self) -> PointFinder:
        """What finds the cells of points; collective."""
        self.update()
        if self._point_finder is None:
            self._point_finder = PointFinder(self.blocks, self.mpi)
        return self._point_finder

    def labels(self) -> dict[str, list[int]]:
        """The labels of the mesh and their values over all ranks; collective."""
        return regions.labels(self.label_dm, self.mpi)

    def view(self) -> str:
        """One line for `-femgpu_view`; collective."""
        meet(self.mpi)
        counts = self.mpi.allreduce(np.array([[block.num_cells, np.count_nonzero(block.affine)] for block in self.blocks]))
        num_affine = int(counts[:, 1].sum())
        share = {0: "no cell affine", self.num_cells_global: "affine"}.get(num_affine, f"{num_affine} affine")
        kinds = ", ".join(f"{count} {block.cell}" for (count, _), block in zip(counts, self.blocks, strict=True))
        sets = "; ".join(f"{name} {','.join(map(str, values[:20]))}" for name, values in sorted(self.labels().items()) if values)
        return (
            f"mesh: {kinds} cells on {self.mpi.size} rank{'s' * (self.mpi.size > 1)}, "
            f"coordinates of degree {self.blocks[0].coord_element.degree} ({share}){'; ' if sets else ''}{sets}"
        )
