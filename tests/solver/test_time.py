"""Problems in time: orders of the integrators, Jacobians, boundary values, restarts, files, bad input.

Strong form of most of them: du/dt - div(k(u) grad u) = f in the unit square, u given on its boundary at all times. The exact
solution (1 + x + y^2) c(t) is in the space of degree 2, so that errors are those of the integrator.
"""

import math
import re
import shutil
import tempfile
from pathlib import Path
from xml.etree import ElementTree

import numpy as np
import pytest
import ufl
from mpi4py import MPI
from petsc4py import PETSc
from ufl import dx, grad, inner

import femgpu
from femgpu.errors import DataError, FormError, OptionError, SolverError

WORLD = MPI.COMM_WORLD
DIRECT = dict(pc_type="lu", ksp_type="preonly", snes_rtol=1e-12, snes_atol=1e-13, snes_stol=0)


def profile(x, module):
    return 1 + x[0] + x[1] ** 2


def waves(x, module):
    return module.sin(3 * x[0] + 1) * module.cos(2 * x[1])


def heat(prefix="", c="exp", k=None, faces=(3, 3), degree=2, comm=None, shape=profile, **arguments):
    """A problem with its exact solution.

    Args:
        prefix: of options.
        c: name of the function of time, in ufl and in numpy.
        k: conductivity as a function of u; default 1.
        faces: of the box.
        degree: of the space.
        comm: communicator.
        shape: the exact solution's function of the position.
        arguments: for TimeProblem.
    """
    dm = femgpu.mesh.box(faces, cell="triangle", comm=comm)
    V = femgpu.FunctionSpace(dm, "Lagrange", degree)
    u, v, t = femgpu.Function(V), ufl.TestFunction(V), femgpu.Constant(dm, 0.0)
    k = k or (lambda u: 1.0)

    def values(x):
        return shape(x, np) * getattr(np, c)(t.value)

    exact = shape(femgpu.coordinates(dm), ufl) * getattr(ufl, c)(t)
    rate = shape(femgpu.coordinates(dm), ufl) * {"exp": ufl.exp, "sin": ufl.cos}[c](t)
    f = rate - ufl.div(k(exact) * grad(exact))
    F = (femgpu.time_derivative(u) * v + k(u) * inner(grad(u), grad(v)) - f * v) * dx(degree=2 * degree + 2)
    u.interpolate(values)
    problem = femgpu.TimeProblem(F, u, femgpu.DirichletBC(V, values, "boundary"), t, options_prefix=prefix, **arguments)
    return problem, exact


def error(problem, exact):
    return math.sqrt(femgpu.assemble((problem.u - exact) ** 2 * dx(degree=6)))


METHODS = {
    "beuler": (dict(ts_type="beuler"), 1),
    "cn": (dict(ts_type="cn"), 2),
    "bdf2": (dict(), 2),
    "alpha": (dict(ts_type="alpha", ts_alpha_radius=0.8), 2),
    "tr-bdf2": (dict(ts_type="dirk", femgpu_jacobian="matfree", pc_type="jacobi", ksp_type="cg", ksp_rtol=1e-13), 2),
    "midpoint": (dict(ts_type="theta", ts_theta_theta=0.5), 2),
}


@pytest.mark.parametrize("method", METHODS)
def test_order_in_time(set_options, method):
    """Of the integrator, with boundary values that change; linear problems take one Newton iteration per stage."""
    options, order = METHODS[method]
    set_options("t_", **DIRECT | options)
    counts = (8, 16)
    errors = []
    for count in counts:
        problem, exact = heat("t_")
        problem.solve(1.0, 1.0 / count)
        assert problem.step == count and problem.t.value == pytest.approx(1.0, rel=1e-14)
        stages = {"alpha": count + 2, "bdf2": count + 1, "tr-bdf2": 2 * count}.get(method, count)
        assert problem.ts.getSNESIterations() == stages
        errors.append(error(problem, exact))
    assert abs(math.log2(errors[0] / errors[1]) - order) <= 0.15


