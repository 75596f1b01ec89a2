"""A matrix that a program kept from `problem.jacobian` is that of now, or says that it is not; inside solves PETSc rules."""

import numpy as np
import pytest
import ufl
from petsc4py import PETSc
from small_problems import heat
from ufl import dx, grad, inner

import femgpu
from femgpu.errors import SolverError
from femgpu.solver.global_operator import GlobalOperator
from femgpu.solver.matrix import AssembledJacobian

ranks = pytest.mark.parallel([1, 2])
PRODUCTS = ("mult", "multTranspose", "multAdd", "multTransposeAdd", "*", "getDiagonal")


def make(kind="matfree", dm=None, **options):
    """A nonlinear problem, a coefficient and two constants of which its Jacobian reads one."""
    V = femgpu.FunctionSpace(femgpu.mesh.box((3, 2), cell="triangle") if dm is None else dm, "Lagrange", 1)
    u, v, k = femgpu.Function(V, "u"), ufl.TestFunction(V), femgpu.Function(V, "k")
    c, load = (femgpu.Constant(V.dm, value) for value in (1.0, 2.0))
    u.interpolate(lambda x: np.sin(2 * x[0]))
    k.interpolate(lambda x: 1 + x[1])
    F = inner((c * k + u**2) * grad(u), grad(v)) * dx + u * v * dx - load * v * dx
    options |= {"femgpu_jacobian": kind, "snes_rtol": 1e-12}
    return femgpu.NonlinearProblem(F, u, petsc_options=options), k, c, load


def direction(problem):
    w = problem.u.vec.duplicate()
    w.setArray(np.cos(np.arange(*w.getOwnershipRange())))
    return w


def product(jacobian, w, kind="mult"):
    y = w.duplicate()
    if kind == "*":
        return (jacobian * w).array_r.copy()
    if kind == "getDiagonal":
        return jacobian.getDiagonal().array_r.copy()
    getattr(jacobian, kind)(*((w, w, y) if kind.endswith("Add") else (w, y)))
    return y.array_r - (w.array_r if kind.endswith("Add") else 0.0)


def expected(made, w, kind="mult", x=None):
    """From an assembled matrix of a problem of its own, with the numbers of what `make` gave."""
    problem, k, c, _ = made
    copy = problem.u.space.dm.clone()
    copy.setCoordinatesLocal(problem.u.space.dm.getCoordinatesLocal().copy())
    fresh, other, constant, _ = make(dm=copy)
    k.vec.copy(other.vec)
    constant.value = c.value
    return product(fresh.assemble_jacobian(problem.u.vec if x is None else x), w, kind)


def same(found, wanted):
    np.testing.assert_allclose(found, wanted, rtol=0, atol=1e-13)


@ranks
@pytest.mark.parametrize("kind", ["matfree", "assembled"])
def test_products_follow_what_changes(kind):
    problem, k, c, _ = made = make(kind)
    u, w, kept = problem.u, direction(problem), problem.jacobian
    mesh_dm = u.space.dm

    def move():
        x = mesh_dm.getCoordinatesLocal().copy()
        x.array[0::2] *= 1.5
        mesh_dm.setCoordinatesLocal(x)

    def on_one_rank():
        if u.vec.comm.rank == 0:
            u.vec.array[:] += 0.25

    changes = [lambda: u.assign(0.7), on_one_rank, lambda: k.assign(3.0), lambda: setattr(c, "value", 4.0), move]
    for change, how in zip([*changes, lambda: u.assign(0.2)], PRODUCTS, strict=True):
        before = product(kept, w)
        change()
        same(product(kept, w, how), expected(made, w, how))
        now = product(kept, w)
        same(now, expected(made, w))
        difference = w.duplicate()
        difference.setArray(now - before)
        assert difference.norm() > 1e-3
    assert problem.jacobian.handle == kept.handle


def test_a_difference_of_residuals_follows():
    V = femgpu.FunctionSpace(femgpu.mesh.box((3, 2), cell="triangle"), "Lagrange", 1)
    u, c = femgpu.Function(V), femgpu.Constant(V.dm, 1.0)
    form = femgpu.PointwiseForm(V, f0="f0[0] = constants[0] * u[0] * u[0] * u[0];", constants=[c])
    problem = femgpu.NonlinearProblem(form, u)
    kept, w = problem.jacobian, u.vec.duplicate()
    w.set(1.0)
    for value in (1.0, 2.0):
        u.assign(value)
        assert product(kept, w).sum() == pytest.approx(3 * value**2, rel=1e-6)
    x = u.vec.duplicate()
    x.set(3.0)
    problem.linearise(x)
    u.assign(5.0)
    c.value = 2.0
    assert product(kept, w).sum() == pytest.approx(2 * 27.0, rel=1e-6)


@ranks
def test_a_state_that_was_given_stays():
    problem, k, _, _ = made = make()
    u, w, kept = problem.u, direction(problem), problem.jacobian
    x = u.vec.copy()
    x.scale(3.0)
    problem.linearise(x)
    u.assign(0.1)
    k.assign(2.0)  # but all else is as it is now
    wanted = expected(made, w, x=x)
    x.set(0.0)
    same(product(kept, w), wanted)
    same(product(problem.jacobian, w), wanted)
    problem.linearise(u.vec)
    u.assign(0.3)
    same(product(kept, w), expected(made, w))
    problem.solve()
    same(product(kept, w), expected(made, w))


