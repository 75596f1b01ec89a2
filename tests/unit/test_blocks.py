"""Blocks of a mesh, and the sections of several named fields."""

import numpy as np
import pytest
from petsc4py import PETSc
from random_meshes import CELLS, random_mesh

from femgpu.element import reference_cell
from femgpu.mesh import FieldShape, Mesh, box, set_fields

COUNTS = {1: (7,), 2: (4, 3), 3: (3, 2, 2)}
pytestmark = pytest.mark.timeout(120)
parallel = pytest.mark.parallel([1, 3])


@pytest.mark.parametrize("cell", CELLS)
def test_a_mesh_of_one_type_is_one_block(cell):
    mesh = Mesh.of(random_mesh(cell, COUNTS[reference_cell(cell).dim], comm=PETSc.COMM_SELF))
    (block,) = mesh.blocks
    assert (block.index, block.cell, block.num_cells, block.dim) == (0, cell, mesh.num_cells, mesh.dim)
    assert mesh.block is block and block.coords is mesh.coords
    where, index = mesh.locate(block.ids[::-1])
    assert where.dtype == index.dtype == np.int32 and not where.any()
    np.testing.assert_array_equal(index, np.arange(mesh.num_cells)[::-1])


FIELDS = (FieldShape("velocity", 2, num_comp=2), FieldShape("pressure", 1), FieldShape("heat", 0, continuous=False))


@parallel
def test_named_fields_split_by_name():
    for cell in ("triangle", "quadrilateral"):
        check_named_fields(Mesh.of(box((4, 3), cell)))


def check_named_fields(mesh):
    """The fields share one local vector without gaps; PETSc knows them by name, also in PCFieldSplit."""
    dm = mesh.clone_dm()
    offsets, num_local = set_fields(mesh, dm, FIELDS)
    used = [np.unique(each) + c for of, field in zip(offsets, FIELDS, strict=True) for each in of for c in range(field.num_comp)]
    np.testing.assert_array_equal(np.sort(np.concatenate(used)), np.arange(num_local))
    assert all(len(of) == len(mesh.blocks) and of[0].dtype == np.int32 for of in offsets)
    assert dm.createLocalVec().getLocalSize() == num_local
    names, sets, _ = dm.createFieldDecomposition()
    assert names == [field.name for field in FIELDS]
    split = PETSc.PC().create(mesh.comm)
    split.setDM(dm)
    split.setType("fieldsplit")
    matrix = dm.createMat()
    matrix.shift(2.0)
    split.setOperators(matrix)
    split.setUp()
    solvers = split.getFieldSplitSubKSP()
    assert [solver.getOptionsPrefix() for solver in solvers] == [f"fieldsplit_{field.name}_" for field in FIELDS]
    sizes = [solver.getOperators()[0].getSize()[0] for solver in solvers]
    assert sizes == [each.getSize() for each in sets] and sum(sizes) == dm.createGlobalVec().getSize()