@pytest.mark.parametrize("c", [1.0, 0.0])
def test_rosw_with_boundary_values(c):
    """The unknown of its stages is an increment, which no boundary value is; of values that change in time it has order 2.5."""
    V = femgpu.FunctionSpace(femgpu.mesh.box((4, 4), cell="quadrilateral", comm=MPI.COMM_SELF), "Lagrange", 1)

    def solved(t_end=0.2, dt=0.05, **options):
        u, v, t = femgpu.Function(V), ufl.TestFunction(V), femgpu.Constant(V.dm, 0.0)
        value = c + (1 - c) * ufl.exp(-t) * ufl.cos(femgpu.coordinates(V.dm)[0])
        F = (femgpu.time_derivative(u) * v + 0.1 * inner(grad(u), grad(v)) - ufl.sin(t) * v) * dx
        u.interpolate(value)
        problem = femgpu.TimeProblem(F, u, femgpu.DirichletBC(V, value, "boundary"), t, petsc_options=DIRECT | options)
        problem.solve(t_end, dt)
        return problem, femgpu.norm(u)

    _, fine = solved(ts_type="arkimex", ts_time_step=0.005)
    errors = [abs(solved(ts_type="rosw", ts_time_step=dt)[1] - fine) for dt in (0.05, 0.025)]
    assert errors[0] < 3e-5 and math.log2(errors[0] / errors[1]) > 2.2
    # The last Jacobian's shift is another one after a user's own, and where steps change: no step may depend on it.
    _, straight = solved(0.25, 0.0625, ts_type="rosw")
    halves, _ = solved(0.125, 0.0625, ts_type="rosw")
    halves.linearise(halves.u.vec)
    halves.solve(0.25, 0.0625)
    assert halves.t.value == 0.25 and femgpu.norm(halves.u) == pytest.approx(straight, rel=1e-10)
    problem, found = solved(ts_type="rosw", ts_adapt_type="basic", ts_time_step=0.005)
    assert found == pytest.approx(fine, abs=3e-5) and problem.step < 20 and problem.ts.getStepRejections() == 0


def test_order_of_a_nonlinear_problem(set_options):
    """With a conductivity that depends on u, Newton needs a few iterations more."""
    set_options("n_", **DIRECT)
    errors = []
    for count in (10, 20):
        problem, exact = heat("n_", k=lambda u: 1 + u**2)
        problem.solve(0.5, 0.5 / count)
        errors.append(error(problem, exact))
        assert problem.ts.getSNESIterations() <= 5 * count
    assert abs(math.log2(errors[0] / errors[1]) - 2) <= 0.15


@pytest.mark.parametrize(
    "method, factor, lost", [("cn", "t", 1), ("cn", "u", 1), ("cn", "", 0), ("rosw", "u", 1), ("rosw", "t", 0)]
)
def test_orders_that_are_lost(recwarn, method, factor, lost):
    """PETSc's formulas for these want a factor of du/dt that stays: a warning says so, and only there."""
    V = femgpu.FunctionSpace(femgpu.mesh.box((1, 1), cell="triangle", comm=MPI.COMM_SELF), "Lagrange", 1)
    v, errors = ufl.TestFunction(V), []
    for steps in (10, 20):
        u, t = femgpu.Function(V), femgpu.Constant(V.dm, 0.0)
        u.interpolate(1.0)
        F = {"t": 1 + t, "u": 1 + u**2, "": 1}[factor] * (femgpu.time_derivative(u) + u) * v * dx
        problem = femgpu.TimeProblem(F, u, t=t, petsc_options=DIRECT | {"ts_type": method})
        problem.solve(t_end=0.5, dt=0.5 / steps)
        problem.solve(t_end=1.0)
        errors.append(abs(u.vec.array_r - math.exp(-1)).max())
    order = {"cn": 2, "rosw": 3}[method]
    rate = math.log2(errors[0] / errors[1])
    assert order - lost - 0.2 < rate and (rate < order - 0.7) == bool(lost)
    said = [str(warning.message) for warning in recwarn if "changes in time" in str(warning.message)]
    assert (
        said
        == [
            f"-ts_type {method} {'is of first order' if method == 'cn' else 'loses an order'} here, for the factor of u_t "
            "changes in time: take -ts_type theta, bdf or dirk"
        ]
        * 2
        * lost
    )