@ranks
@pytest.mark.parametrize("kind", [{"ksp_type": "gmres"}, {"ksp_type": "python", "ksp_python_type": "femgpu.GMRES"}])
def test_solvers_of_the_user(set_options, kind):
    """Newton's method by hand: a solver that multiplies with an old state is an error, on all ranks."""
    problem, k, c, load = make()
    set_options("own_", **kind, pc_type="none", ksp_rtol=1e-12)
    ksp = PETSc.KSP().create(problem.u.vec.comm)
    ksp.setOptionsPrefix("own_")
    ksp.setOperators(problem.jacobian)
    ksp.setFromOptions()
    u, (f, step) = problem.u, (problem.u.vec.duplicate() for _ in range(2))
    norms = []
    for _ in range(6):
        problem.residual(u.vec, f)
        norms.append(f.norm())
        ksp.setOperators(problem.jacobian)
        ksp.solve(f, step)
        assert ksp.getConvergedReason() > 0
        u.vec.axpy(-1.0, step)
    assert norms[-1] < 1e-12 * norms[0] and norms[-3] > 1e-13 * norms[0]
    for change, name in ((lambda: u.vec.array[:1] if u.vec.comm.rank else None, "u"), (lambda: k.vec.shift(1.0), "k")):
        problem.jacobian  # noqa: B018
        change()
        if name == "u":
            u.vec.stateIncrease()
        with pytest.raises(PETSc.Error) as caught:
            ksp.solve(f, step)
        assert isinstance(caught.value.__cause__, SolverError)
        assert f"{name} changed after the Jacobian was evaluated" in str(caught.value.__cause__)
        ksp = ksp.create(u.vec.comm)  # PETSc keeps vectors of the broken solve locked
        ksp.setOptionsPrefix("own_")
        ksp.setOperators(problem.jacobian)
        ksp.setFromOptions()
    # Nobody but the program writes to constants.
    w = direction(problem)
    c.value, load.value = 5.0, 7.0
    ksp.solve(w, step)
    residual = product(problem.jacobian, step) - w.array_r
    assert np.abs(residual).max(initial=0) < 1e-10
    # A solver that writes to u itself wants a state that stays.
    problem.linearise(u.vec.copy())
    x = u.vec.copy()
    ksp.solve(w, u.vec)
    problem.linearise(x)
    assert np.abs(product(problem.jacobian, u.vec) - w.array_r).max(initial=0) < 1e-10


def test_inside_a_solve_the_solver_rules(monkeypatch):
    """A lagged Jacobian stays where it is, whoever started the solve and looks on."""
    states = []
    linearise = GlobalOperator.linearise
    monkeypatch.setattr(GlobalOperator, "linearise", lambda self, x: (states.append(x.norm()), linearise(self, x)))
    problem, *_ = make(snes_lag_jacobian=2)
    kept, w = problem.jacobian, direction(problem)
    problem.snes.setMonitor(lambda snes, iteration, norm: snes.getConvergedReason() or product(kept, w))
    for solve in (problem.solve, lambda: problem.snes.solve(None, problem.u.vec)):
        problem.u.interpolate(lambda x: 5 * np.sin(3 * x[0]))
        del states[:]
        solve()
        assert len(states) == (problem.snes.getIterationNumber() + 1) // 2 > 2
    product(kept, w)
    assert states[-1] == problem.u.vec.norm() != states[-2]


def test_what_the_jacobian_does_not_read(monkeypatch):
    """Nothing is evaluated anew."""
    fills = []
    fill = AssembledJacobian.fill
    monkeypatch.setattr(AssembledJacobian, "fill", lambda self: (fills.append(1), fill(self)))
    problem, _, _, load = make("assembled")
    kept, w = problem.jacobian, direction(problem)
    load.value = 9.0
    product(kept, w)
    assert len(fills) == 1
    V = problem.u.space
    u, v, f = femgpu.Function(V), ufl.TestFunction(V), femgpu.Function(V)
    F = inner(grad(u), grad(v)) * dx - f * v * dx
    linear = femgpu.NonlinearProblem(F, u, petsc_options={"femgpu_jacobian": "assembled"})
    kept = linear.jacobian
    u.assign(2.0)
    f.assign(3.0)
    product(kept, w)
    assert len(fills) == 2 and linear.jacobian.handle == kept.handle and len(fills) == 2


def test_problems_in_time():
    """A state, a rate and a shift that were given stay; without them it is u."""
    problem = heat()
    u, w, kept = problem.u, direction(problem), problem.jacobian
    problem.linearise(u.vec, u.vec.copy(), 4.0)
    wanted = product(kept, w)
    u.assign(3.0)
    same(product(kept, w), wanted)
    problem.linearise(u.vec)
    one = product(kept, w)
    u.assign(6.0)
    same(product(kept, w), 2 * one)
    problem.solve(t_end=0.1, dt=0.1)
    after = product(kept, w)
    u.assign(1.0)
    same(product(kept, w), after)
