"""One term's kernel for one target: plan chosen, source rendered, program built, arrays on the device."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt

from femgpu.forms import Pointwise
from femgpu.kernels import FieldPlan, Plan, RowsPlan, arguments, pack_tables, render
from femgpu.operators.term import FieldData, Term
from femgpu.options import Settings
from femgpu.runtime import Device, Kernel, Runtime
from femgpu.spaces import Field

REAL = {"double": np.float64, "single": np.float32, "mixed": np.float32}
SCALAR = {"double": np.float64, "single": np.float32, "mixed": np.float64}
# Half of the smallest stack that a thread of the C library gets by default.
STACK_BYTES = 1 << 20


class DeviceArrays:
    """Per-cell arrays of a mesh on the device, shared between the kernels of one operator."""

    def __init__(self, runtime: Runtime):
        self.runtime = runtime
        self._kept: dict[Any, Any] = {}

    def get(self, key: Any, make: Any) -> Any:
        """The buffer under a key; `make` gives the host array on the first call."""
        if key not in self._kept:
            self._kept[key] = self.runtime.upload(make())
        return self._kept[key]


class CellKernel:
    """A kernel over the cells or facets of a term.

    Args:
        term: the term.
        target: residual, action, diagonal, matrix, functional or state.
        pointwise: the pointwise function.
        vectors: device buffer of each function by name (`u`, `w`, `a0`, ...), `constants` and, where numbers are kept at points,
            `state`.
        out: device buffer that is written; a state has none.
        settings: the options.
        runtime: the device.
        arrays: where per-cell arrays are kept.
        source: `lvector`, or `evector` where `vectors` and `out` hold each cell's own entries.

    Attributes:
        plan: the plan.
        term: the term.
        kernel: the launchable kernel.
    """

    def __init__(
        self,
        term: Term,
        target: str,
        pointwise: Pointwise,
        vectors: dict[str, Any],
        out: Any,
        settings: Settings,
        runtime: Runtime,
        arrays: DeviceArrays,
        source: str = "lvector",
    ):
        self.term = term
        fields = term.fields(pointwise)
        self.plan = make_plan(term, target, pointwise, fields, settings, runtime.device, source)
        self.pointwise_flops = pointwise.flops
        elements = term.elements(fields, self.plan.needs_coords)
        tabulations = [term.tabulate(element, i in self.plan.hessian_tables) for i, element in enumerate(elements)]
        tables = pack_tables(self.plan, term.weights, term.normals, tabulations)
        source = render(self.plan, pointwise.body, term.form.coefficient_offsets[-1], tables)
        block, real = term.block, REAL[self.plan.precision]
        known: dict[str, Callable[[], Any]] = {
            "num_cells": lambda: np.int32(term.num_cells),
            "d_constants": lambda: vectors["constants"],
            "d_state": lambda: vectors["state"],
            "d_out": lambda: out,
            "d_tables": lambda: arrays.get(("tables", tables.tobytes()), lambda: tables.astype(real)),
            "d_geometry": lambda: arrays.get((id(term), "geometry", self._layout), self._geometry),
            "d_facets": lambda: arrays.get((id(term), "facets"), lambda: term.facets),
            "d_coords": lambda: arrays.get((id(block.coords), "coords"), lambda: block.coords.astype(real)),
            "d_coord_offsets": lambda: self._offsets(arrays, id(block), block.coord_dofs, np.int32(term.dim)),
        }
        for i, row in enumerate(term.rows):
            known[f"d_test{i}_offsets"] = partial(self._field_offsets, arrays, row)
        for data in fields:
            known[f"d_{data.name}"] = partial(vectors.__getitem__, data.name if source == "evector" else data.vector)
            known[f"d_{data.name}_offsets"] = partial(self._field_offsets, arrays, data.field)
        names = [name for name, _ in arguments(self.plan)]
        self._positions: dict[str, list[int]] = {"out": [i for i, name in enumerate(names) if name == "d_out"]}
        for data in fields:
            self._positions.setdefault(data.vector, []).append(names.index(f"d_{data.name}"))
        self.kernel = Kernel(
            runtime,
            source,
            self.plan.name,
            [known[name]() for name in names],
            self.plan.global_size(term.num_cells),
            self.plan.num_items,
            label="-".join([target, *["facets"] * self.plan.facet, block.cell, self.plan.schedule]),
        )
        self.kernel.timed = settings.view

    def bind(self, name: str, buffer: Any) -> None:
        """Makes the kernel read or write another buffer: `u`, `w`, `a0`, ..., `out`; no effect where it has no such argument."""
        for position in self._positions.get(name, ()):
            self.kernel.set(position, buffer)

    @property
    def flops(self) -> int:
        """Floating-point operations of one launch on this rank."""
        return self.plan.cell_flops(self.pointwise_flops) * self.term.num_cells

    @property
    def _layout(self) -> bool:
        return self.plan.cell_fastest

    def _geometry(self) -> npt.NDArray[Any]:
        geometry = self.term.geometry().reshape(self.term.num_cells, self.plan.geometry_words)
        return (geometry.T if self._layout else geometry).astype(REAL[self.plan.precision], copy=False)

    def _field_offsets(self, arrays: DeviceArrays, field: Field) -> Any:
        return self._offsets(arrays, id(field), field.offsets[self.term.block.index])

    def _offsets(self, arrays: DeviceArrays, key: Any, offsets: npt.NDArray[np.int32], scale: Any = 1) -> Any:
        """An array over the block's cells, for this term's cells and in the order that the kernel reads."""

        def make() -> npt.NDArray[np.int32]:
            part = self.term.subset(offsets)
            ordered = np.ascontiguousarray(part.T if self._layout else part)
            return ordered if scale == 1 else ordered * scale

        cells = id(self.term.block) if self.term.cells is None else id(self.term)
        return arrays.get((cells, key, "offsets", self._layout), make)


def make_plan(
    term: Term,
    target: str,
    pointwise: Pointwise,
    fields: list[FieldData],
    settings: Settings,
    device: Device,
    source: str,
) -> Plan:
    """Chooses the plan of a kernel from the options, the form and the device.

    Raises:
        PlanError: when the options ask for what does not fit.
    """
    geometry = geometry_mode(term, settings, source)
    needs_x = ("x", 0) in pointwise.reads
    outputs = frozenset(name for name, _ in pointwise.writes)
    second = {data.field for data in fields if data.hessian} | (set(term.rows) if outputs & {"g4", "g5"} else set())
    needs_coords = needs_x or geometry.endswith("recomputed") or (bool(second) and not term.affine)
    elements = term.elements(fields, needs_coords)
    number = {element: i for i, element in enumerate(elements)}
    hessian_tables = {number[term.element(field)] for field in second}
    if second and not term.affine:
        hessian_tables.add(number[term.coord_element])
    scatter = scatter_mode(settings, device) if target in ("residual", "action", "diagonal") else "evector"
    if source == "evector":
        scatter = "gather"
    sizes: dict[str, Any] = dict(
        target=target,
        schedule=schedule_of(term, target, pointwise, settings),
        dim=term.dim,
        num_qpts=term.quadrature.num_qpts,
        tests=_rows(term, number, pointwise) if target not in ("functional", "state") else (),
        table_sizes=tuple(element.num_basis for element in elements),
        coord_table=number.get(term.coord_element, 0),
        fields=tuple(
            FieldPlan(
                data.name,
                data.array,
                data.offset,
                number[term.element(data.field)],
                term.element(data.field).num_basis,
                data.field.num_comp,
                data.value,
                data.gradient,
                data.hessian,
            )
            for data in fields
        ),
        writes=outputs,
        geometry=geometry,
        facet=term.facets is not None,
        needs_x=needs_x,
        needs_n=("n", 0) in pointwise.reads,
        hessian_tables=frozenset(hessian_tables),
        num_state=_num_state(pointwise),
        precision=settings.precision,
        scatter="atomic" if scatter == "atomic" else "evector",
        source=source,
        staged=term.quadrature.num_qpts > 1,
        atomics="ptx" if device.is_nvidia else "cas",
        gpu=device.is_gpu,
        group_size=settings.group_size or (128 if device.is_gpu else 64),
        local_limit=device.local_bytes,
        group_limit=device.max_group,
    )
    if sizes["schedule"] == "transposed":
        if not device.is_gpu:
            sizes["group_limit"] = min(device.max_group, _stack_limit(Plan(**sizes)))
        sizes |= _blocks(sizes, settings)
    return Plan(**sizes)


def schedule_of(term: Term, target: str, pointwise: Pointwise, settings: Settings) -> str:
    """`transposed` where it is asked for and possible: residuals and actions over cells, without numbers kept at points."""
    blocked = settings.num_blocks > 0 or settings.num_batches > 0
    wanted = ("transposed" if blocked else "cell") if settings.schedule == "auto" else settings.schedule
    possible = target in ("residual", "action") and term.facets is None and not _num_state(pointwise)
    return wanted if possible else "cell"


def _num_state(pointwise: Pointwise) -> int:
    """Stored numbers per point that a pointwise function reads or writes."""
    return len({entry for entry in pointwise.reads | pointwise.writes if entry[0] == "s"})


def _rows(term: Term, number: dict[Any, int], pointwise: Pointwise) -> tuple[RowsPlan, ...]:
    """The fields of the test function, and what multiplies each."""
    rows: list[RowsPlan] = []
    for field in term.rows:
        components = range(field.offset, field.offset + field.num_comp)
        value, gradient = (any((output, c) in pointwise.writes for c in components) for output in ("f0", "f1"))
        element = term.element(field)
        first = rows[-1].first_row + rows[-1].size if rows else 0
        rows.append(RowsPlan(field.offset, number[element], element.num_basis, field.num_comp, first, value, gradient))
    return tuple(rows)


def _stack_limit(plan: Plan) -> int:
    """Work-items whose private arrays fit the stack of a CPU's thread.

    Where a kernel has barriers, PoCL puts the arrays of a whole work-group there, and a larger group ends the process.
    """
    words = sum(field.size + field.num_comp * (1 + plan.dim + plan.dim**2 * field.hessian) for field in plan.fields)
    words += 3 * plan.dim**2 + 2 * plan.num_comp * (1 + plan.dim)
    words += plan.num_coord_basis * plan.dim if plan.needs_coords else 0
    return max(1, STACK_BYTES // (8 * words))


def scatter_mode(settings: Settings, device: Device) -> str:
    """`atomic` or `gather`: auto takes atomics where the device has them natively and determinism is not asked for."""
    if settings.scatter != "auto":
        return settings.scatter
    return "atomic" if device.is_nvidia and not settings.deterministic else "gather"


def geometry_mode(term: Term, settings: Settings, source: str = "lvector") -> str:
    """Stored or recomputed: as asked, else what moves fewer bytes per cell.

    Cells share vertices, so that coordinates cost little beside their offsets. In single precision Jacobians are differences of
    rounded coordinates, wrong by |x| / h roundings: there they are stored, rounded after the fact.
    """
    block, dim = term.block, term.dim
    kind = "affine" if term.affine else "points"
    if settings.geometry != "auto":
        return f"{kind}_{settings.geometry}"
    if settings.precision != "double" or source == "evector":
        return f"{kind}_stored"
    stored = 8 * (dim * dim + 1) * (1 if term.affine else term.quadrature.num_qpts)
    rebuilt = 4 * block.coord_element.num_basis + 8 * dim * len(block.coords) / max(term.mesh.num_cells, 1)
    return f"{kind}_{'stored' if stored <= rebuilt else 'recomputed'}"


def _blocks(sizes: dict[str, Any], settings: Settings) -> dict[str, int]:
    """Blocks and batches: as asked, else work-groups of about 128 items, four batches."""
    num_batches = settings.num_batches or 4
    if settings.num_blocks:
        return {"num_blocks": settings.num_blocks, "num_batches": num_batches}
    return {"num_blocks": max(1, 128 // Plan(**sizes).block_size), "num_batches": num_batches}
