"""What all function spaces have in common."""

from __future__ import annotations

import weakref
from collections.abc import Sequence
from dataclasses import replace
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt
import ufl
from mpi4py import MPI
from petsc4py import PETSc

from femgpu import petsc_c
from femgpu.element import CELL_NAMES
from femgpu.errors import DataError, MeshError, alive
from femgpu.mesh import Mesh
from femgpu.mesh.geometry import chunks
from femgpu.spaces.field import Field
from femgpu.spaces.numbering import Numbering
from femgpu.spaces.storage import Storage, WideStorage
from femgpu.spaces.ufl_element import UFLLagrange

# Entries of tensors are taken for equal that differ by this part of the largest one; and by so much anyway, roundings of one.
_ROUNDING, _NOISE = 1e-10, 2e-15

_ufl_meshes: weakref.WeakKeyDictionary[Mesh, ufl.Mesh] = weakref.WeakKeyDictionary()
_meshes: weakref.WeakValueDictionary[int, Mesh] = weakref.WeakValueDictionary()


def ufl_cell(mesh: Mesh) -> str:
    """The cell that UFL takes the mesh to consist of: on mixed meshes the last type, about which UFL assumes least."""
    return max((block.cell for block in mesh.blocks), key=CELL_NAMES.index)


def ufl_mesh(mesh: Mesh) -> ufl.Mesh:
    """The one UFL mesh of a mesh."""
    if mesh not in _ufl_meshes:
        degree = max(block.coord_element.degree for block in mesh.blocks)
        element = UFLLagrange(ufl_cell(mesh), degree, (mesh.dim,))
        _ufl_meshes[mesh] = ufl.Mesh(element)
        _meshes[id(_ufl_meshes[mesh])] = mesh
    return _ufl_meshes[mesh]


def mesh_of(domain: ufl.Mesh) -> Mesh | None:
    """The mesh that a UFL mesh stands for; None for one that femgpu did not make, or whose mesh is gone."""
    return _meshes.get(id(domain))


def coordinates(dm: PETSc.DM) -> ufl.SpatialCoordinate:
    """The position x as a UFL expression."""
    return ufl.SpatialCoordinate(ufl_mesh(Mesh.of(dm)))


def cells_with(marked: npt.NDArray[np.bool_], offsets: npt.NDArray[np.int32]) -> npt.NDArray[np.int64]:
    """The cells that have a marked node.

    Args:
        marked: (num_local,) which nodes, by position of component 0 in the L-vector.
        offsets: (num_cells, num_basis) these positions.
    """
    # In chunks: indices become 64 bit wide where numpy takes them.
    here = [marked[offsets[part]].any(axis=1) for part in chunks(len(offsets))]
    return np.flatnonzero(np.concatenate([np.empty(0, bool), *here]))


class Space(ufl.FunctionSpace):
    """A space of one or several fields on a mesh.

    Args:
        mesh: the mesh.
        dm: the DM whose section the space's vectors have.
        fields: the fields, in the order of their components.
        num_local: length of the L-vector.
        element: the UFL element.
        own_section: whether the section is femgpu's, which constrains no dofs.

    Attributes:
        mesh: the mesh.
        fields: the fields.
        num_local: length of the L-vector.
    """

    def __init__(self, mesh: Mesh, dm: PETSc.DM, fields: tuple[Field, ...], num_local: int, element: Any, own_section: bool = True):
        self.mesh = mesh
        self._own_section = own_section
        self._dm = dm
        self.fields = fields
        self.num_local = num_local
        self._wide: WideStorage | None = None
        super().__init__(ufl_mesh(mesh), element)

    @property
    def dm(self) -> PETSc.DMPlex:
        """The DM with this space's section; raises a DataError when it was destroyed."""
        return alive(self._dm, f"the DM of {self}")

    @property
    def root(self) -> Space:
        """The space that owns the vectors: the mixed space of a subspace, else the space itself."""
        return self

    @property
    def num_comp(self) -> int:
        """Components of a value that are stored, all fields together."""
        return sum(field.num_comp for field in self.fields)

    @property
    def entry_components(self) -> npt.NDArray[np.int32]:
        """(value size,) the stored component of each entry of a value, entries counted row by row."""
        return np.concatenate([np.int32(field.offset) + field.entry_components for field in self.fields])

    def storage(self, wide: bool) -> Storage:
        """How a form's L-vectors hold the space's dofs; collective at first.

        Args:
            wide: with those of other ranks' cells that facets of this rank lead to, see `Form.wide`.
        """
        if not wide:
            return Storage(self)
        if self._wide is None:
            self._wide = WideStorage(self)
        return self._wide

    @cached_property
    def both_sides(self) -> tuple[Field, ...]:
        """The fields as a facet between two cells has them: those of the first cell, then those of the second one."""
        fields = self.storage(self.mesh.mpi.size > 1).fields
        return (*fields, *(replace(field, offset=field.offset + self.num_comp, side=1) for field in fields))

    @property
    def degree(self) -> int:
        """The largest polynomial degree of the fields."""
        return max(field.polynomial_degree for field in self.fields)

    @cached_property
    def numbering(self) -> Numbering:
        """The T-L map; the first access is collective."""
        return Numbering.alone(self.num_local) if self._is_alone else Numbering.of(self.dm)

    def create_vec(self) -> PETSc.Vec:
        """A new T-vector, zero; collective."""
        dm = self.dm
        if not self._is_alone or len(self.fields) > 1 or not self.fields[0].continuous:
            return dm.createGlobalVec()
        # What PETSc makes of as many dofs on two points: with the DM's own section it goes through all points of the mesh.
        section, small = PETSc.Section().create(comm=self.comm), dm.clone()
        section.setChart(0, 2)
        section.setDof(0, min(self.num_comp, self.num_local))
        section.setDof(1, self.num_local - section.getDof(0))
        section.setUp()
        small.setVecType(petsc_c.vec_type(dm))
        small.setLocalSection(section)
        small.setGlobalSection(section)
        vec = small.createGlobalVec()
        vec.setDM(dm)
        return vec

    def local_values(self, vec: PETSc.Vec) -> npt.NDArray[np.float64]:
        """The L-vector of a T-vector, constrained dofs with the values that the DM has for them; collective."""
        dm = self.dm
        if self._is_alone:
            return np.array(vec.array_r)
        local = dm.getLocalVec()
        local.set(0)
        dm.globalToLocal(vec, local)
        if self.numbering.any_constrained:
            petsc_c.insert_boundary_values(dm, local)
        values = np.array(local.array_r)
        dm.restoreLocalVec(local)
        return values

    @property
    def _is_alone(self) -> bool:
        """Whether all dofs are this rank's own, and none is constrained."""
        return self._own_section and self.mesh.mpi.size == 1

    @property
    def comm(self) -> PETSc.Comm:
        """PETSc's communicator of the mesh."""
        return self.mesh.comm

    @property
    def num_dofs(self) -> int:
        """Length of the global vector."""
        return int(self.numbering.ranges[-1])

    def dofs(self, block: int, cells: slice | npt.NDArray = slice(None)) -> npt.NDArray[np.int32]:
        """(num_cells, num_rows) positions in the L-vector of the dofs of a block's cells: field, basis function, component."""
        return np.concatenate([field.dofs(block, cells) for field in self.fields], axis=1)

    def __str__(self) -> str:
        return str(self.ufl_element())


