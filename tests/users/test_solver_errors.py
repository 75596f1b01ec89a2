"""What solvers do with bad options, bad vectors, exceptions in the middle, and objects that are gone."""

import gc
import signal
from collections import Counter
from contextlib import contextmanager, nullcontext

import numpy as np
import pytest
import ufl
from mpi4py import MPI
from petsc4py import PETSc
from ufl import div, dx, grad, inner

import femgpu
from femgpu import Constant, DirichletBC, Function, FunctionSpace, MixedSpace, NonlinearProblem, PointwiseForm, TimeProblem, mesh
from femgpu.errors import DataError, FemgpuError, FormError, OptionError, SolverError, collective
from femgpu.operators import is_symmetric

SELF = PETSc.COMM_SELF


def poisson(comm=SELF, degree=1, **arguments):
    dm = mesh.box((3, 2), cell="triangle", comm=comm)
    V = FunctionSpace(dm, "Lagrange", degree)
    u, v = Function(V), ufl.TestFunction(V)
    return NonlinearProblem(inner(grad(u), grad(v)) * dx - v * dx, u, DirichletBC(V, 0.0), **arguments)


def stokes():
    dm = mesh.box((2, 2), cell="triangle", comm=SELF)
    W = MixedSpace({"v": FunctionSpace(dm, "Lagrange", 2, shape=(2,)), "p": FunctionSpace(dm, "Lagrange", 1)})
    w, (v, q) = Function(W), ufl.TestFunctions(W)
    u, p = ufl.split(w)
    F = inner(grad(u), grad(v)) * dx - p * div(v) * dx - q * div(u) * dx
    return NonlinearProblem(F, w, [DirichletBC(W.sub("v"), (0.0, 0.0), (1, 2, 4)), DirichletBC(W.sub("v"), (1.0, 0.0), 3)])


def heat(comm=SELF, prefix=""):
    dm = mesh.box((2, 2), cell="triangle", comm=comm)
    V = FunctionSpace(dm, "Lagrange", 1)
    u, v = Function(V), ufl.TestFunction(V)
    u.vec.set(1.0)
    return TimeProblem(femgpu.time_derivative(u) * v * dx + u**2 * v * dx, u, options_prefix=prefix)


@contextmanager
def eager_collector():
    """Python's collector of garbage runs wherever it may, and calls somebody: it drops an exception that waits inside PETSc."""
    before = gc.get_threshold()
    gc.callbacks.append(caller := lambda phase, info: None)
    gc.set_threshold(1)
    try:
        yield
    finally:
        gc.set_threshold(*before)
        gc.callbacks.remove(caller)


@pytest.mark.parametrize(
    "options, kind, said",
    [
        ({"ksp_type": "nonsense"}, OptionError, "KSP type nonsense.*given: -ksp_type nonsense"),
        ({"pc_type": "nonsense"}, OptionError, "given: -pc_type nonsense"),
        ({"snes_linesearch_type": "nonsense"}, OptionError, "given: -snes_linesearch_type nonsense"),
        ({"ksp_rtol": "small"}, OptionError, "no numeric value: expected a number .given: -ksp_rtol small"),
        ({"pc_type": "python", "pc_python_type": "nowhere.Class"}, OptionError, "No module named 'nowhere'; expected module.Class"),
        ({"pc_type": "python"}, SolverError, "-pc_python_type femgpu.AssembledPC"),
        ({"ksp_type": "python"}, SolverError, "-ksp_python_type femgpu.CG"),
        ({"ts_type": "python"}, SolverError, "-ts_python_type module.Class"),
        ({"pc_type": "jacobi", "pc_jacobi_type": "rowl1", "femgpu_pmat": "none"}, SolverError, "-femgpu_jacobian assembled"),
        ({"pc_type": "fieldsplit"}, SolverError, "femgpu.MixedSpace, or take another -pc_type"),
        ({"pc_type": "ilu", "femgpu_pmat": "none"}, SolverError, "-femgpu_pmat assembled"),
        ({"pc_type": "sor", "femgpu_pmat": "none"}, SolverError, "-femgpu_jacobian assembled"),
        ({"pc_type": "eisenstat"}, SolverError, "-femgpu_jacobian assembled"),
        ({"pc_type": "lu", "pc_factor_mat_solver_type": "mumps"}, SolverError, "without mumps; leave -pc_factor_mat_solver_type"),
    ],
    ids=lambda value: "-".join(value.values()) if isinstance(value, dict) else "",
)
def test_petsc_errors_name_option_and_remedy(set_options, options, kind, said):
    set_options(**options)
    with pytest.raises(kind, match=said):
        heat().solve(1.0, 0.5) if "ts_type" in options else poisson().solve()


