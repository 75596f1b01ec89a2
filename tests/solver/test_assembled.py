"""Assembled matrices: every entry against the sum that PETSc makes of the same element matrices; which entries there are."""

from types import SimpleNamespace

import numpy as np
import pytest
import ufl
from conformance.faults import replace_text
from petsc4py import PETSc
from random_meshes import ALL_CELLS, MIXED, random_mesh, random_mixed
from ufl import ds, dx, grad, inner

from femgpu import DirichletBC, Function, FunctionSpace, MixedSpace, NonlinearProblem, mesh, options
from femgpu.element import reference_cell
from femgpu.errors import OptionError
from femgpu.forms import bilinear_form
from femgpu.operators import pattern
from femgpu.operators.device import choose_runtime
from femgpu.solver.global_operator import GlobalOperator
from femgpu.solver.matrix import AssembledJacobian

# Degrees that tell nodes from points of the mesh, and orientations of edges and faces.
DEGREES = {"interval": 4, "triangle": 3, "quadrilateral": 4, "tetrahedron": 3, "hexahedron": 2, "prism": 3}
SCALE = 2.5
SIDES = {"left": lambda x: x[0] < 1e-9, "right": lambda x: x[0] > 1 - 1e-9, "top": lambda x: x[-1] > 1 - 1e-9}
parallel = pytest.mark.parallel([1, 3])


def some_mesh(cell, counts=3, seed=0):
    """A randomly numbered mesh of the unit box, distributed, with three of its sides marked."""
    dim = reference_cell(cell.split("+")[0]).dim
    make = random_mixed if cell in MIXED else random_mesh
    dm = make(cell, (counts,) * dim, seed)
    for name, where in SIDES.items():
        mesh.mark(dm, name, where)
    return dm


def make_operator(a, bcs=()):
    """The operators of a bilinear form, linearised."""
    form, settings = bilinear_form(a), options.read()
    zero = form.space.dm.createGlobalVec()
    operator = GlobalOperator(form, bcs, settings, choose_runtime(settings, [zero], form.space.mesh.mpi), scale=SCALE)
    operator.linearise(zero)
    return operator, zero


def assembled(operator, zero, kind=""):
    """The matrix of a new pattern."""
    made = AssembledJacobian(operator, zero, kind)
    made.fill()
    return made


def summed_by_petsc(operator):
    """The same matrix by MatSetValuesCOO."""
    local, numbering = operator.local, operator.local.space.numbering
    numbers = numbering.global_of_local.astype(PETSc.IntType)
    own = numbers[operator.rows.local]
    own = own[(own >= numbering.first) & (own < numbering.first + numbering.num_owned)]
    numbers[operator.rows.local] = -1
    rows, columns, values = [own], [own], [np.full(len(own), SCALE)]
    terms = [term for term in local.terms if term.pointwise("matrix")]
    for term, matrices in zip(terms, local.matrices(), strict=True):
        entries = numbers[term.dofs()]
        rows.append(np.broadcast_to(entries[:, :, None], matrices.shape).ravel())
        columns.append(np.broadcast_to(entries[:, None, :], matrices.shape).ravel())
        values.append(matrices.ravel())
    mat = PETSc.Mat().create(comm=local.space.comm)
    mat.setSizes([(numbering.num_owned, None)] * 2)
    mat.setType("aij")
    mat.setPreallocationCOO(np.concatenate(rows), np.concatenate(columns))
    mat.setValuesCOO(np.concatenate(values))
    mat.assemble()
    return mat


def difference(one, other):
    """Largest entry of the difference of two matrices, relative to the first's norm."""
    rest = one.copy()
    rest.axpy(-1.0, other, PETSc.Mat.Structure.DIFFERENT_NONZERO_PATTERN)
    return rest.norm(PETSc.NormType.INFINITY) / one.norm(PETSc.NormType.INFINITY)


