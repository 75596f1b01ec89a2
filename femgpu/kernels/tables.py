"""Weights, normals and tabulations as a program sees them: an argument, or __constant numbers in its text.

Where the tabulations are products of 1D ones (`Plan.lines`) these stand in their place, always in the text: a degree of 15 has less
than a thousand numbers.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from femgpu.kernels.plan import Plan
from femgpu.kernels.products import product_tables, product_words


def pack_tables(
    plan: Plan, weights: np.ndarray, normals: np.ndarray | None, tabulations: Mapping[int, list[np.ndarray]], side: int = 0
) -> np.ndarray:
    """Weights, normal and tabulations in the order of the program's table macros.

    Args:
        plan: the plan.
        weights: (num_qpts,), of facets (num_facets, num_qpts).
        normals: (num_facets, dim) reference normals of facets.
        tabulations: of each table of `plan.side_tables(side)` values (num_qpts, num_basis), gradients (num_qpts, num_basis, dim)
            and, where the work says so, second derivatives (num_qpts, num_basis, dim, dim); of facets num_facets is the first axis.
        side: 1 for the second cells of facets.

    Returns:
        (num_facets or 1, plan.words_of(side)) float64.
    """
    count = 1 if normals is None else len(normals)
    if tiles := plan.tile_tables(side):
        facets = zip(weights.reshape(count, -1), [()] if normals is None else normals, strict=True)
        return np.stack([tiles.pack(*given, _facet(tabulations, i, count)) for i, given in enumerate(facets)])
    summed: list[np.ndarray] = []
    num_points = weights.shape[-1]
    if plan.work.products:
        summed, weights = list(product_tables(plan.work, weights.ravel(), tabulations)), np.ones(1)
    pieces = [weights] if normals is None else [weights, normals]
    odd = plan.table_space == "__local"
    for array in (array for number in plan.side_tables(side) for array in tabulations[number]):
        points = array.reshape(count, num_points, -1)[:, : plan.work.num_qpts]
        width = points.shape[2]
        pieces.append(np.pad(points, ((0, 0), (0, 0), (0, (width | odd) - width))))
    packed = np.concatenate([array.reshape(count, -1) for array in (*pieces, *summed)], axis=1)
    assert packed.shape == (count, plan.words_of(side))
    return packed


def table_text(plan: Plan, tables: np.ndarray) -> str:
    """Macros TABLE_W, TABLE_N, TABLE_B, TABLE_D, TABLE_H, and the numbers where they stand in the program.

    Args:
        plan: the plan.
        tables: what `pack_tables` makes.
    """
    if plan.lines:
        return _line_text(plan)
    if plan.tile_tables():
        found = [plan.tile_tables(side.number) for side in plan.work.sides]
        return "\n".join([f"#define TABLE {plan.table_space}", *(line for tiles in found if tiles for line in tiles.macros)])
    work, odd, lines = plan.work, plan.table_space == "__local", [f"#define TABLE {plan.table_space}"]
    if plan.table_space == "__constant":
        numbers = ", ".join(f"R({float(value).hex()})" for value in tables.ravel())
        lines.append(f"__constant real d_tables[{tables.size}] = {{{numbers}}};")
    for side in work.sides:
        facet = f"({side.name('d_tables')} + {side.name('facet')} * {plan.words_of(side.number)})"
        base = "s_tables" if odd else facet if work.facet else "d_tables"
        start = work.num_qpts + work.dim * work.facet
        if side.number == 0:
            lines.append(f"#define TABLE_W(q) {base}[q]")
            lines += [f"#define TABLE_N ({base} + {work.num_qpts})"] if work.facet else []
        for number in plan.side_tables(side.number):
            for letter, words in work.tables[number].widths(work.dim).items():
                width = words | odd
                lines.append(f"#define TABLE_{letter}{number}(q) ({base} + {start} + (q) * {width})")
                start += work.num_qpts * width
    for i, j, words in product_words(work):
        lines.append(f"#define TABLE_P{i}_{j} ({base} + {start})")
        start += words
    lines += [f"#define TABLE_{letter}(i, q) TABLE_{letter}##i(q)" for letter in "BDH"]
    return "\n".join(lines)


def _facet(tabulations: Mapping[int, list[np.ndarray]], i: int, count: int) -> dict[int, list[np.ndarray]]:
    """Those of facet i of so many, or of the cell."""
    return {number: [array.reshape(count, -1)[i] for array in arrays] for number, arrays in tabulations.items()}


def _line_text(plan: Plan) -> str:
    """The 1D rule and the elements' 1D matrices (q1d, p1d)."""
    work = plan.work
    assert work.tensor is not None
    tensor = work.tensor
    arrays = {"LINE_W": tensor.weights, "LINE_X": tensor.points, "LINE_D": tensor.D}
    for number in plan.tables:
        factors = tensor.factors[number]
        arrays |= {f"LINE_B{number}": factors.B, f"LINE_D{number}": factors.D}
        arrays |= {f"LINE_H{number}": factors.H} if work.tables[number].second else {}
        if work.target == "diagonal" and any(row.table == number for row in work.rows):
            B, D = factors.B, factors.D
            arrays |= {f"LINE_BB{number}": B * B, f"LINE_BD{number}": B * D, f"LINE_DD{number}": D * D}
    if work.affine and plan.needs_coords and plan.geometry == "recomputed":
        # Gradients of the coordinates' basis at one point, where the map is as everywhere.
        one = tensor.factors[work.coord_table]
        B, D = one.B[:1], one.D[:1]
        parts = [[D if axis == along else B for axis in range(work.dim)] for along in range(work.dim)]
        arrays["LINE_MAP"] = np.stack([_product(part) for part in parts], axis=1)
    arrays |= _weighted_lines(plan)
    lines: list[str] = []
    if plan.splits and plan.passes_lines:
        start = 0
        for name, half in parity_lines(plan).items():
            lines.append(f"#define {name} (d_parts.numbers + {start})")
            start += half.size
        lines.append(f"typedef struct {{ real numbers[{start}]; }} parts;")
    elif plan.splits:
        arrays |= parity_lines(plan)
    numbers: list[str] = []
    for name, array in arrays.items():
        lines.append(f"#define {name} (d_lines + {len(numbers)})")
        numbers += [f"R({value.hex()})" for value in array.ravel().tolist()]
    lines.insert(0, f"#define TABLE {plan.table_space}\n__constant real d_lines[{len(numbers)}] = {{{', '.join(numbers)}}};")
    weights = [f"LINE_W[(p) / {tensor.q1d**axis} % {tensor.q1d}]" for axis in range(work.dim)]
    lines.append(f"#define LATTICE_W(p) ({' * '.join(weights)})")
    return "\n".join(lines)


