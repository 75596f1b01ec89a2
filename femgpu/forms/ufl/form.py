"""UFL forms to records.

Stages: write parts of mixed Functions as components (`subfunctions`); check what was given (`check`); split into pieces
by type, subdomain and metadata (`preprocessing`); walk each piece and its derivative into one graph per piece (`walk`); print
every output of the graph (`printer`); collect the records.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import ufl
from ufl.algorithms import expand_derivatives

from femgpu.errors import FormError
from femgpu.forms.c.pointwise_form import PointwiseForm
from femgpu.forms.graph.graph import Graph
from femgpu.forms.records import Form, Integral, components
from femgpu.forms.ufl.check import check_form, check_same_space, check_space, polynomial_degree
from femgpu.forms.ufl.degrees import quadrature_degree
from femgpu.forms.ufl.inputs import Inputs
from femgpu.forms.ufl.linear import Slots
from femgpu.forms.ufl.outputs import Outputs
from femgpu.forms.ufl.preprocessing import (
    Constants,
    Piece,
    deep_recursion,
    differentiate,
    split,
    substitute,
    ufl_errors,
)
from femgpu.forms.ufl.show import show
from femgpu.forms.ufl.subfunctions import expand_parts, own_spaces
from femgpu.forms.ufl.walk import Walk
from femgpu.spaces import SubFunction, mesh_of


@deep_recursion()
def lower_form(F: Any, u: Any = None, J: Any = None, rates: Mapping[Any, Any] | None = None) -> Form:
    """Lowers a residual and its Jacobian.

    Args:
        F: ufl.Form with one test function in which it is linear, or a PointwiseForm.
        u: the unknown Function; None for a linear form that has none, which then has no Jacobian.
        J: ufl.Form with a test and a trial function to use as the Jacobian; default: the derivative of F with respect
            to u.
        rates: Functions that change with the unknown, and the Constants that their derivatives are: of a problem in time
            {time_derivative(u): time_shift(u)}. No part of a PointwiseForm, which knows them, or of J.

    Returns:
        The form. Integrals of J that match no integral of F stand as integrals without residual.

    Raises:
        FormError: for what is not supported, by name and with the expression.
    """
    if isinstance(F, PointwiseForm):
        if J is not None:
            raise FormError("J is given beside a PointwiseForm; expected g0 to g3 in the PointwiseForm instead")
        return F.lower(u)
    F, J = _whole(F), _whole(J)
    rates = {rate: shift for rate, shift in (rates or {}).items() if J is None and rate in F.coefficients()}
    space = _check(F, u, J, rates)
    constants = Constants(*(form for form in (F, J) if form is not None), *rates.values())
    lowering = _Lowering(space, u, constants, rates)
    work = [lowering.residual(piece) for piece in split(F, lowering.constants)]
    if not any(entry.residual for entry in work):
        raise FormError(f"the form is zero: {show(F.integrals()[0].integrand())}")
    if J is not None:
        work += [lowering.given_jacobian(piece) for piece in split(J, lowering.constants)]
    elif u is not None:
        for entry in work:
            lowering.derivative(entry)
    if u is not None and not any(entry.jacobian for entry in work):
        reason = f"F does not depend on the unknown {show(u)}" if J is None else show(J.integrals()[0].integrand())
        raise FormError(f"the Jacobian {'' if J is None else 'J '}is zero: {reason}")
    return lowering.form(work, _highest_degree(F, J), polynomial_degree(space))


@deep_recursion()
def bilinear_form(a: Any) -> Form:
    """Lowers a form with a test and a trial function, a matrix to assemble.

    Args:
        a: ufl.Form with a test and a trial function of one space.

    Returns:
        The form; its integrals have `jacobian` and `action`.

    Raises:
        FormError: for what is not supported, by name and with the expression.
    """
    a = _whole(a)
    check_form(a, 2, "the bilinear form")
    check_same_space(a, "the bilinear form")
    space = a.arguments()[0].ufl_function_space()
    lowering = _Lowering(space, None, Constants(a))
    work = [lowering.given_jacobian(piece) for piece in split(a, lowering.constants)]
    if not any(entry.jacobian for entry in work):
        raise FormError(f"the bilinear form is zero: {show(a.integrals()[0].integrand())}")
    return lowering.form(work, _highest_degree(a), polynomial_degree(space))


@deep_recursion()
def functional(F: Any) -> Form:
    """Lowers a form without test function, a number to assemble.

    Args:
        F: ufl.Form without arguments.

    Returns:
        The form; its integrals have `functional` only.

    Raises:
        FormError: for what is not supported, by name and with the expression.
    """
    F = _whole(F)
    check_form(F, 0, "the functional")
    lowering = _Lowering(None, None, Constants(F))
    work = [lowering.functional(piece) for piece in split(F, lowering.constants)]
    if not any(entry.functional for entry in work):
        raise FormError(f"the functional is zero: {show(F.integrals()[0].integrand())}")
    degrees = [polynomial_degree(entry.ufl_function_space()) for entry in F.coefficients()]
    form = lowering.form(work, _highest_degree(F), max(degrees, default=None))
    return replace(form, mesh=mesh_of(F.ufl_domains()[0]))


@deep_recursion()
def derivative_reads(F: Any, w: Any) -> set[Any]:
    """The Functions and Constants that the derivative of a ufl.Form with respect to a Function depends on; none of other things."""
    if not isinstance(F, ufl.Form):
        return set()
    with ufl_errors(F):
        derivative = expand_derivatives(ufl.derivative(_whole(F), w))
    return {*derivative.coefficients(), *derivative.constants()}


def _whole(form: Any) -> Any:
    # what is no form is refused by the checks that follow
    return expand_parts(own_spaces(form)) if isinstance(form, ufl.Form) else form


def _highest_degree(*forms: Any) -> int:
    """Of all Functions and arguments, and of the coordinates."""
    given = [form for form in forms if form is not None]
    degrees = [
        polynomial_degree(entry.ufl_function_space()) for form in given for entry in (*form.arguments(), *form.coefficients())
    ]
    return max(degrees + [domain.ufl_coordinate_element().embedded_superdegree for form in given for domain in form.ufl_domains()])


def _check(F: Any, u: Any, J: Any, rates: Mapping[Any, Any]) -> Any:
    check_form(F, 1, "the residual")
    space = F.arguments()[0].ufl_function_space()
    if u is not None:
        if not isinstance(u, ufl.Coefficient):
            raise FormError(f"the unknown is of type {type(u).__name__}; expected a Function")
        if isinstance(u, SubFunction):
            raise FormError(f"the unknown {show(u)} is a part of {show(u.parent)}; expected the whole Function")
        check_space(u.ufl_function_space(), f"the unknown {show(u)}")
        if u.ufl_function_space() != space:
            where = "" if space.ufl_domain() == u.ufl_function_space().ufl_domain() else ", on another mesh"
            raise FormError(
                f"the test function lives in {space.ufl_element()}, the unknown in {u.ufl_element()}{where}; expected the same"
            )
        if u not in F.coefficients() and not rates:
            raise FormError(f"the residual does not contain the unknown {show(u)}; expected F(u; v)")
        space = u.ufl_function_space()
    if J is not None:
        if u is None:
            raise FormError("J is given without the unknown u; expected both")
        check_form(J, 2, "the Jacobian")
        check_same_space(J, "the Jacobian", space)
    return space


@dataclass
class _Work:
    """One piece on its way: its graph, and the slots of each operator."""

    piece: Piece
    walk: Walk
    residual: Slots
    action: Slots
    jacobian: Slots
    functional: Slots


class _Lowering:
    """State of the lowering of one form: the numbering of inputs, which all pieces share."""

    def __init__(self, space: Any, unknown: Any, constants: Constants, rates: Mapping[Any, Any] | None = None) -> None:
        self.space = space
        self.unknown = unknown
        self.constants = constants
        self.rates = rates or {}
        self.direction = None if space is None else ufl.Coefficient(space)
        self.inputs = Inputs(unknown, self.direction)

    def residual(self, piece: Piece) -> _Work:
        """Walks a piece of the residual."""
        work = self._work(piece)
        work.residual = work.walk.lower(piece.integrand, 1)
        return work

    def functional(self, piece: Piece) -> _Work:
        """Walks a piece of a functional."""
        work = self._work(piece)
        work.functional = work.walk.lower(piece.integrand, 0)
        return work

    def derivative(self, work: _Work) -> None:
        """Differentiates a piece of the residual, and walks the results into the same graph."""
        trial = ufl.TrialFunction(self.space)
        jacobian = self._differentiate(work.piece.integrand, trial)
        # The derivative in the direction, in a tenth of the time.
        work.action = work.walk.lower(substitute(jacobian, trial, self.direction), 1)
        work.jacobian = work.walk.lower(jacobian, 2)

    def given_jacobian(self, piece: Piece) -> _Work:
        """Walks a piece of the user's Jacobian."""
        work = self._work(piece)
        work.jacobian = work.walk.lower(piece.integrand, 2)
        work.action = work.walk.lower(substitute(piece.integrand, ufl.TrialFunction(self.space), self.direction), 1)
        return work

    def form(self, work: list[_Work], highest: int, nodal: int | None) -> Form:
        """Prints all pieces and collects the records.

        Args:
            work: the pieces.
            highest: degree of anything in the form.
            nodal: degree of the functions in whose nodes Gauss-Lobatto rules have their points; None for none.
        """
        notes: list[str] = []
        integrals: list[Integral] = []
        for entry in work:
            template = self._integral(entry, *quadrature_degree(entry.piece, highest, nodal, notes, self.constants))
            integrals += [replace(template, subdomain=ids) for ids in entry.piece.subdomains if template.pointwise]
        coefficients = tuple(self.inputs.coefficients)
        constants = tuple(self.constants.original(entry) for entry in self.inputs.constants)
        return Form(self.space, self.unknown, coefficients, constants, tuple(integrals), tuple(notes))

    def _work(self, piece: Piece) -> _Work:
        return _Work(piece, Walk(Graph(), self.inputs, piece.domain, piece.type), {}, {}, {}, {})

    def _differentiate(self, integrand: Any, direction: Any) -> Any:
        total = differentiate(integrand, self.unknown, direction)
        for rate, shift in self.rates.items():
            total += self.constants.stand_ins[shift] * differentiate(integrand, rate, direction)
        return total

    def _integral(self, work: _Work, degree: int, estimated: bool) -> Integral:
        dim = work.walk.domain.geometric_dimension
        num_comp = 1 if self.space is None else components(self.direction) * work.walk.sides
        outputs = Outputs(dim, num_comp, self.inputs.locate(dim))
        graph = work.walk.graph
        return Integral(
            work.piece.type,
            (),
            degree,
            work.piece.scheme,
            estimated,
            residual=outputs.pointwise("residual", graph, work.residual),
            action=outputs.pointwise("action", graph, work.action),
            jacobian=outputs.pointwise("jacobian", graph, work.jacobian),
            functional=outputs.pointwise("functional", graph, work.functional),
        )
