"""Functions: values taken from others, parts of mixed ones, values at points, between meshes, norms and constant modes."""

import math

import numpy as np
import pytest
import ufl
from petsc4py import PETSc
from ufl import dx, grad, inner

import femgpu
from femgpu.errors import DataError, FormError, MeshError


def mixed(dm):
    velocity, pressure = femgpu.FunctionSpace(dm, "Lagrange", 2, 2), femgpu.FunctionSpace(dm, "Lagrange", 1)
    return femgpu.MixedSpace({"velocity": velocity, "pressure": pressure})


@pytest.mark.parallel([1, 3])
def test_assign_copy_and_arithmetic():
    dm = femgpu.mesh.box((3, 2), cell="triangle")
    V = femgpu.FunctionSpace(dm, "Lagrange", 2)
    u, v = femgpu.Function(V, "u"), femgpu.Function(femgpu.FunctionSpace(dm, "Lagrange", 2), "v")
    u.interpolate(lambda x: x[0] + 2 * x[1])
    v.assign(u)
    copy = u.copy()
    assert (copy.name, u.copy("other").name) == ("u", "other")
    kept, vec = u.vec, copy.vec
    u.vec = 2 * u.vec + copy.vec
    u.vec *= 2
    assert u.vec.handle == kept.handle
    assert copy.vec.handle == vec.handle
    np.testing.assert_allclose(u.evaluate((0.5, 0.25)), 6 * 1.0, rtol=1e-14)
    np.testing.assert_allclose(v.evaluate((0.5, 0.25)), 1.0, rtol=1e-14)
    v.assign(3)
    assert v.vec.min()[1] == v.vec.max()[1] == 3.0
    copy.assign(v)
    assert copy.vec.min()[1] == 3.0
    for wrong in (femgpu.Function(femgpu.FunctionSpace(dm, "Lagrange", 1)), "x", u + v):
        with pytest.raises(DataError, match=r"is assigned .*expected a number, or a function in an equal space.*interpolate\(\)"):
            u.assign(wrong)
    with pytest.raises(DataError, match=r"u.vec = \(.*expected a PETSc.Vec of sizes"):
        u.vec = femgpu.Function(femgpu.FunctionSpace(dm, "Lagrange", 1)).vec
    with pytest.raises(DataError, match=r"u.vec = 3.0; expected a PETSc.Vec"):
        u.vec = 3.0
    with pytest.raises(DataError, match="the name of a Function is 3 of type int; expected a string"):
        femgpu.Function(V, 3)


@pytest.mark.parallel([1, 3])
def test_parts_of_mixed_functions():
    dm = femgpu.mesh.box((2, 2), cell="quadrilateral")
    W = mixed(dm)
    w = femgpu.Function(W, "w")
    velocity, pressure = w.split()
    assert velocity is w.sub(0) is w.sub("velocity")
    assert W.sub(1) is W.sub("pressure")
    pressure.assign(2.0)
    velocity.interpolate(lambda x: (x[1], 1))
    np.testing.assert_allclose(w.evaluate((0.5, 0.25)), [0.25, 1, 2], rtol=1e-14)
    other = w.copy()
    other.sub(1).assign(pressure.collapse())
    other.sub(0).assign(0)
    other.sub(1).interpolate(w.sub(1))
    assert femgpu.norm(other.sub("velocity"), "l2") == 0.0
    assert femgpu.norm(other, "l2") == pytest.approx(6.0)  # nine nodes of value 2
    for wrong in (2, -1, "p", 1.0, None):
        with pytest.raises(FormError, match=r"field .* of a mixed space; its fields are velocity, pressure, numbered from 0"):
            w.sub(wrong)
    with pytest.raises(DataError, match=r"split\(\) takes functions of a MixedSpace apart.*take pressure itself"):
        pressure.collapse().split()


def test_callables_that_return_plain_numbers():
    dm = femgpu.mesh.box((2, 2), cell="triangle")
    u, tensor = (femgpu.Function(femgpu.FunctionSpace(dm, "Lagrange", 1, shape)) for shape in (2, (2, 2)))
    for values, expected in (
        (lambda x: (x[1], 0), [0.25, 0]),
        (lambda x: [3, x[0]], [3, 0.5]),
        (lambda x: (1, 2.0), [1, 2]),
        (lambda x: np.array([1.0, 2.0]), [1, 2]),
    ):
        u.interpolate(values)
        np.testing.assert_allclose(u.evaluate((0.5, 0.25)), expected)
    tensor.interpolate(lambda x: ((x[0], 0), (0, 0)))
    np.testing.assert_allclose(tensor.evaluate((0.5, 0.25)), [[0.5, 0], [0, 0]])
    bc = femgpu.DirichletBC(u.space, lambda x: (1, x[0]), 1)
    assert set(bc.values().reshape(-1, 2)[:, 0]) == {1.0}
    for wrong in (lambda x: (x[0],), lambda x: (x[0], 1, 2), lambda x: (x[0], "a"), lambda x: (1, 2, 3)):
        with pytest.raises(DataError, match="values of u"):
            u.interpolate(wrong)