@pytest.mark.parametrize("degree", [1, 2])
def test_order_in_space(set_options, degree):
    """Of degree + 1, with steps so small that their error does not show."""
    set_options("s_", **DIRECT | dict(ts_type="cn"))
    errors = []
    for count in (8, 16):
        problem, exact = heat("s_", "sin", faces=(count, count), degree=degree, shape=waves)
        problem.solve(0.04, 0.01)
        errors.append(error(problem, exact))
    assert abs(math.log2(errors[0] / errors[1]) - degree - 1) <= 0.15


def doubled(u, rate, v):
    """A form in which the rate stands with its gradient and beside the state."""
    return (1 + u**2) * rate * v + inner((1 + u) * grad(rate) + grad(u) * rate, grad(v))


@pytest.mark.parametrize("assembled", [False, True])
def test_jacobian_is_the_derivative(set_options, rng, assembled):
    """Jacobian = shift dF/du_t + dF/du, prescribed dofs included, against a difference of residuals."""
    set_options("j_", femgpu_jacobian="assembled" if assembled else "matfree")
    dm = femgpu.mesh.box((2, 2), cell="quadrilateral")
    V = femgpu.FunctionSpace(dm, "Lagrange", 2)
    u, v = femgpu.Function(V), ufl.TestFunction(V)
    bc = femgpu.DirichletBC(V, lambda x: x[0], 1)
    problem = femgpu.TimeProblem(doubled(u, femgpu.time_derivative(u), v) * dx, u, bc, options_prefix="j_")
    state, rate, w = (PETSc.Vec().createWithArray(rng.uniform(0.5, 1.5, V.num_dofs)) for _ in range(3))
    shift, h = 7.0, 1e-6
    problem.linearise(state, rate, shift)
    product, ahead, behind = (state.duplicate() for _ in range(3))
    problem.jacobian.mult(w, product)
    for sign, result in ((1, ahead), (-1, behind)):
        problem.residual(state + sign * h * w, result, rate + sign * h * shift * w, shift)
    difference = (ahead - behind) / (2 * h)
    np.testing.assert_allclose(product.array, difference.array, rtol=0, atol=1e-7 * abs(product.array).max())


def test_petsc_agrees_on_the_jacobian(set_options, capfd):
    """-snes_test_jacobian in every stage, with values on the boundary that change."""
    set_options("p_", snes_test_jacobian=True, **DIRECT)
    problem, _ = heat("p_", k=lambda u: 1 + u**2, faces=(2, 2))
    problem.solve(0.1, 0.1)
    ratios = [float(number) for number in re.findall(r"Jfd\|\|_F/\|\|J\|\|_F = ([-+.\de]+)", capfd.readouterr().out)]
    assert len(ratios) >= 4 and max(ratios) < 1e-6


def test_pointwise_form_gives_the_same_numbers(set_options):
    """The PETSc way: u_t in f0, u_tShift in g0, t in f0."""
    set_options("w_", **DIRECT)
    dm = femgpu.mesh.box((3, 3), cell="triangle")
    V = femgpu.FunctionSpace(dm, "Lagrange", 2)
    results = []
    for kind in ("pointwise", "difference", "ufl"):
        u, v, t = femgpu.Function(V), ufl.TestFunction(V), femgpu.Constant(dm, 0.0)
        if kind == "ufl":
            F = (femgpu.time_derivative(u) * v - t * v + (1 + u) * inner(grad(u), grad(v))) * dx(degree=6)
        else:
            F = femgpu.PointwiseForm(
                V,
                f0="f0[0] = u_t[0] - t;",
                f1="for (int d = 0; d < dim; ++d) f1[d] = (1 + u[0]) * u_x[d];",
                t=t,
                degree=6,
                **{} if kind == "difference" else JACOBIAN,
            )
        if kind == "difference":
            set_options("w_", pc_type="none", ksp_type="gmres", ksp_rtol=1e-10)
        else:
            set_options("w_", **DIRECT)
        bc = femgpu.DirichletBC(V, lambda x, t=t: t.value * x[0], 1)
        problem = femgpu.TimeProblem(F, u, bc, t, options_prefix="w_")
        problem.solve(0.3, 0.1)
        results.append(u.vec.norm())
    assert results == pytest.approx([results[2]] * 3, rel=1e-9)


