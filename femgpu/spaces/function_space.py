"""Lagrange spaces on a DMPlex."""

from __future__ import annotations

import weakref
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt
import ufl
from petsc4py import PETSc

from femgpu import petsc_c
from femgpu.element import LagrangeElement
from femgpu.errors import FormError
from femgpu.mesh import Mesh
from femgpu.spaces.layout import Layout
from femgpu.spaces.ufl_element import UFLLagrange

_CONTINUOUS = ("Lagrange", "CG", "P", "Q")
_BROKEN = ("Discontinuous Lagrange", "DG", "DP", "DQ")
# Cells whose node positions are computed in one piece: bounds the memory of set-up.
_CHUNK = 65536

_ufl_meshes: weakref.WeakKeyDictionary[Mesh, ufl.Mesh] = weakref.WeakKeyDictionary()
_meshes: weakref.WeakValueDictionary[int, Mesh] = weakref.WeakValueDictionary()


def ufl_mesh(mesh: Mesh) -> ufl.Mesh:
    """The one UFL mesh of a mesh."""
    if mesh not in _ufl_meshes:
        element = UFLLagrange(mesh.cell, mesh.coord_element.degree, (mesh.dim,))
        _ufl_meshes[mesh] = ufl.Mesh(element)
        _meshes[id(_ufl_meshes[mesh])] = mesh
    return _ufl_meshes[mesh]


def mesh_of(domain: ufl.Mesh) -> Mesh | None:
    """The mesh that a UFL mesh stands for; None for one that femgpu did not make, or whose mesh is gone."""
    return _meshes.get(id(domain))


def coordinates(dm: PETSc.DM) -> ufl.SpatialCoordinate:
    """The position x as a UFL expression."""
    return ufl.SpatialCoordinate(ufl_mesh(Mesh.of(dm)))


class FunctionSpace(ufl.FunctionSpace):
    """A Lagrange space: scalar, vector- or tensor-valued, continuous or not.

    Args:
        dm: the DMPlex of the mesh. With a family the space gets a clone of it with a section of its own; without one, the DM's
            own field 0 and section are the space, and dofs that the section constrains stay out of the T-vector.
        family: `"Lagrange"` (or `"CG"`, `"P"`, `"Q"`), `"DG"` (or `"DP"`, `"DQ"`).
        degree: polynomial degree.
        shape: value shape; `()` is scalar, `3` stands for `(3,)`.

    Attributes:
        mesh: the mesh.
        element: the scalar element.
        dm: the DM with this space's section.
        num_comp: components of a value.
        offsets: (num_cells, num_basis) int32 positions of component 0 in the L-vector.

    Raises:
        FormError: for a family, degree or shape that is not supported, or a DM without a Lagrange field.
    """

    def __init__(self, dm: PETSc.DM, family: str | None = None, degree: int | None = None, shape: int | tuple[int, ...] = ()):
        self.mesh = Mesh.of(dm)
        if family is None:
            self.element, shape = _own_element(dm, self.mesh)
            self.dm = dm
        else:
            self.element = _element(self.mesh.cell, family, degree)
            shape = (int(shape),) if isinstance(shape, int | np.integer) else tuple(int(extent) for extent in shape)
            if any(extent < 1 for extent in shape):
                raise FormError(f"value shape {shape}: expected positive extents, for example (3,)")
            self.dm = self.mesh.clone_dm()
            self.dm.setField(0, self.element.petsc_fe(int(np.prod(shape, dtype=int)), comm=dm.comm))
            self.dm.createDS()
        self.num_comp = int(np.prod(shape, dtype=int))
        offsets, _, self.num_local = petsc_c.local_offsets(self.dm)
        self.offsets = offsets[: self.mesh.num_cells]
        element = UFLLagrange(self.mesh.cell, self.element.degree, shape, self.element.continuous)
        super().__init__(ufl_mesh(self.mesh), element)

    @cached_property
    def layout(self) -> Layout:
        """The T-L map; the first access is collective."""
        return Layout.of(self.dm)

    @cached_property
    def unconstrained(self) -> FunctionSpace:
        """The same space on a section without constraints; the first access is collective."""
        family = "Lagrange" if self.element.continuous else "DG"
        return FunctionSpace(self.dm, family, self.element.degree, self.value_shape)

    @property
    def comm(self) -> PETSc.Comm:
        """PETSc's communicator of the mesh."""
        return self.mesh.comm

    @property
    def num_dofs(self) -> int:
        """Length of the global vector."""
        return int(self.layout.ranges[-1])

    def nodes(self) -> tuple[npt.NDArray[np.int32], npt.NDArray[np.float64]]:
        """The nodes of this rank, ghosts included.

        Returns:
            Positions (num_nodes,) of component 0 in the L-vector, and coordinates (num_nodes, dim).
        """
        where = np.empty((self.num_local, self.mesh.dim))
        present = np.zeros(self.num_local, bool)
        for start in range(0, len(self.offsets), _CHUNK):
            cells = slice(start, start + _CHUNK)
            where[self.offsets[cells]] = self.mesh.physical_points(self.element.nodes, cells)
            present[self.offsets[cells]] = True
        positions = np.flatnonzero(present).astype(np.int32)
        return positions, where[positions]

    def __str__(self) -> str:
        return str(self.ufl_element())


def _element(cell: str, family: str, degree: Any) -> LagrangeElement:
    if family not in _CONTINUOUS + _BROKEN:
        legal = ", ".join(_CONTINUOUS + _BROKEN)
        raise FormError(f"element family {family!r}: expected one of {legal}")
    if not isinstance(degree, int | np.integer) or degree < 0:
        raise FormError(f"degree {degree!r} of family {family!r}: expected an integer of at least 0")
    if degree == 0 and family in _CONTINUOUS:
        raise FormError('a continuous Lagrange space needs a degree of at least 1; use family "DG" for degree 0')
    return LagrangeElement(cell, int(degree), family in _CONTINUOUS)


def _own_element(dm: PETSc.DM, mesh: Mesh) -> tuple[LagrangeElement, tuple[int, ...]]:
    """Element and value shape of a DM's own field."""
    fields = dm.getNumFields()
    fe = dm.getField(0)[0] if fields else None
    if fields != 1 or not isinstance(fe, PETSc.FE):
        raise FormError(
            f"the DM has {fields} fields; FunctionSpace(dm) without a family takes a DM with one PetscFE field. "
            'Give a family and a degree, for example FunctionSpace(dm, "Lagrange", 1)'
        )
    degree = fe.getBasisSpace().getDegree()[0]
    element = LagrangeElement(mesh.cell, degree, fe.getDualSpace().getLagrangeContinuity())
    num_comp = fe.getNumComponents()
    if fe.getDimension() != element.num_basis * num_comp:
        raise FormError(f"the DM's field 0 has {fe.getDimension()} functions per cell; expected Lagrange of degree {degree}")
    return element, (() if num_comp == 1 else (num_comp,))
