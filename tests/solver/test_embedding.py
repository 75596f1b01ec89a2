"""femgpu inside the user's own PETSc objects: SNES, prefixes, DM, section, matrices and preconditioners."""

import os
import subprocess
import sys
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import pytest
import ufl
from petsc4py import PETSc
from random_meshes import grid
from ufl import dx, grad, inner

import femgpu
from femgpu.errors import DataError, FormError, OptionError, SolverError

ROOT = Path(__file__).parents[2]
FORMS = ROOT / "drivers" / "embed" / "poisson_form.py"
TIGHT = {"ksp_rtol": 1e-12, "snes_rtol": 1e-11, "snes_atol": 1e-13}


@pytest.fixture
def database():
    """Sets options; clears them afterwards."""
    given = []

    def set_options(prefix="", **options):
        for name, value in options.items():
            PETSc.Options()[prefix + name] = value
            given.append(prefix + name)

    yield set_options
    for name in given:
        PETSc.Options().delValue(name)


@pytest.fixture(scope="module")
def space():
    return femgpu.FunctionSpace(femgpu.mesh.box((3, 3), cell="quadrilateral"), "Lagrange", 2)


def boundary_value(x):
    return 1 + x[0] * x[1]


def diffusion(V):
    """Residual, unknown and conditions of a nonlinear problem with a Jacobian that is not symmetric."""
    u, v = femgpu.Function(V), ufl.TestFunction(V)
    return inner((1 + u**2) * grad(u), grad(v)) * dx - v * dx, u, [femgpu.DirichletBC(V, boundary_value)]


def solution(V, database):
    """Nodal values of the solution, found without any of what is tested here."""
    database("reference_", pc_type="lu", femgpu_jacobian="assembled", **TIGHT)
    F, u, bcs = diffusion(V)
    return femgpu.NonlinearProblem(F, u, bcs, options_prefix="reference_").solve().vec.array_r.copy()


def state(V):
    """A T-vector without structure."""
    x = V.dm.createGlobalVec()
    x.setArray(1 + 0.1 * np.random.default_rng(7).standard_normal(x.getLocalSize()))
    return x


# The user's own SNES, and several problems in one process.


def test_own_snes_keeps_its_prefix_and_options(space, database):
    expected = solution(space, database)
    database("mine_", ksp_type="bcgs", pc_type="jacobi", snes_linesearch_type="basic", **TIGHT)
    database(ksp_type="preonly", pc_type="none")  # someone else's
    snes = PETSc.SNES().create()
    snes.setOptionsPrefix("mine_")
    F, u, bcs = diffusion(space)
    problem = femgpu.NonlinearProblem(F, u, bcs, snes=snes)
    history = []
    snes.setMonitor(lambda snes, iteration, norm: history.append(norm))
    snes.setFromOptions()
    snes.solve(None, u.vec)
    assert problem.snes.handle == snes.handle and snes.getDM().handle == space.dm.handle
    assert snes.getKSP().getType() == "bcgs" and snes.getLineSearch().getType() == "basic"
    assert snes.getConvergedReason() > 0 and len(history) > 3
    np.testing.assert_allclose(u.vec.array_r, expected, rtol=0, atol=1e-10)


def test_two_problems_with_two_prefixes(space, database):
    expected = solution(space, database)
    database("one_", femgpu_jacobian="assembled", pc_type="ilu", **TIGHT)
    database("two_", femgpu_jacobian="matfree", ksp_type="gmres", pc_type="jacobi", femgpu_scatter="atomic", **TIGHT)
    F, u, bcs = diffusion(space)
    one = femgpu.NonlinearProblem(F, u, bcs, options_prefix="one_")
    # The second problem is linear, on the same space, with the first one's unknown as its coefficient.
    w, v = femgpu.Function(space), ufl.TestFunction(space)
    two = femgpu.NonlinearProblem(inner(grad(w), grad(v)) * dx - u * v * dx, w, bcs, options_prefix="two_")
    assert (one.settings.jacobian, two.settings.jacobian, two.settings.scatter) == ("assembled", "matfree", "atomic")
    assert one.jacobian.getType() == "seqaij" and two.jacobian.getType() == "python"
    one.solve()
    two.solve()
    first = w.vec.array_r.copy()
    u.vec.set(0)
    one.solve()
    two.solve()
    np.testing.assert_allclose(u.vec.array_r, expected, rtol=0, atol=1e-10)
    np.testing.assert_allclose(w.vec.array_r, first, rtol=0, atol=1e-10)
    assert two.snes.getKSP().getType() == "gmres" and one.snes.getKSP().getPC().getType() == "ilu"


