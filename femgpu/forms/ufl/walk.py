"""UFL integrand to scalar graph, linear in the arguments.

The walk follows a preprocessed integrand (only terminals, their gradients, indexing and scalar operations are left).
The value of a scalar expression is a node of the graph or, where test or trial functions occur, slots (`linear`).
"""

from __future__ import annotations

from typing import Any

from ufl.domain import extract_unique_domain

from femgpu.errors import FormError
from femgpu.forms.graph.graph import Graph
from femgpu.forms.ufl.geometry import define
from femgpu.forms.ufl.handlers import Component, Indices, handler
from femgpu.forms.ufl.inputs import Inputs
from femgpu.forms.ufl.linear import Linear, Slots, Value
from femgpu.forms.ufl.show import show


class Walk:
    """Lowers integrands over one domain into one graph.

    Args:
        graph: receives the nodes.
        inputs: receives the coefficients and constants.
        domain: the ufl.Mesh of the integrals.
        kind: "cell", "exterior_facet" or "interior_facet".

    Attributes:
        on_facets: whether there is a normal.
        sides: 2 on facets between two cells, else 1.
        side: what is being walked is restricted to: "+", "-", or None.
    """

    def __init__(self, graph: Graph, inputs: Inputs, domain: Any, kind: str = "cell") -> None:
        self.graph = graph
        self.linear = Linear(graph)
        self.inputs = inputs
        self.domain = domain
        self.on_facets, self.sides = kind != "cell", 1 + (kind == "interior_facet")
        self.side: str | None = None
        self._known: dict[tuple[Any, ...], Value] = {}
        self._definitions: dict[type, Any] = {}
        self._keep: list[Any] = []  # the expressions whose identities are in _known

    def lower(self, integrand: Any, num_arguments: int) -> Slots:
        """Lowers one scalar integrand.

        Args:
            integrand: an expression that is linear in each argument.
            num_arguments: how many arguments each of its terms has.

        Returns:
            Nodes that do not vanish identically, by the slots of the arguments; without arguments the only key is ().

        Raises:
            FormError: for expressions that femgpu does not support.
        """
        value = self.value(integrand, (), {})
        slots: Slots = value if isinstance(value, dict) else {(): value}
        if not isinstance(value, dict) and self.linear.is_zero(value):
            slots = {}
        if any(len(key) != num_arguments for key in slots):
            expected = ("neither", "the test function", "test and trial function")[num_arguments]
            raise FormError(
                f"not linear, some term is without test or trial function; expected {expected} in each: {show(integrand)}"
            )
        return slots

    def value(self, e: Any, comp: Component, env: Indices) -> Value:
        """The value of one component of an expression, given the values of its free indices."""
        key = (id(e), comp, tuple([env[i] for i in e.ufl_free_indices]), self.side)
        value = self._known.get(key)
        if value is None:
            self._keep.append(e)
            value = self._known[key] = handler(e)(self, e, comp, env)
        return value

    def restricted(self, e: Any, side: str, comp: Component, env: Indices) -> Value:
        """The value of one component of an expression in the first ("+") or the second cell ("-") of a facet."""
        outside, self.side = self.side, side
        try:
            return self.value(e, comp, env)
        finally:
            self.side = outside

    def in_second(self, e: Any, continuous: bool, order: int = 0) -> bool:
        """Whether a terminal is to be taken in the second cell of a facet.

        Args:
            e: the terminal.
            continuous: whether it is the same in both cells.
            order: of the derivatives of it that are meant.

        Raises:
            FormError: if it differs between the cells, and nothing says which is meant.
        """
        if self.side is None and self.sides == 2 and not continuous:
            text = "grad(" * order + show(e) + ")" * order
            raise FormError(
                f"{text} has two values on a facet between two cells; expected ({text})('+') or ('-'), avg or jump of it"
            )
        return self.side == "-"

    def definition(self, e: Any) -> Any:
        """What a geometric quantity is in terms of others; the same object each time.

        Raises:
            FormError: where it has no meaning.
        """
        kind = type(e)
        if kind not in self._definitions:
            self._definitions[kind] = define(e, self.domain, self.on_facets)
        return self._definitions[kind]

    def scalar(self, e: Any, comp: Component, env: Indices, parent: Any) -> int:
        """The value of an operand that must not contain arguments, because its parent is not linear in it.

        Raises:
            FormError: if it does.
        """
        value = self.value(e, comp, env)
        if isinstance(value, dict):
            raise FormError(f"not linear in the test or trial function: {show(parent)}")
        return value

    def check_domain(self, e: Any) -> None:
        """Refuses a terminal that lives on another mesh than the integral.

        Raises:
            FormError: if it does.
        """
        domain = extract_unique_domain(e)
        if domain != self.domain:
            raise FormError(
                f"two meshes in one form: {show(e)} lives on {domain}, the integral on {self.domain}; "
                "build all spaces, Functions and Constants from one DM"
            )
