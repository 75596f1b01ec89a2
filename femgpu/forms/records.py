"""The records that leave this layer.

A form is integrals, an integral is pointwise functions, a pointwise function is C text.

Layouts are PETSc's, over all fields of a space: `C` counts the components of field after field, of symmetric tensors those that are
stored. With `dim` dimensions and tensor values counted row by row:

| array | index |
|---|---|
| `u`, `w` | `[c]` |
| `u_x`, `w_x` | `[c*dim + d]` |
| `u_xx`, `w_xx` | `[(c*dim + i)*dim + j]`, both halves of the symmetric matrix |
| `a` | `[aoff[i] + c]`, coefficients one after the other |
| `a_x` | `[(aoff[i] + c)*dim + d]` |
| `a_xx` | `[((aoff[i] + c)*dim + i)*dim + j]` |
| `x` | `[d]` |
| `n` | `[d]`, the outward unit normal, on facets only |
| `s` | `[i]`, what the kind "state" has stored at the point |
| `c` | `[i]`, what it has stored in the cell, the same at all points |
| `K` | `[k*dim + d]`, the inverse Jacobian dX_k / dx_d of the map from reference coordinates X to x |
| `det` | `[0]`, the determinant of the Jacobian; on facets times the length of `J^-T N`, N the reference normal |
| `weight` | `[0]`, the quadrature weight of the point |
| `constants` | values of all constants one after the other |
| `f0` | `[c]`, of a functional `[0]`, of an expression its values |
| `f1` | `[c*dim + d]` |
| `f2` | `[(c*dim + d1)*dim + d2]`, what multiplies second derivatives of the test function |
| `g0` | `[fc*C + gc]` |
| `g1` | `[(fc*C + gc)*dim + dg]` |
| `g2` | `[(fc*C + gc)*dim + df]` |
| `g3` | `[((fc*C + gc)*dim + df)*dim + dg]` |
| `g4` | `[((fc*C + gc)*dim + d1)*dim + d2]`, test function times second derivatives of the direction |
| `g5` | `[(((fc*C + gc)*dim + df)*dim + d1)*dim + d2]`, gradient of the test function times these |
| `g6` | `[((fc*C + gc)*dim + d1)*dim + d2]`, second derivatives of the test function times the direction |
| `g7` | `[(((fc*C + gc)*dim + d1)*dim + d2)*dim + dg]`, times its gradient |
| `g8` | `[((((fc*C + gc)*dim + d1)*dim + d2)*dim + e1)*dim + e2]`, times its second derivatives |

`f` counts components of the test function, `g` those of the direction.

On facets between two cells every component is there twice: `u`, `w`, `a`, the test function and the direction have all of their
components in the first cell, then all of them in the second one, and `C` counts both. `x` and `n` are those of the first cell.

`K`, `det` and `weight` are read by functions in reference coordinates only (`pull_back`). There the derivatives in `u_x`,
`w_x`, `a_x` and their second derivatives are those with respect to X, the outputs multiply test functions and directions
derived with respect to X, and hold the measure `weight * det`. `x` and `n` are physical everywhere.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from itertools import accumulate
from math import prod
from typing import Any, Literal

import numpy as np
import numpy.typing as npt
import ufl

from femgpu.spaces.ufl_element import num_components

Kind = Literal["residual", "action", "jacobian", "functional", "state"]
# An array and a component in it; an output array and a component of the test function.
Read = tuple[str, int]
Write = tuple[str, int]
Evaluate = Callable[[Mapping[str, np.ndarray]], dict[str, np.ndarray]]


@dataclass(frozen=True)
class Pointwise:
    """One pointwise function.

    Attributes:
        kind: which operator it belongs to.
        body: OpenCL C statements over the input arrays, `dim` and, in a jacobian, no `w`; they write the entries of `f0`,
            `f1`, `f2` (residual, action, functional), `g0` to `g8` (jacobian) or `s` and `c` (state) that are not always zero. The
            caller zeroes the outputs and defines the type `real` and the macro `R(x)`, `((real)(x))`.
        reads: what the body reads: ("u", c) a value of component c, ("u_x", c) and ("u_xx", c) derivatives of it, the
            same for "w" and "a", where c counts components of all coefficients; ("s", i); ("c", i); ("x", 0), ("n", 0),
            ("K", 0), ("det", 0) and ("weight", 0) for any entry of these.
        writes: what the body writes: ("f0", c), ("g3", c), ... with c the component of the test function; ("s", i), ("c", i).
        flops: operations per point; 0 for bodies of the user, which are not counted.
        evaluate: the numpy twin, see `evaluate.Evaluation`; None for bodies of the user.
        reference: whether it is in reference coordinates: it applies inverse Jacobian and measure itself.
        size: instructions that the body becomes, about.
        isotropic: of an action, whether f1 is sums of gradients of the direction's components times what does not depend on
            derivatives, which nothing else depends on either; never of bodies of the user.
        uncoupled: of an action of several components, whether the outputs of each are the same functions of that component of the
            direction alone, share few operations with others, and read nothing of the unknown; never of bodies of the user.
        couples: of a jacobian, the components (of the test function, of the direction) that it couples.
        constants: the entries of `constants` that the body reads.
    """

    kind: Kind
    body: str
    reads: frozenset[Read]
    writes: frozenset[Write]
    flops: int
    evaluate: Evaluate | None = field(default=None, compare=False, repr=False)
    reference: bool = False
    size: int = 0
    isotropic: bool = False
    uncoupled: bool = False
    couples: frozenset[tuple[int, int]] = frozenset()
    constants: frozenset[int] = frozenset()


@dataclass(frozen=True)
class Integral:
    """One integral of a form. A pointwise function that is None contributes nothing.

    Attributes:
        type: "cell", "exterior_facet" or "interior_facet".
        subdomain: regions that are integrated over, one after the other: values of "Cell Sets" or "Face Sets", names, or
            (label name, values); empty means everywhere.
        degree: the degree that the quadrature integrates exactly; None asks for PETSc's own points.
        estimated: whether the degree is that of the integrand only, to which cells add the degree of their map's det J.
        scheme: the kind of rule, one of `element.SCHEMES`.
        residual: f0, f1 and f2.
        action: f0, f1 and f2 of the Jacobian times the direction w.
        jacobian: g0 to g8.
        functional: the integrand of a form without test function; the other three are then None.
        transposed: f0, f1 and f2 of the transposed Jacobian times the direction, where the action is the user's C text; see
            `transposed_action`.
    """

    type: str
    subdomain: tuple[Any, ...]
    degree: int | None
    scheme: str = "default"
    estimated: bool = False
    residual: Pointwise | None = None
    action: Pointwise | None = None
    jacobian: Pointwise | None = None
    functional: Pointwise | None = None
    transposed: Pointwise | None = None

    @property
    def sides(self) -> int:
        """Cells that each cell or facet is integrated with: 2 on facets between two cells."""
        return 1 + (self.type == "interior_facet")

    @property
    def pointwise(self) -> tuple[Pointwise, ...]:
        """The pointwise functions that are present."""
        candidates = (self.residual, self.action, self.jacobian, self.functional)
        return tuple(entry for entry in candidates if entry is not None)


class Lowered:
    """What a form and an expression have in common.

    Attributes:
        coefficients: the Functions behind `a`, in order.
        constants: the Constants behind `constants`, flattened in order.
    """

    coefficients: tuple[Any, ...]
    constants: tuple[Any, ...]

    @property
    def coefficient_offsets(self) -> tuple[int, ...]:
        """(len(coefficients) + 1,) where each coefficient begins in `a`; the last entry is the length of `a`."""
        return _offsets(self.coefficients)

    @property
    def constant_offsets(self) -> tuple[int, ...]:
        """(len(constants) + 1,) where each constant begins in `constants`; the last entry is the length of it."""
        return _offsets(self.constants)

    def constant_values(self) -> npt.NDArray[np.float64]:
        """`constants` as it is now: the values of all Constants, flattened in order."""
        return np.concatenate([np.zeros(0), *(constant.flat for constant in self.constants)])


@dataclass(frozen=True)
class Form(Lowered):
    """A lowered form.

    Attributes:
        space: space of the test function; None for a functional.
        unknown: the Function that `u` stands for, None if there is none.
        coefficients: the Functions behind `a`, in order.
        constants: the Constants behind `constants`, flattened in order.
        integrals: the integrals, which are summed.
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
    notes: tuple[str, ...] = ()
    has_jacobian: bool = True
    mesh: Any = None

    @property
    def state_space(self) -> Any:
        """The space of the unknown, which the block of a field and a coarser level do not share; without one that of the form."""
        return self.space if self.unknown is None else self.unknown.space

    @property
    def depends_on_unknown(self) -> bool:
        """Whether the Jacobian reads the unknown."""
        jacobians = [integral.jacobian for integral in self.integrals if integral.jacobian is not None]
        return any(array in ("u", "u_x", "u_xx") for jacobian in jacobians for array, _ in jacobian.reads)

    @property
    def wide(self) -> bool:
        """Whether it reads cells of other ranks, behind facets between two cells: its L-vectors hold their dofs, too."""
        mesh = self.mesh if self.space is None else self.space.mesh
        return mesh is not None and mesh.mpi.size > 1 and any(integral.sides == 2 for integral in self.integrals)


@dataclass(frozen=True)
class Expression(Lowered):
    """A lowered expression, to be evaluated at points of cells.

    Attributes:
        coefficients: the Functions behind `a`, in order.
        constants: the Constants behind `constants`, flattened in order.
        pointwise: writes `f0`, all values of the expression row by row; its kind is "functional".
        shape: shape of the value.
        mesh: the mesh that it lives on; None for constants and for meshes that are not femgpu's.
        is_zero: whether all values vanish whatever those of coefficients and constants.
    """

    coefficients: tuple[Any, ...]
    constants: tuple[Any, ...]
    pointwise: Pointwise
    shape: tuple[int, ...]
    mesh: Any
    is_zero: bool

    @property
    def num_values(self) -> int:
        """Numbers per point."""
        return prod(self.shape)


def _offsets(entries: Iterable[Any]) -> tuple[int, ...]:
    return tuple(accumulate(map(components, entries), initial=0))


def components(entry: Any) -> int:
    """The number of values of a Constant, of a Function or an argument that of the components which are stored."""
    return prod(entry.ufl_shape) if isinstance(entry, ufl.Constant) else num_components(entry.ufl_element())
