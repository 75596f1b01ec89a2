"""p-multigrid: coarse operators against Galerkin products, transfers, and iterations that depend on nothing."""

import numpy as np
import pytest
import ufl
from krylov_support import own, random_vec, solve
from petsc4py import PETSc
from scipy.sparse import random_array
from ufl import dx, grad, inner

import femgpu
from femgpu import runtime
from femgpu.errors import DataError, FormError, OptionError
from femgpu.multigrid import Entries, SparseMatrix
from femgpu.solver.coarsening import CoarseOperator

CELLS = ("interval", "triangle", "quadrilateral", "tetrahedron", "hexahedron", "prism")
PRECISIONS = ("double", "single")
PMG = {"pc_type": "python", "pc_python_type": "femgpu.PMG"}


def box(cell, count=3):
    dim = {"interval": 1, "triangle": 2, "quadrilateral": 2}.get(cell, 3)
    return femgpu.mesh.box((count,) * dim, cell=cell)


def problem_on(dm, degree, shape=(), nonlinear=False, **options):
    """Diffusion and reaction, symmetric, with components that couple and polynomials to integrate; linearised at a rough state."""
    V = femgpu.FunctionSpace(dm, "Lagrange", degree, shape)
    u, v = femgpu.Function(V), ufl.TestFunction(V)
    k = femgpu.Function(femgpu.FunctionSpace(dm, "DG", 1))
    k.interpolate(lambda x: 1 + x[0])
    F = k * inner(grad(u), grad(v)) * dx + 3 * inner(u, v) * dx
    if nonlinear:
        F += inner(u, u) * inner(u, v) * dx
    bcs = [femgpu.DirichletBC(V, 0.5, 1)]
    if shape:
        F += ufl.div(u) * ufl.div(v) * dx
        # One vertex as well, by the nodes.
        bcs.append(femgpu.DirichletBC(V, [0.1] * shape, lambda x: abs(x - 1).max(axis=0) < 1e-9))
    problem = femgpu.NonlinearProblem(F, u, bcs, petsc_options=options)
    random = random_vec(problem, 3)
    problem.insert_boundary_values(random)
    problem.linearise(random)
    return problem


def buffers(operator, *arrays):
    return [operator.local.runtime.upload(array) for array in arrays]


def read(operator, buffer, count):
    return operator.local.runtime.read(buffer, np.full(count, np.nan))


@pytest.mark.parallel([1, 3])
def test_the_coarse_operator_is_the_galerkin_product():
    """With a state of the finer space, prescribed sides and vertices, chains of levels."""
    for cell in CELLS if PETSc.COMM_WORLD.size == 1 else ("quadrilateral", "prism"):
        dm = box(cell, 2)
        shape = dm.getDimension() if cell in ("quadrilateral", "tetrahedron") else ()
        finer = problem_on(dm, 3, shape, nonlinear=True).operator
        for degree in (2, 1):
            space = finer.local.space
            coarse = CoarseOperator(finer, degree)
            coarse.update()
            count, fine_count = coarse.vectors.num_owned, space.numbering.num_owned
            rng = np.random.default_rng(5 + space.mesh.mpi.rank)
            mask = coarse.operator.rows.mask()[coarse.space.numbering.local_of_owned].astype(bool)
            assert space.mesh.mpi.allreduce(mask.sum()) > 0
            given = rng.standard_normal(count) * ~mask
            c, result, galerkin = buffers(finer, given, *(np.full(count, np.nan) for _ in range(2)))
            fine, product = buffers(finer, np.zeros(fine_count), np.full(fine_count, np.nan))
            coarse.transfer.prolong(c, fine)
            finer.device.action(fine, product)
            coarse.transfer.restrict(product, galerkin)
            coarse.operator.device.action(c, result)
            values, wanted = read(finer, result, count), read(finer, galerkin, count)
            size = space.mesh.mpi.allreduce(float(values @ values)) ** 0.5
            assert size > 0 and np.abs(values - wanted).max(initial=0) <= 1e-12 * size
            assert not wanted[mask].any()
            finer = coarse.operator


def test_levels_on_a_mesh_share_what_does_not_move():
    """In single precision the finest level reads the offsets of the problem's own kernels."""
    problem = problem_on(box("hexahedron", 2), 2)
    problem.operator.local.build()
    with problem_solver(problem, PMG | {"pc_femgpu_pmg_precision": "single"}) as pc:
        kept, own = (level.local.arrays._kept for level in (problem.operator, pc.getPythonContext()._operators[0]))
    offsets = [key for key in own if key[2] == "offsets"]
    assert offsets and all(own[key] is kept[key] for key in offsets)


