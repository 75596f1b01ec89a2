"""What a cell takes by a plan of schedule tiled on a GPU: a model of one multiprocessor, fitted to an H200."""

from __future__ import annotations

from typing import Any

# Of an H200's multiprocessor, also of its kin: 32-bit registers and bytes of local memory, items that run in step, and at most.
_REGISTERS, _LOCAL, WARP, _ITEMS = 65536, 228 << 10, 32, 2048
# Registers of an item beside its numbers, and most that it has.
_BESIDE, _MOST_REGISTERS = 40, 255
# Multiply-adds per cycle of a multiprocessor's double precision units, and of its matrix instructions.
_VECTOR, _MATRIX = 64, 128
# What a cell takes on an H200 (20 actions, 98 plans: within 12 % in the mean, the choice within 2 % of the best): shares of
# arithmetic and of local memory's traffic, how much more where few warps hide each other's waiting, cycles of a coefficient.
_ARITHMETIC, _TRAFFIC, _WAITING, _COEFFICIENT = 0.7, 0.3, 20.0, 1.5
# How much more where items multiply by themselves, which takes as long as the longer of both.
_ALONE_WAITING = 8.0


def cycles(plan: Any) -> float:
    """Cycles of a GPU's multiprocessor for one cell, about; infinite where its registers do not hold an item's numbers.

    Args:
        plan: a `TiledPlan`, which asks for this itself.
    """
    rows, parts = plan.rows, plan.parts
    sums = plan.field_numbers + plan.row_numbers if plan.passes > 1 else max(plan.field_numbers, plan.row_numbers)
    widest = max(tile.width for tile in plan.table_tiles)
    if 2 * (sums + widest) + _BESIDE - 10 > _MOST_REGISTERS:
        return float("inf")
    registers = min(_MOST_REGISTERS, 2 * sums + 4 * widest + 2 * plan.width + _BESIDE)
    groups = min(_REGISTERS // (registers * plan.items), _LOCAL // (plan.local_bytes + 1024), _ITEMS // plan.items)
    warps = max(1, groups * plan.items // WARP)
    arithmetic = traffic = 0.0
    for tile in plan.table_tiles:
        comps = tile.num_comp * plan.vectors if plan.mma else tile.num_comp * plan.width
        turns = tile.turns * (1 if tile.rows else plan.passes) * (parts // 8 if plan.mma else parts)
        # Sixteen rows take as long as eight.
        products = -(-tile.width // 2) if plan.mma == 16 else tile.width
        arithmetic += turns * products * comps * (256 / _MATRIX if plan.mma else plan.cells / plan.width / _VECTOR)
        # A number that an item reads takes two cycles for each warp, whether others read the same or not.
        traffic += turns * 2 * (tile.width + comps) * (1 if plan.mma else plan.cells / plan.width / WARP)
    points = plan.work.num_qpts * (plan.work.pointwise_size + 20) / 2 / _VECTOR
    passing = plan.work.num_qpts * (2 * plan.flux_words + plan.work.dim**2) * 2 / WARP
    arithmetic, traffic = arithmetic / plan.cells + points, traffic / plan.cells + passing
    coefficients = _COEFFICIENT * sum(tile.num_basis * tile.num_comp for tile in rows)
    if plan.mma:
        return (_ARITHMETIC * arithmetic + _TRAFFIC * traffic) * (1 + _WAITING / warps) + coefficients
    return max(arithmetic, traffic) * (1 + _ALONE_WAITING / warps) + coefficients


def seconds(plan: Any, double: float) -> float:
    """Seconds for one cell on a device whose multiprocessors reach so many flop/s together in double precision."""
    return cycles(plan) * 2 * _VECTOR / double
