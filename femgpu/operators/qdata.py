"""What a Jacobian action keeps at the quadrature points: chosen by the device's ceilings and the plan's bytes and flops."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from mpi4py import MPI

from femgpu.forms import Pointwise, StateSplit, split_states
from femgpu.model import Ceiling, ceiling
from femgpu.operators.cell_kernel import REAL, CellKernel, make_plan, schedule_of
from femgpu.operators.term import FieldData, Term
from femgpu.options import Settings
from femgpu.runtime import Device, Runtime

# Prices of a stored scalar, in operations, for which the graph is cut; the plans that result are compared by their time.
PRICES = (1.0, 4.0, 8.0, 16.0, 32.0, 64.0)
STORE = 4.0
# What kernels reach of the ceilings, and how much of the shorter of memory traffic and arithmetic does not hide behind the longer.
SHARE_BYTES, SHARE_FLOPS, OVERLAP = 0.85, 0.3, 0.3
# Launches by which ways are compared.
_LAUNCHES = 5


@dataclass(frozen=True, eq=False)
class Way:
    """One way to compute the action of a term.

    Attributes:
        action: its kernel.
        storing: the kernel that stores what the action reads at the points.
        split: what is stored and what is computed; None for the user's C text.
    """

    action: CellKernel
    storing: CellKernel | None
    split: StateSplit | None


def fastest(ways: list[Way], mpi: Any) -> Way:
    """The way whose action takes the least time on the slowest rank, measured where there is a choice; collective."""
    if len(ways) == 1:
        return ways[0]
    seconds = [way.action.kernel.least_seconds(_LAUNCHES) for way in ways]
    return ways[int(np.argmin(_slowest(seconds, mpi)))]


def _slowest(seconds: list[float], mpi: Any) -> list[float]:
    """The largest of each entry over the ranks."""
    array = np.array(seconds)
    mpi.Allreduce(MPI.IN_PLACE, array, op=MPI.MAX)
    return list(array)


def candidate_splits(term: Term, settings: Settings, runtime: Runtime, mpi: Any) -> list[StateSplit]:
    """Ways to split a term's action into what is stored at the points at each new state and what is computed for each direction.

    Collective: all ranks have the same ways.

    Args:
        term: a term with an action.
        settings: `qdata` is `store`, `recompute` or `auto`.
        runtime: the device.
        mpi: mpi4py communicator.

    Returns:
        The split that is asked for; for `auto` the one that takes the least time by the model, and on a GPU store and recompute
        besides, among which a measurement decides: what a kernel spills when it holds too much is beyond the model. `auto` leaves
        out what the device's memory does not hold. Nothing where the action is the user's C text or goes by schedule `transposed`.
    """
    action, device = term.integral.action, runtime.device
    assert action is not None
    if schedule_of(term, "action", action, settings) != "cell":
        return []
    prices = {"store": (STORE,), "recompute": (math.inf,), "auto": (STORE, math.inf, *PRICES)}[settings.qdata]
    splits = split_states(action, prices, *_costs(term, action))
    if len(splits) < 2:
        return splits
    limits, room = ceiling(device.name, device.is_gpu), runtime.available_bytes / 2  # two ways that store may be compared
    seconds = [
        seconds_per_cell(term, split.action, settings, device, limits) if state_bytes(term, split, settings) <= room else math.inf
        for split in splits
    ]
    seconds = _slowest(seconds, mpi)
    best = int(np.argmin(seconds))
    if not device.is_gpu or settings.deterministic:
        return [splits[best]]
    return list({splits[i].action.body: splits[i] for i in (best, 0, 1) if math.isfinite(seconds[i])}.values())


def state_bytes(term: Term, split: StateSplit, settings: Settings) -> int:
    """Bytes on this rank of what a split stores."""
    return term.num_cells * term.quadrature.num_qpts * split.num_scalars * np.dtype(REAL[settings.precision]).itemsize


def seconds_per_cell(term: Term, action: Pointwise, settings: Settings, device: Device, limits: Ceiling) -> float:
    """The time that one cell of an action takes by the model."""
    plan = make_plan(term, "action", action, term.fields(action), settings, device, "lvector")
    arithmetic = limits.double if settings.precision == "double" else limits.single
    times = (
        plan.cell_bytes() / (SHARE_BYTES * limits.copy),
        plan.cell_flops(action.flops) / (SHARE_FLOPS * arithmetic),
    )
    return max(times) + OVERLAP * min(times)


def _costs(term: Term, action: Pointwise) -> tuple[Callable[[tuple[str, int]], float], Callable[[tuple[str, int]], float]]:
    """Operations per point to interpolate a component, and to have its coefficients at hand."""
    dim, fields = term.dim, term.fields(action)

    def num_basis(array: str, component: int) -> int:
        return term.element(_holder(fields, array, component).field).num_basis

    def interpolation(entry: tuple[str, int]) -> float:
        array, derivative = entry[0].partition("_")[::2]
        if array in ("x", "n"):
            return 2.0 * term.coord_element.num_basis * dim if array == "x" else 2.0 * dim**2
        factor = {"": 1, "x": dim, "xx": dim**2}[derivative]
        return 2.0 * num_basis(array, entry[1]) * factor + (2.0 * dim * factor if derivative else 0.0)

    def gather(entry: tuple[str, int]) -> float:
        # A coefficient that comes from cache costs about as much as an addition.
        return 0.0 if entry[0] in ("x", "n") else 2.0 * num_basis(*entry) / term.quadrature.num_qpts

    return interpolation, gather


def _holder(fields: list[FieldData], array: str, component: int) -> FieldData:
    return next(data for data in fields if data.array == array and 0 <= component - data.offset < data.field.num_comp)