def _weighted_lines(plan: Plan) -> dict[str, np.ndarray]:
    """The matrices that rows are multiplied by, where these have the weights in them: W B, and W D W^-1 before that.

    Along each direction values at the points, and what is left of derivatives there, are multiplied by W B at last.
    """
    tensor = plan.work.tensor
    if tensor is None or not getattr(plan, "weighs_lines", False):  # planes of sumfact may
        return {}
    weights = tensor.weights[:, None]
    values = {f"WEIGHED_B{row.table}": weights * tensor.factors[row.table].B for row in plan.work.rows}
    values |= {f"WEIGHED_D{row.table}": weights * tensor.factors[row.table].D for row in plan.work.rows}
    return values | {"WEIGHED_D": weights * tensor.D / tensor.weights}


def parity_lines(plan: Plan) -> dict[str, np.ndarray]:
    """Even and odd parts of the 1D matrices that lines are multiplied by, by name."""
    tensor = plan.work.tensor
    assert tensor is not None
    matrices = {"LINE_D": tensor.D} | {f"LINE_B{number}": tensor.factors[number].B for number in plan.tables}
    derived = getattr(plan, "derived_tables", ())  # of plans of sumfact in which items share a cell
    matrices |= {f"LINE_D{number}": tensor.factors[number].D for number in derived} | _weighted_lines(plan)
    return {
        f"{name}_{part}": half
        for name, matrix in matrices.items()
        for part, half in zip(("EVEN", "ODD"), parity_parts(matrix), strict=True)
    }


def parity_parts(matrix: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """What multiplies v_c + v_(n-1-c) and v_c - v_(n-1-c), and the middle of v, in the first half of the rows of matrix v.

    Args:
        matrix: (m, n), its rows backwards are the last ones' columns backwards but for a sign.

    Returns:
        ((m + 1) // 2, (n + 1) // 2) and ((m + 1) // 2, n // 2).
    """
    rows, columns = (matrix.shape[0] + 1) // 2, matrix.shape[1]
    even, odd = (0.5 * (matrix[:rows] + sign * matrix[:rows, ::-1]) for sign in (1, -1))
    if columns % 2:
        even[:, columns // 2] = matrix[:rows, columns // 2]
    return even[:, : (columns + 1) // 2], odd[:, : columns // 2]


def _product(factors: list[np.ndarray]) -> np.ndarray:
    """All products of one number of each array, those of the first array follow each other."""
    found = np.ones(1)
    for array in factors:
        found = np.outer(array, found).ravel()
    return found