def test_one_point():
    line = femgpu.Function(femgpu.FunctionSpace(femgpu.mesh.box((3,), cell="interval"), "Lagrange", 1))
    line.interpolate(lambda x: 2 * x[0])
    assert line.evaluate((0.25,)) == pytest.approx(0.5)
    assert line.evaluate([[0.25], [0.5]]).shape == (2,)
    assert np.isnan(line.evaluate((2.0,), outside="nan"))
    with pytest.raises(DataError, match=r"point 0, \[2.0\], lies outside"):
        line.evaluate((2.0,))
    with pytest.raises(DataError, match=r"points of shape \(2,\) .*expected \(num_points, 1\), or \(1,\) for one point"):
        line.evaluate((0.25, 0.5))


@pytest.mark.parallel([1, 3])
def test_between_meshes():
    """Polynomials go over exactly, whichever ranks have the cells; some ranks of the small mesh have none."""
    fine, coarse = femgpu.mesh.box((7, 5), cell="triangle"), femgpu.mesh.box((2, 1), cell="quadrilateral", lower=(0.25, 0.25))
    u = femgpu.Function(femgpu.FunctionSpace(fine, "Lagrange", 2, 2), "u")
    u.interpolate(lambda x: (x[0] * x[1], 1 - x[0] ** 2))
    v = femgpu.Function(femgpu.FunctionSpace(coarse, "DG", 2, 2), "v")
    v.interpolate(u)
    x = femgpu.coordinates(coarse)
    assert femgpu.error_norm(v, ufl.as_vector([x[0] * x[1], 1 - x[0] ** 2])) < 1e-12
    # Fields of mixed functions, both ways.
    w, z = femgpu.Function(mixed(coarse), "w"), femgpu.Function(mixed(fine), "z")
    w.sub("velocity").interpolate(u)
    assert femgpu.error_norm(w.sub("velocity"), v) < 1e-12
    with pytest.raises(
        DataError, match=r"\d+ of \d+ nodes of velocity lie outside of the mesh of the source, velocity, the first at \["
    ):
        z.sub("velocity").interpolate(w.sub("velocity"))
    z.sub("velocity").interpolate(u)
    w.sub("velocity").assign(7.0)
    z.sub("velocity").interpolate(w.sub("velocity"), outside="keep")
    np.testing.assert_allclose(z.sub("velocity").evaluate([[0.9, 0.9], [0.05, 0.1]]), [[7, 7], [0.005, 0.9975]], rtol=1e-12)
    with pytest.raises(DataError, match="outside='nan': expected 'raise' or 'keep'"):
        v.interpolate(u, outside="nan")
    with pytest.raises(DataError, match=r"values of pressure are u of shape \(2,\); expected \(\)"):
        w.sub("pressure").interpolate(u)
    # A mesh of one rank: each asks for itself.
    alone = femgpu.mesh.box((3, 2), cell="triangle", comm=PETSc.COMM_SELF)
    own = femgpu.Function(femgpu.FunctionSpace(alone, "Lagrange", 1), "own")
    own.interpolate(lambda x: x[0] - x[1])
    p = femgpu.Function(femgpu.FunctionSpace(coarse, "Lagrange", 1), "p")
    p.interpolate(own)
    assert femgpu.error_norm(p, x[0] - x[1]) < 1e-13


def test_call_at_a_point():
    dm = femgpu.mesh.box((2, 2), cell="triangle")
    u, w = (femgpu.Function(femgpu.FunctionSpace(dm, "Lagrange", 1, shape)) for shape in ((), 2))
    u.interpolate(lambda x: x[0] + 2 * x[1])
    w.interpolate(lambda x: (x[1], 1))
    for value in (u(0.5, 0.25), u((0.5, 0.25)), u(np.array([0.5, 0.25])), (u + 0 * w[0])((0.5, 0.25))):
        assert value == pytest.approx(1.0)
    assert (u * w[0] + femgpu.coordinates(dm)[0])((0.5, 0.25)) == pytest.approx(0.75)
    np.testing.assert_allclose(w(0.5, 0.25), [0.25, 1])
    np.testing.assert_allclose(u([[0.5, 0.25], [0, 0]]), [1, 0], atol=1e-15)
    assert np.isnan(u(5, 5, outside="nan"))
    assert isinstance(u("+"), ufl.core.expr.Expr)
    for call, said in ((lambda: u(0.5), "mesh of dimension 2"), (lambda: u(), "shape"), (lambda: u(5, 5), "outside of the mesh")):
        with pytest.raises(DataError, match=said):
            call()
    with pytest.raises(DataError, match=r"expected femgpu.project\(grad\(u\), V\)"):
        ufl.grad(u)((0.5, 0.25), component=(0,))
    line = femgpu.Function(femgpu.FunctionSpace(femgpu.mesh.box((3,), cell="interval"), "Lagrange", 1))
    line.interpolate(lambda x: 2 * x[0])
    assert line(0.25) == line.evaluate(0.25) == pytest.approx(0.5)