JACOBIAN = dict(
    g0="g0[0] = u_tShift;",
    g2="for (int d = 0; d < dim; ++d) g2[d] = u_x[d];",
    g3="for (int d = 0; d < dim; ++d) g3[d * dim + d] = 1 + u[0];",
)


def test_boundary_values_of_every_kind(set_options):
    """Callables that read t, UFL expressions of t, t itself, and Functions that a callback of TS keeps up to date."""
    set_options("u_", **DIRECT | dict(ts_type="beuler"))
    dm = femgpu.mesh.box((3, 3), cell="triangle")
    V = femgpu.FunctionSpace(dm, "Lagrange", 2)
    v, held = ufl.TestFunction(V), femgpu.Function(V, name="held")
    t = femgpu.Constant(dm, 0.0)
    results = []
    for value in (lambda x: np.full(x.shape[1], t.value), 1.0 * t, t, held):
        t.value = 0.0
        held.interpolate(0.0)
        u = femgpu.Function(V)
        F = (femgpu.time_derivative(u) * v + inner(grad(u), grad(v))) * dx
        problem = femgpu.TimeProblem(F, u, femgpu.DirichletBC(V, value, 1), t, options_prefix="u_")
        problem.ts.setPreStep(lambda ts: held.interpolate(ts.getTime() + ts.getTimeStep()))
        problem.solve(0.5, 0.1)
        results.append(u.vec.array.copy())
    assert results[0].max() == pytest.approx(0.5)
    for other in results[1:]:
        np.testing.assert_allclose(other, results[0], rtol=1e-12)


def test_adaptive_steps(set_options):
    """PETSc chooses the steps; a tighter tolerance takes more of them and gives less error."""
    results = []
    for rtol in (1e-3, 1e-5):
        set_options("a_", ts_adapt_type="basic", ts_rtol=rtol, ts_atol=rtol, **DIRECT)
        problem, exact = heat("a_", "sin")
        problem.solve(1.0, 1e-3)
        results.append((problem.step, error(problem, exact)))
    (few, large), (many, small) = results
    assert few < many < 200 and small < 0.3 * large < 1e-2


def test_no_allocations_from_step_to_step(set_options):
    set_options("m_", **DIRECT)
    problem, _ = heat("m_", k=lambda u: 1 + u**2)
    counts = []
    problem.ts.setMonitor(lambda *_: counts.append((problem.runtime.num_allocations, problem.runtime.programs.num_programs)))
    problem.solve(0.5, 0.1)
    assert len(counts) == 6 and len(set(counts[2:])) == 1


def test_dropped_problems_are_freed(set_options):
    set_options("l_", **DIRECT)
    sizes = []
    for _ in range(6):
        problem, _ = heat("l_", faces=(2, 2))
        problem.solve(0.1, 0.1)
        sizes.append(problem.runtime.allocated_bytes)
    assert sizes[-1] <= sizes[2]


