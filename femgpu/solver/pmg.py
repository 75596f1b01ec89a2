"""PETSc's python type of p-multigrid on the device.

-pc_type python -pc_python_type femgpu.PMG
"""

from __future__ import annotations

from typing import Any

from petsc4py import PETSc

from femgpu import multigrid
from femgpu.errors import DataError, FormError, OptionError, SolverError
from femgpu.kernels import entry_kernels
from femgpu.krylov import Operator, Vectors, programs
from femgpu.mesh.garbage import keep_aside
from femgpu.multigrid import Cycle, Level
from femgpu.runtime import Device
from femgpu.solver.ahead import Ahead
from femgpu.solver.algebraic_levels import AlgebraicLevels, take_over
from femgpu.solver.chebyshev_type import noise
from femgpu.solver.coarsening import CoarseOperator
from femgpu.solver.device_preconditioner import operator_of
from femgpu.solver.device_vec import load, store
from femgpu.solver.global_operator import GlobalOperator
from femgpu.solver.matrix import AssembledJacobian
from femgpu.spaces import embedding

_KINDS = ("first", "fourth")


class PMG(Ahead):
    """Multigrid over the degree of the elements: a V-cycle from the space of the form down to degree 1.

    Each level has its own kernels of the same form and is smoothed by Chebyshev's iteration over its diagonal; all its vectors are
    device buffers. The Jacobian at degree 1 is assembled on the device and handed to an inner PC of PETSc's, GAMG unless options
    with the prefix `pmg_coarse_` say otherwise. On one rank GAMG's matrices and interpolations are taken over onto the device, and
    smoothed there as the other levels are; only its coarsest level works on host vectors, as all other inner PCs do.

    | option | default | |
    |---|---|---|
    | -pc_femgpu_pmg_degrees | half of each, to 1 | degrees of the levels below the form's own: `2,1` |
    | -pc_femgpu_pmg_steps | 3 | products with the operator before and after each coarse correction |
    | -pc_femgpu_pmg_kind | fourth | Chebyshev's polynomials, of the first or the fourth kind |
    | -pc_femgpu_pmg_esteig_steps | 10 | products with the operator to estimate a level's largest eigenvalue |
    | -pmg_coarse_pc_type | gamg | and all other options of the inner PC |

    Attributes:
        inner: the PC of the coarsest level; None before the first set-up.
    """

    def __init__(self) -> None:
        self.inner: PETSc.PC | None = None
        self._degrees: tuple[int, ...] = ()
        self._steps, self._fourth, self._estimate = 3, True, 10
        self._let_go()

    def setFromOptions(self, pc: PETSc.PC) -> None:  # noqa: N802
        """Reads the options above.

        Raises:
            OptionError: for degrees that do not decrease to 1, steps below 1, and unknown kinds.
        """
        prefix = pc.getOptionsPrefix() or ""
        options = PETSc.Options(f"{prefix}pc_femgpu_pmg_")
        degrees = tuple(map(int, options.getIntArray("degrees", [])))
        if degrees and (degrees[-1] != 1 or any(a <= b for a, b in zip(degrees, degrees[1:], strict=False))):
            given = ",".join(map(str, degrees))
            raise OptionError(f"-{prefix}pc_femgpu_pmg_degrees {given}: expected degrees that decrease to 1, such as 4,2,1")
        self._degrees = degrees
        self._steps = _positive(options, prefix, "steps", self._steps)
        self._estimate = _positive(options, prefix, "esteig_steps", self._estimate)
        kind = options.getString("kind", _KINDS[self._fourth])
        if kind not in _KINDS:
            raise OptionError(f"-{prefix}pc_femgpu_pmg_kind {kind}: expected one of {', '.join(_KINDS)}")
        self._fourth = kind == "fourth"

    def setUp(self, pc: PETSc.PC) -> None:  # noqa: N802
        """Makes the levels at the first time, and takes them to the state of the matrix; collective.

        Raises:
            DataError: for a matrix that is no matrix-free Jacobian of femgpu's.
            FormError: for fields of several degrees, and those that are not continuous.
            OptionError: for degrees that do not begin below that of the space.
            SolverError: where a level's operator has numbers that are not finite.
        """
        mats = reversed(pc.getOperators())
        mat, operator = next(((mat, operator) for mat in mats if (operator := operator_of(mat))), (None, None))
        if operator is None:
            raise DataError(
                "femgpu.PMG needs the matrix-free Jacobian of a NonlinearProblem, or a matrix of type femgpu.FormMatrix; take "
                "-femgpu_jacobian matfree, or another -pc_type"
            )
        self.prepare(pc, mat, operator)
        self._update()

    def programs(self, pc: PETSc.PC, device: Device) -> list[tuple[str, str]]:
        """Those of the levels, of the transfers in double precision, and of the coarsest level's matrix."""
        entries = entry_kernels("ushort"), "merge_lists"
        return [*programs(device, Level.files), *multigrid.programs(device, [("double", "double")]), entries]

    def prepare(self, pc: PETSc.PC, mat: PETSc.Mat, operator: GlobalOperator) -> None:
        """Makes the levels where they are not those there are; raises as `setUp`."""
        if operator is not self._operator or operator.local.bends != self._bends:
            self._let_go()
            self._create(pc, mat, operator)

    def apply(self, pc: PETSc.PC, x: PETSc.Vec, y: PETSc.Vec) -> None:
        """Y = one cycle for x."""
        assert self._operator is not None
        load(self._operator.local.runtime, x, self._given)
        self._cycle.apply(self._given, self._found)
        store(self._operator.local.runtime, self._found, y)

    def apply_buffers(self, pc: PETSc.PC, r: Any, z: Any) -> None:
        """Z = one cycle for r, device buffers."""
        self._cycle.apply(r, z)

    def view(self, pc: PETSc.PC, viewer: PETSc.Viewer) -> None:
        """Prints the levels and the inner PC."""
        if viewer.getType() != PETSc.Viewer.Type.ASCII or self.inner is None:
            return
        kind = f"Chebyshev of the {_KINDS[self._fourth]} kind over the diagonal, {self._steps} products before and after"
        viewer.printfASCII(f"  femgpu.PMG, {len(self._operators)} levels, {kind}\n")
        for operator, level in zip(self._operators, self._levels, strict=False):
            space = operator.local.space
            viewer.printfASCII(f"    degree {space.degree}: {space.num_dofs} dofs, largest eigenvalue {level.largest:.4g}\n")
        space = self._operators[-1].local.space
        assert self._below is not None
        for level in self._below.levels:
            viewer.printfASCII(f"    matrix of {level.vectors.num_owned} dofs, largest eigenvalue {level.largest:.4g}\n")
        viewer.printfASCII(f"    degree {space.degree}: {space.num_dofs} dofs, assembled, by\n")
        viewer.pushASCIITab()
        self.inner.view(viewer)
        viewer.popASCIITab()

    def destroy(self, pc: PETSc.PC) -> None:
        """Lets levels and inner PC go."""
        self._let_go()

    def _let_go(self) -> None:
        if self.inner is not None:
            self.inner.destroy()
            self._assembled.mat.destroy()
            keep_aside((self._operator, self._coarse, self._assembled, self._below))
        self.inner, self._bends = None, -1
        self._operator: GlobalOperator | None = None
        self._coarse: list[CoarseOperator] = []
        self._levels: list[Level] = []
        self._assembled: Any = None
        self._cycle: Any = None
        self._below: AlgebraicLevels | None = None
        self._given = self._found = None

    @property
    def _operators(self) -> list[GlobalOperator]:
        """Of all levels, the finest first."""
        assert self._operator is not None
        return [self._operator, *(coarse.operator for coarse in self._coarse)]

    def _create(self, pc: PETSc.PC, mat: PETSc.Mat, operator: GlobalOperator) -> None:
        space, prefix = operator.local.space, pc.getOptionsPrefix() or ""
        if not all(field.continuous and field.degree == space.degree for field in space.fields):
            raise FormError(
                f"femgpu.PMG on {space}: it takes continuous fields of one degree; take another -{prefix}pc_type (fieldsplit, say)"
            )
        degrees = self._degrees or _halves(space.degree)
        if degrees and degrees[0] >= space.degree:
            if degrees != (1,):
                raise OptionError(
                    f"-{prefix}pc_femgpu_pmg_degrees {','.join(map(str, degrees))}: the form's space has degree {space.degree}; "
                    "expected lower ones"
                )
            degrees = ()
        self._operator, self._bends, finer = operator, operator.local.bends, operator
        for degree in degrees:
            self._coarse.append(CoarseOperator(finer, degree))
            finer = self._coarse[-1].operator
        vectors = [
            Vectors(operator.local.runtime, space.numbering.num_owned, space.mesh.mpi),
            *(coarse.vectors for coarse in self._coarse),
        ]
        for level, its in zip(self._operators[:-1], vectors, strict=False):
            first = level.local.space.numbering.first
            self._levels.append(self._level(its, Operator(level.device.action), noise(first, first + its.num_owned)))
        self._create_inner(pc, mat.getNearNullSpace(), prefix + "pmg_coarse_")
        self._given, self._found = vectors[0].empty(), vectors[0].empty()

    def _level(self, vectors: Vectors, operator: Operator, rough: Any) -> Level:
        return Level(vectors, operator, self._steps, self._fourth, rough, self._estimate)

    def _create_inner(self, pc: PETSc.PC, near: PETSc.NullSpace, prefix: str) -> None:
        coarsest = self._operators[-1]
        self._assembled = AssembledJacobian(coarsest, coarsest.local.space.dm.createGlobalVec())
        mat = self._assembled.mat
        mat.setOptionsPrefix(prefix)
        if near.handle:
            mat.setNearNullSpace(self._restricted(near))
        self.inner = PETSc.PC().create(comm=pc.comm)
        self.inner.incrementTabLevel(1, parent=pc)
        self.inner.setOptionsPrefix(prefix)
        self.inner.setOperators(mat, mat)
        self.inner.setType(PETSc.PC.Type.GAMG)
        self.inner.setFromOptions()

    def _restricted(self, near: PETSc.NullSpace) -> PETSc.NullSpace:
        """The near-null space on the coarsest level: what its vectors are at the nodes there."""
        fine, coarse = self._operators[0].local.space, self._operators[-1].local.space
        between, owned = embedding(fine, coarse), coarse.numbering.local_of_owned
        vecs = []
        for mode in near.getVecs():
            local = fine.dm.getLocalVec()
            fine.dm.globalToLocal(mode, local)
            vecs.append(coarse.dm.createGlobalVec())
            vecs[-1].setArray((between @ local.array_r)[owned])
            fine.dm.restoreLocalVec(local)
        return PETSc.NullSpace().create(constant=near.hasConstant(), vectors=vecs, comm=near.comm)

    def _update(self) -> None:
        assert self.inner is not None
        for coarse in self._coarse:
            coarse.update()
        for operator, level in zip(self._operators, self._levels, strict=False):
            operator.device.diagonal(level.diagonal)
        self._assembled.fill()
        self.inner.setUp()
        below = take_over(self.inner, self._operators[0].local.runtime, self._level)
        levels = self._levels + below.levels
        for number, level in enumerate(levels):
            if wrong := level.update():
                raise SolverError(
                    f"femgpu.PMG: the operator of level {number}, counted from the finest, has no largest eigenvalue ({wrong}); "
                    "look whether state and coefficients are finite, and whether its diagonal is positive"
                )
        restrict = [*(coarse.restrict for coarse in self._coarse), *below.restrict]
        prolong = [*(coarse.prolong for coarse in self._coarse), *below.prolong]
        self._cycle = Cycle(levels, restrict, prolong, below.solve, below.coarsest)
        self._below = below


def _halves(degree: int) -> tuple[int, ...]:
    """Degrees of the levels below one: p/2, p/4, ..., 1."""
    return () if degree == 1 else (degree // 2, *_halves(degree // 2))


def _positive(options: PETSc.Options, prefix: str, name: str, default: int) -> int:
    value = options.getInt(name, default)
    if value < 1:
        raise OptionError(f"-{prefix}pc_femgpu_pmg_{name} {value}: expected an integer of at least 1")
    return value