# Matrices.


@pytest.mark.parametrize(
    "options, operator, preconditioner",
    [
        ({"femgpu_jacobian": "assembled", "pc_type": "jacobi"}, "seqaij", "seqaij"),
        ({"femgpu_jacobian": "matfree", "pc_type": "jacobi"}, "python", "python"),
        ({"femgpu_jacobian": "matfree", "pc_type": "ilu"}, "python", "seqaij"),
        ({"femgpu_jacobian": "matfree", "pc_type": "jacobi", "femgpu_pmat": "assembled"}, "python", "seqaij"),
        ({"femgpu_jacobian": "matfree", "pc_type": "none", "femgpu_pmat": "none"}, "python", "python"),
        ({"femgpu_pmat": "none", "pc_type": "python", "pc_python_type": "femgpu.AssembledPC",
          "assembled_pc_type": "lu"}, "python", "python"),
    ],
)  # fmt: skip
def test_every_matrix_gives_the_same_solution(space, database, options, operator, preconditioner):
    expected = solution(space, database)
    database("these_", **TIGHT, **options)
    F, u, bcs = diffusion(space)
    problem = femgpu.NonlinearProblem(F, u, bcs, options_prefix="these_")
    problem.solve()
    A, P, _ = problem.snes.getJacobian()
    assert (A.getType(), P.getType()) == (operator, preconditioner)
    assert problem.assembled == ("aij" in preconditioner)
    np.testing.assert_allclose(u.vec.array_r, expected, rtol=0, atol=1e-10)


@pytest.mark.parametrize("shape", [(), (2,)])
def test_matrix_free_equals_assembled(space, database, shape):
    V = space if not shape else femgpu.FunctionSpace(space.dm, "Lagrange", 1, shape=shape)
    database("both_", femgpu_pmat="assembled")
    u, v = femgpu.Function(V), ufl.TestFunction(V)
    F = inner((1 + inner(u, u)) * grad(u), grad(v)) * dx
    bcs = [femgpu.DirichletBC(V, 0.5, 4, component=0 if shape else None)]
    problem = femgpu.NonlinearProblem(F, u, bcs, options_prefix="both_")
    x = state(V)
    problem.linearise(x)
    A, P, _ = problem.snes.getJacobian()
    y, z = x.duplicate(), x.duplicate()
    for compare in (lambda mat, out: mat.mult(x, out), lambda mat, out: mat.getDiagonal(out)):
        compare(A, y)
        compare(P, z)
        np.testing.assert_allclose(y.array_r, z.array_r, rtol=1e-13, atol=1e-13 * z.norm())


def test_transpose_of_a_symmetric_jacobian(space):
    """Its action again, whose kernels are there."""
    _, u, bcs = diffusion(space)
    v = ufl.TestFunction(space)
    problem = femgpu.NonlinearProblem(ufl.inner(ufl.grad(u), ufl.grad(v)) * ufl.dx + ufl.exp(u) * v * ufl.dx, u, bcs)
    x, y, z = state(space), u.vec.duplicate(), u.vec.duplicate()
    problem.linearise(x)
    problem.jacobian.mult(x, y)
    problem.jacobian.multTranspose(x, z)
    assert y.norm() > 0
    assert y.equal(z) and "transposed" not in problem.operator.local.applications