def test_events(set_options, tmp_path):
    """A step ends where the event is; a restart does not lose it."""
    set_options("e_", **DIRECT)

    def with_event(hits):
        problem, _ = heat("e_")
        problem.ts.setEventHandler(
            [0], [False], lambda ts, t, x, values: values.__setitem__(0, t - 0.37), lambda ts, events, t, x, forward: hits.append(t)
        )
        return problem

    first, second = [], []
    problem = with_event(first)
    problem.solve(0.2, 0.1)
    problem.checkpoint(tmp_path / "heat.h5")
    problem.solve(0.5)
    again = with_event(second)
    again.restart(tmp_path / "heat.h5")
    again.solve(0.5)
    assert first == pytest.approx([0.37], abs=1e-8) and second == pytest.approx([0.37], abs=1e-8)
    assert again.step == problem.step


def test_options_rule_over_arguments(set_options):
    set_options("o_", ts_max_time=0.2, ts_time_step=0.05, ts_init_time=0.1, **DIRECT)
    problem, _ = heat("o_")
    problem.solve(5.0, 1.0)
    assert problem.step == 2 and problem.t.value == pytest.approx(0.2)


def test_a_second_solve_goes_on_or_starts_anew(set_options):
    set_options("g_", **DIRECT)
    whole, _ = heat("g_")
    whole.solve(0.4, 0.1)
    problem, _ = heat("g_")
    start = problem.u.vec.array.copy()
    for _ in range(2):
        problem.t.value = 0.0
        problem.u.vec.setArray(start)
        problem.solve(0.2, 0.1)
        assert problem.step == 2
        problem.solve(0.4)
        assert problem.step == 4
        np.testing.assert_allclose(problem.u.vec.array, whole.u.vec.array, rtol=1e-12)


def reaction(prefix, comm=None):
    """A field that moves and one that follows it without delay: dp/dt + q = 0, q = p^2, so that p = 1 / (1 + t)."""
    dm = femgpu.mesh.box((3, 2), cell="quadrilateral", comm=comm)
    V = femgpu.FunctionSpace(dm, "Lagrange", 1)
    W = femgpu.MixedSpace({"p": V, "q": V})
    w, z = femgpu.Function(W, name="w"), ufl.TestFunction(W)
    (p, q), (y, z) = ufl.split(w), ufl.split(z)
    t = femgpu.Constant(dm, 0.0)
    F = (femgpu.time_derivative(w.sub("p")) * y + q * y + (q - p**2) * z + 0.1 * inner(grad(p), grad(y))) * dx
    bc = femgpu.DirichletBC(W.sub("p"), lambda x: np.full(x.shape[1], 1 / (1 + t.value)), 1)
    w.sub("p").interpolate(1.0)
    return femgpu.TimeProblem(F, w, bc, t, options_prefix=prefix), p, q


def test_consistent_initial_values_of_an_algebraic_field(set_options):
    """The algebraic field follows from the others at the start, which keep their values."""
    set_options("c_", ts_type="cn", **DIRECT)
    set_options("c_consistent_", **DIRECT)
    problem, p, q = reaction("c_")
    problem.make_consistent("q")
    for field in (p, q):
        assert femgpu.assemble((field - 1) ** 2 * dx) < 1e-20
    problem.solve(1.0, 0.05)
    assert femgpu.assemble((p - 0.5) ** 2 * dx) < 1e-7
    assert femgpu.assemble((q - p**2) ** 2 * dx) < 1e-12
    with pytest.raises(FormError, match="its fields are p, q"):
        problem.make_consistent("r")
    with pytest.raises(FormError, match="w has p, q"):
        problem.make_consistent()


def test_fieldsplit_by_name(set_options):
    """The DM of TS has the names of the fields."""
    set_options("f_", pc_type="fieldsplit", fieldsplit_p_pc_type="lu", fieldsplit_q_pc_type="lu", ksp_rtol=1e-12)
    problem, p, _ = reaction("f_")
    problem.solve(0.2, 0.1)
    assert femgpu.assemble((p - 1 / 1.2) ** 2 * dx) < 1e-5
    assert [name for name in problem.ts.getDM().createFieldDecomposition()[0]] == ["p", "q"]