def test_a_problem_works_again_after_a_bad_option(set_options):
    problem = poisson()
    problem.snes.getKSP().getPC().setType("fieldsplit")
    with pytest.raises(SolverError, match="fields"):
        problem.solve()
    problem.snes.getKSP().getPC().setType("jacobi")
    problem.solve()


@pytest.mark.parallel(nprocs=2)
@pytest.mark.parametrize("kind", ["lu", "cholesky", "ilu"])
def test_factorisations_on_several_ranks(set_options, kind):
    set_options(pc_type=kind)
    with pytest.raises(SolverError, match="-pc_type redundant"):
        poisson(None).solve()
    set_options(pc_type="redundant")
    poisson(None).solve()


def test_saddle_points(set_options):
    """A zero pivot is named, and what the message says works."""
    with pytest.raises(SolverError, match="-pc_type ilu: zero pivot.*-pc_fieldsplit_type schur"):
        stokes().solve()
    set_options(pc_type="fieldsplit", pc_fieldsplit_type="schur", pc_fieldsplit_schur_precondition="selfp", ksp_rtol=1e-8)
    stokes().solve()


def test_stalling_and_singular_problems(set_options):
    set_options("a_", ksp_max_it=1, ksp_rtol=1e-12)
    with pytest.raises(SolverError, match="gmres with -a_pc_type ilu stalls: try -a_pc_type gamg"):
        poisson(degree=2, options_prefix="a_").solve()
    set_options("b_", pc_type="lu")
    problem = poisson(options_prefix="b_")
    problem = NonlinearProblem(inner(grad(problem.u), grad(v := ufl.TestFunction(problem.u.space))) * dx - v * dx, problem.u)
    with pytest.raises(SolverError, match="no dofs are prescribed: .* problem.set_nullspace"):
        problem.solve()


@pytest.mark.parametrize("kind", ["ilu", "jacobi"])
def test_a_jacobian_that_is_zero(set_options, kind):
    set_options(pc_type=kind)
    u = poisson().u
    problem = NonlinearProblem((u**2 - 4) * ufl.TestFunction(u.space) * dx, u)
    with pytest.raises(SolverError, match="The Jacobian is zero at this state.*start from another initial guess"):
        problem.solve()
    u.interpolate(1.0)
    assert abs(problem.solve().vec.array_r - 2.0).max() < 1e-6


def hill(comm=SELF, drift=0.0, **options):
    dm = mesh.box((40, 40) if not drift else (10, 10), cell="triangle", comm=comm)
    V = FunctionSpace(dm, "Lagrange", 1 if not drift else 2)
    u, v = Function(V), ufl.TestFunction(V)
    F = (inner(grad(u), grad(v)) + drift * u.dx(0) * v - v) * dx
    return NonlinearProblem(F, u, DirichletBC(V, 0.0), petsc_options=options)


def test_a_trust_region_that_stalls():
    """What the message says works."""
    with pytest.raises(SolverError, match="newtontrdc, -snes_tr_fallback_type cauchy, .*-snes_tr_delta0 100.*-ksp_type gmres"):
        hill(snes_type="newtontr", ksp_type="cg").solve()
    for more in ({"snes_type": "newtontrdc"}, {"snes_tr_fallback_type": "cauchy"}, {"snes_tr_delta0": 100}, {"ksp_type": "gmres"}):
        hill(**{"snes_type": "newtontr", "ksp_type": "cg", **more}).solve()
    with pytest.raises(SolverError, match="take PETSc's own, -ksp_type cg"):
        poisson(petsc_options={"snes_type": "newtontr", "ksp_type": "python", "ksp_python_type": "femgpu.CG"}).solve()


