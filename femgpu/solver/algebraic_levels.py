"""The levels of PETSc's algebraic multigrid, taken over onto the devices of all ranks."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt
from mpi4py import MPI
from petsc4py import PETSc

from femgpu.errors import collective
from femgpu.krylov import Operator, Vectors
from femgpu.multigrid import FILE, Bind, Calls, Diagonal, Entries, Level, MakeLevel
from femgpu.petsc_aij import aij_parts
from femgpu.runtime import Runtime
from femgpu.solver.device_vec import load, store
from femgpu.solver.distributed_matrix import DistributedMatrix, Share

# Unknowns of a coarsest level up to which its inverse is made; and what entries of it times those of the matrix come to where it
# counts as singular.
_DENSE, _SINGULAR = 512, 1e8
_MULTIGRID = (PETSc.PC.Type.GAMG, PETSc.PC.Type.MG)
_DIRECT = (PETSc.PC.Type.SVD, PETSc.PC.Type.LU, PETSc.PC.Type.CHOLESKY)
_AIJ = (PETSc.Mat.Type.SEQAIJ, PETSc.Mat.Type.MPIAIJ)


class AlgebraicLevels:
    """What a cycle goes through from the matrix of a PC on; of a PC that is no multigrid that matrix alone; collective.

    Ranks have the rows that PETSc gave them, on coarse levels some have none.

    Args:
        pc: that was set up: GAMG or MG, whose matrices are AIJ, or any other. Small inverses of direct solvers are taken over, too.
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
        self._pc, self._runtime, self._mpi = pc, runtime, pc.comm.tompi4py()
        self._mats, self._ups = _matrices(pc)
        self._key = self._identity(self._mats, self._ups)
        mats = self._mats or [pc.getOperators()[1]]
        vectors = [Vectors(runtime, mat.getLocalSize()[0], self._mpi, single=single) for mat in mats]
        self.coarsest = vectors[-1]
        make = partial(DistributedMatrix, runtime, self._mpi, dtype=self.coarsest.dtype)
        self.levels: list[Level] = []
        self.restrict: list[Bind] = []
        self.prolong: list[Bind] = []
        self._matrices: list[DistributedMatrix] = []
        for its, coarser, mat, interpolation in zip(vectors, vectors[1:], mats, self._ups, strict=False):
            with aij_parts(mat) as entries, aij_parts(interpolation) as up:
                share, prolong = self._share(mat, entries), self._share(interpolation, up)
                with collective(self._mpi):
                    matrix = make(share)
                    self.prolong.append(make(prolong).bind)
                    self.restrict.append(make(prolong.transposed(coarser.num_owned)).bind)
                    product, size = Operator(matrix.multiply, bind=matrix.bind), mat.getBlockSize()
                    self.levels.append(make_level(its, product, _diagonal(matrix, size), size, mat.getOwnershipRange()[0]))
                    self._matrices.append(matrix)
        self._coarsest = pc.getMGCoarseSolve() if self._mats and pc.getType() in _MULTIGRID else None
        self._apply = pc.apply if self._coarsest is None else self._coarsest.solve
        self._given, self._found = mats[-1].createVecs()
        self._inverse: DistributedMatrix | None = None
        linear = self._coarsest is None or self._coarsest.getType() == PETSc.KSP.Type.PREONLY
        if self._mats and mats[-1].getSize()[0] <= _DENSE and linear:
            share = self._share(mats[-1], self._dense_inverse())
            with collective(self._mpi):
                self._inverse = make(share)
        self.solve: Bind = self._by_host if self._inverse is None else self._inverse.bind

    @property
    def named(self) -> list[tuple[str, int, Level]]:
        """Name and dofs of each of `levels`."""
        return [("matrix", mat.getSize()[0], level) for mat, level in zip(self._mats, self.levels, strict=False)]

    def update(self) -> bool:
        """Takes the numbers of matrices over after another set-up, where interpolations and places of entries are those of before.

        Returns:
            Whether they are; else levels must be made anew, and these hold nothing of PETSc's any more.
        """
        if not self._mats:
            return True
        mats, ups = _matrices(self._pc)
        if not self._mpi.allreduce(self._identity(mats, ups) == self._key, op=MPI.LAND):
            # On several ranks PETSc would keep what Python lets go of until somebody asks.
            for held in (*self._mats, *self._ups, self._given, self._found):
                held.destroy()
            return False
        for mat, matrix in zip(mats, self._matrices, strict=False):
            with aij_parts(mat) as (own, others, _):
                matrix.set_values(own.values, others.values)
        if self._inverse is not None:
            self._inverse.set_values(*(part.values for part in self._dense_inverse()[:2]))
        return True

    def _identity(self, mats: list[PETSc.Mat], ups: list[PETSc.Mat]) -> Any:
        """What tells whether these matrices have the same places of entries as others that are still held."""
        local = PETSc.Mat.InfoType.LOCAL
        handles = [(mat.handle, mat.getType(), int(mat.getInfo(local)["nz_used"])) for mat in mats]
        return handles, [(up.handle, up.stateGet()) for up in ups]

    def _share(self, mat: PETSc.Mat, parts: Any) -> Share:
        """The share of a matrix whose ranks have the columns that they have of `mat`, and the parts of `aij_parts`; collective."""
        own, others, ghosts = parts
        return Share.by_rows(self._mpi, mat.getOwnershipRangesColumn(), Entries(*own), Entries(*others), ghosts)

    def _dense_inverse(self) -> tuple[Entries, Entries, npt.NDArray[np.int32]]:
        """The inverse of the coarsest matrix, as PETSc's solver makes it; of a singular one the pseudo-inverse; as `aij_parts`."""
        matrix, mpi = self._mats[-1], self._mpi
        (first, last), count = matrix.getOwnershipRange(), matrix.getSize()[0]
        numbers, rows = np.arange(count, dtype=np.int32), np.zeros((last - first, count))
        inverse = np.empty_like(rows)
        for column in range(count):
            self._given.setArray((numbers[first:last] == column).astype(float))
            self._apply(self._given, self._found)
            inverse[:, column] = self._found.array_r
        starts, columns, values = matrix.getValuesCSR()
        rows[np.repeat(np.arange(last - first), np.diff(starts)), columns] = values
        # What is not finite must not get lost among the ranks.
        largest = [np.nan_to_num(np.abs(part).max(initial=0.0), nan=np.inf) for part in (rows, inverse)]
        if not np.prod([mpi.allreduce(size, op=MPI.MAX) for size in largest]) < _SINGULAR:
            # Imported here: a tenth of a second, for levels that few solves have.
            from scipy.linalg import pinvh

            inverse = np.asarray(pinvh(np.concatenate(mpi.allgather(rows)), rtol=1 / _SINGULAR))[first:last]
        # A rank without rows wants nothing.
        away = (numbers < first) | (numbers >= last) if last > first else np.zeros(count, bool)
        return _full(inverse[:, first:last]), _full(inverse[:, away]), numbers[away]

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


