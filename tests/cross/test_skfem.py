"""femgpu against scikit-fem, for the elements that scikit-fem has, with femgpu's quadrature rule."""

import numpy as np
import pytest
import skfem
from problems import PROBLEMS, Setting
from test_einsum import VERTICES

ELEMENTS = {
    ("triangle", 1): skfem.ElementTriP1,
    ("triangle", 2): skfem.ElementTriP2,
    ("triangle", 3): skfem.ElementTriP3,
    ("triangle", 4): skfem.ElementTriP4,
    ("tetrahedron", 1): skfem.ElementTetP1,
    ("tetrahedron", 2): skfem.ElementTetP2,
    ("quadrilateral", 1): skfem.ElementQuad1,
    ("quadrilateral", 2): skfem.ElementQuad2,
    ("hexahedron", 1): skfem.ElementHex1,
    ("hexahedron", 2): skfem.ElementHex2,
}
MESHES = {
    "triangle": skfem.MeshTri,
    "tetrahedron": skfem.MeshTet,
    "quadrilateral": skfem.MeshQuad,
    "hexahedron": skfem.MeshHex,
}
NUM_CELLS = {"triangle": 31, "tetrahedron": 29, "quadrilateral": 17, "hexahedron": 7}


def bases(setting, cell, element):
    """One basis for every order in which scikit-fem lists the vertices of PETSc's cells (it sorts those of triangles).

    The rule's points then are the same physical points.
    """
    petsc = np.array(VERTICES[cell], float)
    own = element.refdom.p.T
    order = [int(np.argmin(np.abs((petsc + 1) / 2 - vertex).sum(axis=1))) for vertex in own]
    dim = petsc.shape[1]
    points, cells = np.unique(setting.vertices.reshape(-1, dim), axis=0, return_inverse=True)
    cells = cells.reshape(setting.vertices.shape[:2])
    mesh = MESHES[cell](points.T.copy(), cells[:, order].T.copy())
    # Position in PETSc's list of each of scikit-fem's vertices.
    where = (mesh.t.T[:, :, None] == cells[:, None, :]).argmax(axis=2)
    for listing in np.unique(where, axis=0):
        affine = np.linalg.lstsq(np.c_[np.ones(len(petsc)), petsc[listing]], own, rcond=None)[0]
        points = np.c_[np.ones(len(setting.points)), setting.points] @ affine
        rule = points.T, setting.weights / 2**dim
        yield skfem.CellBasis(mesh, element, quadrature=rule, elements=np.flatnonzero((where == listing).all(axis=1)))


def oracle(problem, setting, cell, degree):
    """(r(u).w, w.J(u)w)."""
    total = np.zeros(2)
    for basis in bases(setting, cell, ELEMENTS[cell, degree]()):

        def interpolated(polynomial, basis=basis):
            dofs = polynomial(basis.doflocs).reshape(setting.num_comp, -1)
            fields = [basis.interpolate(part) for part in dofs]
            return np.stack([np.asarray(field) for field in fields]), np.stack([field.grad for field in fields])

        u, gu, w, gw = *interpolated(setting.u), *interpolated(setting.w)
        x = np.asarray(basis.global_coordinates())
        for i, integrand in enumerate((problem.residual, problem.action)):
            values = integrand(x, setting.k(x), u, gu, w, gw)
            total[i] += skfem.Functional(lambda fields, values=values: values).assemble(basis)
    return total


@pytest.mark.parametrize(("cell", "degree"), ELEMENTS)
@pytest.mark.parametrize("problem", PROBLEMS)
def test_numbers_agree(rng, set_options, problem, cell, degree):
    setting = Setting(problem, cell, degree, NUM_CELLS[cell], rng, set_options)
    difference = setting.difference(oracle(problem, setting, cell, degree))
    print(problem.__name__, cell, degree, setting.numbers, "DIFFERENCE", difference)
    assert difference <= 1e-12