def test_normal_equations_that_stall():
    with pytest.raises(SolverError, match="lsqr with -pc_type ilu stalls: .*normal equations.*-ksp_type gmres, or -pc_type none"):
        hill(drift=20.0, ksp_type="lsqr", ksp_max_it=500).solve()
    hill(drift=20.0, ksp_type="lsqr", ksp_max_it=500, pc_type="none").solve()


@pytest.mark.parametrize("exception", [KeyboardInterrupt(), SystemExit(3), ValueError("mine")], ids=lambda e: type(e).__name__)
@pytest.mark.parametrize("make", [poisson, heat])
def test_exceptions_inside_a_solve(monkeypatch, make, exception):
    """They come out as themselves, from monitors, products and residuals, and leave the problem as good as new."""
    problem = make()
    arguments = (1.0, 0.5) if make is heat else ()
    start = problem.u.vec.array_r.copy()
    problem.solve(*arguments)
    expected, armed = problem.u.vec.array_r.copy(), []

    def fail(*_):
        if armed:
            raise exception

    def restart():
        problem.u.vec.setArray(start)
        if make is heat:
            problem.t.value = 0.0

    problem.snes.setMonitor(lambda snes, i, norm: fail() if "snes" in armed else None)
    problem.snes.getKSP().setMonitor(lambda ksp, i, norm: fail() if "ksp" in armed else None)
    plain = {name: getattr(problem.operator, name) for name in ("action", "residual")}
    for name, function in plain.items():
        monkeypatch.setattr(
            problem.operator, name, lambda *a, name=name, function=function: fail() if name in armed else function(*a)
        )
    for where in ("snes", "ksp", "action", "residual"):
        armed[:] = [where]
        restart()
        with eager_collector(), pytest.raises(type(exception)) as caught:
            problem.solve(*arguments)
        assert caught.value is exception
        armed.clear()
        restart()
        problem.solve(*arguments)
        assert np.abs(problem.u.vec.array_r - expected).max() <= 1e-8 * np.abs(expected).max(), where


@pytest.mark.parallel(nprocs=2)
@pytest.mark.parametrize("make", [poisson, heat])
@pytest.mark.parametrize(
    "ksp", [{"ksp_type": "cg"}, {"ksp_type": "python", "ksp_python_type": "femgpu.CG"}], ids=lambda o: o["ksp_type"]
)
def test_monitors_that_raise_are_called_again(set_options, make, ksp):
    set_options(**ksp)
    problem, calls, armed = make(None), Counter(), {}
    arguments = (1.0, 0.5) if make is heat else ()

    def monitor(name):
        def called(*_):
            calls[name] += 1
            if name in armed:
                armed[name]()

        return called

    def interrupt():
        signal.raise_signal(signal.SIGINT)

    def fail():
        raise ValueError("mine")

    def solve():
        problem.u.vec.set(1.0)
        if make is heat:
            problem.t.value = 0.0
        calls.clear()
        problem.solve(*arguments)
        return dict(calls)

    solvers = {"snes": problem.snes, "ksp": problem.snes.getKSP()} | ({"ts": problem.ts} if make is heat else {})
    for name, solver in solvers.items():
        solver.setMonitor(monitor(name))
    expected = solve()
    assert set(expected) == set(solvers)
    for name in solvers:
        for action, kind, around in ((interrupt, KeyboardInterrupt, nullcontext), (fail, ValueError, eager_collector)):
            armed[name] = action
            with around(), pytest.raises(kind):
                solve()
            armed.clear()
            assert solve() == expected


