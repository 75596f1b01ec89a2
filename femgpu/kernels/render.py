"""A plan and a pointwise function become OpenCL C."""

from __future__ import annotations

from functools import partial
from itertools import pairwise
from typing import Any

import numpy as np

from femgpu.errors import PlanError
from femgpu.kernels.array import DOT_SLOTS
from femgpu.kernels.node_lists import LIST_CONSTANTS, NodeList
from femgpu.kernels.plan import Plan
from femgpu.kernels.source import source, type_macros
from femgpu.kernels.step import Step
from femgpu.kernels.tables import table_text
from femgpu.kernels.templates import template
from femgpu.kernels.work import SECOND, TEST_SECOND, TRIAL_SECOND, Work
from femgpu.kernels.work_fields import FieldWork, RowsWork

_BLOCKS = ("g0", "g1", "g2", "g3")
_OUTPUTS = {
    "residual": ("f0", "f1"),
    "action": ("f0", "f1"),
    "functional": ("f0",),
    "state": (),
    "diagonal": _BLOCKS,
    "matrix": _BLOCKS,
}
# What every pointwise function reads; what those in reference coordinates read besides.
_INPUTS = ("u", "u_x", "u_xx", "w", "w_x", "w_xx", "a", "a_x", "a_xx", "x", "n", "s")
_REFERENCE = ("K", "det", "weight")


def render(plan: Plan, body: str, tables: np.ndarray) -> str:
    """The program of a plan: a kernel for each of its steps.

    Args:
        plan: the plan.
        body: statements of the pointwise function.
        tables: (num_facets or 1, plan.words_of(0)) what `pack_tables` makes.

    Returns:
        OpenCL C; the kernels have the steps' names.
    """
    outputs = _outputs(plan.work)
    steps = plan.steps()
    parts = [
        "\n".join(_macros(plan, steps)),
        source("common.cl"),
        source("atomics.cl"),
        *([f"#define PLACE {plan.work.place}", source("places.cl")] if plan.work.place else []),
        *([f"#define DOT_SLOTS {DOT_SLOTS}", source("dots.cl")] if plan.sums_dots else []),
        table_text(plan, tables),
        *(plan.adapted(source(name)) for name in plan.sources),
        *([plan.adapted(source("pull_back.cl"))] if plan.work.writes & SECOND else []),
        *([source("bessel.cl")] if "bessel_" in body else []),
        template("pointwise.cl.mako").render(inputs=_inputs(plan.work), outputs=outputs, body=_indent(body)),
        _kernel(plan, steps[0], outputs),
    ]
    for before, step in pairwise(steps):
        parts += [*_forgotten(before), _kernel(plan, step, outputs)]
    return "\n".join(parts)


def _forgotten(before: Step) -> list[str]:
    """What a step has defined for itself, and the next one defines anew."""
    return [f"#undef {name}" for name in ("GROUP_SIZE", "POINTS_UNROLL", *dict(before.macros))]


def _kernel(plan: Plan, step: Step, outputs: tuple[str, ...]) -> str:
    """One step, with its own macros."""
    work, inputs = plan.work, _inputs(plan.work)
    macros = [f"#define {name} {value}" for name, value in step.macros]
    points = ' _Pragma("unroll")' if dict(step.macros).get("UNROLL_POINTS") else " UNROLL" if plan.rolls_basis else ""
    macros.append(f"#define POINTS_UNROLL{points}")
    text = template(f"{step.shell}.cl.mako").render(
        plan=plan,
        work=work,
        step=step,
        outputs=outputs,
        arguments=", ".join(["const int first", "const int count", *(array.declaration for array in step.arrays)]),
        pointwise_arrays=_pointwise_arrays(work, inputs),
        pointwise_arguments=", ".join([*(f"r_{name}" for name in inputs), "d_constants", *outputs]),
        declare_outputs=_declare_outputs(work, outputs),
        test_hessian=bool(work.writes & TEST_SECOND),
        trial_hessian=bool(work.writes & TRIAL_SECOND),
        stages_geometry=any(array.name == "s_geometry" for array in step.local),
        apply_blocks=partial(_apply_blocks, work),
        coefficient=partial(_coefficient, work),
        direction=partial(_direction, plan),
        kept=partial(_kept, plan),
        listed=_listed,
        sized=_sized(step),
        at_node=_at_node,
        **{name.lower(): value for name, value in LIST_CONSTANTS.items()},
    )
    return "\n".join([f"#define GROUP_SIZE {step.items}", *macros, text])


