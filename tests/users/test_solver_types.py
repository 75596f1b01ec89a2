"""All types of solvers that PETSc registers: they solve, or femgpu's error says what to take instead."""

import numpy as np
import pytest
import ufl
from petsc4py import PETSc
from ufl import dx, grad, inner

import femgpu
from femgpu.errors import FemgpuError, OptionError, SolverError
from femgpu.solver.solver_types import TIME_METHODS

SELF = PETSc.COMM_SELF
# What does not solve a scalar nonlinear problem on one rank by its name alone.
FAILING = {
    "pc_type": "bddc chowiluviennacl composite cp deflation eisenstat exotic fieldsplit galerkin lsc mpi nn patch python qr "
    "redistribute rowscalingviennacl saviennacl shell telescope tfs vpbjacobi",
    "ksp_type": "eksm fetidp pipecgrr python qcg",
    "snes_type": "aspin composite fas nasm newtonal ngs patch python shell vinewtonssls",
    "snes_linesearch_type": "shell",
}
REGISTERED = {
    "pc_type": PETSc.PC.Type,
    "ksp_type": PETSc.KSP.Type,
    "snes_type": PETSc.SNES.Type,
    "snes_linesearch_type": PETSc.SNESLineSearch.Type,
}
# Options by which some of them do.
REMEDIES = (
    {"pc_type": "composite", "pc_composite_pcs": "jacobi,sor"},
    {"pc_type": "telescope", "pc_telescope_ignore_dm": None},
    {"pc_type": "eisenstat", "femgpu_jacobian": "assembled"},
    {"pc_type": "redistribute", "femgpu_jacobian": "assembled"},
    {"ksp_type": "pipecgrr", "femgpu_jacobian": "assembled"},
    {"snes_type": "composite", "snes_composite_sneses": "newtonls,nrichardson"},
    {"snes_type": "vinewtonssls", "femgpu_jacobian": "assembled"},
    {"snes_type": "newtonls", "pc_type": "asm", "sub_pc_type": "lu"},
)


@pytest.fixture(scope="module")
def parts():
    dm = femgpu.mesh.box((6, 5), cell="triangle", comm=SELF)
    V = femgpu.FunctionSpace(dm, "Lagrange", 1)
    u, v = femgpu.Function(V), ufl.TestFunction(V)
    F = inner((1 + u**2) * grad(u), grad(v)) * dx - 3 * v * dx
    return F, u, femgpu.DirichletBC(V, 0.0)


def solve(parts, options):
    """The residual's norm, or femgpu's error in words."""
    F, u, bc = parts
    u.assign(0.0)
    try:
        problem = femgpu.NonlinearProblem(F, u, bc, petsc_options={"snes_max_it": 300, **options})
        problem.solve()
    except FemgpuError as error:
        return str(error)
    f = u.vec.duplicate()
    problem.residual(u.vec, f)
    return f.norm()


@pytest.mark.parametrize("option", REGISTERED)
def test_registered_types(parts, option):
    registered = {value for name, value in vars(REGISTERED[option]).items() if name.isupper()} - {"ncg"}  # diverges now and then
    results = {kind: solve(parts, {option: kind}) for kind in registered}
    failing = {kind for kind, result in results.items() if isinstance(result, str) and "this PETSc has no such type" not in result}
    assert failing == registered & set(FAILING[option].split())
    for kind in registered - failing:
        if not isinstance(results[kind], str):
            assert results[kind] < (1e-2 if "ksp" in kind else 1e-6), kind  # ksponly and its transpose are one step
    for kind in failing - {"deflation"}:
        assert "look at the options" not in results[kind], kind
        assert any(word in results[kind] for word in ("take ", "add -", "needs its parts by name", "name the class")), results[kind]


@pytest.mark.parametrize("options", REMEDIES, ids=lambda options: next(iter(options.values())))
def test_remedies(parts, options):
    assert solve(parts, options) < 1e-6


def test_types_that_would_end_the_process(parts, set_options):
    F, u, bc = parts
    problem = femgpu.NonlinearProblem(F, u, bc)
    problem.snes.getKSP().getPC().setType("patch")
    with pytest.raises(OptionError, match="-pc_type patch needs PETSc's own finite elements.*take -pc_type asm"):
        problem.solve()
    set_options("r_", npc_snes_type="patch")
    with pytest.raises(OptionError, match="-r_npc_snes_type patch .*take -r_npc_snes_type newtonls"):
        femgpu.NonlinearProblem(F, u, bc, options_prefix="r_")
    set_options("mine_", pc_type="patch")  # of another solver of the program
    femgpu.NonlinearProblem(F, u, bc)
    set_options("s_", ksp_ksp_pc_type="patch")
    rate = femgpu.time_derivative(u) * ufl.TestFunction(u.space) * dx
    with pytest.raises(OptionError, match="-s_ksp_ksp_pc_type patch"):
        femgpu.TimeProblem(F + rate, u, bc, options_prefix="s_")


