"""Parts of mixed Functions in forms, and spaces that UFL makes of several: both become mixed ones before anything else."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import ufl
from ufl.algorithms.map_integrands import map_integrand_dags
from ufl.algorithms.replace import Replacer, replace
from ufl.corealg.map_dag import map_expr_dag
from ufl.corealg.traversal import unique_pre_traversal

from femgpu.errors import FormError
from femgpu.forms.ufl.check import arguments_in
from femgpu.forms.ufl.preprocessing import deep_recursion, ufl_errors
from femgpu.forms.ufl.show import show
from femgpu.spaces import Function, FunctionSpace, MixedSpace, Space, SubFunction, mesh_of
from femgpu.spaces.ufl_element import UFLLagrange


def own_spaces(form: Any) -> Any:
    """Puts arguments in a MixedSpace that `ufl.derivative` with respect to several Functions made in a space of UFL's; collective.

    Its fields `part_0`, `part_1`, ... are these Functions'.
    """
    if not isinstance(form, ufl.Form):
        return form
    found: dict[Any, Any] = {}
    for integral in form.integrals():
        for node in unique_pre_traversal(integral.integrand()):
            if isinstance(node, ufl.Argument) and node not in found and not isinstance(node.ufl_function_space(), Space):
                space = _mixed(node.ufl_function_space(), found)
                if space is not None:
                    found[node] = ufl.Argument(space, node.number(), node.part())
    return replace(form, found) if found else form


def _mixed(space: Any, found: dict[Any, Any]) -> MixedSpace | None:
    """A MixedSpace of the same elements, where these are Lagrange and the mesh is femgpu's; one of those that were made."""
    parts, mesh = space.ufl_element().sub_elements, mesh_of(space.ufl_domain())
    if mesh is None or not parts or not all(isinstance(part, UFLLagrange) for part in parts):
        return None
    for before, made in found.items():
        if before.ufl_function_space() == space:
            return made.ufl_function_space()
    spaces, dm = {}, mesh.clone_dm()
    for number, part in enumerate(parts):
        shape, degree = part.reference_value_shape, part.embedded_subdegree
        spaces[f"part_{number}"] = FunctionSpace(dm, part.family, degree, shape, part.symmetric)
    return MixedSpace(spaces)


def part_spaces(*forms: Any) -> list[Any]:
    """The spaces of a `ufl.MixedFunctionSpace` whose parts have arguments in forms, or in equations of forms; none without such.

    Raises:
        FormError: when there are arguments of a later part and none of an earlier one.
    """
    spaces = {}
    for form in forms:
        for side in (form.lhs, form.rhs) if isinstance(form, ufl.equation.Equation) else (form,):
            for argument in arguments_in(side) if isinstance(side, ufl.Form) else ():
                if argument.part() is not None:
                    spaces[argument.part()] = argument.ufl_function_space()
    if sorted(spaces) != list(range(len(spaces))):
        raise FormError(
            f"the form has arguments of the parts {sorted(spaces)} of a MixedFunctionSpace; expected those of all parts from 0 on: "
            "give the unknowns, u=(u, p), or a part that is not there as femgpu.Constant(dm, 0.0) * q * dx"
        )
    return [spaces[number] for number in sorted(spaces)]


@deep_recursion()
def join_parts(form: Any, whole: Function, parts: Sequence[Function]) -> Any:
    """Writes a form, or an equation of forms, about several Functions as one about the Function whose fields they are.

    Args:
        form: the form; its arguments are of a `ufl.MixedFunctionSpace`, or of the spaces of these Functions. Anything else is
            given back.
        whole: the Function in a MixedSpace.
        parts: the others, in the order of its fields.

    Raises:
        FormError: for an argument that belongs to none of them, or to several.
    """
    if isinstance(form, ufl.equation.Equation):
        return ufl.equation.Equation(*(join_parts(side, whole, parts) for side in (form.lhs, form.rhs)))
    if not isinstance(form, ufl.Form):
        return form
    found = {part: whole.sub(number) for number, part in enumerate(parts)}
    for argument in arguments_in(form):
        space = argument.ufl_function_space()
        if isinstance(space, Space) and space is not whole.space:
            fits = [i for i, part in enumerate(parts) if part.space is space and argument.part() in (None, i)]
            if len(fits) != 1:
                what = "" if argument.part() is None else f", part {argument.part()} of a MixedFunctionSpace,"
                raise FormError(
                    f"{show(argument)} in {space}{what} belongs to {len(fits)} of the unknowns {whole}; expected "
                    "ufl.TestFunctions(ufl.MixedFunctionSpace(...)) of their spaces, in their order"
                )
            found[argument] = ufl.split(ufl.Argument(whole.space, argument.number()))[fits[0]]
    with ufl_errors(form):
        return replace(form, found)


def expand_parts(expression: Any) -> Any:
    """Writes a form or an expression in terms of whole Functions.

    Raises:
        FormError: for a derivative with respect to a part.
    """
    parts = _parts(expression)
    return map_integrand_dags(_Expander({part: _components(part) for part in parts}), expression) if parts else expression


def _parts(expression: Any) -> list[Any]:
    roots = [entry.integrand() for entry in expression.integrals()] if isinstance(expression, ufl.Form) else [expression]
    found = {node: None for root in roots for node in unique_pre_traversal(root) if isinstance(node, SubFunction)}
    return list(found)


def _components(part: Any) -> Any:
    return ufl.split(part.parent)[part.parent.ufl_function_space().fields.index(part.field)]


class _Expander(Replacer):
    """Replaces below derivatives too, which UFL's Replacer refuses.

    A derivative with respect to the parent must see the components of the parent in its integrand.
    """

    def coefficient_derivative(self, o: Any) -> Any:
        integrand, *directions = o.ufl_operands
        for entry in directions:
            for part in _parts(entry):
                raise FormError(
                    f"derivative with respect to, or in the direction of, {show(part)}, a part of {show(part.parent)}; "
                    f"expected the parts that ufl.split({show(part.parent)}) gives"
                )
        return o._ufl_expr_reconstruct_(map_expr_dag(self, integrand), *directions)