@pytest.mark.parametrize(
    "options",
    [
        {"pc_type": "gamg", "femgpu_pmat": "assembled"},
        {"ksp_type": "fgmres", "pc_type": "ksp", "ksp_ksp_type": "cg", "ksp_pc_type": "jacobi"},
    ],
    ids=lambda options: options["pc_type"],
)
def test_exceptions_inside_the_preconditioner(monkeypatch, options):
    """However often they come, the problem works again."""
    problem = poisson(petsc_options=options)
    problem.solve()
    expected, action = problem.u.vec.array_r.copy(), problem.operator.action
    for number in (0, 1, 2, 2, 2):
        calls = iter(range(number))

        def fail(*arguments, calls=calls):
            if next(calls, None) is None:
                raise KeyboardInterrupt
            return action(*arguments)

        monkeypatch.setattr(problem.operator, "action", fail)
        problem.u.vec.set(0.0)
        with pytest.raises(KeyboardInterrupt):
            problem.solve()
    monkeypatch.setattr(problem.operator, "action", action)
    problem.u.vec.set(0.0)
    problem.solve()
    assert np.abs(problem.u.vec.array_r - expected).max() <= 1e-8 * np.abs(expected).max()


@pytest.mark.parallel(nprocs=2)
@pytest.mark.parametrize("exception", [KeyboardInterrupt, SystemExit])
def test_ends_of_one_rank_end_all(exception):
    world = MPI.COMM_WORLD
    with pytest.raises(exception) as caught, collective(world):
        if world.rank == 1:
            raise exception(7)
    assert caught.value.args == ((7,) if exception is SystemExit or world.rank == 1 else ("7",))
    problem = poisson(None)
    problem.bcs[0].value = lambda x: exit(5) if world.rank == 0 else 0 * x[0]
    with pytest.raises(SystemExit) as caught:
        problem.solve()
    assert caught.value.code == 5


def test_jacobian_before_linearise(set_options, rng):
    """It is that of the unknown's state, whatever residuals were evaluated; where there is none, the error says so."""
    dm = mesh.box((2, 2), cell="triangle", comm=SELF)
    V = FunctionSpace(dm, "Lagrange", 1)
    u, v = Function(V), ufl.TestFunction(V)
    u.interpolate(lambda x: 1 + x[0])
    x, f, y, z = (u.vec.duplicate() for _ in range(4))
    x.setArray(rng.uniform(-1, 1, x.getLocalSize()))
    for kind in ("matfree", "assembled"):
        set_options(femgpu_jacobian=kind)
        problem = NonlinearProblem(u**3 * v * dx, u, DirichletBC(V, 0.5, 1))
        if kind == "matfree":
            with pytest.raises(PETSc.Error) as caught:
                problem.snes.getJacobian()[0].mult(x, y)
            assert isinstance(caught.value.__cause__, SolverError) and "problem.linearise(x)" in str(caught.value.__cause__)
        problem.residual(x, f)
        problem.jacobian.mult(x, y)
        problem.linearise(u.vec)
        problem.jacobian.mult(x, z)
        assert 0 < z.norm() and (y - z).norm() <= 1e-15 * z.norm()
        # The scale of boundary rows is taken anew at the next residual, which moves nothing else.
        problem.operator.refresh()
        f.set(9.0)
        problem.residual(f, f.duplicate())
        problem.jacobian.mult(x, y)
        free = np.setdiff1d(np.arange(x.getLocalSize()), problem.operator.rows.owned)
        assert np.abs((y - z).array_r[free]).max() <= 1e-15 * z.norm()


def test_vectors_of_another_kind():
    problem = poisson()
    x, f = problem.u.vec, problem.u.vec.duplicate()
    other = PETSc.Vec().createSeq(7)
    gone = f.duplicate()
    gone.destroy()
    for bad, said in ((other, "7 entries"), (x.array_r, "ndarray"), (gone, "destroyed"), (problem.jacobian, "of dofs is of type")):
        for call in (lambda bad=bad: problem.residual(bad, f), lambda bad=bad: problem.residual(x, bad)):
            with pytest.raises(DataError, match=said):
                call()
    with pytest.raises(DataError, match="of dofs is of type Jacobian; expected a PETSc.Vec like u.vec"):
        problem.assemble_jacobian(problem.jacobian)
    for each in (problem, heat()):
        with pytest.raises(DataError, match="into the vector that it is computed from; expected f = u.vec.duplicate"):
            each.residual(each.u.vec, each.u.vec)