def _sized(step: Step) -> str:
    """What tells compilers the size of a work-group; NVIDIA's would then keep to no bound on registers."""
    return "" if "MAX_REGISTERS" in dict(step.macros) else " __attribute__((reqd_work_group_size(GROUP_SIZE, 1, 1)))"


def _macros(plan: Plan, steps: tuple[Step, ...]) -> list[str]:
    """Types, sizes, positions in the arrays of all steps, unrolling and atomics."""
    work = plan.work
    sizes = {
        "DIM": work.dim,
        "NUM_QPTS": work.num_qpts,
        "NUM_COMP": work.num_comp,
        "NUM_ROWS": work.num_rows,
        **{side.name("NUM_COORD_BASIS"): side.num_coord_basis for side in work.sides},
        "NUM_STATE": work.num_state,
        "NUM_CELL_STATE": work.num_cell_state,
    }
    lines = [*type_macros(plan.precision)] + [f"#define {name} {value}" for name, value in sizes.items()]
    places: dict[str, str] = {}
    for array in (array for step in steps for array in step.arrays if array.macro):
        if places.setdefault(array.name, array.macro) != array.macro:
            raise PlanError(f"two steps of a {plan.schedule} plan lay their arrays {array.name} out differently; rename one")
    lines += places.values()
    if plan.unrolls_basis:
        lines.append("#define UNROLLED")
    elif plan.rolls_basis:
        lines.append("#define ROLLED")
    if plan.scatter == "atomic" and (work.sums or work.place):
        bits = 64 if work.place else plan.itemsize("scalar") * 8
        lines.append(f"#define ATOMIC_{plan.atomics.upper()}{bits}")
    # PTX inverts scalars only, not the vectors that cells stand side by side in.
    if plan.atomics == "ptx" and plan.adapted("real") == "real":
        lines.append(f"#define RECIPROCAL_PTX{8 * plan.itemsize('real')}")
    if plan.table_space == "__constant" and all(dict(step.macros).get("UNROLL_POINTS") for step in steps):
        lines.append("#define KNOWN_TABLES")
    return lines


def _outputs(work: Work) -> tuple[str, ...]:
    """Names of the arrays that the pointwise function writes."""
    extra = sorted(work.writes & SECOND)
    stored = [name for name, count in (("s", work.num_state), ("c", work.num_cell_state)) if work.target == "state" and count]
    return (*_OUTPUTS[work.target], *extra, *stored)


def _inputs(work: Work) -> tuple[str, ...]:
    """Names of the arrays that the pointwise function reads."""
    storing = work.target == "state"
    names = [name for name in _INPUTS if not (storing and name == "s")]
    names += _REFERENCE if work.reference else ()
    return (*names, *(["c"] if work.num_cell_state and not storing else []))


def _coefficient(work: Work, field: FieldWork, cell: str, i: str) -> str:
    """The expression for word i of a cell's coefficients of a field, where arrays hold the words of a cell together."""
    name, comps = field.name, field.num_comp
    if work.source == "evector":
        return f"(real)d_{name}[AT_d_{name}({cell}, {i})]"
    if comps == 1:
        mark = f"d_{name}_offsets[AT_d_{name}_offsets({cell}, {i})]"
        value = f"(real)d_{field.vector}[{mark}]"
        return f"{mark} < 0 ? R(0) : {value}" if field.masked else value
    mark = f"d_{name}_offsets[AT_d_{name}_offsets({cell}, {i} / {comps})]"
    if not field.masked:
        return f"(real)d_{field.vector}[{mark} + {i} % {comps}]"
    return f"IS_PRESCRIBED({mark}, {i} % {comps}) ? R(0) : (real)d_{field.vector}[NODE({mark}) + {i} % {comps}]"


