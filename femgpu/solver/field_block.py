"""The Jacobian of one field of several: the operators of its block, and where its dofs stand among all."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
from mpi4py import MPI
from petsc4py import PETSc

from femgpu.errors import FormError
from femgpu.forms import Form, field_block
from femgpu.solver.coarsening import LevelOperator
from femgpu.solver.global_operator import GlobalOperator
from femgpu.solver.transfer import BoundaryRows
from femgpu.spaces import FunctionSpace, MixedSpace, SubSpace


def places(part: SubSpace, space: FunctionSpace) -> tuple[npt.NDArray[np.int32], npt.NDArray[np.int32]]:
    """Where the dofs of a field stand among those of all fields.

    Args:
        part: the field in the mixed space.
        space: that of the field alone.

    Returns:
        (num_local,) positions in the L-vector of the mixed space, and (num_owned,) in this rank's T-vector.
    """
    found = np.zeros(space.num_local, np.int32)
    for block in range(len(space.mesh.blocks)):
        found[space.field.dofs(block)] = part.field.dofs(block)
    whole, own = part.parent.numbering, space.numbering
    owned = whole.global_of_local[found[own.local_of_owned]] - whole.first
    return found, owned.astype(np.int32)


class FieldBlock(LevelOperator):
    """The block of one field, or what stands for it, at the state of the problem.

    Args:
        source: the operators of all fields.
        form: in the field's own space, see `forms.field_block` and `forms.schur_form`.
        part: the field in the mixed space.
        space: its own space.
        targets: what will be asked of the operators.

    Attributes:
        owned: (num_owned,) positions of the field's dofs in this rank's T-vector of all fields.
        map: the same on the device.
        vectors: kernels and lengths of its T-vectors.
    """

    def __init__(self, source: GlobalOperator, form: Form, part: SubSpace, space: FunctionSpace, targets: tuple[str, ...]):
        local, self.owned = places(part, space)
        prescribed = np.flatnonzero(source.rows.mask()[local]).astype(np.int32)
        rows = BoundaryRows(space, None, prescribed, form.wide)
        super().__init__(source, form, rows, source.local.settings, False, targets)
        self.map = source.local.runtime.upload(self.owned)
        self.update()


def block_of(operator: GlobalOperator, rows: PETSc.IS) -> FieldBlock | None:
    """The block of the field whose dofs are given, None where they are no field's or the block is zero; collective.

    Args:
        operator: of all fields.
        rows: global numbers of dofs, on each rank those that it owns.
    """
    form, space = operator.local.form, operator.local.space
    for field in space.fields if isinstance(space, MixedSpace) else ():
        part = space.sub(field.name)
        own = part.collapse()
        if rows.getSize() != own.num_dofs:
            continue
        mine = places(part, own)[1] + space.numbering.first
        if not space.mesh.mpi.allreduce(np.array_equal(mine, rows.indices), op=MPI.MIN):
            continue
        try:
            found = field_block(form, field, own)
        except FormError:
            return None
        return FieldBlock(operator, found, part, own, ("action", "diagonal")) if found.integrals else None
    return None
