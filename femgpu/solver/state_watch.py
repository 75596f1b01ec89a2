"""Whether a Jacobian still is that of what it was evaluated with."""

from __future__ import annotations

import weakref
from bisect import bisect_right
from collections.abc import Sequence
from typing import Any

from petsc4py import PETSc

from femgpu.errors import SolverError, meet
from femgpu.forms import Form
from femgpu.operators import FormOperator
from femgpu.spaces import Constant, Function, vector_state

# Arrays that hold the unknown, and those that hold coefficients, with their derivatives.
_UNKNOWN, _COEFFICIENTS = ("u", "u_x", "u_xx"), ("a", "a_x", "a_xx")


class StateWatch:
    """Remembers what a Jacobian was evaluated with: the unknown, the coefficients that it reads, constants, the mesh.

    While the solver iterates, all of that is the solver's business: a lagged Jacobian is one on purpose.

    Args:
        local: the operators of the Jacobian.
        u: the unknown.
        snes: the solver, which is not kept alive.

    Attributes:
        at_u: whether the state is that of u, rather than one that the caller gave.
    """

    def __init__(self, local: FormOperator, u: Function, snes: PETSc.SNES):
        self.at_u = False
        self._local, self._u, self._snes = local, u, weakref.ref(snes)
        self._reads_u, self._coefficients, self._constants = _inputs(local.form)
        self._seen: Any = None

    def note(self, at_u: bool) -> None:
        """Says that the Jacobian is that of now."""
        self.at_u = at_u
        self._seen = self._now()

    def is_u(self, x: PETSc.Vec) -> bool:
        """Whether the state x is that of u; while the solver is at work, also where x is its own on the way to u."""
        snes = self._snes() if self.iterating() else None
        return self._u.vec.handle in (x.handle, 0 if snes is None else snes.getSolution().handle)

    def iterating(self) -> bool:
        """Whether the solver is at work; costs a fraction of a microsecond."""
        snes = self._snes()
        if snes is None or not snes.handle or snes.getConvergedReason() != 0:
            return False
        return bool(snes.getSolution().handle)  # none before the first solve, nor after one that an exception left

    def changed(self) -> bool:
        """Whether the Jacobian is of other values than those of now; collective, and looks at no values of vectors."""
        mesh, mpi = self._local.mesh, self._local.mpi
        if not meet(mpi, mesh.motion.touched() or self._now() != self._seen):
            return False
        mesh.update()
        return meet(mpi, self._now() != self._seen)

    def check(self) -> None:
        """Brings constants and mesh up to date for a product inside a solver that nobody has announced; collective.

        Such a solver may itself write to u or to a coefficient: nobody knows which state it is to see.

        Raises:
            SolverError: when a vector that the Jacobian reads was written to since it was evaluated.
        """
        if self._seen is None or self.iterating() or not self.changed():
            return
        states, seen = self._now()[0], self._seen[0]
        # A view that somebody has since then may be there to read.
        written = [now[0] != old[0] or (old[1] > 0 and now[1] != old[1]) for now, old in zip(states, seen, strict=True)]
        if meet(self._local.mpi, any(written)):
            names = [function.name for function, wrote in zip(self._vectors, written, strict=True) if wrote]
            raise SolverError(
                f"{' and '.join(names) or 'a function'} changed after the Jacobian was evaluated, with which a solver now "
                "multiplies; take problem.jacobian again before each solve. A solver that itself writes to the unknown wants a "
                "state that stays, problem.linearise(u.vec.copy()); one that writes to a coefficient, another vector"
            )
        self._local.update()

    @property
    def _vectors(self) -> list[Function]:
        return [self._u, *self._coefficients] if self.at_u and self._reads_u else self._coefficients

    def _now(self) -> tuple[list[tuple[int, int]], list[list[float]], int]:
        constants = [constant.flat.tolist() for constant in self._constants]
        return list(map(vector_state, self._vectors)), constants, self._local.mesh.motion.moves


def _inputs(form: Form) -> tuple[bool, list[Function], list[Constant]]:
    """Whether the Jacobian reads the unknown, and the coefficients and constants that it reads."""
    if not form.has_jacobian:
        return True, list(form.coefficients), list(form.constants)
    entries = [entry for integral in form.integrals for entry in (integral.action, integral.jacobian) if entry is not None]
    reads = {read for entry in entries for read in entry.reads}
    values = {i for entry in entries for i in entry.constants}
    # Those of the second cells of facets follow those of the first ones.
    count = max(form.coefficient_offsets[-1], 1)
    coefficients = _owners(form.coefficients, form.coefficient_offsets, {i % count for name, i in reads if name in _COEFFICIENTS})
    return any(name in _UNKNOWN for name, _ in reads), coefficients, _owners(form.constants, form.constant_offsets, values)


def _owners(entries: Sequence[Any], offsets: Sequence[int], read: set[int]) -> list[Any]:
    """Those among functions or constants whose components are read."""
    return [entries[number] for number in sorted({bisect_right(offsets, i) - 1 for i in read})]
