"""Smoothers of p-multigrid over the diagonal and over point blocks: cycles against dense algebra, and what blocks are worth."""

import numpy as np
import pytest
import ufl
from krylov_support import own, random_vec, solver
from petsc4py import PETSc
from random_meshes import random_mesh
from ufl import dx, grad, inner

import femgpu
from femgpu.errors import OptionError, SolverError
from femgpu.multigrid.polynomials import roots

PMG = {"pc_type": "python", "pc_python_type": "femgpu.PMG"}
SMOOTHERS = ("jacobi", "pbjacobi")
# What of its estimate the largest eigenvalue is taken for, and products before and after each coarse correction.
MARGIN, STEPS = 1.1, 2


def coupled(dm, degree, rng):
    """Components that couple at each node, unsymmetrically, some of them prescribed; at a random state."""
    dim = dm.getDimension()
    V = femgpu.FunctionSpace(dm, "Lagrange", degree, dim)
    u, v = femgpu.Function(V), ufl.TestFunction(V)
    strain, a = ufl.sym(grad(u)), ufl.as_vector(rng.uniform(0.5, 1, dim))
    F = inner((1 + inner(u, u)) * strain + 20 * ufl.dot(a, strain * a) * ufl.outer(a, a), grad(v)) * dx(degree=6)
    F += (10 * u[0] * v[1] + inner(u, v)) * dx(degree=6)
    sides = [femgpu.DirichletBC(V, 0.0, lambda x: x[0] < 1e-9, component=1)]
    sides.append(femgpu.DirichletBC(V, np.zeros(dim), lambda x: x[0] > 1 - 1e-9))
    problem = femgpu.NonlinearProblem(F, u, sides)
    state = u.vec.duplicate()
    state.setArray(rng.uniform(0, 1, state.getLocalSize()))
    problem.insert_boundary_values(state)
    problem.linearise(state)
    return problem


def dense(source, target, apply):
    """The matrix of a function between buffers of vectors, column by column; collective."""
    mpi, runtime, columns = source.mpi, source.runtime, []
    for rank, count in enumerate(mpi.allgather(source.num_owned)):
        for entry in range(count):
            given = np.zeros(source.num_owned, source.dtype)
            if rank == mpi.rank:
                given[entry] = 1
            result = runtime.upload(np.full(target.num_owned, np.nan, target.dtype))
            apply(runtime.upload(given), result)
            columns.append(np.concatenate(mpi.allgather(runtime.read(result, np.empty(target.num_owned, target.dtype)))))
    return np.stack(columns, axis=1).astype(float)


def calls(bind):
    """The function that a list of calls between two buffers is."""
    return lambda x, y: [call() for call in bind(x, y)]