@pytest.mark.parallel(nprocs=3)
def test_vectors_of_another_distribution():
    """One rank could not tell: the verdict is the same on all."""
    problem = poisson(None)
    x, f = problem.u.vec, problem.u.vec.duplicate()
    sizes = np.diff(x.getOwnershipRanges())
    most = int(np.argmax(sizes))
    sizes[most] -= 1
    sizes[most - 1] += 1
    other = PETSc.Vec().createMPI((sizes[x.comm.rank], x.getSize()), comm=x.comm)
    for call in (
        lambda: problem.residual(other, f),
        lambda: problem.residual(x, other),
        lambda: problem.linearise(other),
        lambda: problem.jacobian.getPythonContext().mult(None, other, f),
    ):
        with pytest.raises(DataError, match="entries that begin on the ranks at"):
            call()


@pytest.mark.parametrize("kind", ["matfree", "assembled"])
def test_products_with_vectors_that_are_gone(set_options, kind):
    set_options(femgpu_jacobian=kind)
    jacobian, x = poisson().jacobian, poisson().u.vec
    gone = x.duplicate()
    gone.destroy()
    calls = [lambda product=product, given=given: product(*given)
             for product in (jacobian.mult, jacobian.multTranspose) for given in ((gone, x), (x, gone))]  # fmt: skip
    for call in (*calls, lambda: jacobian * gone, lambda: jacobian @ gone):
        with pytest.raises(DataError, match="was destroyed"):
            call()
    assert (jacobian * x).norm() == (jacobian @ x).norm() == 0.0 and (jacobian * 2.0).getSizes() == jacobian.getSizes()


def test_products_with_vectors_of_another_size():
    """The Jacobian is PETSc's object: PETSc says both sizes."""
    problem = poisson()
    with pytest.raises(PETSc.Error, match="Mat mat,Vec x: global dim 12 7"):
        problem.jacobian.mult(PETSc.Vec().createSeq(7), problem.u.vec.duplicate())


def test_two_problems_on_one_snes():
    """Each solves its own equations, on meshes of its own."""
    snes = PETSc.SNES().create(SELF)
    snes.getKSP().setTolerances(rtol=1e-10)
    first = poisson(snes=snes)
    second = poisson(degree=2, snes=snes)
    alone = {problem: poisson(degree=problem.u.space.degree) for problem in (first, second)}
    for problem in (first, second, first):
        problem.u.vec.set(0)
        problem.solve()
        alone[problem].snes.getKSP().setTolerances(rtol=1e-10)
        alone[problem].solve()
        assert (problem.u.vec - alone[problem].u.vec).norm() <= 1e-8 * alone[problem].u.vec.norm() > 0


def test_step_set_through_ts():
    for dt in (0.1, 0.25):
        problem = heat()
        with pytest.raises(OptionError, match="ts.setTimeStep"):
            problem.solve(1.0)
        problem.ts.setTimeStep(dt)
        problem.solve(1.0)
        assert problem.step == round(1 / dt)


@pytest.mark.parametrize("kind", ["glee", "pseudo"])
def test_integrators_for_other_problems(set_options, kind):
    set_options("g_", ts_type=kind)
    with pytest.raises(OptionError, match=f"-g_ts_type {kind} does not integrate"):
        heat(prefix="g_")


def test_bounds_of_options(set_options):
    for name, value in (
        ("petscfe_num_batches", 10**9),
        ("petscfe_num_blocks", 10**9),
        ("petscfe_default_quadrature_order", 1000),
        ("femgpu_schedule", "transposed:batches=1000000000"),
    ):
        set_options("l_", **{name: value})
        with pytest.raises(OptionError, match="at most|expected one of"):
            poisson(options_prefix="l_")
        PETSc.Options().delValue("l_" + name)


def test_symmetry_where_numbers_overflow():
    dm = mesh.box((1, 1), cell="triangle", comm=SELF)
    V = FunctionSpace(dm, "Lagrange", 1)
    u, v = Function(V), ufl.TestFunction(V)
    for F, symmetric in ((ufl.exp(500 * u), True), (u.dx(0) + ufl.exp(500 * u), False)):
        problem = NonlinearProblem(F * v * dx + ufl.exp(50 * inner(grad(u), grad(u))) * inner(grad(u), grad(v)) * dx, u)
        assert is_symmetric(problem.form) is symmetric