@pytest.mark.parallel(nprocs=2)
def test_on_two_ranks():
    dm = femgpu.mesh.box((4, 3), cell="triangle")
    V = femgpu.FunctionSpace(dm, "Lagrange", 1)
    u, v = femgpu.Function(V), ufl.TestFunction(V)
    parts = inner((1 + u**2) * grad(u), grad(v)) * dx - 3 * v * dx, u, femgpu.DirichletBC(V, 0.0)
    for options in (
        {"pc_type": "tfs"},
        {"pc_type": "telescope", "pc_telescope_ignore_dm": None},
        {"pc_type": "composite", "pc_composite_pcs": "jacobi,bjacobi"},
        {"snes_type": "ngs", "femgpu_jacobian": "assembled"},
    ):
        assert solve(parts, options) < 1e-6
    for options in ({"snes_type": "nasm"}, {"pc_type": "cp"}):
        assert "take -" in solve(parts, options)


@pytest.mark.parametrize("method", ["cg", "femgpu.CG", "minres"])
def test_methods_for_symmetric_jacobians(set_options, method):
    dm = femgpu.mesh.box((4, 4), cell="triangle", comm=SELF)
    V = femgpu.FunctionSpace(dm, "Lagrange", 1)
    u, v = femgpu.Function(V), ufl.TestFunction(V)
    options = {"ksp_type": "python", "ksp_python_type": method} if "." in method else {"ksp_type": method}
    options |= {"ksp_max_it": 20, "pc_type": "jacobi"}
    F, bc = inner(grad(u), grad(v)) * dx - v * dx, femgpu.DirichletBC(V, 0.0)
    said = f"{method} needs a symmetric Jacobian, and this form's is not: take -ksp_type gmres"
    with pytest.raises(SolverError, match=said):
        femgpu.NonlinearProblem(F + 50 * u.dx(0) * v * dx, u, bc, petsc_options=options).solve()
    with pytest.raises(SolverError) as caught:
        femgpu.NonlinearProblem(F, u, bc, petsc_options={**options, "ksp_max_it": 1, "ksp_rtol": 1e-12}).solve()
    assert "symmetric" not in str(caught.value)


def test_time_methods(set_options, parts):
    F, u, bc = parts
    F += femgpu.time_derivative(u) * ufl.TestFunction(u.space) * dx
    listed = f"expected {', '.join(TIME_METHODS)}"
    for kind, said in (
        ("nonsense", "Unknown TS type"),
        ("glle", "does not integrate"),
        ("eimex", "does not"),
        ("glee", "does not"),
    ):
        set_options("x_", ts_type=kind)
        with pytest.raises(OptionError, match=f"{said}.*{listed}"):
            femgpu.TimeProblem(F, u, bc, options_prefix="x_")


@pytest.mark.parametrize("kind", ["arkimex", "rosw"])
def test_methods_of_order_three(kind):
    """The others' orders stand in tests/solver/test_time.py."""
    dm = femgpu.mesh.box((1, 1), cell="triangle", comm=SELF)
    V = femgpu.FunctionSpace(dm, "Lagrange", 1)
    u, v, t = femgpu.Function(V), ufl.TestFunction(V), femgpu.Constant(dm, 0.0)
    exact = ufl.exp(-t)
    F = (femgpu.time_derivative(u) * v + inner(grad(u), grad(v)) + u**2 * v - (exact**2 - exact) * v) * dx
    options = {"snes_rtol": 1e-12, "snes_stol": 0.0, "ksp_rtol": 1e-12, "pc_type": "lu"}
    errors = []
    for count in (8, 16):
        t.value = 0.0
        u.assign(1.0)
        femgpu.TimeProblem(F, u, t=t, petsc_options={"ts_type": kind, **options}).solve(1.0, 1 / count)
        errors.append(femgpu.error_norm(u, exact))
    assert abs(np.log2(errors[0] / errors[1]) - 3) <= 0.15
