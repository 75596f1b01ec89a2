"""The levels of PETSc's algebraic multigrid, taken over onto the device."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt
from petsc4py import PETSc

from femgpu import petsc_c
from femgpu.krylov import Operator, Vectors
from femgpu.krylov.vectors import C_TYPES
from femgpu.multigrid import FILE, Bind, Calls, Diagonal, Entries, Level, MakeLevel, SparseMatrix
from femgpu.runtime import Runtime
from femgpu.solver.device_vec import load, store

# Unknowns of a coarsest level up to which its inverse is made; and what entries of it times those of the matrix come to where it
# counts as singular.
_DENSE, _SINGULAR = 512, 1e8
_MULTIGRID = (PETSc.PC.Type.GAMG, PETSc.PC.Type.MG)
_DIRECT = (PETSc.PC.Type.SVD, PETSc.PC.Type.LU, PETSc.PC.Type.CHOLESKY)


class AlgebraicLevels:
    """What a cycle goes through from the matrix of a PC on; of a PC that is no multigrid that matrix alone.

    Args:
        pc: that was set up: GAMG or MG on one rank, whose matrices are AIJ; any other PC on any number. On one rank small inverses
            of direct solvers are taken over, too.
        runtime: the device.
        single: whether vectors, matrices and transfers are in single precision.
        make_level: makes those that are smoothed.

    Attributes:
        levels: those that are smoothed, the finest first.
        restrict: for each of them, to the next one.
        prolong: for each of them, from the next one.
        solve: the coarsest level.
        coarsest: its vectors.
    """

    def __init__(self, pc: PETSc.PC, runtime: Runtime, single: bool, make_level: MakeLevel):
        mpi = pc.comm.tompi4py()
        self._pc, self._runtime = pc, runtime
        self._mats, self._ups = _matrices(pc) if mpi.size == 1 else ([], [])
        self._key = self._identity(self._mats, self._ups)
        sizes = [mat.getLocalSize()[0] for mat in self._mats] or [pc.getOperators()[1].getLocalSize()[0]]
        vectors = [Vectors(runtime, size, mpi, single=single) for size in sizes]
        ctype = C_TYPES[vectors[0].dtype.name]
        make = partial(SparseMatrix, runtime, source_type=ctype, target_type=ctype, value_type=ctype)
        self.levels: list[Level] = []
        self.restrict: list[Bind] = []
        self.prolong: list[Bind] = []
        self._matrices = [make(_entries(mat)) for mat in self._mats[:-1]]
        for its, mat, matrix, interpolation in zip(vectors, self._mats, self._matrices, self._ups, strict=False):
            size = mat.getBlockSize()
            self.levels.append(make_level(its, Operator(matrix.multiply, bind=_bind(matrix)), _diagonal(matrix, size), size, 0))
            restriction = interpolation.transpose(PETSc.Mat())
            self.restrict.append(_bind(make(_entries(restriction))))
            self.prolong.append(_bind(make(_entries(interpolation))))
            restriction.destroy()
        self.coarsest = vectors[-1]
        self._coarsest = pc.getMGCoarseSolve() if self._mats and pc.getType() in _MULTIGRID else None
        self._apply = pc.apply if self._coarsest is None else self._coarsest.solve
        self._given, self._found = (self._mats[-1] if self._mats else pc.getOperators()[1]).createVecs()
        self._inverse: SparseMatrix | None = None
        linear = self._coarsest is None or self._coarsest.getType() == PETSc.KSP.Type.PREONLY
        if self._mats and sizes[-1] <= _DENSE and linear:
            self._inverse = make(_full(self._dense_inverse()))
        self.solve: Bind = self._by_host if self._inverse is None else _bind(self._inverse)

    def update(self) -> bool:
        """Takes the numbers of matrices over after another set-up, where interpolations and places of entries are those of before.

        Returns:
            Whether they are; else levels must be made anew.
        """
        if not self._mats:
            return True
        mats, ups = _matrices(self._pc)
        if self._identity(mats, ups) != self._key:
            return False
        for mat, matrix in zip(mats, self._matrices, strict=False):
            with petsc_c.read_seqaij(mat, matrix.num_entries) as values:
                matrix.set_values(values)
        if self._inverse is not None:
            self._inverse.set_values(self._dense_inverse().ravel())
        return True

    def _identity(self, mats: list[PETSc.Mat], ups: list[PETSc.Mat]) -> Any:
        """What tells whether these matrices have the same places of entries as others that are still held."""
        handles = [(mat.handle, mat.getType(), int(mat.getInfo()["nz_used"])) for mat in mats]
        return handles, [(up.handle, up.stateGet()) for up in ups]

    def _dense_inverse(self) -> npt.NDArray[np.float64]:
        """The inverse of the coarsest matrix, as PETSc's solver makes it; of a singular one the pseudo-inverse."""
        size, matrix = self.coarsest.num_owned, self._mats[-1]
        inverse = np.empty((size, size))
        for column in range(size):
            self._given.set(0.0)
            self._given.array_w[column] = 1.0
            self._apply(self._given, self._found)
            inverse[:, column] = self._found.array_r
        largest = np.abs(_entries(matrix).values).max(initial=0.0) * np.abs(inverse).max(initial=0.0)
        if np.isfinite(largest) and largest < _SINGULAR:
            return inverse
        # Imported here: a tenth of a second, for levels that few solves have.
        from scipy.linalg import pinvh

        numbers = np.arange(size, dtype=np.int32)
        return np.asarray(pinvh(matrix.getValues(numbers, numbers), rtol=1 / _SINGULAR))

    def _by_host(self, b: Any, x: Any) -> Calls:
        """The coarsest level by PETSc, on vectors in double precision."""
        runtime, vectors = self._runtime, self.coarsest
        if vectors.dtype == np.float64:
            return [partial(store, runtime, b, self._given), self._apply_host, partial(load, runtime, self._found, x)]
        given, found = (runtime.empty(8 * vectors.num_owned) for _ in range(2))
        before = vectors.kernel("give", None, b, given, file=FILE)
        after = vectors.kernel("take", None, found, x, file=FILE)
        own = partial(store, runtime, given, self._given), self._apply_host, partial(load, runtime, self._found, found)
        return [before, *own, after]

    def _apply_host(self) -> None:
        self._apply(self._given, self._found)


