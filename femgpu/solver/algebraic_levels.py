"""The levels of PETSc's algebraic multigrid, taken over onto the device."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from petsc4py import PETSc
from scipy.sparse import csr_array

from femgpu.krylov import Operator, Vectors
from femgpu.multigrid import Level, SparseMatrix
from femgpu.runtime import Runtime
from femgpu.solver.chebyshev_type import noise
from femgpu.solver.device_vec import load, store

_Transfer = Callable[[Any, Any], None]


@dataclass(frozen=True)
class AlgebraicLevels:
    """What a cycle goes through from the matrix of a multigrid PC on.

    Attributes:
        levels: those that are smoothed, the finest first.
        restrict: residuals to the next one, one function for each of them.
        prolong: adds the next one's correction, likewise.
        solve: the coarsest level, on host vectors.
        coarsest: its vectors.
    """

    levels: list[Level]
    restrict: Sequence[_Transfer]
    prolong: Sequence[_Transfer]
    solve: _Transfer
    coarsest: Vectors


def take_over(pc: PETSc.PC, runtime: Runtime, make_level: Callable[[Vectors, Operator, Any], Level]) -> AlgebraicLevels:
    """The levels of a PC that was set up; those of a PC that is no multigrid are its matrix alone.

    Args:
        pc: GAMG or MG on one rank, whose matrices are AIJ; any other PC on any number.
        runtime: the device.
        make_level: of vectors, operator and noise.
    """
    mpi = pc.comm.tompi4py()
    mats = _matrices(pc) if mpi.size == 1 else []
    vectors = [Vectors(runtime, mat.getLocalSize()[0], mpi) for mat in mats] or [
        Vectors(runtime, pc.getOperators()[1].getLocalSize()[0], mpi)
    ]
    levels, restrict, prolong = [], [], []
    for number, (mat, its) in enumerate(zip(mats[:-1], vectors, strict=False)):
        matrix = SparseMatrix(runtime, _entries(mat))
        up = _entries(pc.getMGInterpolation(len(mats) - 1 - number))
        levels.append(make_level(its, Operator(matrix.multiply), noise(0, its.num_owned)))
        runtime.write(levels[-1].diagonal, mat.getDiagonal().array_r)
        restrict.append(SparseMatrix(runtime, csr_array(up.T)).multiply)
        prolong.append(SparseMatrix(runtime, up).add)
    apply = pc.getMGCoarseSolve().solve if mats else pc.apply
    given, found = (mats[-1] if mats else pc.getOperators()[1]).createVecs()

    def solve(b: Any, x: Any) -> None:
        store(runtime, b, given)
        apply(given, found)
        load(runtime, found, x)

    return AlgebraicLevels(levels, restrict, prolong, solve, vectors[-1])


def _matrices(pc: PETSc.PC) -> list[PETSc.Mat]:
    """The operators of a multigrid PC, the finest first; none of another PC, or one with a single level."""
    if pc.getType() not in (PETSc.PC.Type.GAMG, PETSc.PC.Type.MG):
        return []
    count = pc.getMGLevels()
    return [pc.getMGSmoother(level).getOperators()[1] for level in reversed(range(count))] if count > 1 else []


def _entries(mat: PETSc.Mat) -> csr_array:
    starts, columns, values = mat.getValuesCSR()
    return csr_array((values, columns, starts), shape=mat.getSize())