def _direction(plan: Plan, number: int, row: RowsWork) -> str:
    """The expression for component c of basis function b of the direction in the rows of a field, zero where prescribed."""
    comps, kept = row.num_comp, _kept(plan, row)
    if kept:
        return f"r_{kept.name}_e[{plan.place(kept.num_basis, comps, 'b', 'c')}]"
    return _coefficient(plan.work, row.direction(number), "cell", f"(b * {comps} + c)")


def _kept(plan: Plan, row: RowsWork) -> FieldWork | None:
    """The field with the direction in the rows of a field, where its coefficients still stand there."""
    for field in plan.work.fields if plan.keeps_coefficients else ():
        if field.array == "w" and (field.offset, field.table, field.num_comp) == (row.offset, row.table, row.num_comp):
            return field
    return None


def _listed(entry: NodeList, array: str, c: str) -> str:
    """The expression for component c at node b of the cell in an array over the slots of a list."""
    return f"{array}[{c} * slots{entry.number} + SLOT(r_places{entry.number}[b])]"


def _at_node(field: FieldWork, entry: NodeList) -> str:
    """The expression for component c of a field at the node of a list with a marked offset, zero where it is prescribed."""
    if not entry.masked:
        return f"(real)d_{field.vector}[offset + c]"
    value = f"(real)d_{field.vector}[NODE(offset) + c]"
    if not field.masked:
        return value
    return f"{'offset < 0' if field.num_comp == 1 else 'IS_PRESCRIBED(offset, c)'} ? R(0) : {value}"


def _apply_blocks(work: Work, block: str) -> str:
    return template("blocks.mako").render(work=work, block=block, trial_hessian=bool(work.writes & TRIAL_SECOND))


def _pointwise_arrays(work: Work, inputs: tuple[str, ...]) -> list[tuple[str, int]]:
    """Names and sizes of the arrays that are filled at a point; what the pointwise function does not read has one entry."""
    dim = work.dim
    comps = {"a": work.num_aux} | {array: 0 for array in ("u", "w")}
    for field in work.fields:
        comps[field.array] = max(comps[field.array], field.offset + field.num_comp * work.parts)
    sizes: dict[str, int] = {}
    for array, size in comps.items():
        sizes |= {array: max(size, 1), f"{array}_x": max(size * dim, 1)}
        used = any(field.hessian for field in work.fields if field.array == array)
        sizes[f"{array}_xx"] = size * dim**2 if used else 1
    sizes |= {"x": dim, "n": dim, "s": max(work.num_state, 1), "K": dim**2, "det": 1, "weight": 1}
    return [(name, sizes[name]) for name in inputs if name != "c"]


def _declare_outputs(work: Work, outputs: tuple[str, ...]) -> str:
    comp, dim = max(work.num_comp * work.parts, 1), work.dim
    full: dict[str, Any] = {
        "f0": comp,
        "f1": comp * dim,
        "f2": comp * dim**2,
        "g0": comp**2,
        "g1": comp**2 * dim,
        "g2": comp**2 * dim,
        "g3": comp**2 * dim**2,
        "g4": comp**2 * dim**2,
        "g5": comp**2 * dim**3,
        "g6": comp**2 * dim**2,
        "g7": comp**2 * dim**3,
        "g8": comp**2 * dim**4,
        "s": work.num_state,
        "c": work.num_cell_state,
    }
    parts = []
    for name in outputs:
        size = full[name] if name in work.writes else 1
        parts.append(f"real {name}[{size}]; for (int i = 0; i < {size}; ++i) {name}[i] = 0;")
    return "\n    ".join(parts)


def _indent(body: str) -> str:
    return "\n".join("  " + line for line in body.splitlines())