@pytest.mark.parallel([1, 3])
@pytest.mark.parametrize("precision", ["double", "single"])
def test_restriction_is_the_transpose_of_prolongation(precision):
    finer = problem_on(box("hexahedron", 2), 4, femgpu_precision=precision).operator
    coarse = CoarseOperator(finer, 2)
    mpi, count, fine_count = finer.local.mpi, coarse.vectors.num_owned, finer.local.space.numbering.num_owned
    rng = np.random.default_rng(mpi.rank)
    x, r = rng.standard_normal(count), rng.standard_normal(fine_count)
    given, residual, fine, restricted = buffers(finer, x, r, np.zeros(fine_count), np.full(count, np.nan))
    coarse.transfer.prolong(given, fine)
    coarse.transfer.restrict(residual, restricted)
    left, right = mpi.allreduce(r @ read(finer, fine, fine_count)), mpi.allreduce(x @ read(finer, restricted, count))
    assert left == pytest.approx(right, rel=1e-12 if precision == "double" else 1e-5)


@pytest.mark.parallel([1, 3])
def test_iterations_depend_neither_on_mesh_nor_on_degree_nor_on_ranks():
    found, cases = {}, [("triangle", 2, 16), ("triangle", 2, 32), ("hexahedron", 3, 3)]
    if PETSc.COMM_WORLD.size == 1:
        cases += [("triangle", 5, 6), ("quadrilateral", 4, 8), ("tetrahedron", 2, 4), ("prism", 2, 3)]
    for cell, degree, count in cases:
        problem = problem_on(box(cell, count), degree)
        for precision in PRECISIONS:
            options = {**own("CG"), **PMG, "pc_femgpu_pmg_precision": precision, "ksp_rtol": 1e-8}
            _, norms, reason = solve(problem, random_vec(problem), options)
            assert reason > 0, (cell, degree, precision)
            found[cell, degree, count, precision] = len(norms) - 1
        double, single = (found[cell, degree, count, precision] for precision in PRECISIONS)
        assert abs(double - single) <= 1, found
    # Below degree 1 it is GAMG, whose share grows a little with the mesh.
    coarse, fine = (found["triangle", 2, count, "double"] for count in (16, 32))
    assert max(found.values()) <= 12 and abs(coarse - fine) <= 3, found


@pytest.mark.parallel([1, 3])
def test_the_cycle_is_symmetric_linear_and_the_same_for_petscs_methods():
    problem, tolerances = problem_on(box("tetrahedron", 3), 3, 3), dict(zip(PRECISIONS, (1e-10, 1e-6), strict=True))
    for precision, tolerance in tolerances.items():
        options = PMG | {"pc_femgpu_pmg_precision": precision}
        with problem_solver(problem, options) as pc:
            r, s = random_vec(problem), random_vec(problem, 11)
            made, other = r.duplicate(), r.duplicate()
            pc.apply(r, made)
            pc.apply(s, other)
            # Of vectors that are nearly orthogonal roundings are as large as of others: they are told by the norms.
            rounding = {"double": 1e-15, "single": 2e-8}[precision] * made.norm() * s.norm()
            assert made.dot(s) == pytest.approx(other.dot(r), rel=0, abs=rounding)
            assert made.dot(r) > 0 and other.dot(s) > 0
            # No number is too small for single precision.
            r.scale(1e-60)
            pc.apply(r, other)
            other.scale(1e60)
            other.axpy(-1.0, made)
            assert other.norm() <= tolerance * made.norm()
            r.set(0)
            pc.apply(r, other)
            assert other.norm() == 0
        b, kinds = random_vec(problem), (own("CG"), {"ksp_type": "cg"})
        mine, native = (solve(problem, b, {**kind, **options, "ksp_norm_type": "natural"}) for kind in kinds)
        assert mine[2] > 0 and len(mine[1]) == len(native[1])
        np.testing.assert_allclose(mine[1][:8], native[1][:8], rtol=1000 * tolerance)


