"""GAMG's levels on the devices of one rank and several: products against PETSc's, set-ups, and what ranks change."""

import numpy as np
import pytest
import ufl
from krylov_support import own, random_vec, solver
from petsc4py import PETSc
from ufl import dx, grad, inner

import femgpu
from femgpu import runtime
from femgpu.multigrid import Entries
from femgpu.petsc_aij import aij_parts
from femgpu.solver import algebraic_levels
from femgpu.solver.distributed_matrix import DistributedMatrix, Share

PMG = {"pc_type": "python", "pc_python_type": "femgpu.PMG"}
# Gathers levels to so few ranks that others have none of their rows.
GATHERED = {"pmg_coarse_pc_gamg_process_eq_limit": 400}
# The coarsest level is solved by some iterations, which has no inverse.
BY_HOST = {f"pmg_coarse_mg_coarse_ksp_{name}": value for name, value in {"type": "richardson", "max_it": 3}.items()}
TOLERANCES = {np.dtype(np.float64): 1e-13, np.dtype(np.float32): 1e-5}


def random_matrix(comm, rng, rows, columns, density=0.2):
    """An AIJ matrix with random entries; `rng` is this rank's own, rows and columns are what it has of them."""
    mat = PETSc.Mat().create(comm=comm)
    mat.setSizes(((rows, None), (columns, None)))
    mat.setType(PETSc.Mat.Type.AIJ)
    mat.setUp()
    mat.setOption(PETSc.Mat.Option.NEW_NONZERO_ALLOCATION_ERR, False)
    first, last = mat.getOwnershipRange()
    for row in range(first, last):
        where = np.flatnonzero(rng.random(mat.getSize()[1]) < density).astype(np.int32)
        mat.setValues([row], where, rng.standard_normal(len(where)))
    mat.assemble()
    return mat


def share_of(mat):
    """What this rank has of a matrix; read while PETSc keeps its arrays."""
    with aij_parts(mat) as (mine, others, ghosts):
        parts = [Entries(*(entries.copy() for entries in part)) for part in (mine, others)]
        return Share.by_rows(mat.comm.tompi4py(), mat.getOwnershipRangesColumn(), *parts, ghosts.copy())


def once(function):
    """What binds one call of a function of two buffers."""
    return lambda x, y: [lambda: function(x, y)]


def check_product(bind, mat, dtype, transpose=False):
    """Calls between two buffers against a product of PETSc's with a random vector, in a poisoned buffer; the size of the result.

    Args:
        bind: makes the calls of the buffers.
        mat: of PETSc.
        dtype: of the buffers.
        transpose: whether they are products with the transpose.
    """
    chosen, mpi = runtime.current(), mat.comm.tompi4py()
    given, wanted = mat.createVecs()
    if transpose:
        given, wanted = wanted, given
    x = np.random.default_rng([mpi.rank, 5]).standard_normal(given.getLocalSize()).astype(dtype)
    given.setArray(x.astype(float))
    (mat.multTranspose if transpose else mat.mult)(given, wanted)
    return compare(bind, chosen.upload(x), wanted.array_r, dtype, mpi)


def compare(bind, given, wanted, dtype, mpi, more=1):
    """Likewise, of a buffer and the entries that are to come out; tolerances are `more` times as wide."""
    chosen, count = runtime.current(), len(wanted)
    made = chosen.upload(np.full(count, np.nan, dtype))
    for call in bind(given, made):
        call()
    # What is NaN comes to be the largest.
    error = np.abs(np.nan_to_num(chosen.read(made, np.full(count, np.nan, dtype)), nan=np.inf) - wanted).max(initial=0.0)
    error, size = (max(mpi.allgather(float(number))) for number in (error, np.abs(wanted).max(initial=0.0)))
    assert error <= more * TOLERANCES[np.dtype(dtype)] * size, (error, size)
    return size


# How many rows and columns each rank has.
LAYOUTS = [((20, 13, 31), (9, 17, 6)), ((0, 40, 7), (11, 0, 0)), ((25, 0, 0), (0, 8, 30)), ((0, 0, 9), (0, 0, 12))]


