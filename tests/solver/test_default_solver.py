"""The linear solver of problems whose options name none: what is chosen, and that it solves what users bring."""

import re

import numpy as np
import pytest
import ufl
from petsc4py import PETSc
from ufl import div, dS, ds, dx, grad, inner, sym

import femgpu
from femgpu.errors import SolverError
from femgpu.solver import default_solver

CG, GMRES, SADDLE = "femgpu.CG with femgpu.PMG", "femgpu.GMRES with femgpu.PMG", "femgpu.GMRES with femgpu.FieldSplit"
PLAIN = "PETSc's defaults: "


@pytest.fixture(autouse=True)
def no_size_is_small(monkeypatch):
    monkeypatch.setattr(default_solver, "SMALL", 0)


def space(degree=2, num_comp=(), cell="triangle", count=(3, 2), family="Lagrange"):
    return femgpu.FunctionSpace(femgpu.mesh.box(count, cell=cell), family, degree, num_comp)


def problem(F, u, bcs=None, **options):
    bcs = [femgpu.DirichletBC(u.space, 0.0)] if bcs is None else bcs
    return femgpu.NonlinearProblem(F, u, bcs, petsc_options=options)


def chosen(make, V=None, **options):
    """What is chosen for `make(u, v)`."""
    u = femgpu.Function(V or space())
    return problem(make(u, ufl.TestFunction(u.space)), u, [], **options)._pair.chosen


def field(u):
    return femgpu.Function(femgpu.FunctionSpace(u.space.dm, "DG", 0), name="k")


def negative(u):
    found = field(u)
    found.interpolate(lambda x: -1 - x[0])
    return found


def laplace(u, v):
    return inner(grad(u), grad(v)) * dx - v * dx


FORMS = {
    "laplace": (laplace, CG),
    "coefficient": (lambda u, v: field(u) * inner(grad(u), grad(v)) * dx, CG),
    "p-laplace": (lambda u, v: (0.01 + inner(grad(u), grad(u))) * inner(grad(u), grad(v)) * dx, CG),
    "reaction": (lambda u, v: laplace(u, v) + field(u) * u * v * dx, CG),
    "one point of time": (lambda u, v: laplace(u, v) + 100 * u * v * dx, CG),
    "helmholtz": (lambda u, v: laplace(u, v) - 4 * u * v * dx, GMRES),
    "negative coefficient": (lambda u, v: laplace(u, v) + negative(u) * u * v * dx, GMRES),
    "negative constant": (lambda u, v: laplace(u, v) + femgpu.Constant(u.space.dm, -4.0) * u * v * dx, GMRES),
    "negative on the boundary": (lambda u, v: laplace(u, v) - 4 * u * v * ds, GMRES),
    "negative conductivity": (lambda u, v: negative(u) * inner(grad(u), grad(v)) * dx, PLAIN),
    "bratu": (lambda u, v: laplace(u, v) - ufl.exp(u) * v * dx, GMRES),
    "conductivity of u": (lambda u, v: (1 + u**2) * inner(grad(u), grad(v)) * dx, GMRES),
    "mass": (lambda u, v: u * v * dx - v * dx, "femgpu.CG with jacobi"),
    "advection": (lambda u, v: laplace(u, v) + u.dx(0) * v * dx, PLAIN),
    "conservative advection": (lambda u, v: laplace(u, v) - u * v.dx(0) * dx, PLAIN),
    "burgers": (lambda u, v: laplace(u, v) + u * u.dx(0) * v * dx, PLAIN),
    "backward": (lambda u, v: -laplace(u, v), PLAIN),
    "degenerate": (lambda u, v: u.dx(0) * v.dx(0) * dx, PLAIN),
    "wave": (lambda u, v: (u.dx(0) * v.dx(0) - u.dx(1) * v.dx(1)) * dx, PLAIN),
    "biharmonic": (lambda u, v: div(grad(u)) * div(grad(v)) * dx, PLAIN),
    "negative mass": (lambda u, v: -u * v * dx, PLAIN),
}


@pytest.mark.parametrize("name", FORMS)
def test_the_form_decides(name):
    make, expected = FORMS[name]
    assert chosen(make).startswith(expected)


def elasticity(u, v, mu=0.4, la=0.6):
    return (2 * mu * inner(sym(grad(u)), sym(grad(v))) + la * div(u) * div(v)) * dx - v[1] * dx


def neo_hookean(u, v):
    F = ufl.Identity(2) + grad(u)
    return inner(F - ufl.inv(F).T + 2 * ufl.ln(ufl.det(F)) * ufl.inv(F).T, grad(v)) * dx


