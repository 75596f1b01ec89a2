"""Arguments of the wrong kind, bodies that reach out of their arrays, times that make no sense: each one clear exception."""

import numpy as np
import pytest
import ufl
from ufl import dx

import femgpu
from femgpu import Constant, DirichletBC, Function, FunctionSpace, NonlinearProblem, PointwiseForm, TimeProblem, mesh
from femgpu.errors import DataError, FemgpuError, FormError, MeshError, OptionError, collective


@pytest.fixture(scope="module")
def space():
    return FunctionSpace(mesh.box((3, 3), cell="triangle"), "Lagrange", 1)


@pytest.mark.parametrize(
    "bodies, said",
    [
        (dict(f0="f0[0] = constants[5];", constants=1), r"constants\[5\]; expected an index below 1"),
        (dict(f0="f0[0] = constants[3];"), "'constants', but there are none: give them in constants"),
        (dict(f0="f0[0] = a[0];"), "'a', but there are no coefficients: give them in aux"),
        (dict(f0="f0[0] = n[0];"), "a normal exists on facets only"),
        (dict(f0="f0[0] = a[7];", aux=1), r"a\[7\]; expected an index below 1"),
        (dict(f0="f0[0] = u[9];"), r"u\[9\]; expected an index below 1"),
        (dict(f1="f1[0] = u_x[2];"), r"u_x\[2\]; expected an index below 2"),
        (dict(f0="f0[4] = 1.0; // u[77]"), r"f0\[4\]; expected an index below 1"),
    ],
)
def test_bodies_stay_within_their_arrays(space, bodies, said):
    given = {"aux": [Function(space)] * bodies.pop("aux", 0), "constants": [Constant(space.dm, 1.0)] * bodies.pop("constants", 0)}
    with pytest.raises(FormError, match=said):
        NonlinearProblem(PointwiseForm(space, **bodies, **given, g0="g0[0] = 1;"), Function(space))


def test_bodies_know_petsc_functions(space):
    u = Function(space)
    u.interpolate(0.5)
    text = "PetscSqr(u[0]) + PetscExpReal(u[0]) + PETSC_PI + PetscMax(PetscAbsReal(-u[0]), PetscPowReal(u[0], 2))"
    problem = NonlinearProblem(PointwiseForm(space, f0=f"f0[0] = PetscRealPart({text});"), u)
    residual = u.vec.duplicate()
    problem.residual(u.vec, residual)
    assert residual.sum() == pytest.approx(0.25 + np.exp(0.5) + np.pi + 0.5, rel=1e-13)


def test_the_time_of_a_problem_is_that_of_its_bodies(space):
    u = Function(space)
    form = PointwiseForm(space, f0="f0[0] = u_t[0] - t;", g0="g0[0] = u_tShift;")
    TimeProblem(form, u).solve(1.0, 0.1)
    assert u.vec.max()[1] == pytest.approx(0.5, abs=0.01)
    other = PointwiseForm(space, f0="f0[0] = u_t[0] - t;", g0="g0[0] = u_tShift;", t=Constant(space.dm, 0.0))
    with pytest.raises(FormError, match="another Constant than that of the TimeProblem"):
        TimeProblem(other, u, t=Constant(space.dm, 0.0))


def test_times(space):
    u, w, v = Function(space), Function(space, "w"), ufl.TestFunction(space)
    rate = femgpu.time_derivative
    with pytest.raises(DataError, match=r"time_derivative\(u_t\)"):
        rate(rate(u))
    with pytest.raises(FormError, match="w_t, the time derivative of another function"):
        TimeProblem((rate(u) + rate(w)) * v * dx, u)
    problem = TimeProblem((rate(u) + u) * v * dx, u, t=Constant(space.dm, 1.0))
    with pytest.raises(OptionError, match=r"final time 0.5 lies before t = 1.0"):
        problem.solve(0.5, 0.1)
    for dt in (0.0, -0.1):
        with pytest.raises(OptionError, match="expected a positive dt"):
            problem.solve(2.0, dt)
    for t in (0.0, Constant(space.dm, [0.0, 1.0])):
        with pytest.raises(DataError, match="expected a scalar femgpu.Constant"):
            TimeProblem(rate(u) * v * dx, u, t=t)


def test_kinds_of_arguments(space):
    u = Function(space)
    F = u * ufl.TestFunction(space) * dx
    for call, kind, said in (
        (lambda: NonlinearProblem(F, 3.0), DataError, "expected a femgpu.Function"),
        (lambda: NonlinearProblem(F, u, bcs=[0.0]), DataError, "expected femgpu.DirichletBC"),
        (lambda: NonlinearProblem(F, u, snes="x"), DataError, "expected a PETSc.SNES"),
        (lambda: FunctionSpace(space, "Lagrange", 1), MeshError, "`space.dm` of a function space"),
        (lambda: femgpu.coordinates("dm"), MeshError, "expected a PETSc.DMPlex"),
        (lambda: Constant(space.dm, "a"), DataError, "expected a number or an array"),
        (lambda: femgpu.write("x.vtu", 1.0), DataError, "expected Functions"),
        (lambda: DirichletBC(space, 0.0, component=3), DataError, "component 3"),
    ):
        with pytest.raises(kind, match=said):
            call()


def test_integrals_that_are_not_finite(space):
    x = femgpu.coordinates(space.dm)
    with pytest.raises(DataError, match="the integral is nan"):
        femgpu.assemble(ufl.ln(x[0] - 0.5) * dx)


@pytest.mark.parallel([1, 2])
def test_a_failed_file_does_not_harm_the_next_problem(space):
    u = Function(space)
    with pytest.raises(DataError, match="cannot write '/proc/u.h5'"):
        femgpu.write("/proc/u.h5", u)
    v = ufl.TestFunction(space)
    NonlinearProblem((ufl.inner(ufl.grad(u), ufl.grad(v)) - v) * dx, u, bcs=DirichletBC(space, 0.0)).solve()
    assert u.vec.max()[1] > 0


@pytest.mark.parallel([2])
def test_foreign_exceptions_have_one_class_on_all_ranks(space):
    mpi = space.mesh.mpi
    with pytest.raises(FemgpuError, match="ValueError|rank 1"), collective(mpi):
        if mpi.rank == 1:
            raise ValueError("of the user's")


@pytest.mark.parallel([2])
def test_arguments_that_differ_between_ranks(space):
    """One error on all ranks, where each would wait for the other or compute something else."""
    rank = space.mesh.mpi.rank
    for call, said in (
        (lambda: femgpu.mesh.box((3 + rank, 3)), r"a box of \(3, 3\) triangles .* on rank 0, but a box of \(4, 3\) .* on rank 1"),
        (lambda: femgpu.mesh.box((3, 3), "triangle", (5 * (1 - rank), 0)), "expected every entry of lower below"),
        (lambda: FunctionSpace(space.dm, "Lagrange", 1 + rank), "degree 1, .* on rank 0, but .* degree 2"),
        (lambda: FunctionSpace(space.dm, "DG" if rank else "CG", 1), "a space of CG, .* but a space of DG"),
        (lambda: FunctionSpace(space.dm, "DG", -rank), "degree -1 of family"),
    ):
        with pytest.raises(FemgpuError, match=said):
            call()
