"""The python type of PETSc's KSP over femgpu's Chebyshev iteration: the range of eigenvalues, given or estimated."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from petsc4py import PETSc

from femgpu import krylov
from femgpu.errors import OptionError
from femgpu.krylov import Operator, Outcome, Preconditioner, Vectors
from femgpu.solver.krylov_base import ConvergenceTest, KrylovType, Norm, Reason, Side

_KINDS = ("first", "fourth")


class Chebyshev(KrylovType):
    """Chebyshev's iteration, for definite operators and as a smoother; in the place of -ksp_type chebyshev, whose options it reads.

    -ksp_chebyshev_eigenvalues, -ksp_chebyshev_esteig (two or four factors), -ksp_chebyshev_esteig_steps,
    -ksp_chebyshev_esteig_noisy, -ksp_chebyshev_kind (first or fourth). Where no eigenvalues are given, some steps of GMRES on the
    device estimate them whenever the matrices have changed.

    Attributes:
        eigenvalues: lower and upper end of the range; None: estimated.
        transform: (2, 2): the ends as combinations of the smallest and the largest estimate.
        steps: of the estimate.
        noisy: whether the estimate takes noise for a right-hand side, not the one of the solve.
        fourth: whether the polynomials are those of the fourth kind.
    """

    SUPPORTED = KrylovType.SUPPORTED | {(Norm.NONE, Side.RIGHT): 1}

    _spectrum: Any
    _noise: Any

    def __init__(self) -> None:
        super().__init__()
        self.eigenvalues: tuple[float, float] | None = None
        self.transform = np.array([[0.0, 0.1], [0.0, 1.1]])
        self.steps, self.noisy, self.fourth = 10, True, False

    def setFromOptions(self, ksp: PETSc.KSP) -> None:  # noqa: N802
        """Reads PETSc's options of Chebyshev's iteration.

        Raises:
            OptionError: for another number of values than PETSc's, and for kinds that are not here.
        """
        prefix = ksp.getOptionsPrefix() or ""
        options = PETSc.Options(prefix)
        if options.hasName("ksp_chebyshev_eigenvalues"):
            given = options.getRealArray("ksp_chebyshev_eigenvalues", [])
            if len(given) != 2 or not 0 < given[0] / (given[1] or np.nan) < 1:
                raise OptionError(
                    f"-{prefix}ksp_chebyshev_eigenvalues {list(given)}: expected a range of one sign, such as 0.1,2.2"
                )
            self.eigenvalues = float(given[0]), float(given[1])
        if options.hasName("ksp_chebyshev_esteig"):
            given = options.getRealArray("ksp_chebyshev_esteig", [])
            if len(given) not in (0, 2, 4):
                raise OptionError(f"-{prefix}ksp_chebyshev_esteig {list(given)}: expected 0, 2 or 4 numbers")
            if len(given) == 2:
                self.transform[:, 1] = given
            elif len(given) == 4:
                self.transform[:] = np.reshape(given, (2, 2))
        self.steps = options.getInt("ksp_chebyshev_esteig_steps", self.steps)
        if self.steps < 1:
            raise OptionError(f"-{prefix}ksp_chebyshev_esteig_steps {self.steps}: expected an integer of at least 1")
        self.noisy = options.getBool("ksp_chebyshev_esteig_noisy", self.noisy)
        kind = options.getString("ksp_chebyshev_kind", _KINDS[self.fourth]).lower()
        if kind not in _KINDS:
            raise OptionError(f"-{prefix}ksp_chebyshev_kind {kind}: expected one of {', '.join(_KINDS)}")
        self.fourth = kind == "fourth"

    def files(self, ksp: PETSc.KSP) -> tuple[str, ...]:
        """Those of `krylov.Chebyshev`, and of the estimate where there is one."""
        return (*krylov.Chebyshev.files, *(krylov.Spectrum.files if self.eigenvalues is None else ()))

    def make(self, ksp: PETSc.KSP, vectors: Vectors, check: int) -> Any:
        """The method; at set-up."""
        if self.eigenvalues is None:
            self._spectrum, self._noise = krylov.Spectrum(vectors, self.steps), vectors.empty()
            vectors.fill_noise(self._noise, ksp.getOperators()[0].getOwnershipRange()[0])
        self._states: tuple[int, ...] = ()
        return krylov.Chebyshev(vectors, check)

    def run(
        self,
        ksp: PETSc.KSP,
        system: tuple[Operator, Any, Any],
        preconditioner: Preconditioner,
        test: ConvergenceTest,
        guess: bool,
        project: Callable[[Any], None] | None,
    ) -> Outcome:
        """Solves with operator, right-hand side and solution; these are buffers."""
        states = tuple(number for mat in ksp.getOperators() for number in (mat.id, mat.stateGet()))
        if states != self._states:
            failed = self._find_range(system[0], system[1], preconditioner, project)
            if failed is not None:
                return failed
            self._states = states
        self.method.fourth = self.fourth
        if ksp.getNormType() != Norm.NONE:
            return super().run(ksp, system, preconditioner, test, guess, project)
        limit = ksp.getTolerances()[3]
        ended = self.method.solve(*system, preconditioner, None, guess=guess, project=project, limit=limit)
        return Outcome(ended.iterations, ended.norm, int(Reason.CONVERGED_ITS))

    def iterate(self) -> Any:
        """A buffer with the solution so far, for monitors."""
        return self.method.iterate

    def summary(self) -> str:
        """What -ksp_view says of the method."""
        how = f"estimated in {self.steps} steps of GMRES" if self.eigenvalues is None else "given"
        return f"{_KINDS[self.fourth]} kind, eigenvalues {self.method.least:g} to {self.method.most:g} ({how})"

    def _let_go(self) -> None:
        super()._let_go()
        self._spectrum = self._noise = None

    def _find_range(
        self, operator: Operator, b: Any, preconditioner: Preconditioner, project: Callable[[Any], None] | None
    ) -> Outcome | None:
        """Sets the range of the method; an outcome where that fails."""
        method = self.method
        if self.eigenvalues is not None:
            method.least, method.most = self.eigenvalues
            return None
        rhs = b
        if self.noisy:
            rhs = self._noise
            if project is not None:
                project(rhs)
        ends = self._spectrum.estimate(operator, rhs, preconditioner, project)
        if isinstance(ends, str):
            return Outcome(0, float("nan"), ends)
        method.least, method.most = (float(end) for end in self.transform @ ends)
        return None if method.most else Outcome(0, float("nan"), krylov.BREAKDOWN)
