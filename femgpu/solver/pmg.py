"""PETSc's python type of p-multigrid on the device.

-pc_type python -pc_python_type femgpu.PMG
"""

from __future__ import annotations

from typing import Any

from petsc4py import PETSc

from femgpu import multigrid
from femgpu.errors import DataError, FormError, SolverError, collective
from femgpu.kernels import entry_kernels, list_kernels, nesting_kernels, vector_kernels
from femgpu.krylov import Vectors, programs
from femgpu.mesh.garbage import keep_aside
from femgpu.multigrid import Bind, Cycle, Level
from femgpu.operators import is_definite
from femgpu.runtime import Device
from femgpu.solver.ahead import Ahead
from femgpu.solver.algebraic_levels import AlgebraicLevels
from femgpu.solver.coarsening import (
    CoarseOperator,
    LevelOperator,
    contains_lower_degrees,
    in_single_precision,
    linear_vector,
    smoothed,
)
from femgpu.solver.device_preconditioner import operator_of
from femgpu.solver.device_vec import load, store
from femgpu.solver.global_operator import GlobalOperator
from femgpu.solver.matrix import AssembledJacobian
from femgpu.solver.mesh_levels import Ladder, MeshLevels, ladder, near_nullspace
from femgpu.solver.pmg_options import PMGOptions
from femgpu.solver.zero_guess import ZeroGuess

# Relative difference of the finest level's product in single precision on noise beyond which `auto` stays with double.
_INACCURATE = 1e-3
# How many times as often as after the last estimate of eigenvalues, and how many times more at least, a solve may apply the cycle
# before they are estimated anew.
_SLOWER = 1.25, 2
# Unknowns of a coarsest mesh up to which it is solved exactly, whether or not its matrix is singular.
_SMALL = 150