def num_entries(mat):
    return mat.getInfo(PETSc.Mat.InfoType.GLOBAL_SUM)["nz_used"]


def check(operator, zero, targets=("matrix", "entries")):
    """Both ways of assembling are equal to PETSc's sum; returns the matrix and the sum."""
    twin = summed_by_petsc(operator)
    for way, target in zip(("matrix", "entries"), targets, strict=True):
        operator.local.assembly_target = way
        made = assembled(operator, zero)
        assert made.assembly.target == target
        # At a state of its own again: what has been there before does not count.
        made.fill()
        assert difference(twin, made.mat) < 1e-13, way
    return made.mat, twin


@pytest.mark.parallel([1, 3])
@pytest.mark.parametrize("cell", [*ALL_CELLS, "triangle+quadrilateral", "tetrahedron+hexahedron+prism"])
def test_scalar_fields(set_options, cell):
    """All types of cells, with facets of a cell that count twice, and conditions on one side."""
    V = FunctionSpace(some_mesh(cell), "Lagrange", DEGREES.get(cell, 2))
    u, v = ufl.TrialFunction(V), ufl.TestFunction(V)
    operator, zero = make_operator((u * v.dx(0) + u * v) * dx + u * v * ds, [DirichletBC(V, 0.0, "left")])
    mat, twin = check(operator, zero)
    assert num_entries(mat) == num_entries(twin)


@parallel
@pytest.mark.parametrize("precision", ["double", "single", "mixed"])
def test_vector_fields(set_options, precision):
    """Single components are prescribed, all of them elsewhere; prescribed rows and columns are not stored."""
    set_options(femgpu_precision=precision)
    V = FunctionSpace(some_mesh("tetrahedron", 2), "Lagrange", 2, shape=(3,))
    u, v = ufl.TrialFunction(V), ufl.TestFunction(V)
    bcs = [DirichletBC(V, 0.0, "left", component=1), DirichletBC(V, 0.0, "right", component=0), DirichletBC(V, (0.0,) * 3, "top")]
    operator, zero = make_operator(inner(u, v) * dx + 0.5 * ufl.div(u) * ufl.div(v) * dx, bcs)
    mat, twin = check(operator, zero)
    assert num_entries(mat) == num_entries(twin)


@pytest.mark.parametrize("form", ["cells", "regions", "facets", "rules"])
def test_entries_of_one_cell(form):
    """What one cell has alone is stored by the first term that comes upon zeros, if it has no cell twice; others add."""
    dm = some_mesh("quadrilateral")
    mesh.mark(dm, "low", lambda x: x[0] < 0.7, 2)
    mesh.mark(dm, "high", lambda x: x[0] > 0.3, 2)
    V = FunctionSpace(dm, "Lagrange", 2)
    u, v = ufl.TrialFunction(V), ufl.TestFunction(V)
    a = {
        "cells": u * v * dx,
        "regions": u * v * dx(("low", "high")),
        "facets": u * v * ds(("left", "top")),
        "rules": u * v * dx(degree=2) + u * v.dx(0) * dx("low", degree=3),
    }[form]
    operator, zero = make_operator(a, [DirichletBC(V, 0.0, "left")])
    mat, _ = check(operator, zero)
    (places,) = assembled(operator, zero).assembly.pattern.places.values()
    places = operator.local.runtime.read(places, np.empty((9, 9, 9), np.uint16))
    # Of quadrilaterals with one dof on each point of the mesh, the cells that have both dofs of an entry.
    numbers = operator.local.space.numbering.global_of_local.copy()
    numbers[operator.rows.local] = -1
    dofs = numbers[V.fields[0].offsets[0]]
    pairs = np.where((dofs[:, :, None] >= 0) & (dofs[:, None, :] >= 0), dofs[:, :, None] * len(numbers) + dofs[:, None, :], -1)
    _, index, counts = np.unique(pairs, return_inverse=True, return_counts=True)
    alone = (counts[index.reshape(pairs.shape)] == 1) & (pairs >= 0)
    assert alone.any() and ((places >> 15 == 1) == (alone & (form in ("cells", "rules")))).all()