@pytest.mark.parallel([1, 3])
def test_levels_are_kept_over_set_ups():
    """A factor of the operator divides the cycle, whatever is kept: buffers, launches, and eigenvalues where D changed little."""
    dm = box("tetrahedron", 4)
    V = femgpu.FunctionSpace(dm, "Lagrange", 3)
    u, v, k = femgpu.Function(V), ufl.TestFunction(V), femgpu.Constant(dm, 1.0)
    problem = femgpu.NonlinearProblem(k * (inner(grad(u), grad(v)) + u * v) * dx, u)
    runtime, rough = problem.operator.local.runtime, random_vec(problem)
    for precision, tolerance in zip(PRECISIONS, (1e-10, 1e-4), strict=True):
        k.value = 1.0
        problem.linearise(u.vec)
        with problem_solver(problem, PMG | {"pc_femgpu_pmg_precision": precision, "pc_femgpu_pmg_lag": 1}) as pc:
            first, later, context = rough.duplicate(), rough.duplicate(), pc.getPythonContext()
            pc.apply(rough, first)
            kept = []
            for factor in (1.1, 1.0, 100.0):
                largest = context._levels[0].largest
                k.value = factor
                problem.linearise(u.vec)
                problem.jacobian.assemble()
                pc.setUp()
                kept.append((context._cycle, runtime.allocated_bytes))
                assert factor > 2 or context._levels[0].largest == largest
                pc.apply(rough, later)
                later.scale(factor)
                later.axpy(-1.0, first)
                assert later.norm() <= tolerance * first.norm(), factor
            assert kept[0] == kept[1] and kept[0][0] is kept[2][0]


@pytest.mark.parametrize("degree", [2, 1])
def test_the_assembled_part_lags_until_it_must_not(degree):
    """It is renewed after so many set-ups, where the diagonal changes much, and where a solve takes more cycles than before.

    Of degree 1 the finest matrix, which is the operator, is not part of it.
    """
    dm = box("tetrahedron", 4) if degree > 1 else femgpu.mesh.refine(box("tetrahedron", 3))
    V = femgpu.FunctionSpace(dm, "Lagrange", degree)
    u, v, k = femgpu.Function(V), ufl.TestFunction(V), femgpu.Constant(dm, 1.0)
    problem = femgpu.NonlinearProblem(k * (inner(grad(u), grad(v)) + u * v) * dx, u)
    rough, made = random_vec(problem), random_vec(problem)
    for lag, wanted in (
        (1, [True] * 6),
        (3, [False, False, True, True, False, True]),
        (-1, [False, False, False, True, False, True]),
    ):
        found = []
        k.value = 1.0
        problem.linearise(u.vec)
        with problem_solver(problem, PMG | {"pc_femgpu_pmg_lag": lag}) as pc:
            context = pc.getPythonContext()
            # Cycles after each set-up, and what the operator is multiplied with before the next one.
            for cycles, k.value in ((4, 1.1), (4, 1.0), (4, 1.1), (4, 30.0), (4, 31.0), (9, 32.0)):
                for _ in range(cycles):
                    pc.apply(rough, made)
                before = context._assembled.mat.stateGet()
                problem.linearise(u.vec)
                problem.jacobian.assemble()
                pc.setUp()
                found.append(context._assembled.mat.stateGet() > before)
                problem.jacobian.mult(rough, made)
                operator, (given, product) = (
                    problem.operator,
                    buffers(problem.operator, rough.array, np.full(len(rough.array), np.nan)),
                )
                context.levels[0][2].operator.apply(given, product)
                np.testing.assert_allclose(read(operator, product, len(made.array)), made.array, atol=1e-12 * made.norm())
        assert found == wanted, (lag, found)


def test_newton_follows_the_state_the_coefficients_and_the_mesh():
    dm = box("quadrilateral", 6)
    V = femgpu.FunctionSpace(dm, "Lagrange", 4)
    u, v, k = femgpu.Function(V), ufl.TestFunction(V), femgpu.Constant(dm, 1.0)
    F = k * (1 + u**4) * inner(grad(u), grad(v)) * dx - 30 * v * dx
    options = PMG | own("CG") | {"ksp_rtol": 1e-8, "snes_rtol": 1e-9}
    problem = femgpu.NonlinearProblem(F, u, [femgpu.DirichletBC(V, 0.0, "boundary")], petsc_options=options)
    for step in range(3):
        k.value = 10.0**step
        coordinates = dm.getCoordinatesLocal()
        coordinates.scale(1.5)
        dm.setCoordinatesLocal(coordinates)
        problem.solve()
        linear, newton = problem.snes.getLinearSolveIterations(), problem.snes.getIterationNumber()
        assert linear <= 11 * newton, (step, linear, newton)