def test_vector_type_set_after_the_first_space():
    dm = mesh.box((1, 1), cell="triangle", comm=SELF)
    assert Function(FunctionSpace(dm, "Lagrange", 1)).vec.getType() == "seq"
    dm.setVecType("mpi")
    assert Function(FunctionSpace(dm, "Lagrange", 2)).vec.getType() == "mpi"


def test_constants_are_numbers():
    dm = mesh.box((1, 1), cell="triangle", comm=SELF)
    c, vector = Constant(dm, 2.5), Constant(dm, (1.0, 4.0))
    assert (float(c), int(c), complex(c), f"{c:.3f}", format(c, "g"), np.float64(c), round(c, 0)) == (
        2.5,
        2,
        2.5,
        "2.500",
        "2.5",
        2.5,
        2,
    )
    assert float(2 * c + vector[1]) == 9
    for call in (float, int, complex, "{:g}".format):
        with pytest.raises(DataError, match=r"shape \(2,\); expected a scalar one"):
            call(vector)
    with pytest.raises(DataError, match="no single value"):
        float(Function(FunctionSpace(dm, "Lagrange", 1)))


def test_values_of_ufl_that_have_no_numbers():
    dm = mesh.box((1, 1), cell="triangle", comm=SELF)
    V = FunctionSpace(dm, "Lagrange", 1)
    u, v, given = Function(V), ufl.TestFunction(V), ufl.Coefficient(V)
    F, constant = inner(grad(u), grad(v)) * dx, ufl.Constant(V.ufl_domain())
    bodies = dict(f0="f0[0] = u[0];", g0="g0[0] = 1.;")
    for call in (
        lambda: NonlinearProblem(F + constant * v * dx, u),
        lambda: NonlinearProblem(F + given * v * dx, u),
        lambda: NonlinearProblem(PointwiseForm(V, **bodies, aux=[given]), u),
        lambda: NonlinearProblem(PointwiseForm(V, **bodies, constants=[constant]), u),
        lambda: TimeProblem(F + femgpu.time_derivative(u) * v * dx + constant * v * dx, u),
    ):
        with pytest.raises(FormError, match=r"femgpu.Constant\(dm, value\) or a femgpu.Function\(V\)"):
            call()


def test_arguments_that_are_no_such_thing():
    problem = poisson()
    F, u = inner(grad(problem.u), grad(ufl.TestFunction(problem.u.space))) * dx, problem.u
    V = FunctionSpace(mesh.box((1, 1), cell="triangle", comm=SELF), "Lagrange", 1)
    for call, said in (
        (lambda: NonlinearProblem(F, u, 3), "bcs"),
        (lambda: NonlinearProblem(F, u, [None]), "None"),
        (lambda: NonlinearProblem(F, u, options_prefix=3), "options_prefix 3"),
        (lambda: NonlinearProblem(F, u, options_prefix="-a_"), "options_prefix '-a_'; expected a word without dash"),
        (lambda: TimeProblem(F, u, options_prefix="a b"), "options_prefix 'a b'"),
        (lambda: femgpu.assemble(F, options_prefix="-a_"), "options_prefix '-a_'"),
        (lambda: problem.set_nullspace(None), "a null space is None .*femgpu.constant_modes"),
        (lambda: problem.set_near_nullspace(3), "a null space is 3"),
        (lambda: problem.set_nullspace(femgpu.constant_modes(V)), r"vectors of sizes \(4, 4\) .*expected \(12, 12\)"),
        (lambda: femgpu.rigid_body_modes(None), "rigid-body modes of None: expected a FunctionSpace"),
        (lambda: femgpu.time_derivative(V), "expected the unknown"),
        (lambda: DirichletBC(V, 0.0, 1, component="x"), "component 'x' of a space"),
        (lambda: DirichletBC(V, None), "boundary values are None; expected numbers"),
        (lambda: DirichletBC(V, "0"), "boundary values are '0'; expected numbers"),
        (lambda: mesh.mark(V.dm, "a", 3), "a region is chosen by 3; expected a function of x"),
        (lambda: FunctionSpace(V.dm, "Lagrange", 1, None), "value shape None: expected positive extents"),
        (lambda: FunctionSpace(V.dm, "Lagrange", 1, "2"), "value shape '2'"),
        (lambda: PointwiseForm(V, f0="f0[0] = u[0];", aux=u), "aux is .* of type Function; expected a list"),
        (lambda: mesh.box((1, 1), comm=3), "comm is 3 of type int; expected a PETSc.Comm or an mpi4py"),
        (lambda: mesh.box((1, 1), upper="a"), "a corner of a box is 'a'; expected numbers"),
        (lambda: heat().output("u.pvd", functions=[3]), "3 of type int was given; expected Functions"),
        (lambda: heat().output("u.pvd", functions=[]), "no function was given"),
        (lambda: Constant(V.dm, None), "Constant None: expected a number"),
        (lambda: Constant(V.dm, "1"), "Constant '1': expected a number"),
        (lambda: femgpu.project(None, V), "the expression to project is None"),
        (lambda: femgpu.error_norm(u, None), "the exact solution is None"),
        (lambda: heat().solve("1", 0.1), "t_end is '1' of type str; expected a number"),
        (lambda: TimeProblem(F, u, options_prefix=3), "options_prefix 3"),
        (lambda: femgpu.norm(u, options_prefix=3), "options_prefix 3"),
        (lambda: Function(u.space, name=3), "name of a Function is 3"),
        (lambda: NonlinearProblem(F + Function(V) * ufl.TestFunction(V) * dx, u), "the residual: two meshes"),
        (lambda: NonlinearProblem(F + ufl.TestFunction(FunctionSpace(u.space.dm, "Lagrange", 2)) * dx, u), "different Arguments"),
    ):
        with pytest.raises(FemgpuError, match=said):
            call()