class PMG(ZeroGuess, Ahead):
    """Multigrid over the degree of the elements and the meshes that were refined: a V-cycle from the form's space down.

    Each level has its own kernels of the same form and is smoothed by Chebyshev's iteration; all its vectors are
    device buffers. Below degree 1 are the meshes that the problem's refines (`-dm_refine`, `femgpu.mesh.refine`), with Galerkin
    operators. The Jacobian at degree 1 on the coarsest mesh is assembled on the device and handed to an inner PC of PETSc's, GAMG
    unless options with the prefix `pmg_coarse_` say otherwise. GAMG's matrices and interpolations are taken over onto the ranks'
    devices, and smoothed there as other levels are, the coarsest becomes its inverse. Large coarsest levels, and other inner PCs,
    work on host vectors.

    | option | default | |
    |---|---|---|
    | -pc_femgpu_pmg_degrees | half of each, nearer on tetrahedra | degrees of the levels below the form's own: `2,1` |
    | -pc_femgpu_pmg_steps | 3 | products with the operator before and after each coarse correction |
    | -pc_femgpu_pmg_kind | fourth | polynomials of the smoothers, Chebyshev's: first, fourth, opt_fourth |
    | -pc_femgpu_pmg_smoother | jacobi | what they are over: jacobi: the diagonal; pbjacobi: blocks of nodes |
    | -pc_femgpu_pmg_precision | auto | of the cycle: single, double; auto: single on GPUs, unless its product is inaccurate |
    | -pc_femgpu_pmg_geometric | auto | levels on coarser meshes: auto: on those that the problem's mesh refines; no |
    | -pc_femgpu_pmg_lag | -1 | set-ups after which what is below degree 1 is renewed; -1: when diagonals or iterations say so |
    | -pc_femgpu_pmg_esteig_steps | 10 | products with the operator to estimate a level's largest eigenvalue |
    | -pmg_coarse_pc_type | gamg | and all other options of the inner PC |

    Attributes:
        inner: the PC of the coarsest level; None before the first set-up.
    """

    def __init__(self) -> None:
        self.inner: PETSc.PC | None = None
        self._options = PMGOptions()
        self._let_go()

    def setFromOptions(self, pc: PETSc.PC) -> None:  # noqa: N802
        """Reads the options above.

        Raises:
            OptionError: for degrees that do not decrease to 1, steps below 1, and unknown kinds.
        """
        self._options = self._options.read(pc)

    def setUp(self, pc: PETSc.PC) -> None:  # noqa: N802
        """Makes the levels at the first time, and takes them to the state of the matrix; collective.

        Raises:
            DataError: for a matrix that is no matrix-free Jacobian of femgpu's.
            FormError: for fields of several degrees or families, and those that are not continuous.
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
        wrong = self._update()
        if wrong and self._single and self._options.precision == "auto":
            self._create(pc, mat, operator, False)
            self._objection, wrong = wrong, self._update()
        if wrong:
            raise SolverError(f"femgpu.PMG: {wrong}; look whether state and coefficients are finite, and the diagonal positive")

    def programs(self, pc: PETSc.PC, device: Device) -> list[tuple[str, str]]:
        """Those of the levels, of transfers and matrices in the cycle's precision, and of the coarsest level's matrix."""
        single = self._options.begins_single(device)
        own = (nesting_kernels(), "claim"), (list_kernels(), "pack_words"), (entry_kernels("ushort"), "merge_lists")
        # In double precision is what is assembled, which takes vectors of levels on several ranks only.
        precisions = ["single", *["double"] * (pc.comm.size > 1)] if single else []
        vectors = [(vector_kernels(precision, "float"), "vectors") for precision in precisions]
        matrices = multigrid.programs(device, [("float" if single else "double",) * 3])
        return [*vectors, *programs(device, Level.files, single), *matrices, *own]

    def prepare(self, pc: PETSc.PC, mat: PETSc.Mat, operator: GlobalOperator) -> None:
        """Makes the levels where they are not those there are; raises as `setUp`."""
        if operator is not self._operator or operator.local.bends != self._bends:
            self._create(pc, mat, operator, self._options.begins_single(operator.local.runtime.device))

    def apply(self, pc: PETSc.PC, x: PETSc.Vec, y: PETSc.Vec) -> None:
        """Y = one cycle for x."""
        assert self._operator is not None
        load(self._operator.local.runtime, x, self._given)
        self.apply_buffers(pc, self._given, self._found)
        store(self._operator.local.runtime, self._found, y)

    def apply_buffers(self, pc: PETSc.PC, r: Any, z: Any) -> None:
        """Z = one cycle for r, device buffers."""
        self._applied += 1
        self._cycle.apply(r, z)

    def view(self, pc: PETSc.PC, viewer: PETSc.Viewer) -> None:
        """Prints the levels and the inner PC."""
        if viewer.getType() != PETSc.Viewer.Type.ASCII or self.inner is None:
            return
        over = "point blocks" if any(level.size > 1 for *_, level in self.levels) else "the diagonal"
        kind = f"Chebyshev of {self._options.kind} kind over {over}, {self._options.steps} products before and after"
        precision = "single" if self._single else "double" + (f" because {self._objection}" if self._objection else "")
        viewer.printfASCII(f"  femgpu.PMG, {len(self._operators)} levels, {kind}, in {precision} precision\n")
        for what, dofs, level in self.levels:
            viewer.printfASCII(f"    {what}: {dofs} dofs, {level.about}\n")
        if self._refusal:
            viewer.printfASCII(f"    no {'more ' * (self._meshes is not None)}levels on coarser meshes: {self._refusal}\n")
        space = self._operators[-1].local.space if self._meshes is None else self._meshes.meshes[-1].space
        viewer.printfASCII(f"    degree {space.degree}: {space.num_dofs} dofs, assembled, by\n")
        viewer.pushASCIITab()
        self.inner.view(viewer)
        viewer.popASCIITab()

    @property
    def levels(self) -> list[tuple[str, int, Level]]:
        """Name and dofs of the levels that are smoothed, from the finest down; empty before the first set-up."""
        spaces = [operator.local.space for operator in self._operators]
        found = [(f"degree {space.degree}", space.num_dofs, level) for space, level in zip(spaces, self._levels, strict=False)]
        return found + [level for part in (self._meshes, self._below) if part is not None for level in part.named]

    def destroy(self, pc: PETSc.PC) -> None:
        """Lets levels and inner PC go."""
        self._let_go()

    def _let_go(self) -> None:
        if self.inner is not None:
            self.inner.destroy()
            assert self._assembled is not None
            self._assembled.mat.destroy()
            keep_aside((self._operator, self._followers, self._assembled, self._meshes, self._below))
        self.inner, self._bends = None, -1
        self._single, self._definite, self._objection, self._refusal = False, False, "", ""
        self._applied, self._reference, self._age = 0, 0, 0
        self._operator: GlobalOperator | None = None
        self._operators: list[GlobalOperator] = []
        self._followers: list[LevelOperator] = []
        self._coarse: list[CoarseOperator] = []
        self._levels: list[Level] = []
        self._assembled: AssembledJacobian | MeshLevels | None = None
        self._meshes: MeshLevels | None = None
        self._cycle: Any = None
        self._below: AlgebraicLevels | None = None
        self._given = self._found = None

    def _create(self, pc: PETSc.PC, mat: PETSc.Mat, operator: GlobalOperator, single: bool) -> None:
        self._let_go()
        space, prefix = operator.local.space, pc.getOptionsPrefix() or ""
        if not contains_lower_degrees(space):
            raise FormError(
                f"femgpu.PMG on {space}: it takes fields of one degree, continuous and alike; take femgpu.FieldSplit, say"
            )
        degrees = self._options.degrees_below(space.fields[0], prefix)
        self._make_level = self._options.levels_of(operator.local.form)
        self._operator, self._bends, self._single, finer = operator, operator.local.bends, single, operator
        vectors = [Vectors(operator.local.runtime, space.numbering.num_owned, space.mesh.mpi)]
        self._given, self._found = vectors[0].empty(), vectors[0].empty()
        refines = self._options.geometric == "auto" and space.mesh.coarser is not None
        if single and (degrees or not refines):
            self._followers.append(in_single_precision(operator))
            finer, vectors = self._followers[0].operator, [self._followers[0].vectors]
        self._operators.append(finer)
        for degree in degrees:
            # What is assembled is assembled in the problem's precision.
            source, targets = (operator, ("matrix",) if refines else None) if degree == 1 else (finer, None)
            self._coarse.append(CoarseOperator(finer, degree, source, targets))
            finer = self._coarse[-1].operator
            vectors.append(self._coarse[-1].vectors)
            self._operators.append(finer)
        self._followers += self._coarse
        for level, its in zip(self._operators[:-1], vectors, strict=False):
            self._levels.append(smoothed(level, its, self._make_level))
        steps, self._refusal = ladder(finer.local.space, finer.local.form) if refines else ([], "")
        self._create_inner(pc, mat.getNearNullSpace(), prefix + "pmg_coarse_", steps)

    def _create_inner(self, pc: PETSc.PC, near: PETSc.NullSpace, prefix: str, steps: Ladder) -> None:
        space = (linear := self._operators[-1]).local.space
        if steps:
            self._assembled = self._meshes = MeshLevels(linear, steps, self._single, self._make_level)
        else:
            self._assembled = AssembledJacobian(linear, linear_vector(space))
        mat = self._assembled.mat
        mat.setOptionsPrefix(prefix)
        self._definite = is_definite(linear.local.form)
        if (modes := near_nullspace(near, self._operators[0].local.space, linear.local.form, steps)) is not None:
            mat.setNearNullSpace(modes)
        self.inner = PETSc.PC().create(comm=pc.comm)
        self.inner.incrementTabLevel(1, parent=pc)
        self.inner.setOptionsPrefix(prefix)
        self.inner.setOperators(mat, mat)
        small = steps and mat.getSize()[0] <= _SMALL
        self.inner.setType(PETSc.PC.Type.SVD if small else PETSc.PC.Type.GAMG)
        self.inner.setFromOptions()

    def _update(self) -> str:
        """Takes everything to the state of the matrix; collective.

        Returns:
            What is wrong with it, empty if nothing.
        """
        for follower in self._followers:
            follower.update()
        if not self._levels and self._meshes is not None:
            self._meshes.fill()  # the finest of these matrices is the operator
        if first := self._below is None:
            # Before the levels: the programs of theirs may be under way.
            self._renew()
        for operator in self._operators[: len(self._levels)]:
            operator.local.store()
        finest = self._levels or ([] if self._meshes is None else self._meshes.levels)
        worse, stale = self._has_worsened(), [level for level in finest if level.follow()]
        self._age += 1
        if again := not first and bool(worse or stale or not finest or 0 < self._options.lag <= self._age):
            self._renew()
        assert self._below is not None
        parts: list[MeshLevels | AlgebraicLevels] = [*([] if self._meshes is None else [self._meshes]), self._below]
        if first or again:
            self._age = 0
            stale += [level for part in parts for level in part.levels if level not in finest and level.follow()]
        levels = [*self._levels, *(level for part in parts for level in part.levels)]
        for number, level in enumerate(levels):
            if (worse or level in stale) and (wrong := level.estimate()):
                return f"the operator of level {number}, counted from the finest, has no largest eigenvalue ({wrong})"
        if self._cycle is None:
            if self._single and self._levels and not self._followers[0].agrees(_INACCURATE):
                return "the product in single precision is inaccurate"
            restrict: list[Bind] = [coarse.transfer.bind_restrict for coarse in self._coarse]
            prolong: list[Bind] = [coarse.transfer.bind_prolong for coarse in self._coarse]
            for part in parts:
                restrict, prolong = restrict + part.restrict, prolong + part.prolong
            with collective(self._operators[0].local.space.mesh.mpi):
                cycle = Cycle(levels, restrict, prolong, self._below.solve, self._below.coarsest)
            self._cycle = cycle
        return ""

    def _renew(self) -> None:
        """Takes what lies below the levels, the matrices, to the state; collective."""
        assert self.inner is not None and self._assembled is not None
        if self._levels or self._meshes is None:
            self._assembled.fill()
        if self._meshes is not None:
            self._meshes.copy()
        if self._definite:
            # GAMG then estimates eigenvalues by conjugate gradients, not by GMRES; each assembly forgets it.
            self._assembled.mat.setOption(PETSc.Mat.Option.SPD, True)
        self.inner.setUp()
        if self._below is None or not self._below.update():
            # The device may not have room for both.
            self._below = self._cycle = None
            self._below = AlgebraicLevels(self.inner, self._operators[0].local.runtime, self._single, self._make_level)

    def _has_worsened(self) -> bool:
        """Whether the last solve took more cycles than the first one after the last estimate of eigenvalues."""
        applied, self._applied = self._applied, 0
        self._reference = self._reference or applied
        factor, more = _SLOWER
        if applied <= max(factor * self._reference, self._reference + more):
            return False
        self._reference = 0
        return True
