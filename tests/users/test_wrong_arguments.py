"""Vectors, numbers and objects that do not fit, or are gone, are refused by name."""

import numpy as np
import pytest
import ufl
from petsc4py import PETSc
from small_problems import SELF, heat, poisson
from ufl import dx, grad, inner

import femgpu
from femgpu import Constant, DirichletBC, Function, FunctionSpace, NonlinearProblem, PointwiseForm, TimeProblem, mesh
from femgpu.errors import DataError, FemgpuError, FormError


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
        lambda: problem.jacobian.mult(other, f),
        lambda: problem.jacobian.multTranspose(x, other),
        lambda: problem.jacobian.multAdd(x, f, PETSc.Vec().createSeq(7)),
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
        (lambda: problem.set_nullspace(None), "a null space is None; .*femgpu.constant_modes"),
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
        (lambda: PointwiseForm(V, f0="f0[0] = u[0];", aux=u), "aux is the Function u; expected a list"),
        (lambda: mesh.box((1, 1), comm=3), "comm is 3 of type int; expected a PETSc.Comm or an mpi4py"),
        (lambda: mesh.box((1, 1), upper="a"), "a corner of a box is 'a'; expected numbers"),
        (lambda: heat().output("u.pvd", functions=[3]), "3 was given; expected Functions"),
        (lambda: heat().output("u.pvd", functions=[]), "no function was given"),
        (lambda: Constant(V.dm, None), "the value of a Constant is None; expected a number"),
        (lambda: Constant(V.dm, "1"), "the value of a Constant is '1'; expected a number"),
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


def test_what_stands_in_the_place_of_something_else(set_options):
    """Messages stay short, however long the text of what was given is."""
    problem = poisson()
    u, V = problem.u, problem.u.space
    v, trial = ufl.TestFunction(V), ufl.TrialFunction(V)
    F, a, L, bc = inner(grad(u), grad(v)) * dx, inner(grad(trial), grad(v)) * dx, v * dx, problem.bcs[0]
    vector = FunctionSpace(V.dm, "Lagrange", 1, shape=2)
    for call, said in (
        (lambda: NonlinearProblem(u, F), "^the unknown is a Form; expected a femgpu.Function .*: NonlinearProblem.F, u, bcs"),
        (lambda: TimeProblem(u, F), "^the unknown is a Form; .*: TimeProblem.F, u, bcs"),
        (lambda: femgpu.LinearProblem(a, L, bc, V), "^the unknown is a FunctionSpace; .*: LinearProblem.a, L, bcs, u"),
        (lambda: femgpu.LinearProblem(a == L, u, bc), "^the Function u stands as L beside an equation; expected LinearProblem"),
        (lambda: femgpu.LinearProblem(a, L, u), "^bcs is the Function u; expected a list of femgpu.DirichletBC"),
        (lambda: femgpu.write(u, "u.vtu"), "^the name of a file is the Function u; expected a string or a Path first"),
        (lambda: femgpu.write("u.vtu", V.dm), "^a DMPlex was given; expected Functions"),
        (lambda: Constant(V, 2.0), "^a mesh is a FunctionSpace; expected a PETSc.DMPlex"),
        (lambda: Constant(2.0, V.dm), "^the value of a Constant is a DMPlex; expected a number"),
        (lambda: DirichletBC(0.0, V), "^a boundary condition on 0.0: expected a FunctionSpace first"),
        (lambda: DirichletBC(vector.sub(0), 0.0), "component=0"),
        (lambda: Function(V.dm), "^a Function in a DMPlex"),
        (lambda: u.interpolate(V), "^values of u are a FunctionSpace; expected numbers"),
        (lambda: femgpu.error_norm(u, V), "^the exact solution is a FunctionSpace"),
        (lambda: femgpu.norm(u, u), "^norm of kind the Function u; expected one of L2"),
        (lambda: femgpu.norm([1.0] * 100), "^u is a list; expected a Function"),
        (lambda: femgpu.mesh.mark(V.dm, lambda x: x[0] < 1e-9, "left"), "^the name of a region is a function; expected a word"),
        (lambda: NonlinearProblem(F, u, petsc_options=["-ksp_type cg"] * 20), "^petsc_options is a list; expected values by name"),
        (lambda: femgpu.MixedSpace([V, vector]), "^a MixedSpace of a list; expected a mapping"),
        (lambda: NonlinearProblem(F + v * ufl.ds(("Face Sets", 1)), u), r"write ds\(1, subdomain_data='Face Sets'\): UFL takes"),
        (
            lambda: NonlinearProblem(F, u, petsc_options={"ksp_type": "no"}),
            r"requested KSP type no: this PETSc has no such type \(given: -ksp_type no",
        ),
    ):
        with pytest.raises(FemgpuError, match=said) as caught:
            call()
        assert len(str(caught.value)) < 260 and "FunctionSpace(Mesh(" not in str(caught.value)


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


def test_boundary_values_into_other_vectors():
    problem = poisson()
    for x in (PETSc.Vec(), PETSc.Vec().createSeq(7, comm=SELF), np.zeros(7)):
        with pytest.raises(DataError, match="a vector of.*like u.vec: u.vec.duplicate"):
            problem.insert_boundary_values(x)