def test_norms():
    dm = femgpu.mesh.box((3, 2), cell="triangle")
    x = femgpu.coordinates(dm)
    u = femgpu.Function(femgpu.FunctionSpace(dm, "Lagrange", 2))
    u.interpolate(x[0] ** 2)
    assert femgpu.norm(u) == pytest.approx(math.sqrt(1 / 5), rel=1e-13)
    assert femgpu.norm(u, "H10") == pytest.approx(math.sqrt(4 / 3), rel=1e-13)
    assert femgpu.norm(u, "H1") == pytest.approx(math.sqrt(1 / 5 + 4 / 3), rel=1e-13)
    assert femgpu.norm(u, "l2") == u.vec.norm()
    with pytest.raises(DataError, match="norm of kind 'max'; expected one of L2, H1, H10, Linf, or l2"):
        femgpu.norm(u, "max")
    with pytest.raises(DataError, match=r"the l2 norm of .*expected a Function or a field of one"):
        femgpu.norm(2 * u, "l2")


@pytest.mark.parallel([1, 3])
def test_constant_pressure_by_one_call():
    """An enclosed flow at rest under a gradient: the pressure has mean zero."""
    dm = femgpu.mesh.box((3, 3), cell="triangle")
    W = mixed(dm)
    modes = femgpu.constant_modes(W.sub("pressure"))
    (mode,) = modes.getVecs()
    part = femgpu.Function(W)
    part.vec = mode
    assert mode.norm() == pytest.approx(1.0)
    assert femgpu.norm(part.sub("velocity"), "l2") == 0.0
    assert femgpu.norm(part.sub("pressure"), "H10") < 1e-12
    (u, p), (v, q), x = ufl.TrialFunctions(W), ufl.TestFunctions(W), femgpu.coordinates(dm)
    a = (inner(grad(u), grad(v)) - p * ufl.div(v) - q * ufl.div(u)) * dx
    given = {"ksp_type": "minres", "pc_type": "jacobi", "pc_jacobi_type": "rowl1", "ksp_max_it": 500, "femgpu_pmat": "assembled"}
    bc = femgpu.DirichletBC(W.sub("velocity"), 0.0)
    problem = femgpu.LinearProblem(a, v[0] * dx, bc, petsc_options=given)
    problem.set_nullspace(modes)
    problem.solve()
    pressure = problem.u.sub("pressure")
    assert problem.u.vec.dot(mode) == pytest.approx(0.0, abs=1e-8)
    assert femgpu.error_norm(pressure, x[0] - 0.5) < 1e-7
    vectors = femgpu.constant_modes(femgpu.FunctionSpace(dm, "Lagrange", 1, 2)).getVecs()
    assert [round(one.dot(other), 12) for one in vectors for other in vectors] == [1, 0, 0, 1]
    with pytest.raises(FormError, match=r"expected a FunctionSpace, or a field: W.sub\(name\)"):
        femgpu.constant_modes(W)


def test_vectors_of_fields():
    """They have none of their own; the error says what to take, and that works."""
    V = femgpu.FunctionSpace(femgpu.mesh.box((1, 1), cell="triangle", comm=PETSc.COMM_SELF), "Lagrange", 1)
    w = femgpu.Function(femgpu.MixedSpace({"a": V, "b": V}), "w")
    part = w.split()[1]
    for call in (lambda: part.vec, lambda: setattr(part, "vec", w.vec)):
        with pytest.raises(DataError, match=r"w.b is a field .* expected w.vec, .*c = w.sub\('b'\).collapse\(\), and assign\(c\)"):
            call()
    copy = part.collapse()
    copy.vec.set(3.0)
    part.assign(copy)
    assert w.vec.sum() == 12.0


def test_functions_of_one_point_at_a_time():
    """What users write first; what the message says works."""
    V = femgpu.FunctionSpace(femgpu.mesh.box((2, 2), cell="triangle", comm=PETSc.COMM_SELF), "Lagrange", 1)
    u = femgpu.Function(V, "u")
    said = r"asks an array whether it is true: x has all points at once.*expected np.where\(x\[0\] > 0.5, 1.0, 0.0\)"
    for call in (
        lambda: u.interpolate(lambda x: 1.0 if x[0] > 0.5 else 0.0),
        lambda: femgpu.assemble(ufl.TestFunction(V) * dx, femgpu.DirichletBC(V, lambda x: min(x[0], 0.5))),
        lambda: femgpu.error_norm(u, lambda x: max(x[0], x[1])),
        lambda: femgpu.mesh.mark(V.dm, "left", lambda x: x[0] < 0.1 and x[1] < 0.5),
        lambda: femgpu.assemble(ufl.TestFunction(V) * dx, femgpu.DirichletBC(V, 0.0, lambda x: x[0] < 0.1 or x[1] < 0.5)),
    ):
        with pytest.raises((DataError, MeshError), match=said):
            call()
    with pytest.raises(ValueError, match="mine"):
        u.interpolate(lambda x: int("mine"))
    u.interpolate(lambda x: np.where(x[0] > 0.5, 1.0, 0.0))
    with pytest.raises(FormError, match="degree 50 of family 'Lagrange': expected an integer from 0 to 24"):
        femgpu.FunctionSpace(V.dm, "Lagrange", 50)
