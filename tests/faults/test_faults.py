"""Bad input: each kind raises one clear exception, on all ranks together, and leaves no partial output.

A message says what was given, what was expected and what to do; the tests look for these three.
"""

import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import ufl
from bad_input import WORLD, every_rank, everywhere, poisson
from conftest import CHILD_ENVIRONMENT
from petsc4py import PETSc
from ufl import dx, grad, inner

from femgpu import (
    DirichletBC,
    Function,
    FunctionSpace,
    NonlinearProblem,
    PointwiseForm,
    assemble,
    coordinates,
    mesh,
    runtime,
)
from femgpu.errors import BuildError, DataError, FormError, MeshError, OptionError, PlanError, SolverError

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def space():
    return FunctionSpace(mesh.box((4, 4), cell="triangle", comm=PETSc.COMM_SELF), "Lagrange", 1)


# Meshes


@every_rank()
def test_missing_mesh_file(set_options):
    text = everywhere(MeshError, lambda: mesh.read("no_such_mesh.msh"))
    assert "no_such_mesh.msh" in text and "does not exist" in text and "absolute" in text
    set_options(dm_plex_filename="no_such_mesh.msh")
    assert "no_such_mesh.msh" in everywhere(MeshError, mesh.create)


@every_rank()
def test_malformed_mesh_files(folder):
    whole = (ROOT / "meshes" / "bracket.msh").read_bytes()
    contents = {
        "empty.msh": b"",
        "text.msh": b"solid teapot\n",
        "cut.msh": whole[: len(whole) // 3],
        "mixed.msh": whole.replace(b"$EndNodes", b"$EndNode_"),
        "unknown.xyz": b"1 2 3\n",
    }
    if WORLD.rank == 0:
        for name, data in contents.items():
            (folder / name).write_bytes(data)
    WORLD.barrier()
    for name in contents:
        text = everywhere(MeshError, lambda name=name: mesh.read(folder / name))
        assert name in text and ("expected" in text or "write it again" in text), text


@every_rank()
def test_mesh_without_the_label():
    V = FunctionSpace(mesh.box((3, 3), cell="triangle"), "Lagrange", 1)
    text = everywhere(MeshError, lambda: poisson(V, region=7))
    assert "no value 7 in label 'Face Sets'" in text and "'Face Sets': values 1, 2, 3, 4" in text and "gmsh" in text
    text = everywhere(MeshError, lambda: poisson(V, region=("Inlet", 1)))
    assert "no label 'Inlet'" in text and "'marker'" in text
    text = everywhere(MeshError, lambda: poisson(V, measure=dx(5)))
    assert "no label 'Cell Sets'" in text and "'Face Sets'" in text


# Data


@pytest.mark.parametrize("value", [lambda x: np.zeros(3), lambda x: x, [1.0, 2.0], "one"])
def test_boundary_values_of_wrong_shape(space, value):
    with pytest.raises(DataError, match=r"boundary values (have shape .*; expected|are 'one'; expected numbers)"):
        poisson(space, value=value)


def test_boundary_value_on_another_mesh(space):
    other = Function(FunctionSpace(mesh.box((3, 3), cell="triangle"), "Lagrange", 2), name="g")
    with pytest.raises(DataError, match="the expression g lives on another mesh"):
        poisson(space, value=other)


def test_coefficients_of_wrong_shape(space):
    vector = Function(FunctionSpace(space.dm, "Lagrange", 1, shape=(2,)), name="wind")
    with pytest.raises(DataError, match=r"values of wind have shape \(3, \d+\); expected \(2, \d+\)"):
        vector.interpolate(lambda x: np.zeros((3, x.shape[1])))
    with pytest.raises(DataError, match=r"values of wind have shape \(3,\); expected"):
        vector.interpolate([1.0, 2.0, 3.0])
    elsewhere = Function(FunctionSpace(mesh.box((2, 2), cell="triangle", comm=PETSc.COMM_SELF), "Lagrange", 1), name="k")
    with pytest.raises(FormError, match="two meshes .*build all spaces, Functions and Constants from one DM"):
        poisson(space, kappa=elsewhere, measure=dx(space.ufl_domain()))


@every_rank()
def test_coefficient_that_is_not_finite():
    V = FunctionSpace(mesh.box((3, 3), cell="triangle"), "Lagrange", 1)
    kappa = Function(V, name="kappa")
    kappa.interpolate(1.0)
    if WORLD.rank == WORLD.size - 1:
        values = kappa.vec.array_r.copy()
        values[0] = np.nan
        kappa.vec.setArray(values)
    text = everywhere(DataError, lambda: poisson(V, kappa).solve())
    assert "coefficient kappa has 1 entries" in text and "expected finite numbers" in text
    assert "coefficient kappa" in everywhere(DataError, lambda: assemble(kappa * dx))
    kappa.interpolate(1.0)
    problem = poisson(V, kappa)
    problem.solve()
    if WORLD.rank == WORLD.size - 1:
        # Only this rank's vector changes its state: the others must look at theirs again.
        values[0] = np.inf
        kappa.vec.setArray(values)
    assert "coefficient kappa" in everywhere(DataError, problem.solve)


@every_rank()
def test_initial_guess_that_is_not_finite():
    V = FunctionSpace(mesh.box((3, 3), cell="triangle"), "Lagrange", 1)
    problem = poisson(V)
    if WORLD.rank == 0:
        problem.u.vec.setArray(np.full(problem.u.vec.getLocalSize(), np.inf))
    text = everywhere(DataError, problem.solve)
    assert "the initial guess u has" in text and "expected finite numbers" in text


@every_rank()
def test_boundary_values_that_are_not_finite():
    V = FunctionSpace(mesh.box((3, 3), cell="triangle"), "Lagrange", 1)
    text = everywhere(DataError, lambda: poisson(V, value=lambda x: np.where(x[0] + x[1] > 1.9, np.nan, 0.0)))
    assert "boundary values are not finite, first at the point" in text
    given = Function(V, name="given")
    given.vec.set(np.nan)
    assert "boundary values of given are not finite" in everywhere(DataError, lambda: poisson(V, value=given))


# Forms


def test_unsupported_ufl_is_printed(space):
    u, v = Function(space), ufl.TestFunction(space)
    with pytest.raises(FormError, match="[Bb]essel") as caught:
        NonlinearProblem(ufl.bessel_K(0.5, u) * v * dx, u)
    assert "u" in str(caught.value)
    with pytest.raises(FormError, match=r"[Ff]acet"):
        NonlinearProblem(inner(ufl.FacetNormal(space.ufl_domain()), grad(v)) * u * dx, u)


def test_facets_that_are_not_there(space):
    u, v = Function(space), ufl.TestFunction(space)
    F = inner(grad(u), grad(v)) * dx
    with pytest.raises(MeshError, match="the mesh has no value 77 in label 'Face Sets'; it has 'Face Sets': values 1"):
        NonlinearProblem(F - v * ufl.ds(77), u)
    with pytest.raises(MeshError, match="no value 77"):
        NonlinearProblem(PointwiseForm(space, f0="f0[0] = 1;", facets={77: {"f0": "f0[0] = 1;"}}), u)
    with pytest.raises(MeshError, match="the mesh has no value 77 in label 'Face Sets'"):
        NonlinearProblem(F - ufl.avg(v) * ufl.dS(77), u)
    with pytest.raises(MeshError, match="the region 1 marks no facet between two cells"):
        NonlinearProblem(F - ufl.avg(v) * ufl.dS(1), u)


def test_mixed_function_spaces_of_ufl_are_refused_by_name(space):
    W = ufl.MixedFunctionSpace(space, FunctionSpace(space.dm, "Lagrange", 2))
    u, (v, q) = Function(space), ufl.TestFunctions(W)
    with pytest.raises(FormError, match="MixedFunctionSpace; expected an unknown Function for each part, .* femgpu.MixedSpace"):
        NonlinearProblem(inner(grad(u), grad(v)) * dx + u * q * dx, u)


def test_families_without_lagrange_functions_are_refused_by_name(space):
    for family, said in (
        ("Real", r".* dense rows of the matrix; .*set_nullspace.* Lagrange multiplier of c . u = m two solves"),
        ("Bubble", "bubbles alone are no space of femgpu's: take 'P[+]B'"),
        ("Quadrature", "its functions have no values between the points of a rule"),
        ("RT", "expected one of Lagrange"),
    ):
        with pytest.raises(FormError, match=f"element family '{family}': {said}"):
            FunctionSpace(space.dm, family, 3)


def test_pointwise_c_that_does_not_compile(space):
    form = PointwiseForm(space, f0="f0[0] = u[0] + no_such_name;", g0="g0[0] = 1;")
    with pytest.raises(BuildError, match="no_such_name") as caught:
        NonlinearProblem(form, Function(space)).solve()
    text = str(caught.value)
    assert "C bodies of yours" in text and "error: " in text
    path = Path(re.search(r"its source is in (\S+\.cl)", text)[1])
    assert "no_such_name" in path.read_text()
    path.unlink()


# Options


@pytest.mark.parametrize(
    "name, value, said",
    [
        ("petscfe_num_blocks", "-1", "expected an integer of at least 0"),
        ("petscfe_num_batches", "many", "expected an integer"),
        (
            "femgpu_schedule",
            "sideways",
            r"expected one of auto, gemm\[.*\], sumfact\[:group_size=N,.*\], cell\[:group_size=N,lanes=N,.*sums=.*\], transposed\[",
        ),
        ("femgpu_deterministic", "perhaps", "expected nothing, or one of 1, true"),
        ("femgpu_shedule", "cell", "did you mean -femgpu_schedule.*-femgpu_precision"),
    ],
)
def test_illegal_options(space, set_options, name, value, said):
    set_options(**{name: value})
    with pytest.raises(OptionError, match=f"-{name}.*{said}"):
        poisson(space)


def test_options_that_contradict_each_other(space, set_options):
    set_options(femgpu_deterministic=True, femgpu_scatter="atomic")
    with pytest.raises(OptionError, match="forbids -femgpu_scatter atomic; use"):
        poisson(space)


def test_work_group_that_the_device_does_not_allow(space, set_options):
    limit = runtime.current().device.max_group
    set_options(femgpu_schedule=f"cell:group_size={limit + 1}")
    with pytest.raises(PlanError, match=f"-femgpu_schedule cell:group_size={limit + 1}: the device allows 1 to {limit}"):
        poisson(space).solve()


def test_schedule_asked_for_by_name_that_does_not_serve(space, set_options):
    set_options(femgpu_schedule="transposed")
    u, v = Function(space), ufl.TestFunction(space)
    F = u * v * ufl.ds
    with pytest.raises(PlanError, match="-femgpu_schedule transposed: .* serves cells, not facets; use schedule cell"):
        NonlinearProblem(F, u)


def test_kernel_dump_into_a_file(space, set_options, tmp_path):
    (tmp_path / "dump").write_text("")
    set_options(femgpu_kernel_dump=str(tmp_path / "dump"), femgpu_schedule="cell:group_size=61")
    try:
        with pytest.raises(OptionError, match="-femgpu_kernel_dump .*name another folder"):
            poisson(space).solve()
    finally:
        runtime.current().programs.dump_folder = ""


# Solvers


def test_divergence_names_the_reason(space, set_options):
    set_options("stuck_", snes_max_it=1, snes_rtol=1e-14, snes_type="newtonls")
    u, v = Function(space), ufl.TestFunction(space)
    x = coordinates(space.dm)
    F = (1 + u**2) * inner(grad(u), grad(v)) * dx - 100 * x[0] * v * dx
    problem = NonlinearProblem(F, u, bcs=[DirichletBC(space, 1.0)], options_prefix="stuck_")
    with pytest.raises(SolverError, match=r"SNES_DIVERGED_MAX_IT after 1 iterations.*KSP_CONVERGED.*-stuck_snes_monitor"):
        problem.solve()


def test_residual_that_is_not_finite(space):
    u, v = Function(space), ufl.TestFunction(space)
    F = inner(grad(u), grad(v)) * dx + ufl.ln(u - 1) * v * dx
    with pytest.raises(SolverError, match=r"SNES_DIVERGED_\w+ after 0 iterations.*initial guess"):
        NonlinearProblem(F, u, bcs=[DirichletBC(space, 0.0)]).solve()


def test_driver_that_diverges_has_an_exit_code(tmp_path):
    output = tmp_path / "u.vtu"
    options = "-dm_plex_box_faces 4,4 -ksp_type cg -pc_type none -ksp_max_it 1 -exact trigonometric".split()
    command = [
        "mpiexec",
        "-n",
        "2",
        sys.executable,
        str(ROOT / "drivers" / "poisson.py"),
        *options,
        "-output",
        str(output),
    ]
    done = subprocess.run(command, env=CHILD_ENVIRONMENT, capture_output=True, text=True, timeout=120)
    assert done.returncode != 0
    assert "SNES_DIVERGED_LINEAR_SOLVE" in done.stderr and "KSP_DIVERGED_MAX_IT" in done.stderr
    assert not list(tmp_path.iterdir())
