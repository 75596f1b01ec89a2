"""Term, pointwise function and target become a `Work`: what a kernel is to compute, without any mesh."""

from __future__ import annotations

from typing import Any

from femgpu.element import tensor_factors
from femgpu.forms import Pointwise
from femgpu.kernels import SECOND, FieldWork, RowsWork, Table, Work
from femgpu.operators.columns import node_parts
from femgpu.operators.modes import with_modes
from femgpu.operators.term import FieldData, Term
from femgpu.spaces import Field


def make_work(
    term: Term,
    target: str,
    pointwise: Pointwise,
    masked: bool = False,
    source: str = "lvector",
    place: str = "",
    fresh: bool = False,
    rounded: bool = False,
    shift: int = 0,
    modes: bool = False,
) -> Work:
    """The work of one term for one target.

    Args:
        term: the term.
        target: one of `kernels.work.TARGETS`.
        pointwise: the pointwise function.
        masked: whether entries of the test space's vectors may be prescribed: rows are skipped, a direction is zero there.
        source: fields are read from an `lvector`, or from an `evector` of each cell's own coefficients.
        place: element matrices go into a sparse matrix with places of this C type.
        fresh: they are the first on these cells.
        rounded: what is kept at points and in cells is kept in single precision.
        shift: of a diagonal, see `Work`.
        modes: whether coefficients may stand for values at points (`with_modes`).
    """
    fields = term.fields(pointwise)
    outputs = frozenset(name for name, _ in pointwise.writes)
    elements = term.elements(fields)
    number = {element: i for i, element in enumerate(elements)}
    rows = term.rows if target not in ("functional", "state") else ()
    second = {(data.field.side, term.element(data.field)) for data in fields if data.hessian}
    if outputs & SECOND:
        second |= {(field.side, term.element(field)) for field in rows}
    nodes = {field: i for i, field in enumerate(dict.fromkeys([*rows, *(data.field for data in fields)]))}
    coords = [(i, side.coord_element) for i, side in enumerate(term.sides)]
    if second and not term.affine:
        second |= set(coords)
    stored, stored_once = (_count(pointwise, array) for array in "sc")
    work = Work(
        target=target,
        cell=term.block.cell,
        dim=term.dim,
        num_qpts=term.quadrature.num_qpts,
        fields=tuple(_field(term, data, number, nodes, masked) for data in fields),
        rows=_rows(term, fields, number, nodes, pointwise, masked, bool(place)) if rows else (),
        tables=tuple(Table(entry[1].num_basis, entry in second, entry[0]) for entry in elements),
        coord_table=number[coords[0]],
        other_coord_table=number[coords[1]] if len(coords) > 1 else -1,
        writes=outputs,
        reads=frozenset(name for name, _ in pointwise.reads) & {"x", "n", "K", "det"},
        pointwise_flops=pointwise.flops,
        pointwise_size=pointwise.size,
        isotropic=pointwise.isotropic,
        uncoupled=pointwise.uncoupled and len(fields) == len(rows) == 1 and source == "lvector",
        num_aux=term.form.coefficient_offsets[-1] * len(term.sides),
        reference=pointwise.reference,
        num_state=stored,
        num_cell_state=stored_once,
        facet=term.facets is not None,
        affine=term.affine,
        tensor=tensor_factors(term.quadrature, tuple(element for _, element in elements)) if term.other is None else None,
        source=source,
        couples=term.couples if place else frozenset(),
        place=place,
        fresh=fresh,
        rounded=rounded and stored + stored_once > 0,
        shift=shift,
    )
    return with_modes(term, work, [element for _, element in elements]) if modes else work


def _count(pointwise: Pointwise, array: str) -> int:
    """Stored numbers that a pointwise function reads or writes."""
    return len({entry for entry in pointwise.reads | pointwise.writes if entry[0] == array})


def _field(term: Term, data: FieldData, number: dict[Any, int], nodes: dict[Field, int], masked: bool) -> FieldWork:
    element = term.element(data.field)
    return FieldWork(
        data.name,
        data.vector,
        data.array,
        data.offset,
        number[data.field.side, element],
        element.num_basis,
        data.field.num_comp,
        data.value,
        data.gradient,
        data.hessian,
        masked and data.vector == "w",
        data.field.side,
        nodes[data.field],
    )


def _rows(
    term: Term,
    fields: list[FieldData],
    number: dict[Any, int],
    nodes: dict[Field, int],
    pointwise: Pointwise,
    masked: bool,
    sparse: bool,
) -> tuple[RowsWork, ...]:
    """The fields of the test function, and what multiplies each."""
    rows: list[RowsWork] = []
    count = len(term.form.space.fields)
    for i, field in enumerate(term.rows):
        components = range(field.offset, field.offset + field.num_comp)
        value, gradient, hessian = (any((output, c) in pointwise.writes for c in components) for output in ("f0", "f1", "f2"))
        element = term.element(field)
        first = rows[-1].first_row + rows[-1].size if rows else 0
        # A direction's offsets carry the same marks as those of the rows, a state's none.
        beside = next((data.name for data in fields if data.field is field and (data.vector == "w" or not masked)), "")
        rows.append(
            RowsWork(
                field.offset,
                number[field.side, element],
                element.num_basis,
                field.num_comp,
                first,
                value,
                gradient,
                hessian,
                masked,
                beside,
                int(node_parts(element).max()) + 1 if sparse else 1,
                field.side,
                (i + count) % len(term.rows) if term.other is not None and field.continuous else -1,
                nodes[field],
                field.continuous,
            )
        )
    return tuple(rows)
