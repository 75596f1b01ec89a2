"""Iterations of CG with femgpu.PMG for Poisson's equation: few, for all degrees."""

import ufl
from krylov_support import own, random_vec, solve
from ufl import dx, grad, inner

import femgpu
from femgpu.solver.pmg_options import default_degrees

PMG = {"pc_type": "python", "pc_python_type": "femgpu.PMG", "ksp_rtol": 1e-8}
# Degree, cells along an edge, iterations.
TABLE = ((3, 4, 7), (5, 3, 10), (6, 2, 11))


def test_iterations_are_few_at_all_degrees():
    """On Kuhn's tetrahedra, degree 6 in single precision, too; by halves P6 takes 16."""
    found = {}
    for degree, count, wanted in TABLE:
        V = femgpu.FunctionSpace(femgpu.mesh.box((count,) * 3, cell="tetrahedron"), "Lagrange", degree)
        u, v = femgpu.Function(V), ufl.TestFunction(V)
        F = inner(grad(u), grad(v)) * dx(degree=2 * degree)
        problem = femgpu.NonlinearProblem(F, u, [femgpu.DirichletBC(V, 0.0, "boundary")])
        problem.linearise(u.vec)
        for precision in ("double", "single") if degree == TABLE[-1][0] else ("double",):
            options = own("CG") | PMG | {"pc_femgpu_pmg_precision": precision}
            _, norms, reason = solve(problem, random_vec(problem), options)
            assert reason > 0
            found[degree, precision] = len(norms) - 1
        assert found[degree, "double"] <= wanted, found
    assert abs(found[degree, "single"] - found[degree, "double"]) <= 1, found


def test_degrees_fall_one_by_one_where_halves_are_too_far():
    assert [default_degrees(p, False) for p in (1, 2, 3, 5, 6, 8)] == [(), (1,), (1,), (2, 1), (3, 1), (4, 2, 1)]
    assert [default_degrees(p, True) for p in (1, 2, 3, 4)] == [(), (1,), (2, 1), (2, 1)]
    assert default_degrees(5, True) == (4, 2, 1) and default_degrees(7, True) == (6, 5, 4, 2, 1)