def test_beside_a_steady_problem_on_the_space(set_options):
    """Solvers on one space do not take each other's callbacks."""
    set_options("b_", **DIRECT)
    problem, exact = heat("b_")
    u, v = problem.u, ufl.TestFunction(problem.u.space)
    steady = femgpu.Function(u.space, name="steady")
    other = femgpu.NonlinearProblem(inner(grad(steady), grad(v)) * dx - v * dx, steady, problem.bcs, options_prefix="b_")
    other.solve()
    norm = steady.vec.norm()
    problem.solve(0.2, 0.1)
    assert error(problem, exact) < 1e-2
    problem.t.value = 0.0
    steady.interpolate(0.0)
    other.solve()
    assert steady.vec.norm() == pytest.approx(norm, rel=1e-10)


# Files


def collection(path):
    """Times and files that a .pvd names."""
    entries = ElementTree.parse(path).getroot().findall("Collection/DataSet")
    return {float(entry.get("timestep")): path.parent / entry.get("file") for entry in entries}


def test_series(set_options, tmp_path):
    """The start, every third step and the end; the collection is whole after each file."""
    set_options("v_", **DIRECT)
    problem, _ = heat("v_")
    problem.output(tmp_path / "heat.pvd", every=3)
    seen = []
    problem.ts.setMonitor(lambda *_: seen.append(len(collection(tmp_path / "heat.pvd"))))
    problem.solve(1.0, 0.125)
    files = collection(tmp_path / "heat.pvd")
    assert list(files) == pytest.approx([0, 0.375, 0.75, 1])
    assert seen == [1, 1, 1, 2, 2, 2, 3, 3, 4]
    assert sorted(tmp_path.iterdir()) == sorted([tmp_path / "heat.pvd", *files.values()])
    pyvista = pytest.importorskip("pyvista")
    last = pyvista.read(list(files.values())[-1])
    assert last.point_data["u"].max() == pytest.approx(3 * math.e, rel=1e-12)
    grid = pyvista.PVDReader(str(tmp_path / "heat.pvd"))
    assert grid.time_values == list(files)


def test_series_of_a_mixed_problem(set_options, tmp_path):
    set_options("x_", **DIRECT)
    problem, *_ = reaction("x_")
    problem.output(tmp_path / "w.pvd")
    problem.solve(0.2, 0.1)
    text = list(collection(tmp_path / "w.pvd").values())[-1].read_bytes()
    assert b'Name="p"' in text and b'Name="q"' in text


@pytest.mark.parametrize("ts_type", ["beuler", "cn"])
def test_restart_continues_with_the_same_numbers(set_options, tmp_path, ts_type):
    """Bit for bit for methods of one step, in a series that goes on."""
    set_options("r_", ts_type=ts_type, **DIRECT)
    whole, _ = heat("r_", k=lambda u: 1 + u**2)
    path = tmp_path / "heat.h5"
    whole.output(tmp_path / "heat.pvd", every=2)
    whole.ts.setMonitor(lambda ts, step, *_: whole.checkpoint(path) if step == 4 else None)
    whole.solve(0.8, 0.1)
    again, _ = heat("r_", k=lambda u: 1 + u**2)
    again.u.interpolate(0.0)
    again.restart(path)
    again.output(tmp_path / "heat.pvd", every=2)
    assert again.step == 4 and again.t.value == pytest.approx(0.4) and again.ts.getTimeStep() == 0.1
    again.solve(0.8)
    assert again.step == 8
    np.testing.assert_array_equal(again.u.vec.array, whole.u.vec.array)
    assert list(collection(tmp_path / "heat.pvd")) == pytest.approx([0, 0.2, 0.4, 0.6, 0.8])


def test_checkpoints_follow_each_other(set_options, tmp_path):
    """The last one is of the end of the run; there is nothing else in the folder."""
    set_options("k_", **DIRECT)
    problem, *_ = reaction("k_")
    problem.checkpoint(tmp_path / "w.h5", every=2)
    problem.solve(0.3, 0.1)
    assert [path.name for path in tmp_path.iterdir()] == ["w.h5"]
    again, *_ = reaction("k_")
    again.restart(tmp_path / "w.h5")
    assert again.step == 3 and again.t.value == pytest.approx(0.3)
    np.testing.assert_array_equal(again.u.vec.array, problem.u.vec.array)


