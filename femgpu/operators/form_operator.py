"""All operators of a form, from L-vectors to L-vectors, on the device."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
from mpi4py import MPI

from femgpu import log
from femgpu.errors import DataError, FormError, collective
from femgpu.forms import Form, Pointwise, StateSplit
from femgpu.operators.cell_kernel import REAL, SCALAR, CellKernel, DeviceArrays
from femgpu.operators.gather import GatherSum, Segments, num_rows
from femgpu.operators.memory import least_bytes
from femgpu.operators.qdata import Way, candidate_splits, fastest, state_bytes
from femgpu.operators.term import Term, make_terms
from femgpu.options import Settings
from femgpu.runtime import Runtime
from femgpu.spaces import rate_of

_EVENTS = {"residual": "FGResidual", "action": "FGJacAction", "diagonal": "FGMatrix", "matrix": "FGMatrix"}
# Which pointwise function of an integral a target needs.
_POINTWISE = {"residual": "residual", "action": "action", "diagonal": "jacobian", "matrix": "jacobian"}


class FormOperator:
    """Residual, Jacobian action, diagonal and element matrices of one form.

    The residual reads its state from `u`; action, diagonal and matrices read theirs from `base`, so that residuals of a line
    search do not move the point of linearisation. The direction is read from `w`, results go to `out`. All are device buffers
    of L-vectors that stay the same for the life of the operator: no evaluation allocates. Programs are built on the first use
    of each target. The time derivative of the unknown is a coefficient that, like the state, has a buffer of each kind; `update`
    fills them from the Function behind it only when that has been written.

    Args:
        form: the lowered form; its test space gives the vectors.
        settings: the options.
        runtime: the device.

    Attributes:
        u: state of the residual, an L-vector in the storage precision `scalar`.
        base: state of the Jacobian.
        w: direction.
        out: result.
        rate: time derivative of the state of the residual; None where the form has none.
        base_rate: that of the state of the Jacobian.
        terms: what is integrated where.
        kernels: the kernels built so far, by target; `state` are those that fill what the action reads at the points.
        splits: by kernel of the action, what of it is stored and what is computed.
    """

    def __init__(self, form: Form, settings: Settings, runtime: Runtime):
        self.form = form
        self.settings = settings
        self.runtime = runtime
        self.space = form.space
        self.mpi = form.space.mesh.mpi
        self.terms = make_terms(form, settings)
        self.scalar = np.dtype(SCALAR[settings.precision])
        self.num_local = self.space.num_local
        self._constants = np.full(max(form.constant_offsets[-1], 1), np.nan)
        needed = least_bytes(self.terms, settings, runtime.device)
        with collective(self.mpi):
            runtime.require(needed, f"the form on {self.space.mesh.num_cells} cells")
            self._allocate()
        self._states: list[int | None] = [None] * len(form.coefficients)
        self._arrays = DeviceArrays(runtime)
        self.kernels: dict[str, list[CellKernel]] = {}
        self._gathers: dict[str, GatherSum] = {}
        self._sums: dict[Any, GatherSum] = {}
        self.splits: dict[CellKernel, StateSplit] = {}
        self._state_is_fresh = False
        self._e_vector: Segments | None = None
        self._matrix: Any = None

    def _allocate(self) -> None:
        """Makes the buffers of all vectors."""
        runtime = self.runtime
        self.u, self.base, self.w, self.out = (runtime.empty(self.vector_bytes) for _ in range(4))
        for buffer in (self.u, self.base, self.w):
            runtime.zero(buffer, self.vector_bytes)
        real_bytes = np.dtype(REAL[self.settings.precision]).itemsize
        self._vectors: dict[str, Any] = {"w": self.w, "constants": runtime.empty(self._constants.size * real_bytes)}
        for i, function in enumerate(self.form.coefficients):
            self._vectors[f"a{i}"] = runtime.empty(function.space.num_local * self.scalar.itemsize)
        rate = None if self.form.unknown is None else rate_of(self.form.unknown)
        self._rate_name = f"a{self.form.coefficients.index(rate)}" if rate in self.form.coefficients else ""
        self.rate = self._vectors.get(self._rate_name)
        self.base_rate = None if self.rate is None else runtime.empty(self.vector_bytes)

    @property
    def vector_bytes(self) -> int:
        """Bytes of an L-vector."""
        return self.num_local * self.scalar.itemsize

    def update(self) -> None:
        """Brings changed coefficients and constants to the device; collective.

        Raises:
            DataError: when a coefficient holds numbers that are not finite.
        """
        constants = self.constant_values()
        if not np.array_equal(constants, self._constants[: len(constants)]):
            self._constants[: len(constants)] = constants
            self.runtime.write(self._vectors["constants"], self._constants.astype(REAL[self.settings.precision]))
            self.base_changed()
        states = [function.vec.stateGet() for function in self.form.coefficients]
        changed = np.array([state != old for state, old in zip(states, self._states, strict=True)], bool)
        if self.mpi.size > 1 and len(changed):
            # A vector that was written on one rank only must be exchanged by all.
            self.mpi.Allreduce(MPI.IN_PLACE, changed, MPI.LOR)
        for i in map(int, np.flatnonzero(changed)):
            self._update_coefficient(i)
            self._states[i] = states[i]

    def _update_coefficient(self, i: int) -> None:
        """Brings coefficient i to the device; collective."""
        function = self.form.coefficients[i]
        with log.event("FGTransfer"):
            local = function.local_array()
            with collective(self.mpi):
                check_finite(local, f"coefficient {function.name}")
            self.runtime.write(self._vectors[f"a{i}"], local.astype(self.scalar))
            if f"a{i}" == self._rate_name:
                self.runtime.copy(self.rate, self.base_rate, self.vector_bytes)
        self.base_changed()

    def base_changed(self) -> None:
        """Says that `base` holds another state: what the action keeps at the points is computed anew at its next use."""
        self._state_is_fresh = False

    def constant_values(self) -> npt.NDArray[np.float64]:
        """Values of the form's constants, flattened in order."""
        return self.form.constant_values()

    def build(self) -> None:
        """Builds the programs of all targets that the form knows, without evaluating any; collective."""
        for target in _POINTWISE if self.form.has_jacobian else ("residual",):
            self._kernels(target)

    def residual(self, u: Any = None, out: Any = None) -> None:
        """`out` = sum of the cells' residuals at `u`; ghosts hold this rank's share.

        Args:
            u: another buffer to read the state from, where a T-vector is an L-vector.
            out: another buffer for the result, likewise.
        """
        self._apply("residual", self.out if out is None else out, "u", self.u if u is None else u)

    def action(self, w: Any = None, out: Any = None) -> None:
        """`out` = Jacobian at `base` times `w`, likewise.

        Args:
            w: another buffer to read the direction from, where a T-vector is an L-vector.
            out: another buffer for the result, likewise.

        Raises:
            FormError: when the form does not know its Jacobian.
        """
        self._kernels("action")
        if not self._state_is_fresh:
            self._store_state()
        self._apply("action", self.out if out is None else out, "w", self.w if w is None else w)

    def diagonal(self) -> None:
        """`out` = diagonal of the Jacobian at `base`, likewise."""
        self._apply("diagonal", self.out, "u", self.base)

    def matrices(self) -> list[npt.NDArray[np.float64]]:
        """Element matrices of each term at `base`, (num_cells, num_rows, num_rows), float64, in `terms` order.

        Only terms that have a Jacobian appear.
        """
        kernels = self._kernels("matrix")
        sizes = [kernel.term.num_cells * kernel.plan.num_rows**2 for kernel in kernels]
        result = []
        with log.event("FGMatrix", sum(kernel.flops for kernel in kernels)):
            for kernel, size in zip(kernels, sizes, strict=True):
                kernel.kernel()
                rows = kernel.plan.num_rows
                host = np.empty((kernel.term.num_cells, rows, rows))
                result.append(self.runtime.read(self._matrix, host) if size else host)
        return result

    def _store_state(self) -> None:
        kernels = self.kernels.get("state", [])
        if kernels:
            with log.event(_EVENTS["action"], float(sum(kernel.flops for kernel in kernels))):
                for kernel in kernels:
                    kernel.kernel()
                if log.is_active():
                    self.runtime.finish()
        self._state_is_fresh = True

    def _apply(self, target: str, out: Any, name: str, source: Any) -> None:
        kernels = self._kernels(target)
        with log.event(_EVENTS[target], float(sum(kernel.flops for kernel in kernels))):
            gather = self._gathers.get(target)
            if gather is None or not gather.covers_all:
                self.runtime.zero(out, self.vector_bytes)
            for kernel in kernels:
                kernel.bind(name, source)
                if gather is None:
                    kernel.bind("out", out)
                kernel.kernel()
            if gather is not None:
                gather(out)
            if log.is_active():
                # Only then does the event hold the kernels' time, and not that of handing them over.
                self.runtime.finish()

    def _kernels(self, target: str) -> list[CellKernel]:
        if target not in self.kernels:
            if target != "residual" and not self.form.has_jacobian:
                raise FormError(f"the form knows no Jacobian, so it has no {target}; give g0 to g3")
            kernels = self._choose() if target == "action" else self._build(target)
            with collective(self.mpi):
                gathering = [kernel for kernel in kernels if kernel.plan.scatter == "evector" and target != "matrix"]
                if gathering:
                    self._gathers[target] = self._gather(gathering)
            self.kernels[target] = kernels
        return self.kernels[target]

    def _chosen(self, target: str) -> list[tuple[Term, Pointwise]]:
        """The terms that a target is about, and their pointwise functions."""
        found = [(term, getattr(term.integral, _POINTWISE[target])) for term in self.terms]
        return [(term, pointwise) for term, pointwise in found if pointwise is not None]

    def _build(self, target: str) -> list[CellKernel]:
        """The kernels of a target other than the action; collective."""
        chosen, out = self._chosen(target), self.out
        with collective(self.mpi):
            if target == "matrix":
                out = self._matrix_buffer([term.num_cells * num_rows(term) ** 2 for term, _ in chosen])
            return [self._kernel(term, target, pointwise, out) for term, pointwise in chosen]

    def _choose(self) -> list[CellKernel]:
        """The kernels of the action, the fastest way of each term, and those that store what they read; collective."""
        terms = self._chosen("action")
        splits = [candidate_splits(term, self.settings, self.runtime, self.mpi) for term, _ in terms]
        with collective(self.mpi):
            ways = [
                [self._way(term, split.action, split) for split in found] or [self._way(term, pointwise, None)]
                for (term, pointwise), found in zip(terms, splits, strict=True)
            ]
        chosen = [fastest(candidates, self.mpi) for candidates in ways]
        self.kernels["state"] = [way.storing for way in chosen if way.storing is not None]
        self.splits = {way.action: way.split for way in chosen if way.split is not None}
        return [way.action for way in chosen]

    def _way(self, term: Term, action: Pointwise, split: StateSplit | None) -> Way:
        if split is None or split.state is None:
            return Way(self._kernel(term, "action", action, self.out), None, split)
        size = state_bytes(term, split, self.settings)
        self.runtime.require(size, f"{split.num_scalars} numbers at each point (-femgpu_qdata recompute stores none)")
        state = self.runtime.empty(size)
        storing = self._kernel(term, "state", split.state, None, state)
        return Way(self._kernel(term, "action", action, self.out, state), storing, split)

    def _kernel(self, term: Term, target: str, pointwise: Pointwise, out: Any, state: Any = None) -> CellKernel:
        vectors = {**self._vectors, "u": self.u if target == "residual" else self.base, "state": state}
        if self._rate_name and target != "residual":
            vectors[self._rate_name] = self.base_rate
        return CellKernel(term, target, pointwise, vectors, out, self.settings, self.runtime, self._arrays)

    def _gather(self, kernels: list[CellKernel]) -> GatherSum:
        """Sends each kernel's output to its term's segment of the E-vector; targets with equal segments share the lists."""
        segments = self._segments()
        for kernel in kernels:
            kernel.bind("out", segments.buffers[self.terms.index(kernel.term)])
        key = tuple((self.terms.index(kernel.term), kernel.plan.cell_fastest) for kernel in kernels)
        if key not in self._sums:
            self._sums[key] = GatherSum(self.runtime, self.terms, key, segments, self.settings.precision, self.out)
        return self._sums[key]

    def _segments(self) -> Segments:
        if self._e_vector is None:
            self._e_vector = Segments(self.runtime, self.terms, self.scalar.itemsize)
        return self._e_vector

    def _matrix_buffer(self, sizes: list[int]) -> Any:
        """One buffer for the largest term's matrices: terms are read back one after the other."""
        self._matrix = self.runtime.empty(max(sizes, default=0) * 8)
        return self._matrix


def check_finite(values: npt.NDArray[np.float64], what: str) -> None:
    """Refuses NaN and infinity.

    Raises:
        DataError: naming how many entries of what are not finite.
    """
    bad = ~np.isfinite(values)
    if bad.any():
        raise DataError(
            f"{what} has {int(bad.sum())} entries of {len(values)} that are not finite, first entry {int(np.argmax(bad))}; "
            "expected finite numbers"
        )