def test_pointwise_form_with_and_without_jacobian(space, database):
    expected = solution(space, database)
    database("with_", pc_type="jacobi", **TIGHT)
    database("without_", pc_type="none", **(TIGHT | {"snes_rtol": 1e-9}))
    f = {"f0": "f0[0] = -1.0;", "f1": "for (int d = 0; d < dim; ++d) f1[d] = (1 + u[0] * u[0]) * u_x[d];"}
    g = {
        "g2": "for (int d = 0; d < dim; ++d) g2[d] = 2 * u[0] * u_x[d];",
        "g3": "for (int d = 0; d < dim; ++d) g3[d * dim + d] = 1 + u[0] * u[0];",
    }
    newton, products, w = {}, {}, state(space)
    for prefix, bodies in (("with_", f | g), ("without_", f)):
        u = femgpu.Function(space)
        form = femgpu.PointwiseForm(space, degree=8, **bodies)
        bcs = [femgpu.DirichletBC(space, boundary_value)]
        problem = femgpu.NonlinearProblem(form, u, bcs, options_prefix=prefix)
        problem.solve()
        newton[prefix] = problem.snes.getIterationNumber()
        assert problem.jacobian.getType() == ("python" if prefix == "with_" else "mffd")
        assert ("matrix-free difference of the residual" in problem.report()) == (prefix == "without_")
        products[prefix] = w.duplicate()
        problem.linearise(w)
        problem.jacobian.mult(u.vec, products[prefix])
        # The rule of degree 8 and that of the UFL form differ by quadrature error only.
        np.testing.assert_allclose(u.vec.array_r, expected, rtol=0, atol=1e-7)
    assert abs(newton["with_"] - newton["without_"]) <= 1
    inner_rows = np.setdiff1d(np.arange(space.num_dofs), bcs[0].local_rows)
    one, other = (products[prefix].array_r[inner_rows] for prefix in ("with_", "without_"))
    np.testing.assert_allclose(one, other, rtol=0, atol=1e-6 * np.abs(one).max())


# Divergence.


@pytest.mark.parametrize(
    "options, reason",
    [({"ksp_max_it": 1}, "SNES_DIVERGED_LINEAR_SOLVE.*KSP_DIVERGED_(MAX_IT|ITS)"), ({"snes_max_it": 1}, "SNES_DIVERGED_MAX_IT")],
)
def test_divergence_names_the_reason(space, database, options, reason):
    database("bad_", pc_type="jacobi", **options)
    F, u, bcs = diffusion(space)
    with pytest.raises(SolverError, match=reason):
        femgpu.NonlinearProblem(F, u, bcs, options_prefix="bad_").solve()


def test_divergence_ends_a_driver_with_an_exit_code():
    command = ["mpiexec", "-n", "2", sys.executable, str(ROOT / "drivers" / "poisson.py")]
    command += "-dm_plex_simplex 0 -dm_plex_box_faces 4,4 -pc_type jacobi -ksp_max_it 1".split()
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=300)
    assert done.returncode != 0
    assert "SNES_DIVERGED_LINEAR_SOLVE" in done.stdout + done.stderr


# The user's own section.


def scattered_mesh():
    """Triangles dealt out to the ranks at random, so that some ranks hold vertices of the boundary and none of its edges."""
    points, cells = grid("triangle", (5, 4))
    np.random.default_rng(1).shuffle(cells)
    comm = PETSc.COMM_WORLD
    if comm.getRank():
        points, cells = points[:0], cells[:0]
    dm = PETSc.DMPlex().createFromCellList(2, cells.astype(np.int32), points, interpolate=True, comm=comm)
    if comm.getSize() > 1:
        dm.getPartitioner().setType("simple")
        dm.distribute(0)
    return dm


