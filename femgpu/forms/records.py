"""The records that leave this layer.

A form is integrals, an integral is pointwise functions, a pointwise function is C text.

Layouts are PETSc's. With `dim` dimensions and `Nc` components of the unknown, tensor values counted row by row:

| array | index |
|---|---|
| `u`, `w` | `[c]` |
| `u_x`, `w_x` | `[c*dim + d]` |
| `a` | `[aoff[i] + c]`, coefficients one after the other |
| `a_x` | `[(aoff[i] + c)*dim + d]` |
| `x` | `[d]` |
| `constants` | values of all constants one after the other |
| `f0` | `[c]`, of a functional `[0]` |
| `f1` | `[c*dim + d]` |
| `g0` | `[fc*Nc + gc]` |
| `g1` | `[(fc*Nc + gc)*dim + dg]` |
| `g2` | `[(fc*Nc + gc)*dim + df]` |
| `g3` | `[((fc*Nc + gc)*dim + df)*dim + dg]` |

`f` counts components of the test function, `g` those of the direction.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from itertools import accumulate
from math import prod
from typing import Any, Literal

import numpy as np

Kind = Literal["residual", "action", "jacobian", "functional", "state"]
Read = str | tuple[str, int]
Evaluate = Callable[[Mapping[str, np.ndarray]], dict[str, np.ndarray]]


@dataclass(frozen=True)
class Pointwise:
    """One pointwise function.

    Attributes:
        kind: which operator it belongs to.
        body: OpenCL C statements over `u`, `u_x`, `w`, `w_x` (action only), `a`, `a_x`, `x`, `constants` and `dim`;
            they write the entries of `f0`, `f1` (residual, action, functional) or `g0` to `g3` (jacobian) that are not
            always zero. The caller zeroes the outputs and defines the type `real` and the macro `R(x)`, `((real)(x))`.
        reads: of "u", "u_x", "w", "w_x", "x", ("a", i) and ("a_x", i) those that the body reads; i numbers the form's
            coefficients.
        writes: of "f0", "f1", "g0", "g1", "g2", "g3" those that the body writes.
        flops: operations per point; 0 for bodies of the user, which are not counted.
        evaluate: the numpy twin, see `evaluate.Evaluation`; None for bodies of the user.
    """

    kind: Kind
    body: str
    reads: frozenset[Read]
    writes: frozenset[str]
    flops: int
    evaluate: Evaluate | None = field(default=None, compare=False, repr=False)


@dataclass(frozen=True)
class Integral:
    """One integral of a form. A pointwise function that is None contributes nothing.

    Attributes:
        type: "cell".
        subdomain: label values that are integrated over, one after the other; empty means everywhere.
        degree: the degree that the quadrature integrates exactly; None asks for PETSc's own points.
        residual: f0 and f1.
        action: f0 and f1 of the Jacobian times the direction w.
        jacobian: g0 to g3.
        functional: the integrand of a form without test function; the other three are then None.
    """

    type: str
    subdomain: tuple[int, ...]
    degree: int | None
    residual: Pointwise | None = None
    action: Pointwise | None = None
    jacobian: Pointwise | None = None
    functional: Pointwise | None = None

    @property
    def pointwise(self) -> tuple[Pointwise, ...]:
        """The pointwise functions that are present."""
        candidates = (self.residual, self.action, self.jacobian, self.functional)
        return tuple(entry for entry in candidates if entry is not None)


@dataclass(frozen=True)
class Form:
    """A lowered form.

    Attributes:
        space: space of the test function; None for a functional.
        unknown: the Function that `u` stands for, None if there is none.
        coefficients: the Functions behind `a`, in order.
        constants: the Constants behind `constants`, flattened in order.
        integrals: the integrals, which are summed.
        signature: equal for forms that differ in the values of coefficients and constants only.
        notes: lines for the view, capped quadrature degrees for example.
        mesh: the mesh of a functional; other forms have the one of their space.
        has_jacobian: False when the form does not know its Jacobian, so that the action must be a difference of
            residuals; when True, an integral without action does not depend on the unknown.
    """

    space: Any
    unknown: Any
    coefficients: tuple[Any, ...]
    constants: tuple[Any, ...]
    integrals: tuple[Integral, ...]
    signature: str
    notes: tuple[str, ...] = ()
    has_jacobian: bool = True
    mesh: Any = None

    @property
    def coefficient_offsets(self) -> tuple[int, ...]:
        """(len(coefficients) + 1,) where each coefficient begins in `a`; the last entry is the length of `a`."""
        return tuple(accumulate((components(entry) for entry in self.coefficients), initial=0))

    @property
    def constant_offsets(self) -> tuple[int, ...]:
        """(len(constants) + 1,) where each constant begins in `constants`; the last entry is the length of it."""
        return tuple(accumulate((components(entry) for entry in self.constants), initial=0))


def components(entry: Any) -> int:
    """The number of values of a Function, a Constant or any other UFL object that has a shape."""
    return prod(entry.ufl_shape)


def space_text(space: Any) -> str:
    """What of a function space the kernels depend on, as text that is equal for equal spaces."""
    return f"{space.ufl_element()!r} {space.ufl_domain().geometric_dimension} {tuple(space.value_shape)}"


def signature(space: Any, coefficients: Any, constants: Any, integrals: tuple[Integral, ...]) -> str:
    """A hexadecimal digest of everything in a form that the text of its kernels depends on."""
    lines = ["" if space is None else space_text(space)]
    lines += [space_text(entry.ufl_function_space()) for entry in coefficients]
    lines += [str(tuple(entry.ufl_shape)) for entry in constants]
    for integral in integrals:
        lines.append(f"{integral.type} {integral.subdomain} {integral.degree}")
        lines += [f"{entry.kind}\n{entry.body}" for entry in integral.pointwise]
    return hashlib.sha256("\n".join(lines).encode()).hexdigest()
