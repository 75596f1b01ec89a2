"""femgpu's offsets against PETSc's own, bit for bit."""

import itertools
from pathlib import Path

import numpy as np
import pytest
from petsc4py import PETSc
from petsc_offsets import constrained, local_offsets
from random_meshes import CELLS, random_mesh

from femgpu import FunctionSpace
from femgpu.element import LagrangeElement, reference_cell
from femgpu.errors import FormError, MeshError
from femgpu.mesh import FieldShape, Mesh, box, locality, read, refine, set_fields
from femgpu.mesh.closures import arrangements, closure

DATA = Path(__file__).resolve().parents[1] / "data"
COUNTS = {1: (7,), 2: (4, 3), 3: (3, 2, 2)}
parallel = pytest.mark.parallel([1, 3])
pytestmark = pytest.mark.timeout(120)


def meshes(cell):
    """Cells and degrees: randomly numbered cells, a periodic box, refined cells."""
    counts = COUNTS[reference_cell(cell).dim]
    yield Mesh.of(random_mesh(cell, counts, 3, turned=True)), range(1, 6 if len(counts) == 3 else 7)
    yield Mesh.of(box((4, 3, 3)[: len(counts)], cell, periodic=True)), (3,)
    yield Mesh.of(refine(box((2, 1, 1)[: len(counts)], cell))), (4,)


def check(mesh, fields, reorder=False):
    dm = mesh.clone_dm()
    offsets, size = set_fields(mesh, dm, fields, reorder)
    section = dm.getLocalSection()
    assert size == section.getStorageSize() == dm.createLocalVec().getLocalSize()
    dm.createCoordinateSpace(1, False, False)
    for number, (field, (found,)) in enumerate(zip(fields, offsets, strict=True)):
        expected, same = local_offsets(dm, number)
        assert found.dtype == np.int32 and same == size
        np.testing.assert_array_equal(found, expected)
        assert (section.getFieldName(number), section.getFieldComponents(number)) == (field.name, field.num_comp)