def test_rows_that_are_long(monkeypatch):
    """Where two bytes are not enough for a place in a row."""
    monkeypatch.setattr(pattern, "_SHORT", 1)
    V = FunctionSpace(some_mesh("triangle"), "Lagrange", 2)
    u, v = ufl.TrialFunction(V), ufl.TestFunction(V)
    operator, zero = make_operator(u * v.dx(0) * dx, [DirichletBC(V, 0.0, "left")])
    check(operator, zero, ("matrix", "wide entries"))


@pytest.mark.parametrize(
    "text, fault",
    [
        ("== 1) d_places[pair] |= OWN", "<= 2) d_places[pair] |= OWN"),
        ("column + t * column_step].w", "column].w"),
        ("if (trial.x < 0) continue;", ""),
        ("dof.w = d_parts0[node];", "dof.w = 0;"),
    ],
)
def test_faults_are_seen(monkeypatch, text, fault):
    """The comparison with PETSc's sum notices what is wrong where kernels add to the values."""
    V = FunctionSpace(some_mesh("triangle"), "Lagrange", 2)
    u, v = ufl.TrialFunction(V), ufl.TestFunction(V)
    planted = replace_text(monkeypatch.setattr, text, fault)
    with pytest.raises(AssertionError, match="entries"):
        check(*make_operator(u * v.dx(0) * dx, [DirichletBC(V, 0.0, "left")]))
    assert planted()


@parallel
def test_fields_that_do_not_couple_are_left_out():
    """Continuous, discontinuous and vector fields, coupled one way, on a part of the boundary, or not at all."""
    dm = some_mesh("triangle")
    parts = {
        "a": FunctionSpace(dm, "Lagrange", 2, shape=(2,)),
        "b": FunctionSpace(dm, "Lagrange", 1),
        "c": FunctionSpace(dm, "DG", 1),
        "d": FunctionSpace(dm, "Lagrange", 3),
    }
    W = MixedSpace(parts)
    (a, b, c, d), (ta, tb, tc, td) = ufl.split(ufl.TrialFunction(W)), ufl.split(ufl.TestFunction(W))
    form = inner(a, ta) * dx + b * ufl.div(ta) * dx + c * tc * dx + c * tb * ds("left") + d * td * ds("right")
    operator, zero = make_operator(form, [DirichletBC(W.sub("a"), (0.0, 0.0), "left")])
    mat, twin = check(operator, zero)
    sizes = {name: operator.local.mpi.allreduce(part.numbering.num_owned) for name, part in parts.items()}
    # Every field with every other would be in the twin; a third of it is here.
    assert num_entries(mat) < num_entries(twin) / 2
    x, y, z = zero.duplicate(), zero.duplicate(), zero.duplicate()
    x.setRandom()
    operator.action(x, y)
    mat.mult(x, z)
    z.axpy(-1.0, y)
    assert z.norm() < 1e-13 * y.norm()
    # Rows of `b` have their diagonal although no term has it.
    assert sum(sizes.values()) == mat.getSize()[0]
    ones = mat.getDiagonal()
    first, last = mat.getOwnershipRange()
    assert all(row in mat.getRow(row)[0] for row in range(first, last)) and ones.getSize() == mat.getSize()[0]


def test_chunks_make_no_difference(set_options):
    """Two chunks of element matrices: bit for bit where rows sum their entries in order."""
    dm = some_mesh("triangle", 22)
    V = FunctionSpace(dm, "Lagrange", 2, shape=(2,))
    u, v = ufl.TrialFunction(V), ufl.TestFunction(V)
    form, found = inner(u, v) * dx, {}
    for scatter in ("gather", "atomic"):
        for memory in (1, 512):
            set_options(femgpu_scatter=scatter, femgpu_assembly_memory=memory)
            operator, zero = make_operator(form)
            found[scatter, memory] = assembled(operator, zero).mat.getValuesCSR()[2]
            (application,) = operator.local.applications["matrix" if scatter == "gather" else "entries"]
            assert len(application.chunks) == (2 if (scatter, memory) == ("gather", 1) else 1)
    assert (found["gather", 1] == found["gather", 512]).all()
    for values in found.values():
        np.testing.assert_allclose(values, found["gather", 1], rtol=0, atol=1e-15)