class Dense:
    """The levels of a cycle as matrices; collective.

    Args:
        context: of the PC.
        kind: of the polynomials.
    """

    def __init__(self, context, kind):
        levels, below = [level for *_, level in context.levels], context._below
        parts = [part for part in (context._meshes, below) if part is not None]
        transfers = [coarse.transfer for coarse in context._coarse]
        prolong = [transfer.bind_prolong for transfer in transfers] + [bind for part in parts for bind in part.prolong]
        restrict = [transfer.bind_restrict for transfer in transfers] + [bind for part in parts for bind in part.restrict]
        vectors = [*(level.vectors for level in levels), below.coarsest]
        self.sizes, self.largest = [level.size for level in levels], [level.largest for level in levels]
        self.matrices = [dense(its, its, level.operator.apply) for level, its in zip(levels, vectors, strict=False)]
        self.prolong = [dense(b, a, calls(bind)) for a, b, bind in zip(vectors, vectors[1:], prolong, strict=False)]
        self.restrict = [dense(a, b, calls(bind)) for a, b, bind in zip(vectors, vectors[1:], restrict, strict=False)]
        self.coarsest, self.roots = dense(below.coarsest, below.coarsest, calls(below.solve)), roots(kind, STEPS)
        self.inverses = []
        for size, matrix in zip(self.sizes, self.matrices, strict=True):
            blocks = np.kron(np.eye(len(matrix) // size), np.ones((size, size))) * matrix
            # GAMG's small aggregates have modes that are nothing.
            empty = np.diag(np.diag(blocks) == 0)
            self.inverses.append(np.linalg.inv(blocks + empty) - empty)

    def cycle(self, r, number=0):
        """One V-cycle for r, from a level down."""
        if number == len(self.matrices):
            return self.coarsest @ r
        x = self._smooth(r, np.zeros(len(r)), number)
        x = x + self.prolong[number] @ self.cycle(self.restrict[number] @ (r - self.matrices[number] @ x), number + 1)
        return self._smooth(r, x, number)

    def _smooth(self, r, x, number):
        for root in self.roots:
            x = x + self.inverses[number] @ (r - self.matrices[number] @ x) / (MARGIN * self.largest[number] * root)
        return x


@pytest.mark.parallel([1, 2])
@pytest.mark.parametrize("precision, tolerance", [("double", 1e-11), ("single", 1e-4)])
@pytest.mark.parametrize("smoother", SMOOTHERS)
def test_the_cycle_is_that_of_dense_algebra(smoother, precision, tolerance, rng):
    """On levels of lower degree, on coarser meshes, and on those of GAMG, which has its own block sizes."""
    cases = [
        ("triangle", (2, 2), 3, 1, {"redundant_pc_type": "lu"}),
        ("hexahedron", (1, 2, 1), 2, 0, {}),
        ("tetrahedron", (4, 3, 3), 1, 0, {"pc_type": "gamg", "pc_gamg_aggressive_coarsening": "0"}),
    ]
    for cell, counts, degree, times, coarse in cases:
        dm = femgpu.mesh.box(counts, cell=cell) if times else random_mesh(cell, counts, 2)
        for _ in range(times):
            dm = femgpu.mesh.refine(dm)
        problem = coupled(dm, degree, np.random.default_rng(rng.integers(2**32) if PETSc.COMM_WORLD.size == 1 else 3))
        kind = str(rng.choice(["first", "fourth", "opt_fourth"])) if PETSc.COMM_WORLD.size == 1 else "first"
        options = {"smoother": smoother, "precision": precision, "steps": STEPS, "kind": kind}
        given = {f"pc_femgpu_pmg_{name}": value for name, value in options.items()}
        given |= {f"pmg_coarse_{name}": value for name, value in ({"pc_type": "redundant"} | coarse).items()}
        with solver([problem.jacobian], PMG | given) as ksp:
            ksp.setUp()
            context, dim = ksp.getPC().getPythonContext(), dm.getDimension()
            wanted = Dense(context, kind)
            assert wanted.sizes and set(wanted.sizes) == ({dim} if smoother == "pbjacobi" else {1}) or cell == "tetrahedron"
            assert cell != "tetrahedron" or wanted.sizes[0] == (dim if smoother == "pbjacobi" else 1)
            for size, largest, inverse, matrix in zip(wanted.sizes, wanted.largest, wanted.inverses, wanted.matrices, strict=True):
                true = np.linalg.eigvals(inverse @ matrix).real.max()
                assert 0.8 * true <= largest <= 1.05 * true, (cell, size)
            r = random_vec(problem)
            z = r.duplicate()
            z.set(np.nan)
            ksp.getPC().apply(r, z)
            mpi = problem.u.space.mesh.mpi
            expected = wanted.cycle(np.concatenate(mpi.allgather(r.array_r)))
            found = np.concatenate(mpi.allgather(z.array_r))
            assert np.abs(found - expected).max() <= tolerance * np.abs(expected).max(), (cell, smoother)


def fibres(u, v):
    """A material with stiff fibres along the diagonal of space."""
    dim, strain = len(u), ufl.sym(grad(u))
    a = ufl.as_vector([dim**-0.5] * dim)
    stress = strain + ufl.div(u) * ufl.Identity(dim) + 100 * ufl.dot(a, strain * a) * ufl.outer(a, a)
    return inner(stress, grad(v)) * dx - v[0] * dx


def reacting(u, v):
    """Species that turn into each other much faster than they spread."""
    turns = sum((u[i] - u[i + 1]) * (v[i] - v[i + 1]) for i in range(len(u) - 1))
    return inner(grad(u), grad(v)) * dx + 1e5 * turns * dx - v[0] * dx


def material(u, v):
    """Isotropic, Poisson's ratio 0.3."""
    strain = ufl.sym(grad(u))
    return inner(2 * strain + 1.5 * ufl.tr(strain) * ufl.Identity(len(u)), grad(v)) * dx - v[0] * dx


def iterations(form, cell, count, degree, times=0, max_it=200, **options):
    dm = femgpu.mesh.box(count, cell=cell)
    for _ in range(times):
        dm = femgpu.mesh.refine(dm)
    V = femgpu.FunctionSpace(dm, "Lagrange", degree, dm.getDimension())
    u = femgpu.Function(V)
    given = PMG | own("CG") | {"ksp_rtol": 1e-8, "ksp_max_it": max_it}
    given |= {f"pc_femgpu_pmg_{name}": value for name, value in options.items()}
    problem = femgpu.NonlinearProblem(form(u, ufl.TestFunction(V)), u, [femgpu.DirichletBC(V, 0.0, 1)], petsc_options=given)
    problem.solve()
    return problem.snes.getLinearSolveIterations()


@pytest.mark.parallel([1, 2])
def test_blocks_spare_iterations_where_components_couple():
    """Nearly half for fibres, more for stiff reactions; none more for what the diagonal serves."""
    cases = [(fibres, "triangle", (12, 12), 2, 0, 0.85), (reacting, "quadrilateral", (6, 6), 2, 1, 0.5)]
    if PETSc.COMM_WORLD.size == 1:
        cases += [(fibres, "hexahedron", (4, 4, 4), 2, 0, 0.75), (material, "triangle", (12, 12), 2, 0, 1)]
    for *case, most in cases:
        jacobi, double = (iterations(*case, smoother=smoother, precision="double") for smoother in SMOOTHERS)
        single = iterations(*case, smoother="pbjacobi", precision="single")
        assert double <= most * jacobi and abs(double - single) <= 1, (case, jacobi, double, single)


def view_of(pc):
    viewer = PETSc.Viewer().createASCII("smoother_view.txt", comm=pc.comm)
    pc.getPythonContext().view(pc, viewer)
    viewer.flush()
    viewer.destroy()
    with open("smoother_view.txt") as file:
        return file.read()


@pytest.mark.parametrize("shape, couples", [((), False), (2, False), (2, True)])
def test_blocks_are_taken_where_they_are_more_than_their_diagonals(shape, couples, tmp_path, monkeypatch):
    """Elsewhere nothing changes; the view says what there is."""
    monkeypatch.chdir(tmp_path)
    V = femgpu.FunctionSpace(femgpu.mesh.box((8, 8), cell="triangle"), "Lagrange", 2, shape)
    u, v = femgpu.Function(V), ufl.TestFunction(V)
    F = inner(grad(u), grad(v)) * dx + (ufl.div(u) * ufl.div(v) * dx if couples else 0)
    problem = femgpu.NonlinearProblem(F, u, [femgpu.DirichletBC(V, 0.0, 1)])
    problem.linearise(u.vec)
    b, histories = random_vec(problem), []
    for smoother in SMOOTHERS:
        with solver([problem.jacobian], PMG | own("CG") | {"pc_femgpu_pmg_smoother": smoother}) as ksp:
            ksp.solve(b, b.duplicate())
            histories.append(ksp.getConvergenceHistory().tolist())
            said = view_of(ksp.getPC())
        blocks = couples and smoother == "pbjacobi"
        assert ("over point blocks" in said, "blocks of 2 rows" in said) == (blocks, blocks), said
        assert ("over the diagonal" in said) != blocks
    assert (histories[0] == histories[1]) != couples


def test_a_second_set_up_changes_numbers_alone():
    """Also where blocks change but not what stands on the diagonal."""
    dm = femgpu.mesh.box((4, 4), cell="quadrilateral")
    V = femgpu.FunctionSpace(dm, "Lagrange", 2, 2)
    u, v, k = femgpu.Function(V), ufl.TestFunction(V), femgpu.Constant(dm, 0.0)
    F = inner(grad(u), grad(v)) * dx + inner(u, v) * dx(degree=4) + k * (u[0] * v[1] + u[1] * v[0]) * dx(degree=4)
    problem = femgpu.NonlinearProblem(1000 * F, u)
    problem.linearise(u.vec)
    runtime, r = problem.operator.local.runtime, random_vec(problem)
    with solver([problem.jacobian], PMG | {"pc_femgpu_pmg_smoother": "pbjacobi", "pc_femgpu_pmg_lag": 1}) as ksp:
        made, kept, largest = [], [], []
        for k.value in (0.0, 0.9, 0.0, 500.0, 0.0):
            problem.linearise(u.vec)
            problem.jacobian.assemble()
            pc = ksp.getPC()
            pc.setUp()
            made.append(r.duplicate())
            pc.apply(r, made[-1])
            context = pc.getPythonContext()
            kept.append((context._cycle, runtime.allocated_bytes, runtime.programs.num_programs))
            largest.append(context._levels[0].largest)
    assert kept[2:] == kept[2:3] * 3
    assert largest[3] != largest[2]
    for number in (2, 4):
        made[number].axpy(-1.0, made[0])
        assert made[number].norm() <= 1e-6 * made[0].norm()


def test_a_solve_that_takes_too_many_iterations_names_blocks():
    for smoother in SMOOTHERS:
        with pytest.raises(SolverError) as raised:
            iterations(fibres, "triangle", (4, 4), 2, max_it=3, smoother=smoother)
        assert ("-pc_femgpu_pmg_smoother pbjacobi" in str(raised.value)) == (smoother == "jacobi")


def test_what_it_cannot_do_is_said():
    V = femgpu.FunctionSpace(femgpu.mesh.box((2, 2), cell="triangle"), "Lagrange", 2, 2)
    u, v = femgpu.Function(V), ufl.TestFunction(V)
    options = PMG | {"pc_femgpu_pmg_smoother": "sor"}
    with pytest.raises(OptionError, match=r"-pc_femgpu_pmg_smoother sor: expected one of jacobi, pbjacobi"):
        femgpu.NonlinearProblem(inner(grad(u), grad(v)) * dx - v[0] * dx, u, petsc_options=options).solve()
