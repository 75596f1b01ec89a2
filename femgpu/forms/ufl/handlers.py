"""What each type of UFL expression becomes: one function per type.

Each takes the walk, the expression, the component (one index per axis of the expression's shape) and the values of free
indices.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import combinations
from typing import TYPE_CHECKING, Any

from ufl import classes
from ufl.core.multiindex import FixedIndex, MultiIndex
from ufl.sobolevspace import H1

from femgpu.errors import FormError
from femgpu.forms.records import components
from femgpu.forms.ufl.check import simple_elements
from femgpu.forms.ufl.geometry import DEFINED, mesh_on
from femgpu.forms.ufl.linear import Slot, Value
from femgpu.forms.ufl.show import show
from femgpu.spaces import CELL_MAPS, CELL_QUANTITIES
from femgpu.spaces.ufl_element import components_of

if TYPE_CHECKING:
    from femgpu.forms.ufl.walk import Walk

Component = tuple[int, ...]
Indices = dict[int, int]
Handler = Callable[["Walk", Any, Component, Indices], Value]


def _zero(walk: Walk, e: Any, comp: Component, env: Indices) -> Value:
    return walk.graph.constant(0.0)


def _number(walk: Walk, e: Any, comp: Component, env: Indices) -> Value:
    return walk.graph.constant(float(e))


def _identity(walk: Walk, e: Any, comp: Component, env: Indices) -> Value:
    return walk.graph.constant(float(comp[0] == comp[1]))


def _permutation_symbol(walk: Walk, e: Any, comp: Component, env: Indices) -> Value:
    if len(set(comp)) < len(comp):
        return walk.graph.constant(0.0)
    return walk.graph.constant((-1.0) ** sum(i > j for i, j in combinations(comp, 2)))


def _fixed(indices: MultiIndex, env: Indices) -> Component:
    return tuple(int(i) if isinstance(i, FixedIndex) else env[i.count()] for i in indices)


def _indexed(walk: Walk, e: Any, comp: Component, env: Indices) -> Value:
    return walk.value(e.ufl_operands[0], _fixed(e.ufl_operands[1], env), env)


def _component_tensor(walk: Walk, e: Any, comp: Component, env: Indices) -> Value:
    operand, indices = e.ufl_operands
    return walk.value(operand, (), env | {i.count(): c for i, c in zip(indices, comp, strict=True)})


def _list_tensor(walk: Walk, e: Any, comp: Component, env: Indices) -> Value:
    return walk.value(e.ufl_operands[comp[0]], comp[1:], env)


def _index_sum(walk: Walk, e: Any, comp: Component, env: Indices) -> Value:
    operand, indices = e.ufl_operands
    result: Value = walk.graph.constant(0.0)
    for k in range(e.dimension()):
        result = walk.linear.add(result, walk.value(operand, comp, env | {indices[0].count(): k}), e)
    return result


def _sum(walk: Walk, e: Any, comp: Component, env: Indices) -> Value:
    a, b = e.ufl_operands
    return walk.linear.add(walk.value(a, comp, env), walk.value(b, comp, env), e)


def _product(walk: Walk, e: Any, comp: Component, env: Indices) -> Value:
    a, b = e.ufl_operands
    return walk.linear.mul(walk.value(a, (), env), walk.value(b, (), env), e)


def _division(walk: Walk, e: Any, comp: Component, env: Indices) -> Value:
    divisor = walk.scalar(e.ufl_operands[1], (), env, e)
    return walk.linear.each(walk.value(e.ufl_operands[0], comp, env), lambda node: walk.graph.div(node, divisor))


def _power(walk: Walk, e: Any, comp: Component, env: Indices) -> Value:
    a, b = e.ufl_operands
    return walk.graph.power(walk.scalar(a, (), env, e), walk.scalar(b, (), env, e))


def _same(walk: Walk, e: Any, comp: Component, env: Indices) -> Value:
    return walk.value(e.ufl_operands[0], comp, env)


def _restricted(walk: Walk, e: Any, comp: Component, env: Indices) -> Value:
    operand = e.ufl_operands[0]
    if walk.sides == 1:
        raise FormError(f"a restriction to one side of a facet between two cells, where there is none: {show(e)}; expected dS")
    if walk.side is not None:
        raise FormError(f"restricted to a side of a facet twice: {show(e)}")
    return walk.restricted(operand, e.side(), comp, env)


def _conditional(walk: Walk, e: Any, comp: Component, env: Indices) -> Value:
    condition, a, b = e.ufl_operands
    return walk.linear.select(walk.scalar(condition, (), env, e), walk.value(a, comp, env), walk.value(b, comp, env), e)


def _function(name: str) -> Handler:
    def handler(walk: Walk, e: Any, comp: Component, env: Indices) -> Value:
        # Only abs() of a tensor has components of its own.
        return walk.graph.function(name, *[walk.scalar(operand, comp, env, e) for operand in e.ufl_operands])

    return handler


def _gradient(walk: Walk, e: Any, comp: Component, env: Indices) -> Value:
    operand = e.ufl_operands[0]
    while isinstance(operand, classes.Grad):
        operand = operand.ufl_operands[0]
    if not isinstance(operand, classes.FormArgument):
        raise FormError(f"gradient of {type(operand).__name__} is not supported: {show(e)}")
    rank = len(operand.ufl_shape)
    derivative = tuple(sorted(comp[rank:]))  # derivatives commute: one input or slot for both orders
    return _form_argument(walk, operand, comp[:rank], derivative)


def _value(walk: Walk, e: Any, comp: Component, env: Indices) -> Value:
    return _form_argument(walk, e, comp, ())


def _form_argument(walk: Walk, e: Any, comp: Component, derivative: Component) -> Value:
    walk.check_domain(e)
    entry, order = _flat(comp, e.ufl_shape), len(derivative)
    if _vanishes(walk, e, entry, order):
        return walk.graph.constant(0.0)
    if order > 2:
        raise FormError(f"third derivatives are not supported: those of {show(e)}; introduce the gradient as a field of its own")
    continuous = order == 0 and _element(e, entry) in H1
    second = walk.in_second(e, continuous, order)
    component = components_of(e.ufl_element())[entry]
    if isinstance(e, classes.Argument):
        return {(Slot(e.number(), component + second * components(e), derivative),): walk.graph.constant(1.0)}
    name = walk.inputs.coefficient(e, order)
    if second and isinstance(name, str):
        component += components(e)
    elif second:
        name = (*name, 1)
    index = component
    for direction in derivative:
        index = index * walk.domain.geometric_dimension + direction
    return walk.graph.input(name, index)


def _vanishes(walk: Walk, e: Any, entry: int, order: int) -> bool:
    """Whether derivatives of an entry are zero because its element has too small a degree."""
    if order == 0:
        return False
    # Elsewhere the map of a cell makes polynomials of a degree into functions with derivatives of any order.
    return _element(e, entry).embedded_superdegree < (order if walk.domain.is_piecewise_linear_simplex_domain() else 1)


def _element(e: Any, entry: int) -> Any:
    """The element, of those that a mixed one is made of, of an entry of its value."""
    for element in simple_elements(e.ufl_element()):
        if entry < element.reference_value_size:
            break
        entry -= element.reference_value_size
    return element


def _constant(walk: Walk, e: Any, comp: Component, env: Indices) -> Value:
    walk.check_domain(e)
    return walk.graph.input("constants", walk.inputs.constant(e) + _flat(comp, e.ufl_shape))


def _coordinate(walk: Walk, e: Any, comp: Component, env: Indices) -> Value:
    walk.check_domain(e)
    return walk.graph.input("x", comp[0])


def _normal(walk: Walk, e: Any, comp: Component, env: Indices) -> Value:
    walk.check_domain(e)
    if not walk.on_facets:
        raise FormError("FacetNormal where there is no facet: the normal exists in integrals over facets only; expected ds or dS")
    normal = walk.graph.input("n", comp[0])
    return walk.graph.neg(normal) if walk.in_second(e, False) else normal


def _cell_quantity(walk: Walk, e: Any, comp: Component, env: Indices) -> Value:
    walk.check_domain(e)
    quantity = walk.inputs.cell_quantity(mesh_on(walk.domain, e), type(e).__name__)
    quantity = (*quantity, 1) if walk.in_second(e, False) else quantity
    return walk.graph.input(quantity, _flat(comp, e.ufl_shape))


def _defined_quantity(walk: Walk, e: Any, comp: Component, env: Indices) -> Value:
    walk.check_domain(e)
    if walk.side is None and walk.sides == 2 and "Facet" in type(e).__name__:
        return walk.restricted(walk.definition(e), "+", comp, env)  # both cells have the same facet
    return walk.value(walk.definition(e), comp, env)


def _geometry(walk: Walk, e: Any, comp: Component, env: Indices) -> Value:
    raise FormError(f"the geometric quantity {type(e).__name__} is not supported: {show(e)}; expected {', '.join(_QUANTITIES)}")


def _derivative_of_geometry(walk: Walk, e: Any, comp: Component, env: Indices) -> Value:
    raise FormError(
        "derivatives of a geometric quantity, grad(n) or div(n) for example, are not supported on cells that are not "
        "affine; expected the normal itself"
    )


def _bessel(walk: Walk, e: Any, comp: Component, env: Indices) -> Value:
    order, argument = e.ufl_operands
    number = float(order)
    if number != int(number):
        raise FormError(f"a Bessel function of order {number}: {show(e)}; expected a whole number")
    name = type(e).__name__
    return walk.graph.function(f"bessel_{name[-1].lower()}", walk.graph.constant(number), walk.scalar(argument, comp, env, e))


def _flat(comp: Component, shape: Component) -> int:
    flat = 0
    for index, size in zip(comp, shape, strict=True):
        flat = flat * size + index
    return flat


FUNCTIONS = {
    classes.Abs: "fabs", classes.Sqrt: "sqrt", classes.Exp: "exp", classes.Ln: "log", classes.Erf: "erf",
    classes.Cos: "cos", classes.Sin: "sin", classes.Tan: "tan", classes.Acos: "acos", classes.Asin: "asin",
    classes.Atan: "atan", classes.Atan2: "atan2", classes.Cosh: "cosh", classes.Sinh: "sinh", classes.Tanh: "tanh",
    classes.MinValue: "fmin", classes.MaxValue: "fmax",
    classes.LT: "<", classes.GT: ">", classes.LE: "<=", classes.GE: ">=", classes.EQ: "==", classes.NE: "!=",
    classes.AndCondition: "&&", classes.OrCondition: "||", classes.NotCondition: "!",
}  # fmt: skip

_QUANTITIES = ("SpatialCoordinate", "FacetNormal", *CELL_QUANTITIES, *CELL_MAPS, *(kind.__name__ for kind in DEFINED))

HANDLERS: dict[type, Handler] = {
    classes.Zero: _zero,
    classes.RealValue: _number,
    classes.Identity: _identity,
    classes.PermutationSymbol: _permutation_symbol,
    classes.Indexed: _indexed,
    classes.ComponentTensor: _component_tensor,
    classes.ListTensor: _list_tensor,
    classes.IndexSum: _index_sum,
    classes.Sum: _sum,
    classes.Product: _product,
    classes.Division: _division,
    classes.Power: _power,
    classes.Variable: _same,
    classes.Real: _same,  # derivatives of abs() bring it back
    classes.Conj: _same,
    classes.Restricted: _restricted,
    classes.Conditional: _conditional,
    classes.Grad: _gradient,
    classes.Argument: _value,
    classes.Coefficient: _value,
    classes.Constant: _constant,
    classes.SpatialCoordinate: _coordinate,
    classes.FacetNormal: _normal,
    **{getattr(classes, name): _cell_quantity for name in (*CELL_QUANTITIES, *CELL_MAPS)},
    **{kind: _defined_quantity for kind in DEFINED},
    classes.ReferenceGrad: _derivative_of_geometry,
    classes.GeometricQuantity: _geometry,
    classes.BesselFunction: _bessel,
    **{kind: _function(name) for kind, name in FUNCTIONS.items()},
}


def handler(e: Any) -> Handler:
    """Finds the function for an expression.

    Raises:
        FormError: if the type of the expression is not supported.
    """
    for base in type(e).__mro__:
        if base in HANDLERS:
            return HANDLERS[base]
    raise FormError(f"{type(e).__name__} is not supported in a form: {show(e)}")
