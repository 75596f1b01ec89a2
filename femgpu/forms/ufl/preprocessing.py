"""The calls into UFL.

In order: preprocess, renumber constants, group by subdomain and metadata, differentiate.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import ufl
from ufl.algorithms.analysis import extract_constants
from ufl.algorithms.apply_derivatives import apply_derivatives
from ufl.algorithms.compute_form_data import build_integral_data, group_form_integrals, preprocess_form
from ufl.algorithms.map_integrands import map_integrands
from ufl.algorithms.replace import replace

from femgpu.errors import FemgpuError, FormError
from femgpu.forms.ufl.balance import balanced
from femgpu.forms.ufl.regions import number_regions
from femgpu.forms.ufl.show import show

# UFL orders operands by the text of a Constant, in which "9" comes after "10". Stand-ins whose numbers all have the
# same length make the lowered text independent of how many Constants the program has made.
_FIRST_STAND_IN = 10**9


@dataclass(frozen=True)
class Piece:
    """Integrands that share subdomain and metadata, summed.

    Attributes:
        integrand: a scalar expression of terminals, gradients, indexing and scalar operations.
        type: "cell", "exterior_facet" or "interior_facet".
        subdomains: tuples of regions, the empty tuple for everywhere; the piece is integrated over each of them.
        metadata: the user's.
        domain: the ufl.Mesh.
    """

    integrand: Any
    type: str
    subdomains: tuple[tuple[Any, ...], ...]
    metadata: dict[str, Any]
    domain: Any

    @property
    def scheme(self) -> str:
        """The kind of quadrature rule."""
        return self.metadata.get("quadrature_rule") or "default"


class Constants:
    """Stand-ins of the Constants of a problem, numbered in the order of creation.

    Args:
        expressions: forms or expressions.
    """

    def __init__(self, *expressions: Any) -> None:
        found = {constant: None for entry in expressions for constant in extract_constants(entry)}
        ordered = sorted(found, key=lambda constant: constant.count())
        self.stand_ins = {
            constant: ufl.Constant(constant.ufl_domain(), constant.ufl_shape, count=_FIRST_STAND_IN + i)
            for i, constant in enumerate(ordered)
        }
        self._originals = {stand_in: constant for constant, stand_in in self.stand_ins.items()}

    def restore(self, expression: Any) -> Any:
        """The expression with the Constants in place of their stand-ins, for messages."""
        return replace(expression, self._originals)

    def original(self, stand_in: Any) -> Any:
        """The Constant behind a stand-in."""
        return self._originals[stand_in]


def split(form: Any, constants: Constants) -> list[Piece]:
    """Preprocesses a form and splits it into pieces.

    Raises:
        FormError: with UFL's message if UFL refuses the form.
    """
    with ufl_errors(form):
        lowered = preprocess_form(map_integrands(balanced, form), False)
        if constants.stand_ins:
            lowered = replace(lowered, constants.stand_ins)
        lowered, regions = number_regions(lowered)
        grouped = group_form_integrals(lowered, lowered.ufl_domains(), do_append_everywhere_integrals=False)
        data = build_integral_data(grouped.integrals())
    return [
        Piece(
            balanced(integral.integrand()),
            entry.integral_type,
            _subdomains(integral.subdomain_id(), regions),
            dict(integral.metadata()),
            entry.domain,
        )
        for entry in data
        for integral in entry.integrals
    ]


def preprocess(expression: Any, constants: Constants) -> Any:
    """Preprocesses an expression of any shape.

    Raises:
        FormError: with UFL's message if UFL refuses the expression.
    """
    with ufl_errors(expression):
        lowered = preprocess_form(balanced(expression), False)
        return replace(lowered, constants.stand_ins) if constants.stand_ins else lowered


def differentiate(integrand: Any, unknown: Any, direction: Any) -> Any:
    """The derivative of a preprocessed integrand with respect to the unknown in a direction, preprocessed too.

    Raises:
        FormError: with UFL's message if UFL cannot differentiate.
    """
    with ufl_errors(integrand):
        return apply_derivatives(ufl.derivative(integrand, unknown, direction))


def substitute(integrand: Any, argument: Any, coefficient: Any) -> Any:
    """Replaces a trial function in a preprocessed integrand."""
    with ufl_errors(integrand):
        return replace(integrand, {argument: coefficient})


def _subdomains(ids: tuple[Any, ...], regions: Mapping[int, Any]) -> tuple[tuple[Any, ...], ...]:
    # UFL merges equal integrands over everywhere and over labels: (1, 2, "otherwise")
    named = tuple(regions.get(entry, int(entry)) for entry in ids if entry != "otherwise")
    everywhere: tuple[tuple[Any, ...], ...] = ((),) if "otherwise" in ids else ()
    return everywhere + ((named,) if named else ())


@contextmanager
def deep_recursion(depth: int = 20_000) -> Iterator[None]:
    """Allows for deep expressions.

    A sum of 200 terms is an expression 200 levels deep, which UFL's algorithms and the walk could not follow within
    Python's usual limit.
    """
    before = sys.getrecursionlimit()
    sys.setrecursionlimit(max(before, depth))
    try:
        yield
    finally:
        sys.setrecursionlimit(before)


@contextmanager
def ufl_errors(expression: Any) -> Iterator[None]:
    """Turns what UFL raises over a form or an expression into a FormError that shows it."""
    try:
        yield
    except FemgpuError:
        raise
    except Exception as error:  # UFL raises whatever comes up, ValueError and KeyError mostly
        is_form = isinstance(expression, ufl.Form)
        parts = [entry.integrand() for entry in expression.integrals()] if is_form else [expression]
        reason = "it is nested too deeply; make a sum of shorter sums" if isinstance(error, RecursionError) else error
        what = "form" if is_form else "expression"
        raise FormError(f"UFL refuses the {what}: {reason}; the {what} is {' + '.join(map(show, parts))}") from error