@pytest.mark.parallel(3)
@pytest.mark.timeout(120)
def test_ranks_agree(set_options):
    """1, 2 and 3 ranks; and a run that is begun on three and ended on one."""
    folder = Path(WORLD.bcast(tempfile.mkdtemp() if WORLD.rank == 0 else None))
    set_options("q_", ts_type="cn", pc_type="jacobi", ksp_rtol=1e-13, snes_rtol=1e-12, snes_stol=0)
    some = WORLD.Split(int(WORLD.rank == 2))
    results = []
    for comm in (PETSc.COMM_SELF, PETSc.Comm(some), PETSc.COMM_WORLD):
        problem, exact = heat("q_", k=lambda u: 1 + u**2, comm=comm)
        problem.solve(0.05, 0.05)
        if comm is PETSc.COMM_WORLD:
            problem.checkpoint(folder / "half.h5")
            problem.output(folder / "heat.pvd")
        problem.solve(0.1)
        results.append((problem.u.vec.norm(), error(problem, exact)))
    alone, exact = heat("q_", k=lambda u: 1 + u**2, comm=PETSc.COMM_SELF)
    alone.restart(folder / "half.h5")
    alone.solve(0.1)
    results.append((alone.u.vec.norm(), error(alone, exact)))
    np.testing.assert_allclose(results, [results[0]] * 4, rtol=1e-9)
    assert len(collection(folder / "heat.pvd")) == 2
    # A failure of one rank is one of all.
    problem.t.value = 0.0
    problem.bcs[0].value = fail_on_the_last
    with pytest.raises(DataError, match="not finite"):
        problem.solve(0.1, 0.05)
    WORLD.barrier()
    if WORLD.rank == 0:
        shutil.rmtree(folder)


def fail_on_the_last(x):
    return np.full(x.shape[1], np.nan if WORLD.rank == WORLD.size - 1 else 1.0)


# Bad input


def test_errors_in_callbacks_come_out_as_they_are(set_options):
    """And leave nothing locked: the problem can be solved afterwards."""
    set_options("h_", **DIRECT)
    problem, exact = heat("h_")
    bc = problem.bcs[0]
    good, start = bc.value, problem.u.vec.array.copy()

    def bad(x):
        return good(x) if problem.t.value < 0.15 else np.full(x.shape[1], np.nan)

    bc.value = bad
    with pytest.raises(DataError, match="boundary values are not finite"):
        problem.solve(0.4, 0.1)
    assert problem.step == 1
    bc.value = good
    problem.t.value = 0.0
    problem.u.vec.setArray(start)
    problem.solve(0.4, 0.1)
    assert problem.step == 4 and error(problem, exact) < 1e-2


