"""UFL expressions without arguments to a record that can be evaluated at points."""

from __future__ import annotations

from math import prod
from typing import Any

import numpy as np
import ufl
from ufl.domain import extract_unique_domain

from femgpu.forms.graph.graph import Graph
from femgpu.forms.records import Expression
from femgpu.forms.ufl.check import check_expression
from femgpu.forms.ufl.inputs import Inputs
from femgpu.forms.ufl.outputs import Outputs
from femgpu.forms.ufl.preprocessing import Constants, deep_recursion, preprocess
from femgpu.forms.ufl.subfunctions import expand_parts
from femgpu.forms.ufl.walk import Walk
from femgpu.spaces import mesh_of


@deep_recursion()
def lower_expression(expression: Any) -> Expression:
    """Lowers an expression of any value shape.

    Args:
        expression: a UFL expression of Functions, Constants, coordinates and so on.

    Returns:
        The record; its pointwise function writes all values, zeros too.

    Raises:
        FormError: for what is not supported, by name and with the expression.
    """
    whole = expand_parts(expression) if isinstance(expression, ufl.core.expr.Expr) else expression
    check_expression(whole)
    constants = Constants(whole)
    domain: Any = extract_unique_domain(whole)
    walk = Walk(Graph(), Inputs(), domain)
    lowered = preprocess(whole, constants)
    shape = tuple(whole.ufl_shape)
    entries = [walk.scalar(lowered, index, {}, whole) for index in np.ndindex(shape)]
    dim = 0 if domain is None else domain.geometric_dimension
    outputs = Outputs(dim, prod(shape), walk.inputs.locate(dim))
    pointwise = outputs.write("functional", walk.graph, [("f0", i, node) for i, node in enumerate(entries)])
    coefficients = tuple(walk.inputs.coefficients)
    values = tuple(constants.original(entry) for entry in walk.inputs.constants)
    mesh = None if domain is None else mesh_of(domain)
    is_zero = all(walk.linear.is_zero(node) for node in entries)
    return Expression(coefficients, values, pointwise, shape, mesh, is_zero)