def test_vectors_and_mixed_spaces():
    for make in (elasticity, neo_hookean):
        assert chosen(make, space(2, 2)).startswith(CG)
    dm = femgpu.mesh.box((2, 2))
    pair = [femgpu.FunctionSpace(dm, "Lagrange", degree, comps) for degree, comps in ((2, 2), (1, ()), (2, ()))]
    W = femgpu.MixedSpace({"velocity": pair[0], "pressure": pair[1]})

    def stokes(w, z):
        (u, p), (v, q) = ufl.split(w), ufl.split(z)
        return (inner(grad(u), grad(v)) - p * div(v) - q * div(u)) * dx

    assert chosen(stokes, W).startswith(SADDLE)
    assert chosen(lambda w, z: stokes(w, z) - w[2] * z[2] * dx, W).startswith(SADDLE)
    assert chosen(lambda w, z: stokes(w, z) + inner(grad(w[2]), grad(z[2])) * dx, W).startswith(PLAIN)
    assert chosen(lambda w, z: stokes(w, z) + w[0] * w[0].dx(0) * z[0] * dx, W).startswith(PLAIN)
    assert chosen(lambda w, z: inner(grad(w), grad(z)) * dx, W).startswith(PLAIN)
    species = femgpu.MixedSpace({"a": pair[2], "b": pair[2]})

    def reacting(w, z):
        return inner(grad(w), grad(z)) * dx + w[0] * w[1] * (z[0] + 2 * z[1]) * dx

    assert chosen(reacting, species).startswith(GMRES)


def test_discontinuous_spaces_keep_petsc_s():
    def interior(u, v):
        return laplace(u, v) + ufl.jump(u) * ufl.jump(v) * dS

    assert chosen(interior, space(1, family="DG")).startswith(PLAIN)


def test_options_rule(monkeypatch):
    for name in ("ksp_type", "pc_type"):
        assert chosen(laplace, **{name: {"ksp_type": "cg", "pc_type": "jacobi"}[name]}) == ""
    refusals = {
        "femgpu_solver": ("petsc", "-femgpu_solver"),
        "femgpu_jacobian": ("assembled", "assembled matrix"),
        "femgpu_pmat": ("assembled", "assembled matrix"),
        "snes_type": ("newtontr", "-snes_type newtontr"),
    }
    for name, (value, why) in refusals.items():
        assert chosen(laplace, **{name: value}).startswith(PLAIN) and why in chosen(laplace, **{name: value})
    monkeypatch.setattr(default_solver, "SMALL", 10_000)
    assert "fewer than 10000 dofs" in chosen(laplace)


def test_the_view_and_errors_say_it():
    V = space(2, count=(8, 8))
    u, v = femgpu.Function(V), ufl.TestFunction(V)
    solved = problem(laplace(u, v), u)
    solved.solve()
    assert f"linear solver: {CG}: the Jacobian is symmetric and elliptic" in solved.report()
    assert f"\n    degree 2: {V.num_dofs} dofs, largest eigenvalue " in solved.report()
    seen = problem(laplace(u, v), u, femgpu_view=True)
    seen.solve()
    assert re.search(r"SNESSolve \S+ s: PCSetUp \S+ s, \d+ KSPSolve \S+ s, \S+ M dofs/s; waits for compilers", seen.report())
    u.vec.set(0.0)
    with pytest.raises(SolverError, match="no option names the linear solver, which is femgpu.CG with femgpu.PMG: .*-ksp_type"):
        problem(laplace(u, v), u, ksp_max_it=1, ksp_rtol=1e-14, snes_linesearch_type="basic").solve()


def test_a_program_may_name_another_afterwards():
    V = space(2, count=(5, 4))
    u, v = femgpu.Function(V), ufl.TestFunction(V)
    made = problem(laplace(u, v), u, ksp_rtol=1e-12)
    made.solve()
    expected = u.vec.array.copy()
    for ksp, pc in (("cg", "gamg"), ("preonly", "lu"), ("gmres", "jacobi")):
        made.snes.getKSP().setType(ksp)
        made.snes.getKSP().getPC().setType(pc)
        u.vec.set(0.0)
        made.solve()
        np.testing.assert_allclose(u.vec.array, expected, atol=1e-8)
        assert made._pair.chosen == "" and "as the options or the program say" in made.report()
    own = PETSc.SNES().create(comm=V.comm)
    assert femgpu.NonlinearProblem(laplace(u, v), u, snes=own)._pair.chosen == ""