def constrain(dm, degree, component):
    """Gives the DM a P-degree field of two components, one of them constrained by hand on the whole boundary."""
    dm.createLabel("wall")
    dm.markBoundaryFaces("wall", 1)
    wall = dm.getLabel("wall")
    dm.labelComplete(wall)
    dm.setField(0, PETSc.FE().createLagrange(2, 2, True, degree, -1, comm=dm.comm))
    dm.createDS()
    plain, own = dm.getLocalSection(), PETSc.Section().create(dm.comm)
    own.setNumFields(1)
    own.setFieldComponents(0, 2)
    own.setChart(*plain.getChart())
    constrained = {}
    for point in range(*plain.getChart()):
        dofs = plain.getDof(point)
        own.setDof(point, dofs)
        own.setFieldDof(point, 0, dofs)
        if dofs and wall.getValue(point) == 1:
            constrained[point] = np.arange(component, dofs, 2, dtype=PETSc.IntType)
            own.setConstraintDof(point, len(constrained[point]))
            own.setFieldConstraintDof(point, 0, len(constrained[point]))
    own.setUp()
    for point, indices in constrained.items():
        own.setConstraintIndices(point, indices)
        own.setFieldConstraintIndices(point, 0, indices)
    dm.setLocalSection(own)


@pytest.mark.parallel([1, 3])
def test_own_constrained_section(database):
    database("section_", femgpu_jacobian="matfree", ksp_type="gmres", pc_type="jacobi", ksp_max_it=1000, **TIGHT)

    def solve(V):
        u, v = femgpu.Function(V), ufl.TestFunction(V)
        F = inner((1 + inner(u, u)) * grad(u), grad(v)) * dx - v[0] * dx
        # Component 0 is in the section of the second run; component 1 is eliminated in both.
        bcs = [
            femgpu.DirichletBC(V, boundary_value, component=0),
            femgpu.DirichletBC(V, lambda x: x[0], component=1),
        ]
        femgpu.NonlinearProblem(F, u, bcs, options_prefix="section_").solve()
        return u

    def measure(u):
        x = femgpu.coordinates(u.space.dm)
        return [femgpu.assemble(e * dx) for e in (inner(u, u), inner(grad(u), grad(u)), u[0] * x[0] + u[1] * x[1] ** 2)]

    dm = scattered_mesh()
    expected = solve(femgpu.FunctionSpace(dm, "Lagrange", 2, shape=(2,)))
    constrain(dm, 2, component=0)
    V = femgpu.FunctionSpace(dm)
    reached = solve(V)
    template = dm.createGlobalVec()
    assert V.dm.handle == dm.handle and reached.vec.getSizes() == template.getSizes()
    assert V.num_dofs == expected.space.num_dofs - 36  # 18 vertices and 18 edges on the boundary
    np.testing.assert_allclose(measure(reached), measure(expected), rtol=1e-10)


# Python types by name.


@pytest.fixture
def square():
    """A DM of the user with a constrained section of his own."""
    dm = PETSc.DMPlex().createBoxMesh((3, 3), simplex=False, comm=PETSc.COMM_SELF)
    dm.setField(0, PETSc.FE().createLagrange(2, 1, False, 2, -1, comm=dm.comm))
    dm.createDS()
    return dm


def form_matrix(dm, prefix="", attach=True):
    template = dm.createGlobalVec()
    mat = PETSc.Mat().create(comm=dm.comm)
    mat.setSizes((template.getSizes(), template.getSizes()))
    mat.setType("python")
    mat.setPythonType("femgpu.FormMatrix")
    mat.setOptionsPrefix(prefix)
    if attach:
        mat.setDM(dm)
    mat.setUp()
    return mat


