"""Levels of multigrid on the meshes that a problem's mesh refines: linear functions, Galerkin operators, all on the device."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt
from petsc4py import PETSc

from femgpu.errors import MeshError, collective
from femgpu.forms import Form
from femgpu.krylov import Operator, Vectors
from femgpu.krylov.vectors import C_TYPES
from femgpu.multigrid import FILE, Bind, Calls, Level, MakeLevel, Rows, SparseMatrix
from femgpu.operators import Assembly, CoarseMatrices, Columns, Groups, MatrixSource, Nesting, Shown, couples_displacements
from femgpu.operators.ways import scatter_mode
from femgpu.solver.coarsening import coarse_space, restricted
from femgpu.solver.global_operator import GlobalOperator
from femgpu.solver.level_transfer import LevelTransfer, prescribed
from femgpu.solver.transfer import BoundaryRows, Transfer
from femgpu.spaces import FunctionSpace, NestedCells, Space, injection, nested, refined, rigid_body_modes

# Spaces of coarser and coarser meshes, each with its functions in the one before.
Ladder = list[tuple[Space, list[NestedCells]]]


def ladder(space: Space, form: Form | None = None) -> tuple[Ladder, str]:
    """The spaces on the meshes that a space's mesh refines, the finest first; collective.

    Args:
        space: of degree 1.
        form: whose matrices are wanted there; None: it does not matter.

    Returns:
        The spaces, as many as serve, and why there are no more where the mesh refines another one; else nothing.
    """
    found: Ladder = []
    if form is not None and any(integral.sides == 2 for integral in form.integrals):
        return found, "matrices of facets between two cells are no sums over a coarser cell's children"
    try:
        while (mesh := space.mesh.coarser) is not None:
            coarse = coarse_space(space, 1, mesh.clone_dm())
            between = refined(coarse, space)
            if between is None:
                return found, "the cells of a rank are not the children of those of the coarser mesh, in their order"
            found.append((coarse, between))
            space = coarse
    except MeshError as error:
        return found, f"the coarser mesh is not supported ({error})"
    return found, ""


def injections(fine: Space, linear: Space, steps: Ladder) -> npt.NDArray[np.int32]:
    """Where the nodes of the coarsest mesh stand in the L-vector of a space.

    Args:
        fine: the space.
        linear: the one of degree 1 on the same mesh.
        steps: what `ladder` made of that.
    """
    found = injection(nested(linear, fine), linear.num_local)
    for coarse, between in steps:
        found = found[injection(between, coarse.num_local)]
    return found


def near_nullspace(near: PETSc.NullSpace, fine: Space, form: Form, steps: Ladder) -> PETSc.NullSpace | None:
    """That of the coarsest matrix: a given one, else rigid-body modes where components of a displacement couple; collective.

    Args:
        near: the given one, on the finest level; without a handle: none.
        fine: the space of that level.
        form: that of degree 1 on the same mesh.
        steps: what `ladder` made of its space.
    """
    lowest = steps[-1][0] if steps else form.space
    if near.handle:
        return restricted(near, fine, lowest, injections(fine, form.space, steps))
    return rigid_body_modes(lowest) if couples_displacements(form) and isinstance(lowest, FunctionSpace) else None


class SparseLevel:
    """An operator on linear functions as a sparse matrix between this rank's L-vectors, on the device.

    Args:
        source: the element matrices.
        rows: what is prescribed.
        single: whether vectors and matrix are in single precision.

    Attributes:
        space: of the functions.
        rows: what is prescribed.
        vectors: kernels and lengths.
        exchange: between T- and L-vectors.
        operator: what a level multiplies with.
    """

    def __init__(self, source: MatrixSource, rows: BoundaryRows, single: bool):
        self.rows, self.space = rows, rows.space
        runtime, mpi, count = source.runtime, self.space.mesh.mpi, self.space.num_local
        self.vectors = Vectors(runtime, self.space.numbering.num_owned, mpi, single=single)
        ctype, num_bytes = C_TYPES[self.vectors.dtype.name], self.vectors.dtype.itemsize * count
        source.prepare("matrix")
        # Sums of element matrices read them, and what is made on the way does.
        self._offsets = [runtime.upload_once(offsets) for field in self.space.fields for offsets in field.offsets]
        with collective(mpi):
            self.exchange = Transfer(self.space, rows, "single" if single else "double", runtime, single)
            self._direct = self.exchange.same and self.exchange.halo is None
            free = rows.mask() == 0
            columns = Columns(0, count, np.empty(0, np.int64), np.where(free, np.arange(count), -1).astype(np.int32))
            self._assembly = Assembly(source, Groups(self.space.storage(False)), columns)
            pattern = self._assembly.pattern
            num_entries = int(pattern.lengths[:, 0].sum())
            starts = runtime.upload(np.append(pattern.starts[:, 0], np.int32(num_entries)))
            self._rows = Rows(count, num_entries, starts, pattern.columns_of_values)
            del pattern.columns_of_values
            self._matrix = SparseMatrix(runtime, self._rows, ctype, ctype, ctype)
            every = Vectors(runtime, num_entries, mpi, single=single)
            self._take = every.kernel("take", None, self._assembly.values, self._matrix.values, file=FILE)
            self._given, self._found = (runtime.empty(0 if self._direct else num_bytes) for _ in range(2))
        self.operator = Operator(self._multiply, bind=self._bind)

    @property
    def entries(self) -> tuple[npt.NDArray[np.int32], npt.NDArray[np.int32]]:
        """Rows and columns of the matrix's entries, positions in the L-vector."""
        num_rows, num_entries, *buffers = self._rows
        sizes = num_rows + 1, num_entries
        starts, columns = (
            self.vectors.runtime.read(buffer, np.empty(size, np.int32)) for buffer, size in zip(buffers, sizes, strict=True)
        )
        return np.repeat(np.arange(len(starts) - 1, dtype=np.int32), np.diff(starts)), columns

    def fill(self, scale: float) -> None:
        """Sums the element matrices; `scale` is the diagonal of prescribed rows."""
        self._assembly.compute(scale)
        self._take()

    def diagonal(self, out: Any, shift: int = 0) -> None:
        """`out` = the diagonal, a T-vector, or what stands `shift` columns further, as of `DeviceOperator`; collective."""
        self._matrix.diagonal(out if self._direct else self._found, self.exchange.block_size, shift)
        if not self._direct:
            self.exchange.to_global(self._found, out)

    def values(self, out: npt.NDArray[np.float64]) -> None:
        """Reads the values of this rank's `entries`, in double precision."""
        if out.size:
            self.vectors.runtime.read(self._assembly.pattern.section(self._assembly.values, 0, 8), out)

    def _multiply(self, x: Any, y: Any) -> None:
        for call in self._bind(x, y):
            call()

    def _bind(self, x: Any, y: Any) -> Calls:
        if self._direct:
            return [self._matrix.bind(x, y)]
        before, after = partial(self.exchange.to_local, x, self._given), partial(self.exchange.to_global, self._found, y)
        return [before, self._matrix.bind(self._given, self._found), after]


