"""A form divided into terms: by integral, cell type, facet type, and by affine and other cells."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from itertools import product
from typing import Any, cast

import numpy as np

from femgpu.element import FacetQuadrature, LagrangeElement, choose_rules
from femgpu.errors import FormError
from femgpu.forms import Form, Integral, Pointwise, check_inputs
from femgpu.mesh import Block, Mesh
from femgpu.mesh.block import places
from femgpu.operators.term import Term, read_fields
from femgpu.operators.trace import Pairs
from femgpu.options import Settings
from femgpu.spaces import Field

# What pointwise functions write that multiplies derivatives, and second derivatives that they read.
_DERIVATIVES = {"f1", "f2", *(f"g{number}" for number in range(1, 9)), "u_xx", "w_xx", "a_xx"}


def _coefficients_read(form: Form, integral: Integral) -> list[Field]:
    """The fields of coefficients that an integral reads."""
    found = []
    for function, first in zip(form.coefficients, form.coefficient_offsets, strict=False):
        found += [data.field for entry in integral.pointwise for data in read_fields("a", "a", function.space.fields, first, entry)]
    return found


def make_terms(form: Form, settings: Settings) -> list[Term]:
    """Splits a form's integrals by subdomain, cell type, facet type, and by affine and other cells; collective.

    Args:
        form: the lowered form.
        settings: give the quadrature where the user asked for PETSc's points.

    Returns:
        The terms in the order of the integrals; every rank has the same list, some terms without cells.

    Raises:
        MeshError: for a subdomain that the mesh lacks.
        FormError: for coefficients and constants that have no values.
    """
    check_inputs(form)
    mesh = form_mesh(form)
    # Made here, where all ranks are: the longer ones are collective.
    for function in (*form.coefficients, *(() if form.unknown is None else (form.unknown,))):
        function.space.storage(form.wide)
    order = settings.default_quadrature_order
    terms: list[Term] = []
    for integral in form.integrals:
        if integral.sides == 2:
            terms += _terms_between(form, integral, mesh, order)
        else:
            terms += [term for block in mesh.blocks for term in _terms(form, integral, mesh, block, order)]
    counts = mesh.mpi.allreduce(np.array([term.num_cells for term in terms]))
    return [part for term, count in zip(terms, counts, strict=True) if count for part in _on_facets(term)]


def _on_facets(term: Term) -> list[Term]:
    """A term; on facets and about values alone, one for the nodes there, and one for its element matrices."""
    functions = term.integral.pointwise
    names = {name for function in functions for name, _ in (*function.reads, *function.writes)}
    if term.facets is None or any(name.endswith("_x") or name in _DERIVATIVES for name in names):
        return [term]
    given = {(side, field) for side in term.sides for function in functions for field in _fields(term, side, function)}
    traces = [side.trace(field.elements[side.block.index]) for side, field in given]
    if any(len(set(map(len, trace.nodes))) > 1 for trace in traces):
        return [term]
    uses = ["traces"] if term.integral.jacobian is None else ["traces", "matrices"]
    return [replace(term, use=use, other=None if term.other is None else replace(term.other, use=use)) for use in uses]


def _fields(term: Term, side: Term, function: Pointwise) -> list[Field]:
    """The fields of a term's side that a function reads or tests with."""
    every = [*term.rows, *(data.field for data in term.fields(function))]
    return [field for field in every if term.side(field) is side]


def _terms(form: Form, integral: Integral, mesh: Mesh, block: Block, order: int) -> Iterable[Term]:
    """The terms of one integral on the cells of one type: affine cells, the others, and both again for each type of facet."""
    cells, facets = _cells(integral, mesh, block)
    elements = _elements(form, integral, block)
    for affine in (True, False):
        degree = _degree(integral, affine, block)
        fits = (block.affine if cells is None else block.affine[cells]) == affine
        for rule in choose_rules(block.cell, integral.type, degree, integral.scheme, elements, order):
            if isinstance(rule, FacetQuadrature):
                place = rule.places(facets)
                mine = fits & (place >= 0)
                yield Term(form, integral, mesh, block, cells[mine], affine, rule, place[mine])
            elif cells is None and fits.all():
                yield Term(form, integral, mesh, block, None, affine, rule)
            else:
                part = np.flatnonzero(fits).astype(np.int32) if cells is None else cells[fits]
                yield Term(form, integral, mesh, block, part, affine, rule)