def test_form_matrix_follows_the_composed_state(square, database):
    database("c_", femgpu_form=f"{FORMS}:nonlinear")
    mat, V = form_matrix(square, "c_"), femgpu.FunctionSpace(square)
    u, v = femgpu.Function(V), ufl.TestFunction(V)
    # A polynomial integrand: PETSc's points of the form in the file and those chosen here must both be exact.
    problem = femgpu.NonlinearProblem(inner((1 + u**2) * grad(u), grad(v)) * dx(degree=5), u)
    x, y, z = state(V), u.vec.duplicate(), u.vec.duplicate()
    w = state(V)
    for at in (None, x, w):
        mat.compose("femgpu_state", at)
        mat.assemble()
        u.vec.set(0) if at is None else at.copy(u.vec)
        problem.linearise(u.vec)
        for compare in (lambda mat, out: mat.mult(w, out), lambda mat, out: mat.getDiagonal(out)):
            compare(mat, y)
            compare(problem.jacobian, z)
            np.testing.assert_allclose(y.array_r, z.array_r, rtol=0, atol=1e-12 * z.norm())
    assert mat.createVecs()[0].getSizes() == u.vec.getSizes()


def test_conditions_of_a_named_form_are_rows_of_the_identity(square, database, tmp_path):
    path = tmp_path / "forms.py"
    path.write_text(
        "import femgpu, ufl\n"
        "def poisson(V):\n"
        "    u, v = femgpu.Function(V), ufl.TestFunction(V)\n"
        "    return ufl.inner(ufl.grad(u), ufl.grad(v)) * ufl.dx, u, [femgpu.DirichletBC(V, 1.0)]\n"
    )
    database("c_", femgpu_form=f"{path}:poisson", pc_python_type="femgpu.AssembledPC", assembled_pc_type="lu")
    mat = form_matrix(square, "c_")
    mat.assemble()
    V = femgpu.FunctionSpace(square)
    rows = femgpu.DirichletBC(V, 0.0).local_rows
    x, y, z = state(V), V.dm.createGlobalVec(), V.dm.createGlobalVec()
    mat.mult(x, y)
    np.testing.assert_array_equal(y.array_r[rows], x.array_r[rows])
    # The inverse through the assembled matrix: both must have the same rows.
    pc = PETSc.PC().create(comm=square.comm)
    pc.setOptionsPrefix("c_")
    pc.setOperators(mat)
    pc.setType("python")
    pc.setFromOptions()
    pc.setUp()
    pc.apply(y, z)
    np.testing.assert_allclose(z.array_r, x.array_r, rtol=1e-11)
    pc.applyTranspose(y, z)
    np.testing.assert_allclose(z.array_r, x.array_r, rtol=1e-11)
    assert pc.getPythonContext().inner.getType() == "lu"


@contextmanager
def refused(kind, message):
    """petsc4py gives an exception of a callback as the cause of its own."""
    with pytest.raises(PETSc.Error) as caught:
        yield
    assert isinstance(caught.value.__cause__, kind) and message in str(caught.value.__cause__)


def test_named_forms_that_do_not_fit(square, database, tmp_path):
    def use(name, **matrix):
        database(femgpu_form=name)
        form_matrix(square, **matrix).assemble()

    with refused(OptionError, "has no function missing; it has linear, nonlinear"):
        use(f"{FORMS}:missing")
    with refused(OptionError, "expected path/to/file.py:function or package.module:function"):
        use("poisson")
    with refused(OptionError, "cannot load no_such_file.py"):
        use("no_such_file.py:linear")
    with refused(DataError, "call MatSetDM"):
        use(f"{FORMS}:linear", attach=False)
    (tmp_path / "bad.py").write_text("def form(V):\n    return V\n")
    with refused(FormError, "expected (F, u, bcs)"):
        use(f"{tmp_path}/bad.py:form")
    database(femgpu_form=f"{FORMS}:linear")
    mat = form_matrix(square)
    mat.compose("femgpu_state", PETSc.Vec().createSeq(3))
    with refused(DataError, "a Vec of sizes"):
        mat.assemble()
    pc = PETSc.PC().create(comm=square.comm)
    pc.setOperators(PETSc.Mat().createAIJ((3, 3), comm=square.comm))
    pc.getOperators()[0].assemble()
    pc.setType("python")
    pc.setPythonType("femgpu.AssembledPC")
    with refused(DataError, "it has neither"):
        pc.setUp()