@pytest.fixture(scope="module")
def nonlinear():
    """A problem whose Jacobian changes with its state, and the mesh that it moves with."""
    dm = some_mesh("triangle")
    V = FunctionSpace(dm, "Lagrange", 2, shape=(2,))
    u, v = Function(V, name="u"), ufl.TestFunction(V)
    F = inner(grad(u), grad(v)) * dx + inner(u, u) * inner(u, v) * dx
    return SimpleNamespace(F=F, u=u, bcs=[DirichletBC(V, 0.0, "left", component=0)], V=V)


@parallel
@pytest.mark.parametrize("kind, name", [("", "aij"), ("baij", "baij"), ("sbaij", "sbaij")])
def test_other_states_and_types(nonlinear, kind, name):
    """The matrix follows the state in place, also after PETSc has taken it apart for a conversion, and may be stored in blocks."""
    problem = NonlinearProblem(nonlinear.F, nonlinear.u, bcs=nonlinear.bcs)
    x, y, z, b = (nonlinear.u.vec.duplicate() for _ in range(4))
    made, before = None, -1
    for state in (0.0, 1.0, 3.0):
        x.setRandom()
        x.scale(state)
        problem.linearise(x)
        made = made or AssembledJacobian(problem.operator, x, kind)
        made.fill()
        mat = made.mat
        assert mat.getType().endswith(name) and mat.stateGet() > before
        before = mat.stateGet()
        y.setRandom()
        problem.operator.action(y, z)
        mat.mult(y, b)
        b.axpy(-1.0, z)
        assert b.norm() < 1e-13 * z.norm()
        mat.convert("baij", out=PETSc.Mat()).destroy()


@parallel
def test_preconditioners_see_new_values(nonlinear, set_options):
    """Block ILU of a rank's own block, which PETSc sets up anew only where it is told that values changed."""
    set_options(femgpu_jacobian="assembled", pc_type="bjacobi", sub_pc_type="lu", ksp_type="richardson", ksp_max_it=1)
    set_options(ksp_richardson_scale=1.0, ksp_norm_type="none")
    problem = NonlinearProblem(nonlinear.F, nonlinear.u, bcs=nonlinear.bcs)
    x, b, got = (nonlinear.u.vec.duplicate() for _ in range(3))
    ksp = problem.snes.getKSP()
    for state in (1.0, 30.0):
        x.set(state)
        problem.linearise(x)
        b.set(1.0)
        ksp.setOperators(problem.jacobian)
        ksp.solve(b, got)
        block = problem.jacobian.getDiagonalBlock()
        product = PETSc.Vec().createWithArray(np.zeros(b.getLocalSize()), comm=PETSc.COMM_SELF)
        block.mult(PETSc.Vec().createWithArray(got.array_r.copy(), comm=PETSc.COMM_SELF), product)
        np.testing.assert_allclose(product.array_r, 1.0, atol=1e-11)


def test_types_that_are_refused(nonlinear, set_options):
    u, v = ufl.TrialFunction(nonlinear.V), ufl.TestFunction(nonlinear.V)
    operator, zero = make_operator(inner(u, v.dx(0)) * dx)
    with pytest.raises(OptionError, match="-mat_type sbaij: it keeps one half of the Jacobian"):
        AssembledJacobian(operator, zero, "sbaij")
    with pytest.raises(OptionError, match="-mat_type aijviennacl: .* expected aij"):
        AssembledJacobian(operator, zero, "aijviennacl")
