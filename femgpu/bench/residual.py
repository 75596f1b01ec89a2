"""One residual evaluation, timed by device events: fused on L-vectors, and on E-vectors as paper 004 counts it."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from femgpu.errors import DataError, FormError
from femgpu.kernels import Array, Plan
from femgpu.model import Beta
from femgpu.operators import twin
from femgpu.operators.application import Application
from femgpu.operators.arrays import CellArrays, real_type, scalar_type
from femgpu.operators.term import FieldData, Term
from femgpu.operators.ways import choose_plan
from femgpu.operators.work import make_work
from femgpu.options import Settings
from femgpu.runtime.rates import peak_bandwidth
from femgpu.solver import NonlinearProblem
from femgpu.spaces import Field

# A result is compared with the numpy twin on this many cells from either end and the middle.
_SAMPLE = 1000
# Cells that the twin takes at a time.
_PIECE = 2**20
_TOLERANCE = {"double": 1e-12, "single": 1e-4, "mixed": 1e-4}


@dataclass(frozen=True)
class Timing:
    """One timed kernel.

    Attributes:
        what: `fused` (L-vectors) or `evector`.
        plan: the plan in one line.
        num_blocks: of the plan; 0 for schedule cell.
        num_batches: likewise.
        cells: number of cells.
        median: seconds.
        best: seconds.
        flops: per cell, by paper 004's formula.
        bytes: per cell, by the plan.
        error: largest difference to the numpy twin on a sample, relative.
    """

    what: str
    plan: str
    num_blocks: int
    num_batches: int
    cells: int
    median: float
    best: float
    flops: int
    bytes: int
    error: float

    @property
    def gflops(self) -> float:
        """GF/s at the median."""
        return self.flops * self.cells / self.median / 1e9

    @property
    def gbytes(self) -> float:
        """GB/s at the median."""
        return self.bytes * self.cells / self.median / 1e9


class ResidualBench:
    """Times residual kernels of a problem's first term.

    Args:
        problem: the problem; its u is the state.
    """

    def __init__(self, problem: NonlinearProblem):
        self.problem = problem
        self.runtime = problem.runtime
        self.term = problem.operator.local.terms[0]
        if self.term.integral.residual is None or len(problem.u.space.fields) > 1:
            raise FormError("the form's first integral has no residual of a single field to time")
        self.pointwise = self.term.integral.residual
        self._arrays = CellArrays(self.runtime)
        self.vectors = {"u": problem.u.local_array()}
        for i, function in enumerate(problem.form.coefficients):
            self.vectors[f"a{i}"] = function.local_array()
        self._device: dict[Any, Any] = {}
        self._sums: np.ndarray | None = None
        rule, space = self.term.quadrature, problem.u.space
        self.beta = Beta(space.mesh.dim, space.element.num_basis, space.num_comp, rule.num_qpts, 0)

    def evector(self, settings: Settings) -> Timing:
        """Times the residual from E-vectors to an E-vector, geometry stored."""
        plan = self._plan(replace(settings, geometry="stored"), "evector")
        scalar = scalar_type(settings.precision)
        fields = {data.name: data for data in self.term.fields(self.pointwise)}
        buffers: dict[tuple, Any] = {("constants",): self._constants(settings)}
        for array in plan.arguments():
            if array.role[0] == "entries":
                data = fields[array.role[1]]
                buffers[array.role] = self._upload((array, scalar), lambda d=data, a=array: self._packed(a, d, scalar))
        (out,) = (array for array in plan.arguments() if array.role == ("out", 0))
        assert out.layout is not None
        size = out.layout.size(self.term.num_cells, out.words)
        result = self._upload(("out", size, scalar), lambda: np.full(size, np.nan, scalar))
        application = self._application(plan, buffers | {out.role: result})
        times = application.measure(5, 15, 0.2)
        flat = self.runtime.read(result, np.empty(size, scalar))
        values = out.layout.unpack(flat, self.term.num_cells, out.words, self._lattice(self.term.rows[0]))
        return self._timing("evector", plan, times, self._check(values, plan.precision))

    def fused(self, settings: Settings) -> Timing:
        """Times the residual from L-vector to L-vector: zero the result, gather, evaluate, add atomically."""
        plan = self._plan(replace(settings, scatter="atomic", deterministic=False), "lvector")
        space, scalar = self.problem.u.space, scalar_type(settings.precision)
        buffers: dict[tuple, Any] = {("constants",): self._constants(settings)}
        for name, values in self.vectors.items():
            buffers["vector", name] = self._upload((name, "L", scalar), lambda v=values: v.astype(scalar))
        out = self._upload(("out", "L", scalar), lambda: np.zeros(space.num_local, scalar))
        application = self._application(plan, buffers | {("out",): out})
        times = application.measure(5, 15, 0.2)
        times = times + self.runtime.measure_zero(out, space.num_local * np.dtype(scalar).itemsize)
        return self._timing("fused", plan, times, self._check_fused(application, out))

    def _plan(self, settings: Settings, source: str) -> Plan:
        work = make_work(self.term, "residual", self.pointwise, source=source)
        return choose_plan(work, self.term, settings, self.runtime.device.limits).plan

    def _application(self, plan: Plan, buffers: dict[tuple, Any]) -> Application:
        return Application(self.term, plan, self.pointwise, buffers, self._arrays)

    def _timing(self, what: str, plan: Plan, times: np.ndarray, error: float) -> Timing:
        return Timing(
            what,
            str(plan),
            getattr(plan, "num_blocks", 0),
            getattr(plan, "num_batches", 0),
            self.term.num_cells,
            float(np.median(times)),
            float(times.min()),
            self.beta.flops,
            plan.bytes,
            error,
        )

    def _constants(self, settings: Settings) -> Any:
        values = self.problem.form.constant_values()
        real = real_type(settings.precision)
        return self._upload(("constants", real), lambda: np.append(values, 0).astype(real))

    def _packed(self, array: Array, data: FieldData, scalar: Any) -> np.ndarray:
        """A field's coefficients as a kernel reads them."""
        assert array.layout is not None
        return array.layout.pack(self._entries(data, scalar), self._lattice(data.field))

    def _lattice(self, field: Field) -> npt.NDArray[np.int32] | None:
        """The node at each place of the tensor product; None where the element is none."""
        product = self.term.element(field).product
        return None if product is None else product[1]

    def _entries(self, data: FieldData, scalar: Any) -> np.ndarray:
        """(num_cells, words) a field's coefficients, cell by cell."""
        dofs = data.field.dofs(self.term.block.index)
        return self.vectors[data.vector].astype(scalar)[self.term.subset(dofs)]

    def _upload(self, key: Any, make: Any) -> Any:
        if key not in self._device:
            self._device[key] = self.runtime.upload(make())
        return self._device[key]

    def _check_fused(self, application: Application, out: Any) -> float:
        """The same for a kernel on L-vectors, on all dofs."""
        space, precision = self.problem.u.space, application.plan.precision
        result = np.empty(space.num_local, scalar_type(precision))
        self.runtime.zero(out, result.nbytes)
        application()
        self.runtime.read(out, result)
        if self._sums is None:
            constants = self.problem.form.constant_values()
            self._sums = _sums(self.term, self.pointwise, self.vectors, constants)
        return self._judge(result, self._sums, precision)

    def _check(self, result: np.ndarray, precision: str) -> float:
        """Largest relative difference to the twin on a sample of cells.

        Raises:
            DataError: when it exceeds what the precision allows; a wrong kernel is not timed.
        """
        term, count = self.term, self.term.num_cells
        starts = (0, max(0, count // 2), max(0, count - _SAMPLE))
        sample = np.unique(np.concatenate([np.arange(start, min(start + _SAMPLE, count)) for start in starts])).astype(np.int32)
        constants = self.problem.form.constant_values()
        expected = twin.element_vectors(term.part(sample), self.pointwise, self.vectors, constants)
        return self._judge(result[sample], expected, precision)

    @staticmethod
    def _judge(result: np.ndarray, expected: np.ndarray, precision: str) -> float:
        error = float(np.abs(result - expected).max() / np.abs(expected).max())
        if not error < _TOLERANCE[precision]:
            raise DataError(f"the timed kernel differs from its numpy twin by {error:.2e}; this is a bug, please report it")
        return error


def _sums(term: Term, pointwise: Any, vectors: dict[str, np.ndarray], constants: np.ndarray) -> np.ndarray:
    """The twin's residual on all cells, in pieces that bound its memory, summed into an L-vector."""
    total = np.zeros(term.form.space.num_local)
    for start in range(0, term.num_cells, _PIECE):
        part = term.part(np.arange(start, min(start + _PIECE, term.num_cells), dtype=np.int32))
        values = twin.element_vectors(part, pointwise, vectors, constants)
        total += np.bincount(part.dofs().ravel(), values.ravel(), minlength=len(total))
    return total


def report(problem: NonlinearProblem) -> str:
    """GF/s and GB/s of one residual evaluation with the problem's own options, E-vectors and fused.

    Flops are counted by paper 004's formula, bytes by the plan (each word of a cell once).
    """
    bench = ResidualBench(problem)
    bandwidth = peak_bandwidth(problem.runtime)
    word = np.dtype(real_type(problem.settings.precision)).itemsize
    beta = replace(bench.beta, word=word)
    lines = [
        f"device: {problem.runtime.device}; copies at {bandwidth / 1e9:.1f} GB/s",
        f"beta model: {beta.flops} flops and {beta.bytes} bytes per cell, {beta.beta:.3f} flops/byte, "
        f"bound {beta.bound(bandwidth) / 1e9:.1f} GF/s",
    ]
    for timing in (bench.evector(problem.settings), bench.fused(problem.settings)):
        lines.append(
            f"{timing.what}: {timing.cells} cells in {timing.median * 1e6:.1f} us (best {timing.best * 1e6:.1f}): "
            f"{timing.gflops:.1f} GF/s, {timing.gbytes:.1f} GB/s, "
            f"{100 * timing.gflops * 1e9 / beta.bound(bandwidth):.0f} % of the bound"
        )
        lines.append(f"  {timing.plan}")
    return "\n".join(lines)