def test_time_derivatives_are_those_of_the_step():
    dm = box("triangle", 8)
    V = femgpu.FunctionSpace(dm, "Lagrange", 2)
    u, v = femgpu.Function(V), ufl.TestFunction(V)
    rate = femgpu.time_derivative(u)
    # Its Jacobian depends on the time derivative itself.
    F = (rate + rate**3) * v * dx + inner(grad(u), grad(v)) * dx - v * dx
    options = PMG | {"ksp_type": "cg", "ksp_rtol": 1e-8, "ts_type": "beuler", "ksp_max_it": 14}
    problem = femgpu.TimeProblem(F, u, [femgpu.DirichletBC(V, 0.0, "boundary")], petsc_options=options)
    problem.solve(t_end=0.02, dt=0.005)
    assert np.abs(u.vec.array).max() > 1e-3


def test_rigid_body_modes_reach_the_coarsest_level():
    dm = femgpu.mesh.box((16, 4, 4), cell="hexahedron", upper=(4, 1, 1))
    V = femgpu.FunctionSpace(dm, "Lagrange", 2, 3)
    u, v = femgpu.Function(V), ufl.TestFunction(V)
    strain = ufl.sym(grad(u))
    F = inner(2 * strain + ufl.tr(strain) * ufl.Identity(3), grad(v)) * dx - v[2] * dx
    translations = PETSc.NullSpace().create(vectors=femgpu.rigid_body_modes(V).getVecs()[:3], comm=V.comm)
    its = []
    for modes in (translations, femgpu.rigid_body_modes(V), None):
        options = PMG | own("CG") | {"ksp_rtol": 1e-8, "ksp_max_it": 200}
        u.vec.set(0)
        problem = femgpu.NonlinearProblem(F, u, [femgpu.DirichletBC(V, 0.0, 1)], petsc_options=options)
        if modes is not None:
            problem.set_near_nullspace(modes)
        problem.solve()
        its.append(problem.snes.getLinearSolveIterations())
    # Where none are given, and components are coupled, they are taken.
    assert its[1] == its[2] < its[0] and its[1] <= 20, its


@pytest.mark.parametrize(
    "extra, definite",
    [
        (lambda u, v: 3 * u * v * dx, True),
        (lambda u, v: -3 * u * v * dx, False),
        (lambda u, v: u.dx(0) * v * dx, False),
        (lambda u, v: u**2 * inner(grad(u), grad(v)) * dx, False),
    ],
    ids=["reaction", "production", "advection", "conductivity of u"],
)
def test_the_inner_preconditioner_knows_which_matrices_are_definite(extra, definite):
    V = femgpu.FunctionSpace(box("triangle"), "Lagrange", 2)
    u, v = femgpu.Function(V), ufl.TestFunction(V)
    F = inner(grad(u), grad(v)) * dx + extra(u, v) - v * dx
    problem = femgpu.NonlinearProblem(F, u, [femgpu.DirichletBC(V, 0.0)], petsc_options=PMG | own("GMRES"))
    problem.solve()
    mat = problem.snes.getKSP().getPC().getPythonContext().inner.getOperators()[1]
    # petsc4py has no name for positive definite ones, which count as symmetric.
    assert mat.isSymmetricKnown() == (definite, definite)
    rows = np.arange(mat.getSize()[0], dtype=np.int32)
    assert not definite or np.linalg.eigvalsh(mat.getValues(rows, rows)).min() > 0


@pytest.mark.parametrize("lanes", [1, 4, 64])
def test_sparse_products(lanes):
    rng = np.random.default_rng()
    matrix = random_array((131, 77), density=0.2, rng=rng, format="csr")
    x = rng.standard_normal(77)
    chosen = runtime.current()
    device = SparseMatrix(chosen, Entries(matrix.indptr, matrix.indices, matrix.data), lanes=lanes)
    given, made = chosen.upload(x), chosen.upload(np.full(131, np.nan))
    for factor in (1, 2):
        device.set_values(factor * matrix.data)
        device.multiply(given, made)
        np.testing.assert_allclose(chosen.read(made, np.empty(131)), factor * matrix @ x, rtol=1e-13, atol=1e-14)
    device.bind(given, made, add=True)()
    np.testing.assert_allclose(chosen.read(made, np.empty(131)), 4 * matrix @ x, rtol=1e-13, atol=1e-14)