# By name: the cells, iterations at most, and the terms with u.
HARD = {
    "slender cells": ("triangle", 60, lambda dm, u, v: inner(grad(u), grad(v)) * dx),
    "jumps of 1e6": ("quadrilateral", 40, lambda dm, u, v: jumps(dm) * inner(grad(u), grad(v)) * dx),
    "jumps of 1e6, triangles": ("triangle", 40, lambda dm, u, v: jumps(dm) * inner(grad(u), grad(v)) * dx),
    "anisotropic conductivity": ("quadrilateral", 150, lambda dm, u, v: (u.dx(0) * v.dx(0) + 1e-4 * u.dx(1) * v.dx(1)) * dx),
    "p-laplace": ("triangle", 100, lambda dm, u, v: (1e-6 + inner(grad(u), grad(u))) * inner(grad(u), grad(v)) * dx),
    "helmholtz": ("triangle", 40, lambda dm, u, v: (inner(grad(u), grad(v)) - 100 * u * v) * dx),
}


def jumps(dm):
    k = femgpu.Function(femgpu.FunctionSpace(dm, "DG", 0))
    k.interpolate(lambda x: np.where((np.floor(4 * x[0]) + np.floor(4 * x[1])) % 2 == 0, 1e6, 1.0))
    return k


@pytest.mark.parametrize("name", HARD)
def test_hard_problems_are_solved(name):
    cell, most, make = HARD[name]
    dm = femgpu.mesh.box((24, 24), cell=cell, upper=(20.0, 1.0) if name == "slender cells" else (1.0, 1.0))
    V = femgpu.FunctionSpace(dm, "Lagrange", 2)
    u, v = femgpu.Function(V), ufl.TestFunction(V)
    x = ufl.SpatialCoordinate(V.ufl_domain())
    made = problem(make(dm, u, v) - (1 + x[0]) * v * dx, u)
    made.solve()
    assert made._pair.chosen.startswith("femgpu.") and made.snes.getLinearSolveIterations() <= most
    direct = femgpu.Function(V)
    direct.vec.array = u.vec.array
    exact = problem(make(dm, direct, v) - (1 + x[0]) * v * dx, direct, ksp_type="preonly", pc_type="lu", snes_rtol=1e-12)
    exact.solve()
    np.testing.assert_allclose(u.vec.array, direct.vec.array, atol=1e-4 * np.abs(direct.vec.array).max())


@pytest.mark.parametrize("ratio, most", [(0.3, 25), (0.49, 110)])
def test_elasticity_needs_no_modes_of_the_user_s(ratio, most):
    V = space(2, 2, "quadrilateral", (16, 16))
    u, v = femgpu.Function(V), ufl.TestFunction(V)
    la, mu = ratio / ((1 + ratio) * (1 - 2 * ratio)), 1 / (2 * (1 + ratio))
    made = problem(elasticity(u, v, mu, la), u, [femgpu.DirichletBC(V, (0.0, 0.0), lambda x: x[0] < 1e-12)])
    made.solve()
    assert made._pair.chosen.startswith(CG) and made.snes.getLinearSolveIterations() <= most


@pytest.mark.parallel(3)
@pytest.mark.parametrize("cell, degree", [("triangle", 3), ("hexahedron", 1)])
def test_ranks_take_as_many_iterations(cell, degree):
    dim = 2 if cell in ("triangle", "quadrilateral") else 3
    V = space(degree, (), cell, ((12, 12), (4, 4, 4))[dim - 2])
    u, v = femgpu.Function(V), ufl.TestFunction(V)
    made = problem(laplace(u, v), u, ksp_rtol=1e-8, snes_type="ksponly")
    made.solve()
    assert made._pair.chosen.startswith(CG) and made.snes.getLinearSolveIterations() <= 14


@pytest.mark.parametrize("method, given, expected", [("CG", {}, 2), ("GMRES", {}, 2), ("CG", {"ksp_norm_type": "natural"}, 3)])
def test_eisenstat_and_walker_look_at_residuals(method, given, expected):
    """With the unpreconditioned norm unless an option names another; without their tolerances PETSc's default stays."""
    V = space(2, count=(6, 6))
    u, v = femgpu.Function(V), ufl.TestFunction(V)
    F = (1 + inner(grad(u), grad(u))) * inner(grad(u), grad(v)) * dx - 10 * v * dx
    solver = {"ksp_type": "python", "ksp_python_type": f"femgpu.{method}", "pc_type": "jacobi"}
    plain = problem(F, u, **solver)
    assert plain.snes.getKSP().getNormType() == PETSc.KSP.NormType.PRECONDITIONED
    made = problem(F, u, snes_ksp_ew=None, **solver, **given)
    made.solve()
    assert made.snes.getKSP().getNormType() == expected
