"""dS as users write it: regions between cells, quantities of facets, and meshes that move."""

import numpy as np
import pytest
import ufl
from petsc4py import PETSc
from ufl import avg, dot, dS, ds, grad, jump

import femgpu
from femgpu import Constant, Function, FunctionSpace, NonlinearProblem


@pytest.fixture(scope="module")
def dm():
    """Squares of size 1/4, those of the line x = 1/2 and a part of the boundary marked."""
    made = femgpu.mesh.box((4, 4), "quadrilateral", comm=PETSc.COMM_SELF)
    femgpu.mesh.mark(made, "interface", lambda x: abs(x[0] - 0.5) < 1e-9, dim=1)
    femgpu.mesh.mark(made, "cross", lambda x: (abs(x[1] - 0.5) < 1e-9) | (x[1] < 1e-9), dim=1)
    return made


def test_regions(dm):
    """Facets between two cells are those of dS, others those of ds, whatever a region marks."""
    one, two = Constant(dm, 1.0), Constant(dm, 2.0)
    expected = {
        one * dS: 6.0,
        one * dS("interface"): 1.0,
        one * dS("cross"): 1.0,
        one * ds("cross"): 1.0,
        one * dS(("cross", "interface")): 2.0,
        one * dS + two * dS("interface") + one * ds: 12.0,
    }
    for form, value in expected.items():
        assert abs(femgpu.assemble(form) - value) < 1e-13
    femgpu.mesh.mark(dm, "later", lambda x: abs(x[1] - 0.25) < 1e-9, dim=1)
    assert abs(femgpu.assemble(one * dS("later", degree=3)) - 1) < 1e-13


def test_an_interface_between_materials(dm):
    """A function that jumps there: its jump, its mean, and the flux that leaves either side."""
    u, slope = Function(FunctionSpace(dm, "DG", 1)), Function(FunctionSpace(dm, "DG", 0))
    slope.interpolate(lambda x: np.where(x[0] < 0.5, 1.0, 3.0))
    u.interpolate(slope * femgpu.coordinates(dm)[0] + 1)
    n = ufl.FacetNormal(slope.space.ufl_domain())
    side = dot(jump(u, n), jump(u, n))
    values = {side: 1.0, avg(u): 2.0, abs(jump(u)): 1.0, -dot(jump(u, n), n("+")) * n("+")[0]: 1.0, avg(grad(u))[0]: 2.0}
    for integrand, value in values.items():
        assert abs(femgpu.assemble(integrand * dS("interface")) - value) < 1e-12


def test_quantities_of_both_cells():
    dm = femgpu.mesh.box((2, 1), "triangle", comm=PETSc.COMM_SELF)
    mesh = FunctionSpace(dm, "DG", 0).ufl_domain()
    n, diagonal = ufl.FacetNormal(mesh), np.hypot(0.5, 1)
    circle = ufl.Circumradius(mesh)
    values = {
        ufl.FacetArea(mesh): 2 * diagonal**2 + 1,
        ufl.FacetArea(mesh)("-"): 2 * diagonal**2 + 1,
        dot(n("+"), n("-")): -2 * diagonal - 1,
        avg(ufl.CellVolume(mesh)): 0.25 * (2 * diagonal + 1),
        ufl.CellDiameter(mesh)("-") + circle("+"): 1.5 * diagonal * (2 * diagonal + 1),
        ufl.JacobianDeterminant(mesh)("-"): 0.5 * (2 * diagonal + 1),
    }
    for integrand, value in values.items():
        assert abs(femgpu.assemble(integrand * dS) - value) < 1e-12, integrand


@pytest.mark.parametrize("geometry", ["stored", "recomputed"])
def test_a_mesh_that_moves(geometry, rng):
    """Both cells of a facet follow, also where affine ones begin to bend: the operator then is that of a new mesh."""
    made = [femgpu.mesh.box((3, 2), "quadrilateral", comm=PETSc.COMM_SELF) for _ in range(2)]
    values, results = rng.uniform(-1, 1, 24), []

    def stretch(dm, bend):
        x = dm.getCoordinatesLocal().array.reshape(-1, 2)
        x[:] = np.stack([x[:, 0] ** (1 + bend) * 1.5, x[:, 1] + 0.2 * bend * x[:, 0]], axis=1) + 0.1 * x[:, :1] * x[:, 1:] * bend
        dm.setCoordinatesLocal(dm.getCoordinatesLocal())

    def problem(dm):
        V = FunctionSpace(dm, "DG", 1)
        u, v, n = Function(V), ufl.TestFunction(V), ufl.FacetNormal(V.ufl_domain())
        u.vec.setArray(values)
        F = dot(avg(grad(u)), jump(v, n)) * dS + dot(grad(v)("-"), n("-")) * ufl.CellVolume(V.ufl_domain())("-") * u("+") * dS
        return NonlinearProblem(F, u, petsc_options={"femgpu_geometry": geometry, "femgpu_jacobian": "assembled"}), u

    moving, u = problem(made[0])
    for bend in (0, 0.3):
        for dm in made:
            stretch(dm, bend)
        results = [compute(*entry) for entry in ((moving, u), problem(made[1]))]
        for one, other in zip(*results, strict=True):
            np.testing.assert_allclose(one, other, atol=1e-13)


def compute(problem, u):
    """Residual and Jacobian."""
    residual = u.vec.duplicate()
    problem.residual(u.vec, residual)
    problem.snes.setUp()
    jacobian, preconditioner, _ = problem.snes.getJacobian()
    problem.snes.computeJacobian(u.vec, jacobian, preconditioner)
    return residual.array.copy(), jacobian.getValues(range(residual.size), range(residual.size))


def test_a_form_of_facets_alone_where_there_are_none():
    dm = femgpu.mesh.box((1, 1), "quadrilateral", comm=PETSc.COMM_SELF)
    assert femgpu.assemble(Constant(dm, 1.0) * dS) == 0
