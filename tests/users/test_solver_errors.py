"""What solvers do with bad options, equations that they cannot solve, and each other."""

import numpy as np
import pytest
import ufl
from petsc4py import PETSc
from small_problems import SELF, heat, poisson, stokes
from ufl import dx, grad, inner

from femgpu import DirichletBC, Function, FunctionSpace, LinearProblem, MixedSpace, NonlinearProblem, mesh, time_derivative
from femgpu.errors import DataError, OptionError, SolverError
from femgpu.operators import is_symmetric

MULTIGRID = {"pc_type": "python", "pc_python_type": "femgpu.PMG"}


@pytest.mark.parametrize(
    "options, kind, said",
    [
        ({"ksp_type": "nonsense"}, OptionError, "KSP type nonsense.*given: -ksp_type nonsense"),
        ({"pc_type": "nonsense"}, OptionError, "given: -pc_type nonsense"),
        ({"snes_linesearch_type": "nonsense"}, OptionError, "given: -snes_linesearch_type nonsense"),
        ({"ksp_rtol": "small"}, OptionError, "no numeric value: expected a number .given: -ksp_rtol small"),
        ({"pc_type": "python", "pc_python_type": "nowhere.Class"}, OptionError, "No module named 'nowhere'; expected module.Class"),
        ({"pc_type": "python", "pc_python_type": "femgpu.pmg"}, OptionError, "^-pc_python_type femgpu.pmg: .*one of femgpu.PMG, "),
        ({"ksp_type": "python", "ksp_python_type": "femgpu.cg"}, OptionError, "^-ksp_python_type femgpu.cg: .*one of femgpu.CG, "),
        ({"snes_type": "python", "snes_python_type": "A.B"}, OptionError, "^-snes_python_type A.B: .*expected module.Class$"),
        ({"pc_type": "femgpu.pmg"}, OptionError, "given: -pc_type femgpu.pmg.*-pc_type python -pc_python_type femgpu.PMG"),
        (MULTIGRID | {"pmg_coarse_pc_type": "nonsense"}, OptionError, "given: -pmg_coarse_pc_type nonsense"),
        (
            MULTIGRID | {"pmg_coarse_pc_type": "python", "pmg_coarse_pc_python_type": "A.B"},
            OptionError,
            "-pmg_coarse_.* A.B: ",
        ),
        ({"pc_type": "python"}, SolverError, "-pc_python_type femgpu.AssembledPC"),
        ({"ksp_type": "python"}, SolverError, "-ksp_python_type femgpu.CG"),
        ({"ts_type": "python"}, SolverError, "-ts_python_type module.Class"),
        ({"pc_type": "jacobi", "pc_jacobi_type": "rowl1", "femgpu_pmat": "none"}, SolverError, "-femgpu_jacobian assembled"),
        ({"pc_type": "fieldsplit"}, SolverError, "femgpu.MixedSpace, or take another -pc_type"),
        ({"pc_type": "ilu", "femgpu_pmat": "none"}, SolverError, "-femgpu_pmat assembled"),
        ({"pc_type": "sor", "femgpu_pmat": "none"}, SolverError, "-femgpu_jacobian assembled"),
        ({"pc_type": "gamg", "mat_type": "nonsense"}, OptionError, "^-mat_type nonsense: .* expected aij, baij or sbaij"),
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
    set_options(pc_type="ilu")
    with pytest.raises(SolverError, match="-pc_type ilu: zero pivot.*-pc_python_type femgpu.FieldSplit.*-pc_fieldsplit_type schur"):
        stokes().solve()
    set_options(pc_type="python", pc_python_type="femgpu.FieldSplit", ksp_rtol=1e-8)
    stokes().solve()
    set_options(pc_type="fieldsplit", pc_fieldsplit_type="schur", pc_fieldsplit_schur_precondition="selfp", ksp_rtol=1e-8)
    stokes().solve()


def test_stalling_and_singular_problems(set_options):
    set_options("a_", ksp_max_it=1, ksp_rtol=1e-12)
    with pytest.raises(
        SolverError, match=r"gmres with -a_pc_type ilu takes more than -a_ksp_max_it \d+ allows: try -a_pc_type gamg"
    ):
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


def test_a_jacobian_that_is_not_finite(set_options):
    """No other solver is named, for none helps."""
    u = poisson().u
    v = ufl.TestFunction(u.space)
    for kind in ("jacobi", "lu"):
        set_options(pc_type=kind)
        u.interpolate(0.0)
        problem = NonlinearProblem((1 + ufl.sqrt(u)) * inner(grad(u), grad(v)) * dx + ufl.sqrt(u) * v * dx - v * dx, u)
        with pytest.raises(
            SolverError, match="The Jacobian is not finite at this state.*start from another initial guess"
        ) as found:
            problem.solve()
        assert "-pc_type" not in str(found.value)


@pytest.mark.parametrize("which", ["tested", "in the form"])
def test_fields_without_equations(which):
    """What is lacking is named, where a factorisation would be."""
    V = FunctionSpace(mesh.box((3, 3), cell="triangle", comm=SELF), "Lagrange", 1)
    W = MixedSpace({"a": V, "b": V})
    (a, b), (p, q) = ufl.TrialFunctions(W), ufl.TestFunctions(W)
    form = inner(grad(a), grad(p)) * dx + (b * p if which == "tested" else a * q) * dx
    with pytest.raises(SolverError, match=f"has {'the test function of ' * (which == 'tested')}b: the Jacobian is singular"):
        LinearProblem(form == p * dx + q * dx, bcs=DirichletBC(W.sub("a"), 0.0), petsc_options={"pc_type": "ilu"}).solve()


def test_what_else_messages_name():
    V = FunctionSpace(mesh.box((3, 3), cell="triangle", comm=SELF), "Lagrange", 1, shape=(2,))
    u, v = Function(V), ufl.TestFunction(V)
    F = inner(ufl.sym(grad(u)), grad(v)) * dx
    with pytest.raises(SolverError, match="rigid motions only, call problem.set_nullspace.femgpu.rigid_body_modes"):
        NonlinearProblem(F - v[0] * dx, u, petsc_options={"ksp_type": "cg", "pc_type": "jacobi"}).solve()
    u.interpolate((0.0, 0.0))
    F = (1 + inner(u, u)) * inner(grad(u), grad(v)) * dx - 10 * v[0] * dx
    with pytest.raises(SolverError, match=r"more iterations \(-snes_max_it\)"):
        NonlinearProblem(F, u, DirichletBC(V, (0.0, 0.0)), petsc_options={"snes_max_it": 1}).solve()
    V = FunctionSpace(mesh.refine(mesh.box((2, 2), cell="triangle", comm=SELF)), "Lagrange", 1)
    u, v = Function(V), ufl.TestFunction(V)
    with pytest.raises(SolverError, match="-pc_type mg wants coarser meshes .*femgpu.PMG"):
        given = {"pc_type": "mg", "pc_mg_levels": 2}
        NonlinearProblem(inner(grad(u), grad(v)) * dx - v * dx, u, DirichletBC(V, 0.0), petsc_options=given).solve()


def test_functions_that_do_not_fit():
    """Of meshes in other dimensions, and parts of functions where their fields are meant."""
    flat, solid = mesh.box((2, 2), cell="triangle", comm=SELF), mesh.box((2, 2, 2), cell="tetrahedron", comm=SELF)
    u, other = (Function(FunctionSpace(dm, "Lagrange", 1)) for dm in (flat, solid))
    with pytest.raises(DataError, match="on a mesh in 3D; expected one in 2D"):
        u.interpolate(other)
    w = Function(MixedSpace({"a": u.space, "b": u.space}))
    with pytest.raises(DataError, match=r"w.sub\('name'\); of what ufl.split\(w\) gives write ufl.split"):
        time_derivative(ufl.split(w)[0])


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


def test_options_of_a_problem_on_the_users_snes():
    """They are read, and what the user has set stands beside them."""
    snes = PETSc.SNES().create(SELF)
    snes.getKSP().setTolerances(rtol=1e-10)
    problem = poisson(snes=snes, petsc_options={"ksp_type": "cg", "pc_type": "jacobi"})
    problem.solve()
    assert snes.getKSP().getType() == "cg" and snes.getKSP().getPC().getType() == "jacobi"
    assert snes.getKSP().getTolerances()[0] == 1e-10


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
        with pytest.raises(OptionError, match="at most|expected an integer from 1 to 65536"):
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


@pytest.mark.parametrize("t_end", [-1.0, -2.0, float("nan")])
def test_ends_before_the_time(t_end):
    with pytest.raises(OptionError, match="lies before t = 0.0; expected a later t_end"):
        heat().solve(t_end, 0.1)


@pytest.mark.parametrize("kind", ["rowmax", "rowl1", "rowsum"])
def test_jacobi_of_rows_assembles(set_options, kind):
    set_options(pc_type="jacobi", pc_jacobi_type=kind, ksp_type="gmres")
    poisson().solve()
    heat().solve(1.0, 0.5)


def test_a_solve_that_takes_too_long_names_what_the_material_wants():
    V = FunctionSpace(mesh.box((3, 3), cell="triangle"), "Lagrange", 2, 2)
    u, v = Function(V), ufl.TestFunction(V)
    stress = 2 * ufl.sym(grad(u)) + 1e4 * ufl.tr(grad(u)) * ufl.Identity(2)
    options = MULTIGRID | {"ksp_type": "cg", "ksp_max_it": 3}
    problem = NonlinearProblem(inner(stress, grad(v)) * dx - v[1] * dx, u, [DirichletBC(V, (0.0, 0.0), 1)], petsc_options=options)
    with pytest.raises(SolverError, match="-pc_python_type femgpu.PMG takes more than -ksp_max_it 3.*displacement and pressure"):
        problem.solve()