def _diagonal(matrix: DistributedMatrix, size: int) -> Diagonal:
    return lambda out, shift: matrix.diagonal(out, size, shift)


def _matrices(pc: PETSc.PC) -> tuple[list[PETSc.Mat], list[PETSc.Mat]]:
    """Operators and interpolations of a multigrid PC, the finest first; of a direct solver its operator; none that are not AIJ."""
    mats, ups = list[PETSc.Mat](), list[PETSc.Mat]()
    if pc.getType() in _DIRECT:
        mats = [pc.getOperators()[1]]
    elif pc.getType() in _MULTIGRID and pc.getMGLevels() > 1:
        numbers = list(reversed(range(pc.getMGLevels())))
        mats = [pc.getMGSmoother(number).getOperators()[1] for number in numbers]
        ups = [pc.getMGInterpolation(number) for number in numbers[:-1]]
    return (mats, ups) if all(mat.getType() in _AIJ for mat in mats + ups) else ([], [])


def _full(matrix: npt.NDArray[np.float64]) -> Entries:
    """A matrix with all of its entries, zeros among them."""
    rows, columns = (np.arange(size, dtype=np.int32) for size in matrix.shape)
    return Entries(np.arange(len(rows) + 1, dtype=np.int32) * np.int32(len(columns)), np.tile(columns, len(rows)), matrix.ravel())