@pytest.mark.parallel([1, 2, 3])
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_products_are_those_of_petsc(dtype, rng):
    """Also with the transpose, where ranks have no rows or no columns, and with other values in the same places."""
    mpi, chosen = PETSc.COMM_WORLD.tompi4py(), runtime.current()
    for rows, columns in LAYOUTS:
        for density in (0.2, 0.0, 1.0):
            mat = random_matrix(PETSc.COMM_WORLD, rng, rows[mpi.rank], columns[mpi.rank], density)
            share = share_of(mat)
            back = share.transposed(columns[mpi.rank])
            matrix, transpose = (DistributedMatrix(chosen, mpi, part, np.dtype(dtype)) for part in (share, back))
            size = check_product(matrix.bind, mat, dtype)
            assert size > 0 or not density or not min(sum(rows[: mpi.size]), sum(columns[: mpi.size]))
            check_product(transpose.bind, mat, dtype, transpose=True)
            mat.scale(-3.0)
            others = share_of(mat)
            matrix.set_values(others.own.values, others.receive.values)
            check_product(matrix.bind, mat, dtype)


@pytest.mark.parallel([1, 3])
@pytest.mark.parametrize("singular", [False, True])
def test_a_small_matrix_becomes_its_inverse(singular, rng):
    """Spread over ranks, of which some may have no rows; a singular one its pseudo-inverse; and again with other values."""
    mpi, chosen = PETSc.COMM_WORLD.tompi4py(), runtime.current()
    for rows, _ in LAYOUTS:
        share, count = rows[mpi.rank], sum(rows[: mpi.size])
        if not count:
            continue
        factor = np.random.default_rng(count).standard_normal((count, count - singular))
        mat = random_matrix(PETSc.COMM_WORLD, rng, share, share, 1.0)
        first, last = mat.getOwnershipRange()
        numbers, pc = np.arange(count, dtype=np.int32), PETSc.PC().create()
        pc.setType(PETSc.PC.Type.SVD)
        pc.setOperators(mat)
        below = None
        for scale in (1.0, -0.25):
            dense = scale * factor @ factor.T
            mat.setValues(numbers[first:last], numbers, dense[first:last])
            mat.assemble()
            pc.setUp()
            assert below is None or below.update()
            below = below or algebraic_levels.AlgebraicLevels(pc, chosen, False, None)
            b = np.random.default_rng(1).standard_normal(count)
            wanted = (np.linalg.pinv(dense, rcond=1e-10) @ b)[first:last]
            condition = np.linalg.cond(factor) ** 2
            assert compare(below.solve, chosen.upload(b[first:last]), wanted, np.float64, mpi, more=condition) > 0
            assert not below.levels and below.solve != below._by_host
        pc.destroy()


def diffusion(dm, degree=2):
    """Poisson's equation with a coefficient k that changes in space, to the power of an exponent."""
    V = femgpu.FunctionSpace(dm, "Lagrange", degree)
    u, v, x = femgpu.Function(V), ufl.TestFunction(V), femgpu.coordinates(dm)
    exponent = femgpu.Constant(dm, 1.0)
    F = (1 + 9 * x[0]) ** exponent * inner(grad(u), grad(v)) * dx - v * dx
    return F, u, [femgpu.DirichletBC(V, 0.0, 1)], exponent


def elasticity(dm, degree=2):
    """Linear elasticity, whose rigid-body modes GAMG gets: blocks of 3 or 6 on its levels."""
    V = femgpu.FunctionSpace(dm, "Lagrange", degree, dm.getDimension())
    u, v, factor = femgpu.Function(V), ufl.TestFunction(V), femgpu.Constant(dm, 1.0)
    strain = ufl.sym(grad(u))
    stress = 2 * strain + 1.5 * factor * ufl.tr(strain) * ufl.Identity(dm.getDimension())
    return inner(stress, grad(v)) * dx - v[0] * dx, u, [femgpu.DirichletBC(V, 0.0, 1)], factor


def linearised(case):
    F, u, bcs, _ = case
    problem = femgpu.NonlinearProblem(F, u, bcs)
    problem.linearise(u.vec)
    return problem


def check_levels(below):
    """What was taken over against PETSc's matrices, interpolations and coarsest solve; the rows of each level on all ranks."""
    pc, mpi, dtype = below._pc, below.coarsest.mpi, below.coarsest.dtype
    chosen, finest = runtime.current(), pc.getMGLevels() - 1
    assert len(below.levels) == finest
    for number, level in enumerate(below.levels):
        mat, up = pc.getMGSmoother(finest - number).getOperators()[1], pc.getMGInterpolation(finest - number)
        assert check_product(level.operator.bind, mat, dtype) > 0
        assert check_product(below.prolong[number], up, dtype) > 0
        assert check_product(below.restrict[number], up, dtype, transpose=True) > 0
        # GMRES and the cycle take the same.
        assert check_product(once(level.operator.apply), mat, dtype) > 0
        assert compare(once(lambda _, y, level=level: level._fill(y, 0)), None, mat.getDiagonal().array_r, dtype, mpi) > 0
    coarsest = pc.getMGCoarseSolve()
    given, wanted = coarsest.getOperators()[0].createVecs()
    given.setArray(np.random.default_rng([mpi.rank, 6]).standard_normal(given.getLocalSize()).astype(dtype))
    coarsest.solve(given, wanted)
    compare(below.solve, chosen.upload(given.array_r.astype(dtype)), wanted.array_r, dtype, mpi, more=1000)
    return mpi.allgather([level.vectors.num_owned for level in below.levels] + [below.coarsest.num_owned])


