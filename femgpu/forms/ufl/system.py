"""Linear problems as users write them: `a == L`, a and L apart, or one form with both in it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import ufl

from femgpu.errors import FormError, told
from femgpu.forms.ufl.check import check_form, check_same_space, rank
from femgpu.forms.ufl.preprocessing import deep_recursion, ufl_errors
from femgpu.forms.ufl.show import show
from femgpu.forms.ufl.subfunctions import own_spaces
from femgpu.spaces import Function, SubFunction


@dataclass(frozen=True, eq=False)
class LinearSystem:
    """Find u with a(u, v) = L(v) for all v.

    Attributes:
        a: the bilinear form.
        L: the linear form; None where it is zero.
    """

    a: Any
    L: Any

    @classmethod
    @deep_recursion()
    def of(cls, a: Any, L: Any = None) -> LinearSystem:
        """Takes what the user gave apart.

        Args:
            a: a bilinear form; an equation `a == L` or `F == 0`; or a form F with bilinear and linear terms.
            L: the linear form, where a is bilinear.

        Raises:
            FormError: for anything else.
        """
        if is_equation(a):
            if L is not None:
                raise FormError(
                    f"{told(L)} stands as L beside an equation; expected LinearProblem(a == L, bcs=bcs, u=u), or a and L apart, "
                    "LinearProblem(a, L, bcs, u)"
                )
            a, L = a.lhs, a.rhs
            L = None if isinstance(L, int | float) and L == 0 else L
        if L is None and rank(a) == 2:
            with ufl_errors(a):
                a, L = ufl.system(a)
        if is_zero(L):
            L = None
        a, L = own_spaces(a), own_spaces(L)
        check_form(a, 2, "the bilinear form")
        check_same_space(a, "the bilinear form")
        if L is not None:
            check_form(L, 1, "the linear form")
            check_same_space(L, "the linear form", a.arguments()[0].ufl_function_space())
        return cls(a, L)

    @property
    def space(self) -> Any:
        """The space of the unknown."""
        return self.a.arguments()[0].ufl_function_space()

    def residual(self, u: Function) -> Any:
        """The form a(u, v) - L(v).

        Raises:
            FormError: when the forms contain u itself, or u is in another space.
        """
        space = self.space
        if u.ufl_function_space() != space:
            raise FormError(
                f"the unknown {show(u)} lives in {u.ufl_element()}; expected the trial function's {space.ufl_element()}"
            )
        for form in filter(None, (self.a, self.L)):
            if u in functions_in(form):
                raise FormError(
                    f"the linear problem contains its unknown {show(u)} beside the trial function; expected a function of its own "
                    f"for what is known: {show(u)}.copy(), or NonlinearProblem for what is not linear"
                )
        residual = ufl.replace(self.a, {self.a.arguments()[1]: u})
        return residual if self.L is None else residual - self.L


def residual_form(F: Any, u: Any) -> Any:
    """The residual in which u is the unknown, of what may be an equation or have a trial function; anything else as it is.

    Args:
        F: a residual F(u; v), `F == 0`, or what `LinearSystem.of` takes.
        u: the unknown.

    Raises:
        FormError: for linear problems that contain u beside the trial function.
    """
    if is_equation(F) and isinstance(F.rhs, int | float) and F.rhs == 0 and rank(F.lhs) == 1:
        return F.lhs
    if is_equation(F) or rank(F) == 2:
        return LinearSystem.of(F).residual(u)
    return F


def is_equation(form: Any) -> bool:
    """Whether something is `a == L`."""
    return isinstance(form, ufl.equation.Equation)


def is_zero(form: Any) -> bool:
    """Whether something is a form without integrals."""
    return isinstance(form, ufl.ZeroBaseForm) or (isinstance(form, ufl.Form) and form.empty())


def functions_in(form: Any) -> list[Function]:
    """The functions whose vectors a form reads; of a part of a mixed function that one."""
    found = (entry.parent if isinstance(entry, SubFunction) else entry for entry in form.coefficients())
    return [entry for entry in found if isinstance(entry, Function)]
