"""Parts of mixed Functions in forms, and spaces that UFL makes of several: both become mixed ones before anything else."""

from __future__ import annotations

from math import prod
from typing import Any

import numpy as np
import ufl
from ufl.algorithms.map_integrands import map_integrand_dags
from ufl.algorithms.replace import Replacer, replace
from ufl.corealg.map_dag import map_expr_dag
from ufl.corealg.traversal import unique_pre_traversal

from femgpu.errors import FormError
from femgpu.forms.ufl.show import show
from femgpu.spaces import FunctionSpace, MixedSpace, Space, SubFunction, mesh_of
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
        family = "Lagrange" if part.sobolev_space is ufl.H1 else "DG"
        spaces[f"part_{number}"] = FunctionSpace(dm, family, part.embedded_superdegree, part.reference_value_shape)
    return MixedSpace(spaces)


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
    first = part.field.offset
    entries = [part.parent[first + i] for i in range(prod(part.ufl_shape))]
    return ufl.as_tensor(np.array(entries, object).reshape(part.ufl_shape).tolist()) if part.ufl_shape else entries[0]


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
