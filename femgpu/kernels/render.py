"""A plan and a pointwise function become OpenCL C."""

from __future__ import annotations

from functools import cache, partial
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
    "state": ("s",),
    "diagonal": ("g0", "g1", "g2", "g3", "g4", "g5"),
    "matrix": ("g0", "g1", "g2", "g3", "g4", "g5"),
}
_INPUTS = ("u", "u_x", "u_xx", "w", "w_x", "w_xx", "a", "a_x", "a_xx", "x", "n", "s")


def render(plan: Plan, body: str, num_aux: int, tables: np.ndarray) -> str:
    """The program of a plan.

    Args:
        plan: the kernel's plan.
        body: statements of the pointwise function.
        num_aux: components of all coefficients together.
        tables: (num_facets or 1, plan.table_words) what `pack_tables` makes.

    Returns:
        OpenCL C with one kernel, `plan.name`.
    """
    outputs = tuple(name for name in _OUTPUTS[plan.target] if name in plan.writes or name < "g4")
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
            pointwise_arguments=", ".join([*(f"r_{name}" for name in _INPUTS), "d_constants", *outputs]),
            declare_outputs=_declare_outputs(plan, outputs),
            trial_hessian=bool(plan.writes & {"g4", "g5"}),
            apply_blocks=partial(_apply_blocks, plan),
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
    if plan.facet:
        entries.append(("d_facets", "__global const int *restrict"))
    entries.append(("d_constants", "__global const real *restrict"))
    if not plan.tables_in_source:
        entries.append(("d_tables", "__global const real *restrict"))
    if plan.scatter == "atomic":
        entries += [(f"d_test{i}_offsets", "__global const int *restrict") for i in range(len(plan.tests))]
    if plan.num_state:
        entries.append(("d_state", f"__global {'' if plan.target == 'state' else 'const '}real *restrict"))
    if plan.target != "state":
        out = "double" if plan.target == "matrix" else "accum" if plan.target == "functional" else "scalar"
        entries.append(("d_out", f"__global {out} *restrict"))
    return tuple(entries)


def pack_tables(plan: Plan, weights: np.ndarray, normals: np.ndarray | None, tabulations: list[list[np.ndarray]]) -> np.ndarray:
    """Weights, normal and tabulations in the order of the program's table macros.

    Args:
        plan: the plan.
        weights: (num_qpts,), of facets (num_facets, num_qpts).
        normals: (num_facets, dim) reference normals of facets.
        tabulations: of each element values (num_qpts, num_basis), gradients (num_qpts, num_basis, dim) and, where the plan asks
            for them, second derivatives (num_qpts, num_basis, dim, dim); of facets with num_facets as first axis.

    Returns:
        (num_facets or 1, table_words) float64.
    """
    pieces = [weights] if normals is None else [weights, normals]
    pieces += [array for arrays in tabulations for array in arrays]
    count = 1 if normals is None else len(normals)
    packed = np.concatenate([array.reshape(count, -1) for array in pieces], axis=1)
    assert packed.shape == (count, plan.table_words)
    return packed


def _type_macros(precision: str) -> list[str]:
    lines = [f"#define {name} {kind}" for name, kind in zip(("REAL", "SCALAR", "ACCUM"), _TYPES[precision], strict=True)]
    return lines


def _macros(plan: Plan) -> list[str]:
    lines = _type_macros(plan.precision)
    sizes = {
        "DIM": plan.dim,
        "NUM_QPTS": plan.num_qpts,
        "NUM_COMP": plan.num_comp,
        "NUM_ROWS": plan.num_rows,
        "NUM_COORD_BASIS": plan.num_coord_basis,
        "GROUP_SIZE": plan.num_items,
    }
    if plan.num_state:
        sizes["NUM_STATE"] = plan.num_state
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
        numbers = ", ".join(f"R({float(value).hex()})" for value in tables.ravel())
        lines += ["#define TABLE __constant", f"__constant real d_tables[{tables.size}] = {{{numbers}}};"]
    else:
        lines.append("#define TABLE __global")
    base = f"(d_tables + facet * {plan.table_words})" if plan.facet else "d_tables"
    lines.append(f"#define TABLE_W(q) {base}[q]")
    start = plan.num_qpts
    if plan.facet:
        lines.append(f"#define TABLE_N ({base} + {start})")
        start += plan.dim
    for number, size in enumerate(plan.table_sizes):
        widths = {"B": size, "D": size * plan.dim}
        if number in plan.hessian_tables:
            widths["H"] = size * plan.dim**2
        for letter, width in widths.items():
            lines.append(f"#define TABLE_{letter}{number}(q) ({base} + {start} + (q) * {width})")
            start += plan.num_qpts * width
    lines += [f"#define TABLE_{letter}(i, q) TABLE_{letter}##i(q)" for letter in "BDH"]
    return "\n".join(lines)


def _apply_blocks(plan: Plan, block: str) -> str:
    return _LOOKUP.get_template("blocks.mako").render(plan=plan, block=block, trial_hessian=bool(plan.writes & {"g4", "g5"}))


def _pointwise_arrays(plan: Plan, num_aux: int) -> list[tuple[str, int]]:
    """Names and sizes of the arrays that the pointwise function reads; what it does not read has one entry."""
    dim = plan.dim
    comps = {"a": num_aux} | {array: 0 for array in ("u", "w")}
    for field in plan.fields:
        comps[field.array] = max(comps[field.array], field.offset + field.num_comp)
    sizes: dict[str, int] = {}
    for array, size in comps.items():
        sizes |= {array: max(size, 1), f"{array}_x": max(size * dim, 1)}
        used = any(field.hessian for field in plan.fields if field.array == array)
        sizes[f"{array}_xx"] = size * dim**2 if used else 1
    sizes |= {"x": dim, "n": dim, "s": plan.num_state if plan.target != "state" and plan.num_state else 1}
    return [(name, sizes[name]) for name in _INPUTS]


def _declare_outputs(plan: Plan, outputs: tuple[str, ...]) -> str:
    comp, dim = max(plan.num_comp, 1), plan.dim
    full = {
        "f0": comp,
        "f1": comp * dim,
        "g0": comp**2,
        "g1": comp**2 * dim,
        "g2": comp**2 * dim,
        "g3": comp**2 * dim**2,
        "g4": comp**2 * dim**2,
        "g5": comp**2 * dim**3,
        "s": plan.num_state,
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
