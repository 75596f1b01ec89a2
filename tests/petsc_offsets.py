"""PETSc's own offsets, cell by cell: what femgpu's are held against."""

from ctypes import POINTER, byref, c_void_p

import numpy as np
from petsc4py import PETSc

from femgpu import petsc_c

_Int, _IntPtr = petsc_c._Int, petsc_c._IntPtr
petsc_c.declare({"DMPlexGetLocalOffsets": [c_void_p, c_void_p, _Int, _Int, _Int, *[_IntPtr] * 4, POINTER(_IntPtr)]})


def local_offsets(dm: PETSc.DMPlex, field: int = 0) -> tuple[np.ndarray, int]:
    """Offsets of component 0, (num_cells, num_basis), and the length of the local vector.

    PETSc crashes where the coordinates have no finite element, and keeps the fields of a closure in an array of length 16.
    """
    num_cells, num_basis, num_comp, size = _Int(), _Int(), _Int(), _Int()
    start = _IntPtr()
    petsc_c.call(
        "DMPlexGetLocalOffsets", dm.handle, None, 0, 0, field,
        byref(num_cells), byref(num_basis), byref(num_comp), byref(size), byref(start),
    )  # fmt: skip
    if not num_cells.value:
        fe = dm.getField(field)[0]
        return np.empty((0, fe.getDimension() // fe.getNumComponents()), np.int32), size.value
    # PETSc's memory is left to PETSc: a few kB.
    return np.ctypeslib.as_array(start, (num_cells.value, num_basis.value)).copy(), size.value


def constrained(mesh, fe):
    """A DM whose section, numbered backwards, constrains the first dof of each vertex on the boundary; and PETSc's own section."""
    dm = mesh.clone_dm()
    dm.setField(0, fe)
    dm.createDS()
    plain, own = dm.getLocalSection(), PETSc.Section().create(dm.comm)
    first, last = dm.getDepthStratum(0)
    chosen = [int(point) for point in mesh.points("boundary" if mesh.dim == 1 else ("marker", 1)) if first <= point < last]
    start, end = plain.getChart()
    own.setNumFields(1)
    own.setFieldComponents(0, fe.getNumComponents())
    own.setChart(start, end)
    own.setPermutation(PETSc.IS().createGeneral(np.arange(end - start, dtype=PETSc.IntType)[::-1], comm=PETSc.COMM_SELF))
    for point in range(start, end):
        own.setDof(point, plain.getDof(point))
        own.setFieldDof(point, 0, plain.getDof(point))
    for point in chosen:
        own.setConstraintDof(point, 1)
        own.setFieldConstraintDof(point, 0, 1)
    own.setUp()
    for point in chosen:
        own.setConstraintIndices(point, [0])
        own.setFieldConstraintIndices(point, 0, [0])
    dm.setLocalSection(own)
    return dm, plain