def test_objects_that_are_gone():
    """PETSc would end the process."""

    def gone(thing):
        thing.destroy()
        return thing

    def solve(destroy, make=poisson):
        problem = make()
        destroy(problem).destroy()
        return problem.solve(*((1.0, 0.5) if make is heat else ()))

    plain = poisson()
    for call in (
        lambda: solve(lambda problem: problem.snes),
        lambda: solve(lambda problem: problem.u.vec),
        lambda: solve(lambda problem: problem.ts, heat),
        lambda: solve(lambda problem: problem.u.vec, heat),
        lambda: FunctionSpace(gone(mesh.box((1, 1), cell="triangle", comm=SELF)), "Lagrange", 1),
        lambda: Constant(gone(mesh.box((1, 1), cell="triangle", comm=SELF)), 1.0),
        lambda: poisson(snes=gone(PETSc.SNES().create(SELF))),
        lambda: plain.set_nullspace(gone(femgpu.constant_modes(plain.u.space))),
        lambda: plain.set_near_nullspace(gone(femgpu.constant_modes(plain.u.space))),
        lambda: (gone(plain.u.space.dm), Function(plain.u.space)),
        lambda: (gone(plain.u.vec), plain.u.interpolate(lambda x: x[0])),
        lambda: (u := poisson().u, gone(u.space.mesh.dm), femgpu.norm(u)),
        lambda: (u := poisson().u, gone(u.space.mesh.dm), Function(u.space).interpolate(lambda x: x[0])),
    ):
        with pytest.raises(DataError, match="was destroyed"):
            call()


@pytest.mark.parametrize("t_end", [-1.0, -2.0, float("nan")])
def test_ends_before_the_time(t_end):
    with pytest.raises(OptionError, match="lies before t = 0.0; expected a later t_end"):
        heat().solve(t_end, 0.1)


def test_boundary_values_into_other_vectors():
    problem = poisson()
    for x in (PETSc.Vec(), PETSc.Vec().createSeq(7, comm=SELF), np.zeros(7)):
        with pytest.raises(DataError, match="a vector of.*like u.vec: u.vec.duplicate"):
            problem.insert_boundary_values(x)


@pytest.mark.parametrize("kind", ["rowmax", "rowl1", "rowsum"])
def test_jacobi_of_rows_assembles(set_options, kind):
    set_options(pc_type="jacobi", pc_jacobi_type=kind, ksp_type="gmres")
    poisson().solve()
    heat().solve(1.0, 0.5)
