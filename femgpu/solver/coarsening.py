"""The same problem in a space of lower degree on the same mesh, and the transfers between the two."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy.sparse import csr_array, diags_array

from femgpu.errors import collective
from femgpu.forms import Form, Integral
from femgpu.krylov import Vectors
from femgpu.multigrid import SparseMatrix
from femgpu.operators.arrays import scalar_type
from femgpu.solver.global_operator import GlobalOperator
from femgpu.solver.transfer import BoundaryRows
from femgpu.spaces import FunctionSpace, MixedSpace, Space, embedding


def coarse_space(space: Space, degree: int) -> Space:
    """The space of continuous Lagrange fields of another degree, with the same names and components; collective."""
    spaces = {field.name: FunctionSpace(space.dm, "Lagrange", degree, field.shape) for field in space.fields}
    return MixedSpace(spaces) if isinstance(space, MixedSpace) else next(iter(spaces.values()))


class CoarseOperator:
    """The Jacobian of a finer problem on functions of lower degree, at the state of the finer one.

    Its pointwise functions are those of the finer form, its state and coefficients are read from the finer fields, its rules
    integrate as much less as the degrees of test function and direction are lower: for constant coefficients on affine cells it is
    the Galerkin product. Prescribed are the dofs whose basis functions do not vanish on what is prescribed in the finer space.

    Args:
        finer: the finer problem.
        degree: of the coarse space.

    Attributes:
        space: the coarse space.
        operator: the operators in it.
        vectors: kernels and lengths of its T-vectors.
    """

    def __init__(self, finer: GlobalOperator, degree: int):
        fine, runtime, settings = finer.local.space, finer.local.runtime, finer.local.settings
        self._finer = finer
        self.space = coarse_space(fine, degree)
        between = embedding(self.space, fine)
        rows = BoundaryRows(self.space, None, self._prescribed(between, finer.rows.mask()))
        form = coarse_form(finer.local.form, self.space)
        self.operator = GlobalOperator(form, rows, settings, runtime, scale=1.0)
        local = self.operator.local
        # Levels of multigrid are smoothed by actions, but for the last, which is assembled.
        local.build_ahead(("diagonal", "action") if degree > 1 else (local.assembly_target,))
        self.vectors = Vectors(runtime, self.space.numbering.num_owned, self.space.mesh.mpi)
        with collective(self.space.mesh.mpi):
            self._make_transfers(between, finer, rows)
        # Before the state is shared: what this one uploads for the first time is not the finer one's to see.
        local.update()
        local.read_state_of(finer.local)

    def update(self) -> None:
        """Follows the finer problem to its state; collective."""
        self.operator.local.update()
        self.operator.local.base_changed()
        self.operator.transfer.scale = self._finer.transfer.scale
        self.operator.linearised = True

    def restrict(self, fine: Any, coarse: Any) -> None:
        """Coarse = transposed prolongation of fine, both T-vectors; zero on prescribed dofs."""
        transfer = self.operator.transfer
        if self._direct:
            self._down.multiply(fine, coarse)
        else:
            self._down.multiply(fine, self._local)
            transfer.to_global(self._local, coarse)

    def prolong(self, coarse: Any, fine: Any) -> None:
        """Adds the coarse function, its prescribed dofs taken for zero, to the fine one; both T-vectors."""
        if self._direct:
            self._up.add(coarse, fine)
        else:
            self.operator.transfer.to_local(coarse, self._local)
            self._up.add(self._local, fine)

    def _prescribed(self, between: csr_array, mask: npt.NDArray[np.uint8]) -> npt.NDArray[np.int32]:
        """Positions of the coarse dofs that are prescribed, the same on all ranks."""
        marks = np.zeros(between.shape[1])
        marks[between[np.flatnonzero(mask)].indices] = 1
        dm = self.space.dm
        local, owned = dm.createLocalVec(), dm.createGlobalVec()
        local.setArray(marks)
        dm.localToGlobal(local, owned, addv=True)
        dm.globalToLocal(owned, local)
        found = np.flatnonzero(local.array_r).astype(np.int32)
        local.destroy()
        owned.destroy()
        return found

    def _make_transfers(self, between: csr_array, finer: GlobalOperator, rows: BoundaryRows) -> None:
        runtime, transfer = finer.local.runtime, self.operator.transfer
        kind = "float" if scalar_type(finer.local.settings.precision) == np.float32 else "double"
        owned = finer.local.space.numbering.local_of_owned
        free_rows, free_columns = (1.0 - array for array in (finer.rows.mask()[owned], rows.mask()))
        up = csr_array(diags_array(free_rows) @ between[owned] @ diags_array(free_columns))
        up.eliminate_zeros()
        self._up = SparseMatrix(runtime, up, kind, "double")
        self._down = SparseMatrix(runtime, csr_array(up.T), "double", kind)
        self._direct = transfer.same and transfer.halo is None
        self._local = None if self._direct else runtime.empty(self.operator.local.vector_bytes)


def coarse_form(form: Form, space: Space) -> Form:
    """The form with test function and direction in a coarser space; u stays what it was."""
    less = 2 * (form.space.degree - space.degree)
    return replace(form, space=space, integrals=tuple(_coarser(integral, less) for integral in form.integrals))


def _coarser(integral: Integral, less: int) -> Integral:
    """The integral by a rule of lower degree; PETSc's own points, without a degree, go with the space."""
    return integral if integral.degree is None else replace(integral, degree=max(integral.degree - less, 0))