@pytest.mark.parametrize("fails", ["raises", "diverges"])
@pytest.mark.parametrize("method", METHODS)
def test_a_step_that_failed_is_taken_again(set_options, method, fails):
    """From the state and the time before it, as in a run without a failure or in one that starts there."""
    set_options("h_", **METHODS[method][0] | DIRECT | dict(ksp_type="gmres", ksp_rtol=1e-12, ksp_max_it=50))
    whole, _ = heat("h_", k=lambda u: 1 + u**2)
    whole.solve(0.2, 0.1)
    middle = whole.u.vec.array.copy()
    whole.solve(0.4)

    problem, _ = heat("h_", k=lambda u: 1 + u**2)
    bc, ksp = problem.bcs[0], problem.snes.ksp
    good = bc.value
    if fails == "raises":

        def bad(x):
            if problem.t.value > 0.23:
                raise ValueError("of the user's")
            return good(x)

        bc.value = bad
        with pytest.raises(ValueError, match="of the user's"):
            problem.solve(0.4, 0.1)
        bc.value = good
    else:
        problem.solve(0.2, 0.1)
        ksp.getPC().setType("none")
        ksp.setTolerances(max_it=1)
        with pytest.raises(SolverError, match="DIVERGED_LINEAR_SOLVE"):
            problem.solve(0.4, 0.1)
        ksp.getPC().setType("lu")
        ksp.setTolerances(max_it=50)
    assert problem.t.value == problem.ts.getTime() == pytest.approx(0.2, rel=1e-12) and problem.step == 2
    np.testing.assert_allclose(problem.u.vec.array_r, middle, rtol=1e-9)  # writes nothing, which would be a new start
    problem.solve(0.4, 0.1)
    fresh, _ = heat("h_", k=lambda u: 1 + u**2)
    fresh.t.value = 0.2
    fresh.u.vec.setArray(middle)
    fresh.solve(0.4, 0.1)
    assert any(np.allclose(problem.u.vec.array, other.u.vec.array, rtol=1e-9) for other in (whole, fresh))
    assert problem.t.value == pytest.approx(0.4, rel=1e-12)


def test_divergence_names_both_reasons(set_options):
    set_options("d_", snes_max_it=1, **DIRECT)
    problem, _ = heat("d_", k=lambda u: 1 + u**4)
    with pytest.raises(SolverError, match="TS_DIVERGED_NONLINEAR_SOLVE.*SNES_DIVERGED_MAX_IT") as caught:
        problem.solve(1.0, 0.5)
    assert "-d_ts_time_step" in str(caught.value)


@pytest.mark.parametrize(
    "options, call, kind, message",
    [
        ({}, lambda problem: problem.solve(), OptionError, "without an end"),
        ({}, lambda problem: problem.solve(1.0), OptionError, "without a step"),
        ({}, lambda problem: problem.output("heat.vtu"), DataError, ".pvd"),
        ({}, lambda problem: problem.output("nowhere/heat.pvd"), DataError, "create it first"),
        ({}, lambda problem: problem.output("heat.pvd", every=0), DataError, "at least 1"),
        ({}, lambda problem: problem.checkpoint("heat.vtu", every=2), DataError, ".h5"),
        ({}, lambda problem: problem.restart("nowhere.h5"), DataError, "does not exist"),
        ({}, lambda problem: problem.make_consistent("p"), FormError, "one field only"),
    ],
)
def test_bad_calls(set_options, options, call, kind, message):
    problem, _ = heat("y_")
    with pytest.raises(kind, match=message):
        call(problem)


def test_bad_problems(set_options):
    dm = femgpu.mesh.box((2, 2), cell="triangle")
    V = femgpu.FunctionSpace(dm, "Lagrange", 1)
    u, v = femgpu.Function(V), ufl.TestFunction(V)
    with pytest.raises(FormError, match="time_derivative"):
        femgpu.TimeProblem(inner(grad(u), grad(v)) * dx, u)
    for ts_type in ("rk", "alpha2"):
        set_options("z_", ts_type=ts_type)
        with pytest.raises(OptionError, match=f"-z_ts_type {ts_type} does not integrate .* expected bdf"):
            femgpu.TimeProblem(femgpu.time_derivative(u) * v * dx + u * v * dx, u, options_prefix="z_")


def test_checkpoints_of_something_else(set_options, tmp_path):
    problem, _ = heat("i_")
    femgpu.write(tmp_path / "u.h5", problem.u)
    with pytest.raises(DataError, match="expected a checkpoint"):
        problem.restart(tmp_path / "u.h5")
    other, _ = heat("i_", faces=(4, 3))
    other.checkpoint(tmp_path / "other.h5")
    with pytest.raises(DataError, match="another mesh"):
        problem.restart(tmp_path / "other.h5")
    other, _ = heat("i_", degree=1)
    other.checkpoint(tmp_path / "linear.h5")
    with pytest.raises(DataError, match="holds u in P1"):
        problem.restart(tmp_path / "linear.h5")