class SingleSpace(Space):
    """A space of one field, on vectors of its own or those of a mixed space."""

    @property
    def field(self) -> Field:
        """The field."""
        return self.fields[0]

    @property
    def element(self) -> Any:
        """The scalar element, on meshes of one cell type.

        Raises:
            MeshError: on meshes that mix cell types.
        """
        return self._only(self.field.elements)

    @property
    def offsets(self) -> npt.NDArray[np.int32]:
        """(num_cells, num_basis) int32 positions of component 0 in the L-vector, on meshes of one cell type.

        Raises:
            MeshError: on meshes that mix cell types.
        """
        return self._only(self.field.offsets)

    def nodes(
        self, marked: npt.NDArray[np.bool_] | None = None, near: Sequence[npt.NDArray[np.int32]] = ()
    ) -> tuple[npt.NDArray[np.int32], npt.NDArray[np.float64]]:
        """The nodes of this rank, ghosts included; collective.

        Args:
            marked: (num_local,) which nodes are wanted, by position of component 0 in the L-vector; None: all.
            near: cells of each block where most of them are, if that is known.

        Returns:
            Positions (num_nodes,) of component 0 in the L-vector, increasing, and coordinates (num_nodes, dim).
        """
        self.mesh.update()
        if marked is None:
            marked = np.zeros(self.num_local, bool)
            for offsets in self.field.offsets:
                for part in chunks(len(offsets)):
                    marked[offsets[part]] = True
        positions = np.flatnonzero(marked).astype(np.int32)
        number = np.empty(self.num_local, np.int32)
        number[positions] = np.arange(len(positions), dtype=np.int32)
        where, present = np.empty((len(positions), self.mesh.dim)), np.zeros(len(positions), bool)
        for known in [near, None] if near else [None]:
            if present.all():
                break
            for block, element, offsets in zip(self.mesh.blocks, self.field.elements, self.field.offsets, strict=True):
                cells = cells_with(marked, offsets) if known is None else known[block.index]
                for part in chunks(len(cells)):
                    nodes = offsets[cells[part]]
                    inside = marked[nodes]
                    rows = number[nodes[inside]]
                    where[rows] = block.physical_points(element.nodes, cells[part])[inside]
                    present[rows] = True
        return (positions, where) if present.all() else (positions[present], where[present])

    def stored(self, parts: Sequence[npt.NDArray[np.float64]], what: str) -> list[npt.NDArray[np.float64]]:
        """The stored components (..., num_comp) of values (..., prod(value_shape)), in as many parts as may be; collective.

        Args:
            parts: entries counted row by row.
            what: names them in messages.

        Raises:
            DataError: on all ranks, for tensors that are not symmetric, where the space's are.
        """
        if not self.field.symmetric:
            return list(parts)
        tensors = [part.reshape(-1, *self.field.shape) for part in parts]
        with np.errstate(invalid="ignore"):
            differences = [tensor - tensor.transpose(0, 2, 1) for tensor in tensors]
        # Of all ranks: where tensors are zero but for rounding, their own size tells nothing.
        most, largest = (
            self.mesh.mpi.allreduce(max((float(np.abs(array).max(initial=0.0)) for array in arrays), default=0.0), op=MPI.MAX)
            for arrays in (differences, tensors)
        )
        if most > _ROUNDING * largest + _NOISE:
            raise DataError(
                f"{what} are not symmetric: entries (i, j) and (j, i) differ by up to {most}, where the largest is {largest}; "
                "expected symmetric tensors, ufl.sym(...) of others, or a space without symmetry=True"
            )
        first = np.unique(self.field.entry_components, return_index=True)[1]
        return [part[..., first] for part in parts]

    def _only(self, entries: tuple[Any, ...]) -> Any:
        if len(entries) != 1:
            names = ", ".join(block.cell for block in self.mesh.blocks)
            raise MeshError(
                f"the mesh mixes cell types ({names}), each with an element of its own; ask space.field and mesh.blocks"
            )
        return entries[0]
