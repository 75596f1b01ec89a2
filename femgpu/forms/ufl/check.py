"""What a UFL form must be before it is lowered; everything else is refused by name."""

from __future__ import annotations

from typing import Any

import ufl
from ufl.corealg.traversal import unique_pre_traversal
from ufl.domain import extract_domains
from ufl.measure import integral_type_to_measure_name

from femgpu.element import SCHEMES
from femgpu.errors import FormError
from femgpu.forms.records import Lowered
from femgpu.forms.ufl.regions import LABELS, check_regions
from femgpu.forms.ufl.show import show
from femgpu.spaces import Constant, Function


def check_form(form: Any, num_arguments: int, what: str) -> None:
    """Checks a form.

    Args:
        form: what the user gave.
        num_arguments: 0 for a functional, 1 for a residual, 2 for a Jacobian.
        what: how messages name it.

    Raises:
        FormError: naming what is not supported, and the remedy where there is one.
    """
    if isinstance(form, ufl.equation.Equation):
        raise FormError(f"{what} is an equation; expected a form: write F instead of F == 0")
    if isinstance(form, ufl.ZeroBaseForm) or (isinstance(form, ufl.Form) and form.empty()):
        raise FormError(f"{what} is zero: it has no integrals")
    if isinstance(form, list | tuple):
        raise FormError(f"{what} is a {type(form).__name__} of {len(form)}; expected one form, the sum of those of all equations")
    if not isinstance(form, ufl.Form):
        raise FormError(f"{what} is of type {type(form).__name__}; expected a ufl.Form, an integrand times dx")
    if all(isinstance(integral.integrand(), ufl.classes.Zero) for integral in form.integrals()):
        raise FormError(f"{what} is zero: so are all of its integrands")
    for integral in form.integrals():
        _check_integral(integral, what)
    check_regions(form, what)
    integrals = form.integrals()  # of the form itself UFL raises where arguments contradict each other
    domains = [*(entry.ufl_domain() for entry in integrals), *(d for e in integrals for d in extract_domains(e.integrand()))]
    _check_meshes(domains, what)
    _check_arguments(form, num_arguments, what)
    for coefficient in form.coefficients():
        check_space(coefficient.ufl_function_space(), f"the coefficient {show(coefficient)}")


def check_expression(expression: Any) -> None:
    """Checks an expression that is to be evaluated at points.

    Raises:
        FormError: naming what is not supported, and the remedy where there is one.
    """
    if not isinstance(expression, ufl.core.expr.Expr) or isinstance(expression, ufl.classes.Condition):
        raise FormError(f"the expression is of type {type(expression).__name__}; expected a UFL expression with a value")
    if expression.ufl_free_indices:
        raise FormError(f"the expression has free indices: {show(expression)}; expected as_tensor(..., indices) around it")
    _check_meshes(list(extract_domains(expression)), "the expression")
    for node in unique_pre_traversal(expression):
        if isinstance(node, ufl.Argument):
            raise FormError(f"the expression has the argument {show(node)}; expected Functions in place of it")
        if isinstance(node, ufl.Coefficient):
            check_space(node.ufl_function_space(), f"the coefficient {show(node)}")


def check_inputs(lowered: Lowered) -> None:
    """Refuses coefficients and constants that have no values.

    Args:
        lowered: a form or an expression.

    Raises:
        FormError: naming them.
    """
    for entry in (*lowered.coefficients, *lowered.constants):
        if not isinstance(entry, Function | Constant):
            raise FormError(
                f"{show(entry)} is a ufl.{type(entry).__name__}, which has no values; expected a femgpu.Constant(dm, value) or a "
                "femgpu.Function(V) in its place"
            )


def check_space(space: Any, what: str) -> None:
    """Checks the function space of an argument or coefficient.

    Raises:
        FormError: for elements whose values are not the plain values of their basis functions.
    """
    if not isinstance(space, ufl.FunctionSpace):
        raise FormError(f"{what} lives in a {type(space).__name__}; expected a FunctionSpace or a MixedSpace of femgpu's")
    for element in simple_elements(space.ufl_element()):
        if not isinstance(element.pullback, ufl.pullback.IdentityPullback):
            raise FormError(
                f"{what} lives in {element}, mapped by {type(element.pullback).__name__}; only elements mapped by the "
                "identity are supported: expected Lagrange"
            )


