"""A problem's Jacobian on the levels of multigrid: in single precision, in spaces of lower degree, and transfers between them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import numpy.typing as npt
from petsc4py import PETSc

from femgpu.errors import collective
from femgpu.forms import Form, Integral
from femgpu.krylov import Operator, Vectors
from femgpu.multigrid import FILE, Calls, Level, MakeLevel
from femgpu.operators import Nesting, diagonal_target
from femgpu.operators.ways import scatter_mode
from femgpu.options import Settings
from femgpu.solver.global_operator import GlobalOperator
from femgpu.solver.level_transfer import LevelTransfer, prescribed
from femgpu.solver.transfer import BoundaryRows
from femgpu.spaces import FunctionSpace, MixedSpace, Space, nested


def coarse_space(space: Space, degree: int, dm: PETSc.DMPlex) -> Space:
    """The space of continuous Lagrange fields of another degree on a mesh, with the same names and components; collective."""
    spaces = {field.name: FunctionSpace(dm, "Lagrange", degree, field.shape, field.symmetric) for field in space.fields}
    return MixedSpace(spaces) if isinstance(space, MixedSpace) else next(iter(spaces.values()))


def contains_lower_degrees(space: Space) -> bool:
    """Whether spaces of lower degree are part of a space: its fields are continuous, of one degree and family."""
    return all(field.continuous and field.elements == space.fields[0].elements for field in space.fields)


def linear_vector(space: Space) -> PETSc.Vec:
    """A T-vector of a space of degree 1, by itself: for those of its DM PETSc first makes sections of all points of the mesh."""
    numbering, vec = space.numbering, PETSc.Vec().create(comm=space.comm)
    vec.setSizes((numbering.num_owned, space.num_dofs), 1 if numbering.any_constrained else space.num_comp)
    vec.setUp()
    return vec


class LevelOperator:
    """The Jacobian of a problem on a level, at the problem's state.

    State and coefficients are those of the problem: its buffers are read where they have this level's precision.

    Args:
        source: what the state is read of: the problem, or another level.
        form: the form of the level, with the same unknown.
        rows: the prescribed dofs.
        settings: the options, the precision of the kernels among them.
        single: whether vectors of the level are floats.
        targets: what will be asked of the operators, to be built ahead; None: what a level of its degree is for.

    Attributes:
        space: of the level.
        operator: the operators in it.
        vectors: kernels and lengths of its T-vectors.
    """

    def __init__(
        self,
        source: GlobalOperator,
        form: Form,
        rows: BoundaryRows,
        settings: Settings,
        single: bool,
        targets: Sequence[str] | None = None,
    ):
        self.space, self._source = form.space, source
        mpi, runtime = self.space.mesh.mpi, source.local.runtime
        self.operator = GlobalOperator(form, rows, settings, runtime, scale=1.0, single=single)
        self.vectors = Vectors(runtime, self.space.numbering.num_owned, mpi, single=single)
        local, other = self.operator.local, source.local
        local.arrays.share(other.arrays)
        # Levels are smoothed by actions, but for the last, of degree 1, which is assembled.
        local.build_ahead(targets or (("diagonal", "action") if self.space.degree > 1 else (local.assembly_target,)))
        # Before the state is shared: what this one uploads for the first time is not the other one's to see.
        local.update()
        self._casts: Calls = []
        if local.scalar == other.scalar:
            local.read_state_of(other)
            return
        num_state = form.state_space.storage(form.wide).num_local
        vectors = Vectors(runtime, num_state, mpi, single=local.scalar == np.float32)
        for given, own in ((other.base, local.base), (other.inputs.base_rate, local.inputs.base_rate)):
            if own is not None:
                self._casts.append(vectors.kernel("take", None, given, own, file=FILE))

    def update(self) -> None:
        """Follows the problem to its state; collective."""
        self.operator.local.update()
        for cast in self._casts:
            cast()
        self.operator.local.base_changed()
        self.operator.transfer.scale = self._source.transfer.scale
        self.operator.linearised = True

    def agrees(self, tolerance: float) -> bool:
        """Whether the product with noise is that of the source, whose space is the same, up to a relative error; collective."""
        vectors, source, numbering = self.vectors, self._source, self.space.numbering
        runtime, mpi = vectors.runtime, self.space.mesh.mpi
        given, product = (runtime.empty(8 * numbering.num_owned) for _ in range(2))
        own, its = vectors.empty(), vectors.empty()
        vectors.fill_noise(own, numbering.first)
        vectors.kernel("give", None, own, given, file=FILE)()
        source.device.action(given, product)
        self.operator.device.action(own, its)
        sums = vectors.sums(2)
        vectors.kernel("compare", product, its, sums, file=FILE)()
        difference, size = mpi.allreduce(runtime.read(sums, np.zeros((2, vectors.num_groups))).sum(1))
        return bool(difference <= tolerance**2 * size)


def in_single_precision(problem: GlobalOperator) -> LevelOperator:
    """The Jacobian of a problem on vectors in single precision."""
    local = problem.local
    rows = BoundaryRows(local.space, None, problem.rows.of_space, local.form.wide)
    settings = replace(local.settings, precision="single")
    if settings.geometry == "auto":
        # Jacobians of rounded coordinates are good enough for a smoother, and cost neither memory nor the host's time.
        settings = replace(settings, geometry="recomputed")
    return LevelOperator(problem, local.form, rows, settings, True)


def product(operator: GlobalOperator) -> Operator:
    """What a level multiplies with."""
    device = operator.device
    if not device.direct:
        return Operator(device.action)
    return Operator(device.action, None, device.local.mask, device.transfer.scale_buffer, device.bind)


def smoothed(operator: GlobalOperator, vectors: Vectors, make_level: MakeLevel) -> Level:
    """A level that is smoothed, with the Jacobian of a problem on it.

    Args:
        operator: the operators of the level.
        vectors: kernels and lengths of its T-vectors.
        make_level: makes it.
    """
    device, first = operator.device, operator.local.space.numbering.first
    level = make_level(vectors, product(operator), device.diagonal, device.transfer.block_size, first)
    operator.local.build_ahead([diagonal_target(shift) for shift in range(level.size)])
    return level


class CoarseOperator(LevelOperator):
    """The Jacobian of a finer problem on functions of lower degree.

    Its pointwise functions are those of the finer form, its rules integrate as much less as the degrees of test function and
    direction are lower: for constant coefficients on affine cells it is the Galerkin product. Prescribed are the dofs whose basis
    functions do not vanish on what is prescribed in the finer space.

    Args:
        finer: the next finer level, or the problem; coarse vectors have the precision of its own.
        degree: of the coarse space.
        source: what the state is read of, and whose options hold; None: `finer`.
        targets: what is asked of the operators, as `LevelOperator`.

    Attributes:
        transfer: to and from the finer level.
    """

    def __init__(
        self, finer: GlobalOperator, degree: int, source: GlobalOperator | None = None, targets: Sequence[str] | None = None
    ):
        fine, source = finer.local.space, source or finer
        space = coarse_space(fine, degree, fine.dm)
        runtime, settings = source.local.runtime, source.local.settings
        with collective(space.mesh.mpi):
            nesting = Nesting(runtime, nested(space, fine), space.num_local, fine.num_local)
            atomic = scatter_mode(settings, runtime.device.limits) == "atomic"
            nesting.build_ahead("float" if finer.device.single else "double", atomic)
        form = coarse_form(finer.local.form, space)
        rows = BoundaryRows(space, None, prescribed(space, nesting, finer.rows.mask()), form.wide)
        super().__init__(source, form, rows, settings, finer.device.single, targets)
        with collective(space.mesh.mpi):
            its, local = self.operator.transfer, self.operator.local.scalar
            self.transfer = LevelTransfer(nesting, finer.rows, rows, its, self.vectors.dtype, local, atomic)


def restricted(near: PETSc.NullSpace, fine: Space, coarse: Space, places: npt.NDArray[np.int32]) -> PETSc.NullSpace:
    """A near-null space in a coarser space: what its vectors are at the nodes there, whose `places` in the L-vector are given."""
    owned = coarse.numbering.local_of_owned
    vecs = []
    for mode in near.getVecs():
        local = fine.dm.getLocalVec()
        fine.dm.globalToLocal(mode, local)
        vecs.append(linear_vector(coarse))
        vecs[-1].setArray(local.array_r[places[owned]])
        fine.dm.restoreLocalVec(local)
    return PETSc.NullSpace().create(constant=near.hasConstant(), vectors=vecs, comm=near.comm)


def coarse_form(form: Form, space: Space) -> Form:
    """The form with test function and direction in a coarser space; u stays what it was."""
    less = 2 * (form.space.degree - space.degree)
    return replace(form, space=space, integrals=tuple(_coarser(integral, less) for integral in form.integrals))


def _coarser(integral: Integral, less: int) -> Integral:
    """The integral by a rule of lower degree; PETSc's own points, without a degree, go with the space."""
    return integral if integral.degree is None else replace(integral, degree=max(integral.degree - less, 0))