@parallel
def test_offsets_are_petscs():
    for cell in CELLS:
        for mesh, degrees in meshes(cell):
            for degree in degrees:
                fields = [FieldShape("velocity", degree, num_comp=2), FieldShape("p", 1 + degree // 2)]
                check(mesh, [*fields, FieldShape("heat", 1 + degree // 3, False, 3), FieldShape("mean", 0)])
            check(mesh, [FieldShape("velocity", 1, num_comp=2), FieldShape("p", 1)])


@parallel
def test_dofs_of_neighbours_stand_side_by_side():
    """Section and offsets agree, they permute PETSc's numbers; behind what is inside of cells, new dofs of a block are together."""
    for cell in CELLS:
        for (mesh, _), degree in itertools.product(meshes(cell), (2, 3)):
            field = FieldShape("u", degree, num_comp=2)
            check(mesh, [field], reorder=True)
            (([(found,)], size), ([(plain,)], same)) = (set_fields(mesh, mesh.clone_dm(), [field], yes) for yes in (True, False))
            assert size == same
            dofs, places = np.unique(plain, return_index=True)
            np.testing.assert_array_equal(np.sort(found.ravel()[places]), dofs)
            if mesh.has_petsc_elements:
                element = field.element(cell)
                inside = element.reference.entity_of(element.nodes) == 0
                np.testing.assert_array_equal(found[:, inside].ravel(), 2 * np.arange(found[:, inside].size))
                last = 2 * found[:, inside].size - 2
                for first in range(0, len(found), locality.BLOCK):
                    block = found[first : first + locality.BLOCK, ~inside]
                    fresh = np.unique(block[block > last])
                    assert (np.diff(fresh) == 2).all() and (not len(fresh) or fresh[0] == last + 2)
                    last = max(last, block.max())


@parallel
@pytest.mark.parametrize("family, degree", [("P", 2), ("P", 3), ("P", 4), ("DG", 2)])
def test_the_option_says_whether(set_options, family, degree):
    dm = random_mesh("tetrahedron", (3, 3, 3), 3)
    found = []
    for value in ("yes", "no"):
        set_options(femgpu_reorder=value)
        found.append(FunctionSpace(dm, family, degree).offsets)
    [(plain,)], _ = set_fields(Mesh.of(dm), Mesh.of(dm).clone_dm(), [FieldShape("u", degree, family == "P")])
    np.testing.assert_array_equal(found[1], plain)
    assert np.array_equal(*found) == (family == "DG" or degree == 4)


@pytest.mark.parametrize("cell, degree, shape", [("triangle", 4, (2,)), ("tetrahedron", 3, ()), ("hexahedron", 3, (3,))])
def test_vectors_are_those_of_the_dm(cell, degree, shape, tmp_path):
    V = FunctionSpace(random_mesh(cell, COUNTS[reference_cell(cell).dim], 3, comm=PETSc.COMM_SELF), "Lagrange", degree, shape)
    texts = []
    for vec in (V.create_vec(), V.dm.createGlobalVec()):
        vec.setArray(np.arange(V.num_dofs))
        vec.setName("u")
        copy = vec.duplicate()
        vec.copy(copy)
        viewer = PETSc.Viewer().createVTK(str(tmp_path / "u.vtu"), "w", comm=PETSc.COMM_SELF)
        copy.setName("u")
        copy.view(viewer)
        viewer.destroy()
        assert vec.getDM() == V.dm
        texts.append((vec.getSizes(), vec.getBlockSize(), vec.getType(), (tmp_path / "u.vtu").read_bytes()))
    assert texts[0] == texts[1]


@pytest.mark.parametrize("cell", CELLS)
def test_random_meshes_turn_parts_in_all_ways(cell):
    mesh = Mesh.of(random_mesh(cell, COUNTS[reference_cell(cell).dim], 3, comm=PETSc.COMM_SELF, turned=True))
    turns = closure(mesh.topology, cell, mesh.topology.of_type(cell)).turns
    for size in {len(entity) for entity in mesh.reference.entities[1:]}:
        parts = [number for number, entity in enumerate(mesh.reference.entities[1:]) if len(entity) == size]
        np.testing.assert_array_equal(np.unique(turns[:, parts]), np.arange(len(arrangements(size))))


@parallel
def test_offsets_of_a_users_section():
    """Of degree 3, too: PETSc's own offsets are wrong there, because a section made by hand knows no orientations."""
    for cell in CELLS:
        mesh = Mesh.of(random_mesh(cell, COUNTS[reference_cell(cell).dim], 5, turned=True))
        mesh.dm.createLabel("marker")
        mesh.dm.markBoundaryFaces("marker", 1)
        mesh.dm.labelComplete(mesh.dm.getLabel("marker"))
        for degree, num_comp in ((1, 1), (2, 2), (3, 2)):
            dm, plain = constrained(mesh, LagrangeElement(cell, degree).petsc_fe(num_comp, mesh.comm))
            space = FunctionSpace(dm)
            own, start, end = dm.getLocalSection(), *plain.getChart()
            assert space.numbering.any_constrained and space.num_local == own.getStorageSize()
            moved = np.full(plain.getStorageSize(), -1)
            for point in range(start, end):
                moved[plain.getOffset(point) + np.arange(plain.getDof(point))] = own.getOffset(point) + np.arange(
                    plain.getDof(point)
                )
            [(expected,)], _ = set_fields(mesh, mesh.clone_dm(), [FieldShape("u", degree, num_comp=num_comp)])
            np.testing.assert_array_equal(space.offsets, moved[expected])
            if degree < 3:
                dm.createCoordinateSpace(1, False, False)
                np.testing.assert_array_equal(space.offsets, local_offsets(dm)[0])


def test_sections_of_something_else_are_refused():
    mesh = Mesh.of(box((2, 2), "triangle", comm=PETSc.COMM_SELF))
    dm, _ = constrained(mesh, LagrangeElement("triangle", 2).petsc_fe(1, mesh.comm))
    dm.setField(0, LagrangeElement("triangle", 1).petsc_fe(1, mesh.comm))
    with pytest.raises(FormError, match="does not give each point the dofs of its field, triangle Lagrange of degree 1"):
        FunctionSpace(dm)


@parallel
def test_nodes_of_curved_cells():
    """Their nodes are equispaced, others than those of PETSc's own elements."""
    for name in ("disk_3.msh", "ball_3.msh", "quarter_ring_3.msh", "thick_quarter_ring_3.msh"):
        dm = read(DATA / name)
        mesh = Mesh.of(dm)
        expected, size = local_offsets(dm.getCoordinateDM())
        assert len(mesh.coords) * mesh.dim == size and mesh.coord_element.degree > 2
        np.testing.assert_array_equal(mesh.block.coord_dofs * mesh.dim, expected)


def test_coordinates_with_another_section_are_refused():
    dm = read(DATA / "disk_3.msh")
    coordinates = dm.getCoordinateDM()
    fresh = coordinates.clone()
    fresh.setField(0, LagrangeElement("triangle", 2).petsc_fe(2, dm.comm))
    fresh.createDS()
    coordinates.setLocalSection(fresh.getLocalSection())
    with pytest.raises(MeshError, match="section of the coordinates is not that of their element"):
        Mesh.of(dm)
