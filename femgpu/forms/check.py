"""What a UFL form must be before it is lowered; everything else is refused by name."""

from __future__ import annotations

from typing import Any

import ufl
from ufl.corealg.traversal import unique_pre_traversal
from ufl.domain import extract_domains

from femgpu.errors import FormError
from femgpu.forms.show import show

_NOT_YET = {"exterior_facet": "ds"}
_NEVER = {"interior_facet": "dS"}
_RULES = (None, "default")


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
    if not isinstance(form, ufl.Form):
        raise FormError(f"{what} is of type {type(form).__name__}; expected a ufl.Form, an integrand times dx")
    if all(isinstance(integral.integrand(), ufl.classes.Zero) for integral in form.integrals()):
        raise FormError(f"{what} is zero: so are all of its integrands")
    for integral in form.integrals():
        _check_integral(integral, what)
    _check_meshes(form, what)
    _check_arguments(form, num_arguments, what)
    for coefficient in form.coefficients():
        check_space(coefficient.ufl_function_space(), f"the coefficient {show(coefficient)}")


def check_space(space: Any, what: str) -> None:
    """Checks the function space of an argument or coefficient.

    Raises:
        FormError: for mixed spaces and for elements whose values are not the plain values of their basis functions.
    """
    if not isinstance(space, ufl.FunctionSpace):
        raise FormError(f"{what} lives in a {type(space).__name__}; mixed spaces are not supported yet, expected a FunctionSpace")
    element = space.ufl_element()
    pullback = element.pullback
    if type(pullback).__name__ == "MixedPullback" or _is_mixed(element):
        raise FormError(f"{what} lives in the mixed space {element}; mixed spaces are not supported yet")
    if not isinstance(pullback, ufl.pullback.IdentityPullback):
        raise FormError(
            f"{what} lives in {element}, mapped by {type(pullback).__name__}; only elements mapped by the "
            "identity are supported: expected Lagrange"
        )


def _is_mixed(element: Any) -> bool:
    # Blocked elements have sub-elements too, but these are all alike.
    return any(sub != element.sub_elements[0] for sub in element.sub_elements)


def _check_integral(integral: Any, what: str) -> None:
    kind = integral.integral_type()
    integrand = show(integral.integrand())
    if kind in _NOT_YET:
        raise FormError(f"{what}: {_NOT_YET[kind]} (integrals over {kind}s) is not supported yet; expected dx: {integrand}")
    if kind != "cell":
        raise FormError(f"{what}: {_NEVER.get(kind, kind)} (integrals over {kind}s) is not supported; expected dx: {integrand}")
    if integral.subdomain_data() is not None:
        raise FormError(
            f"{what}: subdomain_data of type {type(integral.subdomain_data()).__name__} is not supported; "
            f"dx(id) refers to the values of the mesh's label 'Cell Sets': {integrand}"
        )
    rule = integral.metadata().get("quadrature_rule")
    if rule not in _RULES:
        raise FormError(f"{what}: quadrature_rule {rule!r} is not supported; expected 'default': {integrand}")


def _check_meshes(form: Any, what: str) -> None:
    domains = list(form.ufl_domains())
    for integral in form.integrals():
        for domain in extract_domains(integral.integrand()):
            if domain not in domains:
                domains.append(domain)
    if len(domains) > 1:
        names = ", ".join(str(domain) for domain in domains)
        raise FormError(f"{what}: two meshes in one form ({names}); build all spaces, Functions and Constants from one DM")


def _check_arguments(form: Any, num_arguments: int, what: str) -> None:
    for argument in _arguments(form):
        if argument.part() is not None:
            raise FormError(f"{what}: mixed spaces are not supported yet; {show(argument)} is part {argument.part()} of one")
        check_space(argument.ufl_function_space(), f"{what}: the test or trial function {show(argument)}")
    arguments = form.arguments()
    numbers = [argument.number() for argument in arguments]
    if numbers != list(range(num_arguments)):
        expected = ("no test function", "one test function", "a test and a trial function")[num_arguments]
        remedy = "; replace the trial function by the unknown Function" if num_arguments == 1 and numbers == [0, 1] else ""
        raise FormError(f"{what} has {len(numbers)} arguments; expected {expected}{remedy}")


def _arguments(form: Any) -> list[Any]:
    # form.arguments() itself raises on parts of mixed spaces that share a number
    found: dict[Any, None] = {}
    for integral in form.integrals():
        for node in unique_pre_traversal(integral.integrand()):
            if isinstance(node, ufl.Argument):
                found[node] = None
    return list(found)