@pytest.mark.parallel([1, 2, 3])
@pytest.mark.parametrize("precision, smoother", [("double", "pbjacobi"), ("single", "jacobi")])
def test_levels_are_those_of_gamg(precision, smoother):
    """Where coarse levels are on one rank only, and others have no rows of theirs; blocks are 3 rows, and 6."""
    cases = [(diffusion, (24, 24), "triangle", BY_HOST), (elasticity, (3, 3, 8), "tetrahedron", GATHERED)]
    for case, counts, cell, coarse in cases:
        problem = linearised(case(femgpu.mesh.box(counts, cell=cell)))
        options = {"pc_femgpu_pmg_precision": precision, "pc_femgpu_pmg_smoother": smoother}
        with solver([problem.jacobian], PMG | own("CG") | options | coarse) as ksp:
            ksp.setUp()
            below = ksp.getPC().getPythonContext()._below
            # (num_ranks, num_levels)
            rows = np.array(check_levels(below))
            assert (rows[:, 0] > 0).all() and not rows[1:, -1].any() and rows[0, -1] > 0, rows
            assert case is diffusion or rows.shape[1] > 2 and not rows[1:, 1].any(), rows
            assert (below.solve == below._by_host) == (coarse is BY_HOST)
            sizes = (
                [3, *[6] * (len(below.levels) - 1)] if case is elasticity and smoother == "pbjacobi" else [1] * len(below.levels)
            )
            assert [level.size for level in below.levels] == sizes
            b = random_vec(problem)
            ksp.solve(b, b.duplicate())
            assert ksp.getConvergedReason() > 0 and ksp.getIterationNumber() <= 25, ksp.getIterationNumber()


@pytest.mark.parallel([1, 3])
def test_a_later_set_up_takes_values_over():
    """Nothing is made anew, but where PETSc makes matrices anew at the second one, as it does where it moves rows."""
    F, u, bcs, exponent = diffusion(femgpu.mesh.box((24, 24), cell="triangle"))
    problem = femgpu.NonlinearProblem(F, u, bcs)
    problem.linearise(u.vec)
    b, size = random_vec(problem), PETSc.COMM_WORLD.size
    for moved in (0, 1):
        kept, its = [], []
        options = {"pc_femgpu_pmg_lag": 1, "pmg_coarse_pc_gamg_repartition": moved}
        with solver([problem.jacobian], PMG | own("CG") | options) as ksp:
            for exponent.value in (1.0, 0.0, 2.0, 0.5):
                problem.linearise(u.vec)
                problem.jacobian.assemble()
                ksp.solve(b, b.duplicate())
                its.append(ksp.getIterationNumber())
                context = ksp.getPC().getPythonContext()
                check_levels(context._below)
                kept.append((context._below, context._cycle))
        assert kept[1] == kept[2] == kept[3] and (kept[0] == kept[1]) == (not moved or size == 1)
        assert max(its) <= 20, its


@pytest.mark.parallel([2, 3])
def test_iterations_are_those_of_one_rank(monkeypatch):
    """And in all not more than with the whole of GAMG on the host, which smooths less."""
    found = {}
    for case, counts in ((diffusion, (48, 48)), (elasticity, (24, 24)), (elasticity, (48, 12))):
        for name in ("ranks", "one", "host"):
            comm = PETSc.COMM_SELF if name == "one" else PETSc.COMM_WORLD
            problem = linearised(case(femgpu.mesh.box(counts, cell="triangle", comm=comm), degree=1))
            with monkeypatch.context() as patch, solver([problem.jacobian], PMG | own("CG")) as ksp:
                if name == "host":
                    patch.setattr(algebraic_levels, "_matrices", lambda pc: ([], []))
                b = random_vec(problem)
                ksp.solve(b, b.duplicate())
                assert ksp.getConvergedReason() > 0
                assert bool(ksp.getPC().getPythonContext()._below.levels) == (name != "host")
                found.setdefault(name, []).append(ksp.getIterationNumber())
    assert max(abs(a - b) for a, b in zip(found["ranks"], found["one"], strict=True)) <= 2, found
    assert sum(found["ranks"]) <= sum(found["host"]), found
