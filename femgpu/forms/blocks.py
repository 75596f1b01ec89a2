"""Parts of a Jacobian of several fields: the block of one field, and what stands for the Schur complement of a constraint.

Both are made of the graphs behind g0 to g8: entries are chosen, combined, and numbered anew.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace
from typing import Any

import numpy as np

from femgpu.errors import FormError
from femgpu.forms.graph.arrays import SUFFIXES, Locate, output_shapes
from femgpu.forms.graph.copying import copy_nodes
from femgpu.forms.graph.evaluate import Evaluation
from femgpu.forms.graph.graph import Graph
from femgpu.forms.graph.pointwise import pointwise
from femgpu.forms.records import Form, Integral, Pointwise

# Orders of the derivatives of test function and direction in g0 to g8.
_ORDERS = ((0, 0), (0, 1), (1, 0), (1, 1), (0, 2), (1, 2), (2, 0), (2, 1), (2, 2))


def field_block(form: Form, field: Any, space: Any) -> Form:
    """The Jacobian of one field alone, with test function and direction in that field's space; the state stays what it was.

    Args:
        form: of several fields, by UFL.
        field: the one, among those of the form's space.
        space: the field's own.

    Raises:
        FormError: for functions given as C, whose entries cannot be told apart.
    """
    dim, count = form.space.mesh.dim, field.num_comp

    def block(integral: Integral) -> Integral | None:
        if integral.jacobian is None:
            return None
        total, given = form.space.num_comp, _evaluation(integral.jacobian)
        place = {side * total + field.offset + c: side * count + c for side in range(integral.sides) for c in range(count)}
        shapes = output_shapes(dim, count * integral.sides)
        roots = []
        for name, (test, trial, *derivatives), node in _entries(given):
            if test in place and trial in place:
                at = place[test], place[trial], *derivatives
                roots.append((name, int(np.ravel_multi_index(at, shapes[name])), node))
        return _with(integral, given.graph, roots, shapes, given.locate, dim) if roots else None

    return _of(form, space, map(block, form.integrals))


def schur_form(form: Form, elliptic: Any, constraint: Any, space: Any) -> Form:
    """A mass matrix that is spectrally equivalent to the Schur complement C - B A^-1 B' of a constraint, point by point.

    A, the elliptic block, is taken for nu times the Laplacian of each component, nu the mean of the entries of g3 that multiply a
    derivative of a component twice. With B the derivatives b of components of the elliptic field in the rows of the constraint, b'
    those in its columns, the complement is c - (b . b') / (dim nu), c what stands on the diagonal: -1 / nu for Stokes' equations.

    Args:
        form: of two fields, by UFL.
        elliptic: the field of A.
        constraint: the other one, a scalar.
        space: that field's own.

    Returns:
        The form, without the integrals that have no B or no nu.

    Raises:
        FormError: for functions given as C; where parts of the mesh and all of it are integrated over side by side.
    """
    dim = form.space.mesh.dim
    pieces = [i for i in form.integrals if i.type == "cell" and i.jacobian is not None]
    regions = dict.fromkeys(integral.subdomain for integral in pieces)
    if () in regions and len(regions) > 1:
        raise FormError("integrals over the whole mesh beside those over parts of it; expected either kind for a Schur complement")

    def complement(region: tuple[Any, ...]) -> Integral | None:
        graph, found = Graph(), dict[tuple[Any, ...], int]()
        chosen = [integral for integral in pieces if integral.subdomain == region]
        for integral in chosen:
            given = _evaluation(integral.jacobian)
            copies = copy_nodes(given.graph, (node for _, _, node in given.roots), graph, {})
            for name, at, node in _entries(given):
                found[name, *at] = graph.add(found[name, *at], copies[node]) if (name, *at) in found else copies[node]
        zero, p = graph.constant(0.0), constraint.offset
        viscosity = coupling = zero
        for c in range(elliptic.offset, elliptic.offset + elliptic.num_comp):
            for d in range(dim):
                viscosity = graph.add(viscosity, found.get(("g3", c, c, d, d), zero))
                pair = found.get(("g1", p, c, d), zero), found.get(("g2", c, p, d), zero)
                coupling = graph.add(coupling, graph.mul(*pair))
        diagonal = found.get(("g0", p, p), zero)
        if zero in (viscosity, coupling):
            return None
        # The mean over components and directions; dim of the latter.
        ratio = graph.scale(float(elliptic.num_comp), graph.div(coupling, viscosity))
        node = graph.add(diagonal, graph.neg(ratio))
        least = replace(chosen[0], degree=2 * constraint.degree, estimated=True, scheme="default")
        return _with(least, graph, [("g0", 0, node)], output_shapes(dim, 1), _evaluation(chosen[0].jacobian).locate, dim)

    return _of(form, space, map(complement, regions))


def _of(form: Form, space: Any, integrals: Iterable[Integral | None]) -> Form:
    return replace(form, space=space, integrals=tuple(integral for integral in integrals if integral is not None))


def _evaluation(function: Pointwise | None) -> Evaluation:
    given = None if function is None else function.evaluate
    if not isinstance(given, Evaluation):
        raise FormError("pointwise functions given as C cannot be taken apart into blocks; expected a form in UFL")
    return given


def _entries(given: Evaluation) -> Iterator[tuple[str, tuple[int, ...], int]]:
    """Name, indices and node of each output."""
    for name, index, node in given.roots:
        yield name, tuple(map(int, np.unravel_index(index, given.shapes[name]))), node


def _with(
    integral: Integral,
    graph: Graph,
    roots: list[tuple[str, int, int]],
    shapes: dict[str, tuple[int, ...]],
    locate: Locate,
    dim: int,
) -> Integral:
    """The integral with these entries of the Jacobian, and the action that they make, and nothing else."""
    own = Graph()
    copies = copy_nodes(graph, (node for _, _, node in roots), own, {})
    entries = tuple(sorted((name, index, copies[node]) for name, index, node in roots))
    jacobian = Evaluation(own, entries, shapes, locate)
    sums: dict[tuple[str, int], int] = {}
    for name, (test, trial, *derivatives), node in _entries(jacobian):
        of_test, of_trial = _ORDERS[int(name[1:])]
        row = f"f{of_test}", _flat(test, derivatives[:of_test], dim)
        direction = own.input("w" + SUFFIXES[of_trial], _flat(trial, derivatives[of_test:], dim))
        part = own.mul(node, direction)
        sums[row] = own.add(sums[row], part) if row in sums else part
    action = Evaluation(own, tuple(sorted((*row, node) for row, node in sums.items())), shapes, locate)
    functions = pointwise("action", action, dim), pointwise("jacobian", jacobian, dim)
    own_only = replace(integral, residual=None, functional=None, transposed=None)
    return replace(own_only, action=functions[0], jacobian=functions[1])


def _flat(component: int, derivatives: list[int], dim: int) -> int:
    for derivative in derivatives:
        component = component * dim + derivative
    return component
