"""A plan and a pointwise function become OpenCL C."""

from __future__ import annotations

from functools import cache
from pathlib import Path

import numpy as np
from mako.lookup import TemplateLookup

from femgpu.kernels.plan import Plan

_FOLDER = Path(__file__).parent / "cl"
_LOOKUP = TemplateLookup(directories=[str(_FOLDER)], strict_undefined=True, cache_enabled=True)
_TYPES = {"double": ("double", "double", "double"), "single": ("float",) * 3, "mixed": ("float", "double", "double")}
_OUTPUTS = {
    "residual": ("f0", "f1"),
    "action": ("f0", "f1"),
    "functional": ("f0",),
    "diagonal": ("g0", "g1", "g2", "g3"),
    "matrix": ("g0", "g1", "g2", "g3"),
}


def render(plan: Plan, body: str, num_aux: int, tables: np.ndarray) -> str:
    """The program of a plan.

    Args:
        plan: the kernel's plan.
        body: statements of the pointwise function.
        num_aux: components of all coefficients together.
        tables: (plan.table_words,) weights, then B and D of each tabulation (`pack_tables`).

    Returns:
        OpenCL C with one kernel, `plan.name`.
    """
    outputs = _OUTPUTS[plan.target]
    shell = "matrix" if plan.target == "matrix" else plan.schedule
    parts = [
        "\n".join(_macros(plan)),
        _text("common.cl"),
        _tables(plan, tables),
        _text("basis.cl"),
        _text("geometry.cl"),
        _LOOKUP.get_template("pointwise.cl.mako").render(outputs=outputs, body=_indent(body)),
        _LOOKUP.get_template(f"{shell}.cl.mako").render(
            plan=plan,
            outputs=outputs,
            arguments=", ".join(f"{kind} {name}" for name, kind in arguments(plan)),
            pointwise_arrays=_pointwise_arrays(plan, num_aux),
            declare_outputs=_declare_outputs(plan, outputs),
        ),
    ]
    return "\n".join(parts)


def vector_kernels(precision: str) -> str:
    """The program of the kernels between vectors (`cl/vectors.cl`)."""
    return "\n".join([*_type_macros(precision), _text("common.cl"), _text("vectors.cl")])


def arguments(plan: Plan) -> tuple[tuple[str, str], ...]:
    """Names and types of the kernel's arguments, in order."""
    entries = [("num_cells", "const int")]
    for field in plan.fields:
        entries.append((f"d_{field.name}", "__global const scalar *restrict"))
        if plan.source == "lvector":
            entries.append((f"d_{field.name}_offsets", "__global const int *restrict"))
    if plan.geometry.endswith("stored"):
        entries.append(("d_geometry", "__global const real *restrict"))
    if plan.needs_coords:
        entries.append(("d_coords", "__global const real *restrict"))
        entries.append(("d_coord_offsets", "__global const int *restrict"))
    entries.append(("d_constants", "__global const real *restrict"))
    if not plan.tables_in_source:
        entries.append(("d_tables", "__global const real *restrict"))
    if plan.scatter == "atomic":
        entries.append(("d_test_offsets", "__global const int *restrict"))
    out = "double" if plan.target == "matrix" else "accum" if plan.target == "functional" else "scalar"
    entries.append(("d_out", f"__global {out} *restrict"))
    return tuple(entries)


def pack_tables(weights: np.ndarray, tabulations: list[tuple[np.ndarray, np.ndarray]]) -> np.ndarray:
    """Weights and tabulations in the order of the program's table macros.

    Args:
        weights: (num_qpts,).
        tabulations: (num_qpts, num_basis) and (num_qpts, num_basis, dim) of each.

    Returns:
        (table_words,) float64.
    """
    pieces = [weights]
    for values, gradients in tabulations:
        pieces += [values.ravel(), gradients.ravel()]
    return np.concatenate(pieces)