def test_what_it_cannot_do_is_said():
    def attempt(error, match, F, u, **options):
        with pytest.raises(error, match=match):
            femgpu.NonlinearProblem(F, u, petsc_options=PMG | options).solve()

    dm = box("triangle", 2)
    V = femgpu.FunctionSpace(dm, "Lagrange", 3)
    u, v = femgpu.Function(V), ufl.TestFunction(V)
    F = inner(grad(u), grad(v)) * dx + (u - 1) * v * dx
    attempt(OptionError, r"pc_femgpu_pmg_degrees 1,2: expected degrees that decrease", F, u, pc_femgpu_pmg_degrees="1,2")
    attempt(OptionError, r"pc_femgpu_pmg_degrees 3,1: the form's space has degree 3", F, u, pc_femgpu_pmg_degrees="3,1")
    attempt(OptionError, r"pc_femgpu_pmg_kind third: expected one of first, fourth, opt_fourth", F, u, pc_femgpu_pmg_kind="third")
    attempt(OptionError, r"pc_femgpu_pmg_precision half: expected one of auto", F, u, pc_femgpu_pmg_precision="half")
    attempt(OptionError, r"pc_femgpu_pmg_lag 0: expected an integer", F, u, pc_femgpu_pmg_lag="0")
    attempt(OptionError, r"pc_femgpu_pmg_steps 0: expected an integer", F, u, pc_femgpu_pmg_steps="0")
    attempt(DataError, "matrix-free Jacobian", F, u, femgpu_jacobian="assembled")
    W = femgpu.MixedSpace({"a": V, "b": femgpu.FunctionSpace(dm, "Lagrange", 2)})
    w, z = femgpu.Function(W), ufl.TestFunction(W)
    attempt(FormError, "fields of one degree", inner(w, z) * dx - z[0] * dx, w)


@pytest.mark.parallel([1, 3])
@pytest.mark.parametrize("shape", [(), 2])
def test_null_spaces(shape):
    """Nothing is prescribed: the coarsest matrix is singular, too."""
    V = femgpu.FunctionSpace(box("triangle", 16), "Lagrange", 2, shape)
    u, v, x = femgpu.Function(V), ufl.TestFunction(V), femgpu.coordinates(V.dm)
    load = ufl.cos(2 * np.pi * x[0])
    F = inner(ufl.sym(grad(u)), grad(v)) * dx - load * v[0] * dx if shape else inner(grad(u), grad(v)) * dx - load * v * dx
    problem = femgpu.NonlinearProblem(F, u, petsc_options=PMG | own("CG") | {"ksp_rtol": 1e-8})
    modes = femgpu.rigid_body_modes(V) if shape else femgpu.constant_modes(V)
    problem.set_nullspace(modes)
    problem.set_near_nullspace(modes)
    problem.solve()
    assert problem.snes.getLinearSolveIterations() <= 12 * problem.snes.getIterationNumber()
    assert np.abs(u.vec.array).max() > 1e-3


class problem_solver:
    """The PC of a KSP with options, set up."""

    def __init__(self, problem, options):
        self.ksp, self.options = PETSc.KSP().create(comm=problem.u.space.comm), options
        self.ksp.setOperators(problem.jacobian)
        self.ksp.setOptionsPrefix("pmg_test_")

    def __enter__(self):
        database = PETSc.Options("pmg_test_")
        for name, value in self.options.items():
            database[name] = value
        self.ksp.setFromOptions()
        self.ksp.setUp()
        return self.ksp.getPC()

    def __exit__(self, *_):
        self.ksp.destroy()


def test_single_precision_is_left_where_it_does_not_serve(monkeypatch):
    """Far from the origin the differences of rounded coordinates are nothing."""
    monkeypatch.setattr("femgpu.solver.pmg_options.prefers_single", lambda device: True)
    found = {}
    for shift in (0.0, 1e6):
        dm = box("quadrilateral", 8)
        coordinates = dm.getCoordinatesLocal()
        coordinates.shift(shift)
        dm.setCoordinatesLocal(coordinates)
        problem = problem_on(dm, 2)
        with problem_solver(problem, PMG) as pc:
            context = pc.getPythonContext()
            found[shift] = context._single, context._objection
    assert found[0.0] == (True, "") and found[1e6][0] is False and "single precision" in found[1e6][1], found