def check_same_space(form: Any, what: str, space: Any = None) -> None:
    """Checks that all arguments of a form live in one space.

    Args:
        form: a form that has passed `check_form`.
        what: how messages name it.
        space: the space; default that of the test function.

    Raises:
        FormError: naming the argument that does not.
    """
    space = form.arguments()[0].ufl_function_space() if space is None else space
    for argument in form.arguments():
        if argument.ufl_function_space() != space:
            where = ", on another mesh" if argument.ufl_function_space().ufl_domain() != space.ufl_domain() else ""
            raise FormError(
                f"{what}: {show(argument)} lives in {argument.ufl_element()}{where}; expected {space.ufl_element()} for test and "
                "trial function; forms between two spaces are parts of one on a femgpu.MixedSpace"
            )


def rank(form: Any) -> int | None:
    """The number of a form's arguments, parts of one counted once; None for what is no form."""
    return len({argument.number() for argument in arguments_in(form)}) if isinstance(form, ufl.Form) else None


def simple_elements(element: Any) -> list[Any]:
    """The elements that a mixed element is made of, in order; any other element itself."""
    if not isinstance(element.pullback, ufl.pullback.MixedPullback):
        return [element]
    return [simple for sub in element.sub_elements for simple in simple_elements(sub)]


def polynomial_degree(space: Any) -> int:
    """The largest degree of a space's elements."""
    return max(int(element.embedded_superdegree) for element in simple_elements(space.ufl_element()))


def _check_integral(integral: Any, what: str) -> None:
    kind = integral.integral_type()
    integrand = show(integral.integrand())
    if kind not in LABELS:
        name, places = integral_type_to_measure_name[kind], kind.replace("_", " ")
        raise FormError(f"{what}: {name} ({places} integrals) is not supported; expected dx, ds or dS: {integrand}")
    rule = integral.metadata().get("quadrature_rule")
    if rule is not None and rule not in SCHEMES:
        legal = ", ".join(map(repr, SCHEMES))
        raise FormError(f"{what}: quadrature_rule {rule!r} is not supported; expected one of {legal}: {integrand}")


def _check_meshes(domains: list[Any], what: str) -> None:
    different = list(dict.fromkeys(domains))
    if len(different) > 1:
        names = ", ".join(map(str, different))
        raise FormError(f"{what}: two meshes in one form ({names}); build all spaces, Functions and Constants from one DM")


def _check_arguments(form: Any, num_arguments: int, what: str) -> None:
    for argument in arguments_in(form):
        if argument.part() is not None:
            raise FormError(
                f"{what}: {show(argument)} is part {argument.part()} of a MixedFunctionSpace; expected an unknown Function for "
                "each part, NonlinearProblem(F, (u, p), bcs), or the parts that ufl.split gives of one test function in "
                "femgpu.MixedSpace"
            )
        check_space(argument.ufl_function_space(), f"{what}: the test or trial function {show(argument)}")
    try:
        arguments = form.arguments()
    except ValueError as error:
        remedy = "forms of several spaces have the parts that ufl.split gives of one test function in femgpu.MixedSpace"
        raise FormError(f"{what}: {error}; {remedy}") from error
    numbers = [argument.number() for argument in arguments]
    if numbers != list(range(num_arguments)):
        expected = ("no test function", "one test function", "a test and a trial function")[num_arguments]
        remedy = "; replace the trial function by the unknown Function" if num_arguments == 1 and numbers == [0, 1] else ""
        raise FormError(f"{what} has {len(numbers)} arguments; expected {expected}{remedy}")


def arguments_in(form: Any) -> list[Any]:
    """The arguments of a form, also where its own `arguments` raises: of several spaces, or of parts that share a number."""
    found: dict[Any, None] = {}
    for integral in form.integrals():
        for node in unique_pre_traversal(integral.integrand()):
            if isinstance(node, ufl.Argument):
                found[node] = None
    return list(found)