def _bind(matrix: SparseMatrix) -> Bind:
    return lambda x, y: [matrix.bind(x, y)]


def _diagonal(matrix: SparseMatrix, size: int) -> Diagonal:
    return lambda out, shift: matrix.diagonal(out, size, shift)


def _matrices(pc: PETSc.PC) -> tuple[list[PETSc.Mat], list[PETSc.Mat]]:
    """Operators and interpolations of a multigrid PC, the finest first; of a direct solver its operator; else none."""
    if pc.getType() in _DIRECT:
        return [pc.getOperators()[1]], []
    if pc.getType() not in _MULTIGRID or pc.getMGLevels() < 2:
        return [], []
    numbers = list(reversed(range(pc.getMGLevels())))
    mats = [pc.getMGSmoother(number).getOperators()[1] for number in numbers]
    return mats, [pc.getMGInterpolation(number) for number in numbers[:-1]]


def _full(matrix: npt.NDArray[np.float64]) -> Entries:
    """A matrix with all of its entries, zeros among them."""
    rows, columns = (np.arange(size, dtype=np.int32) for size in matrix.shape)
    return Entries(np.arange(len(rows) + 1, dtype=np.int32) * np.int32(len(columns)), np.tile(columns, len(rows)), matrix.ravel())


def _entries(mat: PETSc.Mat) -> Entries:
    return Entries(*mat.getValuesCSR())
