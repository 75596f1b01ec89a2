"""Where PETSc's DMPlex keeps a mesh and functions in an HDF5 file: its layout 3.0.0, which keeps curved coordinates too.

Points are numbered over all ranks. Arrays over the points hold those that a rank owns, rank by rank.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray
from petsc4py import PETSc

from femgpu.errors import DataError, collective
from femgpu.io.h5_writer import H5Writer
from femgpu.mesh import Mesh
from femgpu.mesh.topology import TYPE_DIMS

VERSION = "3.0.0"


@dataclass(frozen=True)
class MeshLayout:
    """A mesh on its way to a file.

    Attributes:
        writer: of the file.
        mesh: the mesh.
        dm: what stands for it there; its name is the mesh's.
    """

    writer: H5Writer
    mesh: Mesh
    dm: PETSc.DMPlex

    @cached_property
    def _numbers(self) -> NDArray[np.int32]:
        """(num_points,) number of each point over all ranks, -1 - number for points that another rank owns; collective."""
        return self.dm.createPointNumbering().getIndices()

    @property
    def _path(self) -> str:
        return f"topologies/{self.dm.getName()}"

    def write(self, coordinates: str) -> None:
        """Writes points, coordinates and labels; collective.

        Args:
            coordinates: what the section of the coordinates is called, unlike any function's.
        """
        self.writer.describe("", dmplex_storage_version=VERSION)
        self._write_topology()
        self.writer.describe(self._path, coordinateDMName=coordinates, coordinatesName="coordinates")
        self.write_field(coordinates, "coordinates", self.dm.getCoordinateDM(), self.dm.getCoordinates())
        for i in range(self.dm.getNumLabels()):
            name = self.dm.getLabelName(i)
            if name != "depth" and self.dm.getLabelOutput(name):
                self._write_label(name)

    def write_field(self, name: str, vec_name: str, dm: PETSc.DMPlex, vec: PETSc.Vec) -> None:
        """Writes a section and a global vector of it; collective.

        Args:
            name: of the section.
            vec_name: of the vector.
            dm: a clone of the mesh's DM with a section of at most one field, without constraints.
            vec: the vector.
        """
        path = f"{self._path}/dms/{name}"
        section = dm.getLocalSection()
        owned, sizes = self._owned_sizes(section)
        ends = np.cumsum(sizes)
        starts = (ends - sizes + _before(self.writer.comm, int(sizes.sum()))).astype(np.int32)
        self.writer.write(f"{path}/order", owned)
        self.writer.describe(f"{path}/section", numFields=section.getNumFields())
        parts = [f"{path}/section", *(f"{path}/section/field{i}" for i in range(section.getNumFields()))]
        for part in parts:
            self.writer.describe(part, hasConstraints=False, includesConstraints=False)
            self.writer.write(f"{part}/atlasDof", sizes)
            self.writer.write(f"{part}/atlasOff", starts)
        for i, part in enumerate(parts[1:]):
            num_comp = section.getFieldComponents(i)
            self.writer.describe(part, fieldName=section.getFieldName(i), fieldComponents=num_comp)
            for comp in range(num_comp):
                self.writer.describe(f"{part}/component{comp}", componentName=str(comp))
        self.writer.describe(f"{path}/vecs/{vec_name}", blockSize=vec.getBlockSize())
        self.writer.write(f"{path}/vecs/{vec_name}/{vec_name}", vec.array_r)

    def _owned_sizes(self, section: PETSc.Section) -> tuple[NDArray[np.int32], NDArray[np.int32]]:
        """Numbers of the owned points of a section, and how many dofs each has: as many as the first of its type."""
        first, last = section.getChart()
        topology = self.mesh.topology
        mine = slice(first - topology.start, last - topology.start)
        types, numbers = topology.types[mine], self._numbers[mine]
        table = np.zeros(len(TYPE_DIMS), np.int32)
        found, at = np.unique(types, return_index=True)
        table[found] = [section.getDof(first + int(i)) for i in at]
        sizes = table[types]
        with collective(self.writer.comm):
            if sizes.sum() != section.getStorageSize() or section.getNumFields() > 1:
                raise DataError("points of one type have different numbers of dofs; .h5 files take Lagrange fields alone")
        return numbers[numbers >= 0], sizes[numbers >= 0]

    def _write_topology(self) -> None:
        writer, path, numbers, topology = self.writer, f"{self._path}/topology", self._numbers, self.mesh.topology
        dims = TYPE_DIMS[topology.types]
        owned = numbers >= 0
        # Points of a dimension are numbered from zero there.
        firsts = np.empty(self.mesh.dim + 1, np.int64)
        for dim in range(self.mesh.dim + 1):
            mine = numbers[owned & (dims == dim)]
            firsts[dim] = min(writer.comm.allgather(int(mine.min()) if len(mine) else np.iinfo(np.int32).max))
        relative = (np.where(owned, numbers, -1 - numbers) - firsts[dims]).astype(np.int32)
        writer.describe(path, cell_dim=self.mesh.dim, depth=self.mesh.dim)
        writer.write_first(f"{path}/permutation", np.argsort(firsts).astype(np.int32))
        for dim in range(self.mesh.dim + 1):
            points = owned & (dims == dim)
            sizes = topology.cone_sizes
            entries = np.repeat(points, sizes)
            writer.write(f"{path}/strata/{dim}/cone_sizes", sizes[points])
            writer.write(f"{path}/strata/{dim}/cones", relative[topology.cones[entries] - topology.start])
            writer.write(f"{path}/strata/{dim}/orientations", topology.orientations[entries])
        writer.describe(f"{self._path}/distributions")

    def _write_label(self, name: str) -> None:
        path, start = f"{self._path}/labels/{name}", self.dm.getChart()[0]
        self.writer.describe(path)
        values = self.dm.getLabelIdIS(name).getIndices() if self.dm.hasLabel(name) else []
        for value in sorted(set().union(*self.writer.comm.allgather(set(map(int, values))))):
            points = self.dm.getStratumIS(name, value)
            numbers = self._numbers[points.getIndices() - start] if points else self._numbers[:0]
            self.writer.write(f"{path}/{value}/indices", numbers[numbers >= 0])


def _before(comm: Any, number: int) -> int:
    """The sum of a number over the ranks before this one; collective."""
    return int(sum(comm.allgather(number)[: comm.rank]))
