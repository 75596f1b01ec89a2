"""One residual evaluation, timed by device events: fused on L-vectors, and on E-vectors as paper 004 counts it."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt

from femgpu.bench.actions import TOLERANCE
from femgpu.bench.bakeoff import other_plans
from femgpu.errors import DataError, FormError
from femgpu.kernels import Array, Plan, Work, render
from femgpu.model import Beta, Limits
from femgpu.operators import twin
from femgpu.operators.application import Application, label, term_tables
from femgpu.operators.arrays import CellArrays, real_type, scalar_type
from femgpu.operators.planner import zeroing_limits
from femgpu.operators.term import FieldData
from femgpu.operators.ways import choose_plan
from femgpu.operators.work import make_work
from femgpu.options import Settings
from femgpu.runtime.guards import poison
from femgpu.runtime.rates import SECONDS, launch_seconds, peak_bandwidth
from femgpu.solver import NonlinearProblem
from femgpu.spaces import Field

# Results are compared on so many cells from either end and the middle: those of E-vectors, and the plain kernel's with the twin's.
_SAMPLE = 1000


@dataclass(frozen=True)
class Timing:
    """One timed kernel.

    Attributes:
        what: `fused` (L-vectors) or `evector`.
        schedule: of the plan.
        plan: the plan in one line.
        num_blocks: of the plan; 0 for schedules that have none.
        num_batches: likewise.
        geometry: stored or recomputed.
        cells: number of cells.
        launches: timings; see `launch_seconds`.
        median: seconds.
        best: seconds.
        flops: per cell, by paper 004's formula.
        kernel_flops: per cell, as femgpu counts the kernel's.
        bytes: per cell, by the plan.
        error: largest difference to the numpy twin on a sample, or to the plain kernel, relative.
    """

    what: str
    schedule: str
    plan: str
    num_blocks: int
    num_batches: int
    geometry: str
    cells: int
    launches: int
    median: float
    best: float
    flops: int
    kernel_flops: int
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
        self._programs: dict[Plan, str] = {}
        rule, space = self.term.quadrature, problem.u.space
        self.beta = Beta(space.mesh.dim, space.element.num_basis, space.num_comp, rule.num_qpts, 0)

    def work(self, what: str) -> Work:
        """What a kernel computes, between L-vectors (`fused`) or E-vectors (`evector`)."""
        return make_work(self.term, "residual", self.pointwise, source="lvector" if what == "fused" else what)

    def plan(self, what: str, settings: Settings) -> Plan:
        """The plan that options name: between E-vectors, or fused with atomic sums."""
        return choose_plan(self.work(what), self.term, _settings(what, settings), self._limits(settings)).plan

    def plans(self, what: str, settings: Settings, count: int) -> list[Plan]:
        """So many plans of each schedule that serves."""
        others = other_plans(self.term, self.work(what), _settings(what, settings), self._limits(settings), count)
        return [choice.plan for choice in others]

    def _limits(self, settings: Settings) -> Limits:
        """What the device allows, and whether launches zero their results, as a solver's do."""
        num_bytes = self.problem.u.space.num_local * np.dtype(scalar_type(settings.precision)).itemsize
        return zeroing_limits(self.runtime.device.limits, num_bytes)

    def build_ahead(self, plans: Iterable[Plan]) -> None:
        """Starts to build programs side by side, where programs are built ahead."""
        self.runtime.build_ahead((self._program(plan), label(self.term, plan, plan.steps()[0])) for plan in plans)

    def time(self, what: str, plan: Plan, seconds: float = SECONDS) -> Timing:
        """Times a plan: from E-vectors to an E-vector, or zero the result, gather, evaluate, add atomically.

        Args:
            what: `evector` or `fused`.
            plan: the plan.
            seconds: see `launch_seconds`.

        Raises:
            DataError: when the result is wrong.
        """
        # The one that ran may have made way for that of any mesh.
        plan, times, error = (self._fused if what == "fused" else self._evector)(plan, seconds)
        blocks, batches = (getattr(plan, name, 0) for name in ("num_blocks", "num_batches"))
        given = what, plan.schedule, str(plan), blocks, batches, plan.geometry, self.term.num_cells, len(times)
        return Timing(*given, float(np.median(times)), float(times.min()), self.beta.flops, plan.flops, plan.bytes, error)

    def _evector(self, plan: Plan, seconds: float) -> tuple[Plan, np.ndarray, float]:
        scalar = scalar_type(plan.precision)
        fields = {data.name: data for data in self.term.fields(self.pointwise)}
        buffers: dict[tuple, Any] = {("constants",): self._constants(plan)}
        for array in plan.arguments():
            if array.role[0] == "entries":
                data = fields[array.role[1]]
                buffers[array.role] = self._upload((array, scalar), lambda d=data, a=array: self._packed(a, d, scalar))
        (out,) = (array for array in plan.arguments() if array.role == ("out", 0))
        assert out.layout is not None
        size = out.layout.size(self.term.num_cells, out.words)
        result = self._upload(("out", size, scalar), lambda: np.empty(size, scalar))
        poison(self.runtime.queue, result, size * np.dtype(scalar).itemsize)
        times = launch_seconds(self.runtime, self._application(plan, buffers | {out.role: result}).bind({}), seconds)
        return plan, times, self._check(result, out, plan)

    def _fused(self, plan: Plan, seconds: float) -> tuple[Plan, np.ndarray, float]:
        space, scalar = self.problem.u.space, scalar_type(plan.precision)
        buffers: dict[tuple, Any] = {("constants",): self._constants(plan)}
        for name, values in self.vectors.items():
            buffers["vector", name] = self._upload((name, "L", scalar), lambda v=values: v.astype(scalar))
        result = np.empty(space.num_local, scalar)
        out = self._upload(("out", "L", scalar), lambda: result)
        application = self._application(plan, buffers | {("out",): out})
        first, launches = result.nbytes * application.zeroes, application.bind({}, space.num_local)
        times = launch_seconds(self.runtime, [*self.runtime.zeroing(out, result.nbytes, first), *launches], seconds)
        poison(self.runtime.queue, out, result.nbytes)
        self.runtime.zero(out, result.nbytes, first)
        for launch in launches:
            launch()
        return application.plan, times, self._judge(self.runtime.read(out, result), self.expected, plan.precision)

    @cached_property
    def expected(self) -> npt.NDArray[np.float64]:
        """(num_local,) the residual by the plain kernel in double precision, which agrees with the numpy twin on a sample of cells.

        Raises:
            DataError: when it does not.
        """
        given = replace(self.problem.settings, precision="double", schedule="cell:lanes=1", geometry="recomputed")
        plan, space = self.plan("fused", given), self.problem.u.space
        vectors = {("vector", name): self.runtime.upload(values) for name, values in self.vectors.items()}
        result = np.zeros(space.num_local)
        out = self.runtime.upload(result)
        self._application(plan, {("constants",): self._constants(plan), **vectors, ("out",): out})()
        self.runtime.read(out, result)
        # The twin on all cells that add to the dofs of the sample.
        sample = self.term.part(np.concatenate(self._sample).astype(np.int32)).dofs()
        wanted = np.zeros(space.num_local, bool)
        wanted[sample] = True
        near = self.term.part(np.flatnonzero(wanted[self.term.offsets(self.term.rows[0])].any(axis=1)).astype(np.int32))
        values = twin.element_vectors(near, self.pointwise, self.vectors, self.problem.form.constant_values())
        sums = np.bincount(near.dofs().ravel(), values.ravel(), minlength=space.num_local)
        self._judge(result[wanted], sums[wanted], "double")
        return result

    @property
    def _sample(self) -> list[npt.NDArray[np.int64]]:
        """Ranges of cells at both ends and in the middle, no two of which have a cell in common."""
        count = self.term.num_cells
        starts = sorted({0, max(0, count // 2), max(0, count - _SAMPLE)})
        stops = [*starts[1:], count]
        return [np.arange(start, min(start + _SAMPLE, stop)) for start, stop in zip(starts, stops, strict=True)]

    def _program(self, plan: Plan) -> str:
        if plan not in self._programs:
            tables = term_tables(self.term, plan, self.pointwise)
            self._programs[plan] = render(plan, self.pointwise.body, tables[0])
        return self._programs[plan]

    def _application(self, plan: Plan, buffers: dict[tuple, Any]) -> Application:
        return Application(self.term, plan, self.pointwise, buffers, self._arrays, program=self._program(plan))

    def _constants(self, plan: Plan) -> Any:
        values, real = self.problem.form.constant_values(), real_type(plan.precision)
        return self._upload(("constants", real), lambda: np.append(values, 0).astype(real))

    def _packed(self, array: Array, data: FieldData, scalar: Any) -> np.ndarray:
        """A field's coefficients as a kernel reads them."""
        assert array.layout is not None
        dofs = self.term.subset(data.field.dofs(self.term.block.index))
        return array.layout.pack(self.vectors[data.vector].astype(scalar)[dofs], self._lattice(data.field))

    def _lattice(self, field: Field) -> npt.NDArray[np.int32] | None:
        """The node at each place of the tensor product; None where the element is none."""
        product = self.term.element(field).product
        return None if product is None else product[1]

    def _upload(self, key: Any, make: Any) -> Any:
        if key not in self._device:
            self._device[key] = self.runtime.upload(make())
        return self._device[key]

    def _check(self, result: Any, out: Array, plan: Plan) -> float:
        """Largest relative difference of an E-vector to the twin on a sample of cells, of which alone it is read."""
        assert out.layout is not None
        layout, scalar, found = out.layout, np.dtype(scalar_type(plan.precision)), []
        self.runtime.finish()
        for cells in self._sample:
            first = cells[0] // layout.block * layout.block
            count = cells[-1] + 1 - first
            flat = np.empty(layout.size(count, out.words), scalar)
            self.runtime.read_later(result, flat, first * out.words * scalar.itemsize).wait()
            found.append(layout.unpack(flat, count, out.words, self._lattice(self.term.rows[0]))[cells[0] - first :])
        return self._judge(np.concatenate(found), self._sample_vectors, plan.precision)

    @cached_property
    def _sample_vectors(self) -> np.ndarray:
        """The twin's."""
        part = self.term.part(np.concatenate(self._sample).astype(np.int32))
        return twin.element_vectors(part, self.pointwise, self.vectors, self.problem.form.constant_values())

    @staticmethod
    def _judge(result: np.ndarray, expected: np.ndarray, precision: str) -> float:
        """The largest difference over the largest entry.

        Raises:
            DataError: when it exceeds what the precision allows; a wrong kernel is not timed.
        """
        error = float(np.abs(result - expected).max() / np.abs(expected).max())
        if not error < TOLERANCE[precision]:
            raise DataError(f"the timed kernel differs from what it should compute by {error:.2e}; this is a bug, please report it")
        return error


def _settings(what: str, settings: Settings) -> Settings:
    return settings if what == "evector" else replace(settings, scatter="atomic", deterministic=False)


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
    for what in ("evector", "fused"):
        timing = bench.time(what, bench.plan(what, problem.settings))
        lines.append(
            f"{timing.what}: {timing.cells} cells in {timing.median * 1e6:.1f} us (best {timing.best * 1e6:.1f}): "
            f"{timing.gflops:.1f} GF/s, {timing.gbytes:.1f} GB/s, "
            f"{100 * timing.gflops * 1e9 / beta.bound(bandwidth):.0f} % of the bound"
        )
        lines.append(f"  {timing.plan}")
    return "\n".join(lines)
