"""Where the dofs of every cell stand in the local vector: the section of named Lagrange fields, and their offsets.

On meshes of one simplex or tensor type the section is that of PETSc's finite elements, which the DM gets; that of one continuous
field of degree 2 or 3 may have its dofs in an order of femgpu's (`locality`). PETSc's sections give
all points of a dimension the same number of dofs, which is wrong on prisms and mixed meshes, silently so on the latter, and PETSc
has no elements with bubbles: there the section is femgpu's own, with dofs by the type of each point. Offsets are femgpu's own
everywhere (`cell_dofs`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from mpi4py import MPI
from petsc4py import PETSc

from femgpu.element import LagrangeElement, reference_cell
from femgpu.errors import FormError, collective
from femgpu.mesh.cell_dofs import PointDofs, cell_dofs, type_dofs
from femgpu.mesh.closures import parts_of
from femgpu.mesh.coordinates import point_dofs, section_offsets
from femgpu.mesh.locality import local_order, wins
from femgpu.mesh.mesh import Mesh
from femgpu.mesh.topology import TYPE_NAMES

# One array per block of the mesh, (num_cells, num_basis) int32: positions of component 0, the other components follow it.
Offsets = tuple[npt.NDArray[np.int32], ...]

_INT32_MAX = np.iinfo(np.int32).max


@dataclass(frozen=True)
class FieldShape:
    """A Lagrange field to be numbered.

    Attributes:
        name: name of the field, for PCFieldSplit and output.
        degree: polynomial degree.
        continuous: whether neighbouring cells share nodes.
        num_comp: number of components.
        bubble: whether there is a node in the middle of each cell, see `LagrangeElement`.
    """

    name: str
    degree: int
    continuous: bool = True
    num_comp: int = 1
    bubble: bool = False

    def element(self, cell: str) -> LagrangeElement:
        """The scalar element of the field on a cell type."""
        return LagrangeElement(cell, self.degree, self.continuous, bubble=self.bubble)


def set_fields(mesh: Mesh, dm: PETSc.DMPlex, fields: Sequence[FieldShape], reorder: bool = False) -> tuple[list[Offsets], int]:
    """Gives a DM the section of several fields; collective.

    Args:
        mesh: the mesh.
        dm: a DM made by `mesh.clone_dm`, without fields.
        fields: the fields, in the order of the section's.
        reorder: whether dofs of neighbouring cells are to stand side by side (`locality`) where that pays and there is one field;
            else they stand in the order of the points.

    Returns:
        For each field the offsets of its blocks, all into the one local vector; and the length of that vector.

    Raises:
        FormError: for no fields, two of one name, or a local vector that is too long for 32 bits.
    """
    names = [field.name for field in fields]
    if not names or len(set(names)) < len(names):
        raise FormError(f"fields named {', '.join(names) or '(none)'}: expected at least one, and names that differ")
    of_petsc = mesh.has_petsc_elements and not any(field.bubble for field in fields)
    if of_petsc:
        for number, field in enumerate(fields):
            fe = field.element(mesh.cell).petsc_fe(field.num_comp, mesh.comm)
            fe.setName(field.name)
            dm.setField(number, fe)
        dm.createDS()
        if all(field.degree == 1 and field.continuous for field in fields) and _nodes_are_vertices(mesh):
            return _on_vertices(mesh, fields)
    topology, cells = mesh.topology, [block.cell for block in mesh.blocks]
    # (num_types, num_fields) dofs of each field on a point of each type.
    table = np.stack([field.num_comp * type_dofs([field.element(cell) for cell in cells]) for field in fields], axis=1)
    with collective(mesh.mpi):
        num_local = _checked(int(np.bincount(topology.types, minlength=len(table)) @ table.sum(axis=1)))
    if not of_petsc:
        dm.setLocalSection(_section(dm, topology.types, table, fields))
    sizes = table.sum(axis=1, dtype=np.int32)[topology.types]
    order: slice | npt.NDArray[np.int32] = slice(None)
    pieces = None
    if reorder and of_petsc and len(fields) == 1 and fields[0].continuous and wins(fields[0].degree):
        pieces = list(parts_of(topology, cells[0]))  # which are asked twice
        order = points = local_order(topology, cells[0], sizes > 0, pieces)
        dm.setLocalSection(_ordered_section(dm, cells[0], table, fields[0], points))
    starts = np.empty_like(sizes)
    starts[order] = np.cumsum(sizes[order], dtype=np.int32)
    starts -= sizes
    before = (np.cumsum(table, axis=1) - table).astype(np.int32)
    firsts = [starts + before[topology.types, number] if before[:, number].any() else starts for number in range(len(fields))]
    blocks = [
        cell_dofs(
            topology, cell, [PointDofs(f.element(cell), f.num_comp, first) for f, first in zip(fields, firsts, strict=True)], pieces
        )
        for cell in cells
    ]
    return list(zip(*blocks, strict=True)), num_local


def _nodes_are_vertices(mesh: Mesh) -> bool:
    """Whether the nodes of the coordinates are the vertices of the DM, in their order; collective on first use."""
    if "nodes are vertices" not in mesh.kept:
        first, last = mesh.dm.getDepthStratum(0)
        same = mesh.blocks[0].coord_element.degree == 1 and len(mesh.coords) == last - first
        if same:
            offsets = section_offsets(mesh.dm.getCoordinateSection(), first, last)
            same = np.array_equal(offsets, mesh.dim * np.arange(last - first))
        mesh.kept["nodes are vertices"] = mesh.mpi.allreduce(same, op=MPI.LAND)
    return bool(mesh.kept["nodes are vertices"])


def _on_vertices(mesh: Mesh, fields: Sequence[FieldShape]) -> tuple[list[Offsets], int]:
    """What `set_fields` returns for continuous fields of degree 1, whose nodes are those of the coordinates; collective."""
    num_comp = [field.num_comp for field in fields]
    width, offsets = sum(num_comp), list[Offsets]()
    with collective(mesh.mpi):
        num_local = _checked(width * len(mesh.coords))
    for before in np.cumsum(num_comp) - num_comp:
        nodes = (block.coord_dofs for block in mesh.blocks)
        offsets.append(tuple(entry if width == 1 else entry * np.int32(width) + np.int32(before) for entry in nodes))
    return offsets, num_local


def _checked(num_local: int) -> int:
    """The length of a local vector; raises a FormError where offsets do not reach it."""
    if num_local > _INT32_MAX:
        raise FormError(f"this rank holds {num_local} dofs; 32-bit offsets reach {_INT32_MAX}: use more ranks")
    return num_local


def given_section(mesh: Mesh, dm: PETSc.DMPlex, element: LagrangeElement, num_comp: int) -> tuple[Offsets, int]:
    """The offsets of the one field of a user's own section, which may constrain dofs, on a mesh of one cell type; collective.

    Args:
        mesh: the mesh.
        dm: the DM with the section.
        element: the field's scalar element.
        num_comp: its components.

    Returns:
        The offsets, and the length of the local vector.

    Raises:
        FormError: on all ranks, when the section has other dofs than the element.
    """
    section, topology = dm.getLocalSection(), mesh.topology
    with collective(mesh.mpi):
        first = point_dofs(topology, section, element, num_comp)
        if first is None:
            raise FormError(
                f"the section of the DM does not give each point the dofs of its field, {element.cell} Lagrange of degree "
                f"{element.degree} with {num_comp} components; expected the section of that field"
            )
    return tuple(cell_dofs(topology, element.cell, [PointDofs(element, num_comp, first)])), section.getStorageSize()


def _ordered_section(
    dm: PETSc.DMPlex, cell: str, table: npt.NDArray[np.int64], field: FieldShape, order: npt.NDArray[np.int32]
) -> PETSc.Section:
    """The section of one field on a mesh of one cell type, its dofs in an order of points."""
    reference = reference_cell(cell)
    # In the plane the facets are the edges.
    kinds = {0: "point", 1: "interval", reference.dim - 1: reference.facet_cells[0], reference.dim: cell}
    dofs = [int(table[TYPE_NAMES.index(kinds[dim])].sum()) for dim in range(reference.dim + 1)]
    # The DM has the field's finite element, which says how dofs turn with the parts of cells that they lie on.
    permutation = PETSc.IS().createGeneral(order, comm=PETSc.COMM_SELF)
    section = dm.createSection([field.num_comp], dofs, perm=permutation)
    section.setFieldName(0, field.name)
    return section


def _section(
    dm: PETSc.DMPlex, types: npt.NDArray[np.int8], table: npt.NDArray[np.int64], fields: Sequence[FieldShape]
) -> PETSc.Section:
    """The section over the points of the DM, in one call: each point takes the dofs of its type from a section of types."""
    roots = PETSc.Section().create(PETSc.COMM_SELF)
    roots.setNumFields(len(fields))
    for number, field in enumerate(fields):
        roots.setFieldName(number, field.name)
        roots.setFieldComponents(number, field.num_comp)
    roots.setChart(0, len(table))
    for kind, dofs in enumerate(table):
        roots.setDof(kind, int(dofs.sum()))
        for number, count in enumerate(dofs):
            roots.setFieldDof(kind, number, int(count))
    roots.setUp()
    start, end = dm.getChart()
    points = np.arange(start, end, dtype=PETSc.IntType)
    forest = PETSc.SF().create(PETSc.COMM_SELF)
    forest.setGraph(len(table), points, np.stack([np.zeros_like(points), types.astype(PETSc.IntType)], axis=1))
    section = PETSc.Section().create(dm.comm)
    forest.distributeSection(roots, section)
    return section