class MeshLevels:
    """What a cycle goes through from degree 1 on: the finest mesh and those that it refines, the coarsest a matrix of PETSc's.

    Args:
        bottom: the operators of degree 1 on the finest mesh, whose element matrices are in the problem's precision.
        steps: the spaces on the other meshes, at least one.
        single: whether vectors and matrices of the levels are in single precision.
        make_level: makes those that are smoothed.

    Attributes:
        levels: those that are smoothed, the finest first, all meshes but the coarsest.
        restrict: for each of them, to the next one.
        prolong: for each of them, from the next one.
        meshes: the operators on all meshes.
        mat: the matrix of the coarsest mesh.
    """

    def __init__(self, bottom: GlobalOperator, steps: Ladder, single: bool, make_level: MakeLevel):
        self._bottom = bottom
        self.meshes, self._matrices = list[SparseLevel](), list[CoarseMatrices]()
        self.restrict, self.prolong, self.levels = list[Bind](), list[Bind](), list[Level]()
        shown, rows = Shown(bottom.local), bottom.rows
        atomic = scatter_mode(bottom.local.settings, bottom.local.runtime.device.limits) == "atomic"
        self.meshes.append(SparseLevel(shown, rows, single))
        for space, between in steps:
            finer = self.meshes[-1]
            with collective(space.mesh.mpi):
                nesting = Nesting(bottom.local.runtime, between, space.num_local, finer.space.num_local)
            rows = BoundaryRows(space, None, prescribed(space, nesting, rows.mask()))
            self._matrices.append(CoarseMatrices(shown, space))
            shown.watchers.append(self._matrices[-1].add)
            shown = Shown(self._matrices[-1])
            coarse = SparseLevel(shown, rows, single)
            self.meshes.append(coarse)
            dtype = finer.vectors.dtype
            blocks = finer.diagonal, finer.exchange.block_size
            self.levels.append(make_level(finer.vectors, finer.operator, *blocks, finer.space.numbering.first))
            with collective(space.mesh.mpi):
                transfer = LevelTransfer(nesting, finer.rows, rows, coarse.exchange, dtype, dtype, atomic)
            self.restrict.append(transfer.bind_restrict)
            self.prolong.append(transfer.bind_prolong)
        self.mat = self._create()

    def fill(self) -> None:
        """Takes all matrices on the device to the state of the finest operators; collective."""
        for matrices in self._matrices:
            matrices.clear()
        for mesh in self.meshes:
            mesh.fill(self._bottom.transfer.scale)

    def copy(self) -> None:
        """Takes `mat` to those of the coarsest mesh; collective."""
        self.meshes[-1].values(self._values)
        self.mat.setValuesCOO(self._values, addv=PETSc.InsertMode.INSERT_VALUES)

    @property
    def named(self) -> list[tuple[str, int, Level]]:
        """Name and dofs of each of `levels`."""
        spaces = [mesh.space for mesh in self.meshes]
        return [
            (f"degree 1 on {space.mesh.num_cells_global} cells, sparse", space.num_dofs, level)
            for space, level in zip(spaces, self.levels, strict=False)
        ]

    def _create(self) -> PETSc.Mat:
        """The matrix of the coarsest mesh: the sum of the ranks' shares."""
        coarsest = self.meshes[-1]
        numbering, (rows, columns) = coarsest.space.numbering, coarsest.entries
        numbers = numbering.global_of_local
        given = numbers[rows].astype(PETSc.IntType)
        # Prescribed rows have what their owner says.
        ghosts = np.zeros(len(numbers), bool)
        ghosts[numbering.ghosts] = True
        given[(ghosts & (coarsest.rows.mask() != 0))[rows]] = -1
        self._values = np.zeros(len(rows))
        template = coarsest.space.dm.getGlobalVec()
        mat = PETSc.Mat().create(comm=coarsest.space.comm)
        mat.setSizes((template.getSizes(), template.getSizes()), bsize=template.getBlockSize())
        coarsest.space.dm.restoreGlobalVec(template)
        mat.setType(PETSc.Mat.Type.AIJ)
        mat.setPreallocationCOO(given, numbers[columns].astype(PETSc.IntType))
        return mat