def _type_macros(precision: str) -> list[str]:
    lines = [f"#define {name} {kind}" for name, kind in zip(("REAL", "SCALAR", "ACCUM"), _TYPES[precision], strict=True)]
    return lines


def _macros(plan: Plan) -> list[str]:
    lines = _type_macros(plan.precision)
    sizes = {
        "DIM": plan.dim,
        "NUM_QPTS": plan.num_qpts,
        "NUM_BASIS": plan.num_basis,
        "NUM_COMP": plan.num_comp,
        "NUM_COORD_BASIS": plan.num_coord_basis,
        "GROUP_SIZE": plan.num_items,
    }
    if plan.schedule == "transposed":
        sizes |= {
            "CELLS": plan.batch_cells,
            "NUM_BATCHES": plan.num_batches,
            "CHUNKS": plan.group_chunks,
            "ITEMS": plan.chunk_items,
            "HAS_F0": int("f0" in plan.writes),
            "HAS_F1": int("f1" in plan.writes),
        }
    lines += [f"#define {name} {value}" for name, value in sizes.items()]
    if plan.cell_fastest:
        lines.append("#define CELL_FASTEST")
    if plan.gpu:
        lines.append("#define UNROLLED")
    points = plan.gpu and plan.num_qpts * plan.num_rows <= 64
    lines.append("#define UNROLL_POINTS" + (' _Pragma("unroll")' if points else ""))
    if plan.scatter == "atomic":
        lines.append(f"#define ATOMIC_{plan.atomics.upper()}{plan.scalar_bytes * 8}")
    return lines


def _tables(plan: Plan, tables: np.ndarray) -> str:
    """Macros TABLE_W, TABLE_B, TABLE_D, and the numbers where they stand in the program."""
    lines = []
    if plan.tables_in_source:
        numbers = ", ".join(f"R({float(value).hex()})" for value in tables)
        lines += ["#define TABLE __constant", f"__constant real d_tables[{len(tables)}] = {{{numbers}}};"]
    else:
        lines.append("#define TABLE __global")
    lines.append("#define TABLE_W(q) d_tables[q]")
    start = plan.num_qpts
    for number, size in enumerate(plan.table_sizes):
        lines.append(f"#define TABLE_B{number}(q) (d_tables + {start} + (q) * {size})")
        start += plan.num_qpts * size
        lines.append(f"#define TABLE_D{number}(q) (d_tables + {start} + (q) * {size * plan.dim})")
        start += plan.num_qpts * size * plan.dim
    lines += ["#define TABLE_B(i, q) TABLE_B##i(q)", "#define TABLE_D(i, q) TABLE_D##i(q)"]
    return "\n".join(lines)


def _pointwise_arrays(plan: Plan, num_aux: int) -> list[tuple[str, int]]:
    """Names and sizes of the arrays that the pointwise function reads; what it does not read has one entry."""
    sizes = {"u": 1, "u_x": 1, "w": 1, "w_x": 1, "a": max(num_aux, 1), "a_x": max(num_aux * plan.dim, 1), "x": plan.dim}
    for field in plan.fields:
        if field.array != "a":
            sizes[field.array], sizes[field.array + "_x"] = field.num_comp, field.num_comp * plan.dim
    return list(sizes.items())


def _declare_outputs(plan: Plan, outputs: tuple[str, ...]) -> str:
    comp, dim = max(plan.num_comp, 1), plan.dim
    full = {
        "f0": comp,
        "f1": comp * dim,
        "g0": comp**2,
        "g1": comp**2 * dim,
        "g2": comp**2 * dim,
        "g3": comp**2 * dim**2,
    }
    parts = []
    for name in outputs:
        size = full[name] if name in plan.writes else 1
        parts.append(f"real {name}[{size}]; for (int i = 0; i < {size}; ++i) {name}[i] = 0;")
    return "\n    ".join(parts)


def _indent(body: str) -> str:
    return "\n".join("  " + line for line in body.splitlines())


@cache
def _text(name: str) -> str:
    return (_FOLDER / name).read_text()
