"""femgpu against an assembly by einsum over basix's tabulations, which shares no code with it.

The oracle has basix's elements with warped nodes, basix's dof order, basix's reference cell and a geometry of its own; the
only things it is told are the vertices of each cell in PETSc's order, and the quadrature rule.
"""

import basix
import numpy as np
import pytest
from problems import PROBLEMS, Setting

# PETSc's reference vertices: tetrahedra list x and y swapped, hexahedra turn their lower face over.
VERTICES = {
    "triangle": [[-1, -1], [1, -1], [-1, 1]],
    "tetrahedron": [[-1, -1, -1], [-1, 1, -1], [1, -1, -1], [-1, -1, 1]],
    "quadrilateral": [[-1, -1], [1, -1], [1, 1], [-1, 1]],
    "hexahedron": [[-1, -1, -1], [-1, 1, -1], [1, 1, -1], [1, -1, -1], [-1, -1, 1], [1, -1, 1], [1, 1, 1], [-1, 1, 1]],
}
CASES = [
    *[("triangle", degree, 23) for degree in (3, 4, 5)],
    *[("tetrahedron", degree, 11) for degree in (3, 4, 5)],
    *[("quadrilateral", degree, 7) for degree in (3, 4)],
    *[("hexahedron", degree, 3) for degree in (3, 4)],
]


def oracle(problem, setting, cell, degree):
    """(r(u).w, w.J(u)w)."""
    kind = basix.CellType[cell]
    element = basix.create_element(basix.ElementFamily.P, kind, degree, basix.LagrangeVariant.gll_warped)
    linear = basix.create_element(basix.ElementFamily.P, kind, 1, basix.LagrangeVariant.gll_warped)
    points, weights = (setting.points + 1) / 2, setting.weights / 2 ** setting.points.shape[1]
    # Vertices in basix's order: both cells are [-1, 1]^dim and [0, 1]^dim with the same axes.
    petsc = (np.array(VERTICES[cell]) + 1) / 2
    order = [int(np.argmin(np.abs(petsc - vertex).sum(axis=1))) for vertex in linear.points]
    vertices = setting.vertices[:, order]
    nodes = np.einsum("nv,evd->edn", linear.tabulate(0, element.points)[0, :, :, 0], vertices)
    geometry = linear.tabulate(1, points)[..., 0]
    tables = element.tabulate(1, points)[..., 0]
    jacobian = np.einsum("kqv,evd->eqdk", geometry[1:], vertices)
    volumes = np.einsum("q,eq->eq", weights, np.abs(np.linalg.det(jacobian)))
    gradients = np.einsum("kqn,eqkd->eqnd", tables[1:], np.linalg.inv(jacobian))
    x = np.einsum("qv,evd->deq", geometry[0], vertices)

    def at_points(polynomial):
        """The interpolant's values (comp, cell, point) and gradients (comp, dim, cell, point)."""
        dofs = polynomial(nodes.swapaxes(0, 1)).reshape(setting.num_comp, *nodes.shape[::2])
        return np.einsum("qn,cen->ceq", tables[0], dofs), np.einsum("eqnd,cen->cdeq", gradients, dofs)

    fields = (x, setting.k(x), *at_points(setting.u), *at_points(setting.w))
    return tuple(float(np.einsum("eq,eq->", integrand(*fields), volumes)) for integrand in (problem.residual, problem.action))


@pytest.mark.parametrize(("cell", "degree", "num_cells"), CASES)
@pytest.mark.parametrize("problem", PROBLEMS)
def test_numbers_agree(rng, set_options, problem, cell, degree, num_cells):
    setting = Setting(problem, cell, degree, num_cells, rng, set_options)
    difference = setting.difference(oracle(problem, setting, cell, degree))
    print(problem.__name__, cell, degree, setting.numbers, "DIFFERENCE", difference)
    assert difference <= 1e-12