def _elements(form: Form, integral: Integral, block: Block) -> list[LagrangeElement]:
    """The elements on a block whose degrees say which points PETSc would take."""
    space = form.unknown.space if form.space is None and form.unknown is not None else form.space
    fields = [*(() if space is None else space.fields), *(_coefficients_read(form, integral) if integral.degree is None else ())]
    return [field.elements[block.index] for field in fields] or [block.coord_element]


def _degree(integral: Integral, affine: bool, *blocks: Block) -> int | None:
    """The degree of an integral's rules on cells of some blocks; None: PETSc's own points."""
    bent = max(block.coord_element.map_degree for block in blocks) if integral.estimated and not affine else 0
    return None if integral.degree is None else integral.degree + bent


def _terms_between(form: Form, integral: Integral, mesh: Mesh, order: int) -> Iterable[Term]:
    """The terms of one integral over facets between two cells: for each pair of cell types and each type of facet."""
    interior = mesh.interior
    chosen = np.concatenate([mesh.facets_inside(region) for region in integral.subdomain] or [np.arange(len(interior.points))])
    facets, turns = interior.local_facets, interior.turns
    # Cells of other ranks are numbered behind this one's.
    numbers, indices = (found[interior.cells] for found in places(interior.blocks))
    straight = np.zeros(sum(block.num_cells for block in interior.blocks), bool)
    for block in interior.blocks:
        straight[block.ids] = block.affine
    both_straight = np.asarray(straight[interior.cells].all(axis=1))
    for blocks in product(interior.blocks, repeat=2):
        here = (numbers == [block.index for block in blocks]).all(axis=1)
        among = np.cumsum(here, dtype=np.int32) - 1
        for affine in (True, False):
            fits = chosen[here[chosen] & (both_straight[chosen] == affine)]
            degree = _degree(integral, affine, *blocks)
            rules = [
                choose_rules(block.cell, integral.type, degree, integral.scheme, _elements(form, integral, block), order)
                for block in blocks
            ]
            for pair in product(*rules):
                first, second = cast(tuple[FacetQuadrature, FacetQuadrature], pair)
                if first.kind == second.kind:
                    ours = first.places(facets[fits, 0], turns[fits, 0])
                    mine, ours = fits[ours >= 0], ours[ours >= 0]
                    theirs = second.places(facets[mine, 1], turns[mine, 1])
                    pairs = Pairs(indices[here, 0], indices[here, 1], among[mine])
                    behind = Term(form, integral, mesh, blocks[1], indices[mine, 1], affine, second, theirs)
                    yield Term(form, integral, mesh, blocks[0], indices[mine, 0], affine, first, ours, behind, pairs)


def _cells(integral: Integral, mesh: Mesh, block: Block) -> tuple[Any, Any]:
    """The cells of a block that an integral is over, None for all, and which of their facets, None for integrals over cells."""
    if integral.type != "cell":
        parts = [mesh.facets(region) for region in integral.subdomain] or [mesh.exterior[1:]]
        cells, facets = (np.concatenate(entries) for entries in zip(*parts, strict=True))
        numbers, indices = mesh.locate(cells)
        return indices[numbers == block.index], facets[numbers == block.index]
    if not integral.subdomain:
        return None, None
    # A cell of two regions counts in each.
    numbers, indices = mesh.locate(np.sort(np.concatenate([mesh.cells(region) for region in integral.subdomain])))
    return indices[numbers == block.index], None


def form_mesh(form: Form) -> Mesh:
    """The mesh that a form is integrated on.

    Raises:
        FormError: when nothing in the form knows a mesh.
    """
    if form.space is not None:
        return form.space.mesh
    if form.mesh is not None:
        return form.mesh
    raise FormError(
        "the form does not live on a mesh of femgpu's; give it a Function, a Constant or femgpu.coordinates(dm) of one, for "
        "example femgpu.Constant(dm, 1.0) * dx"
    )
