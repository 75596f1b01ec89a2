"""Norms of functions and of errors."""

from __future__ import annotations

from typing import Any

import numpy as np
from mpi4py import MPI

from femgpu.element import default_rule
from femgpu.errors import DataError, collective, meet, told
from femgpu.forms import ExpressionValues
from femgpu.forms.ufl import builders
from femgpu.mesh import Mesh
from femgpu.mesh.geometry import chunks
from femgpu.operators.functional import Functional
from femgpu.spaces import Function, SubFunction

KINDS = ("L2", "H1", "H10", "Linf")


def norm(u: Any, kind: str = "L2", degree: int | None = None, options_prefix: str = "") -> float:
    """A norm of u; collective.

    Args:
        u: a Function, a field of one, or a UFL expression.
        kind: "L2", "H10", "H1" or "Linf" as in `error_norm`; or "l2", the Euclidean norm of the vector of a Function or of the
            entries of a field.
        degree: of the quadrature, as in `error_norm`.
        options_prefix: prefix of the options.

    Raises:
        DataError: for another kind, for "l2" of what has no vector, or numbers that are not finite.
        FormError: for what is not supported.
    """
    if kind != "l2":
        return error_norm(u, 0.0, kind, degree, options_prefix)
    if isinstance(u, SubFunction):
        u = u.collapse()
    if not isinstance(u, Function):
        raise DataError(f"the l2 norm of {told(u)}; expected a Function or a field of one, which has a vector")
    meet(u.space.mesh.mpi)
    return float(u.vec.norm())


def error_norm(u: Any, exact: Any = 0.0, kind: str = "L2", degree: int | None = None, options_prefix: str = "") -> float:
    """A norm of u - exact; collective. For one that is wanted often see `ErrorNorm`, which takes the same and raises the same."""
    return ErrorNorm(u, exact, kind, degree, options_prefix)._value()


class ErrorNorm:
    """A norm of u - exact, made once and taken often; collective.

    Make it before a problem is solved: its kernels are then built beside the problem's. Integrals are taken on the device, "Linf"
    by numpy on the host.

    Args:
        u: a Function, a field of one, or a UFL expression.
        exact: a UFL expression or Function of the same shape, a callable of x (dim, num_points), or numbers. A callable is
            interpolated first, anew for each value, cell by cell, with a degree larger by 3 than that of u; give a UFL expression
            of `femgpu.coordinates` where that is not enough. The default gives the norm of u itself.
        kind: "L2"; "H10", the L2 norm of the gradient; "H1", the root of the sum of the squares of these two; "Linf", the
            largest value at the quadrature points. Vectors and tensors count with their Euclidean norm.
        degree: of the quadrature; default 2 (k + 1) + 2, k the largest degree of the Functions in u, or 2 l where that is more, l
            the largest degree of those in u and exact.
        options_prefix: prefix of the options.

    Raises:
        DataError: for another kind, shapes or meshes that do not match.
        FormError: for what is not supported.
    """

    def __init__(self, u: Any, exact: Any = 0.0, kind: str = "L2", degree: int | None = None, options_prefix: str = ""):
        if kind not in KINDS:
            raise DataError(f"norm of kind {told(kind)}; expected one of {', '.join(KINDS)}, or l2 for femgpu.norm")
        mesh, k = builders.mesh_and_degree(u, "u")
        self._given, self._exact = exact, builders.as_expression(exact, mesh, tuple(u.ufl_shape), k, "the exact solution")
        error = u - self._exact
        self._degree = max(2 * (k + 1) + 2, 2 * builders.mesh_and_degree(error, "the error")[1]) if degree is None else degree
        square = builders.squared(error, kind)
        self._mesh, self._values, self._functional = mesh, ExpressionValues(square, mesh), None
        if kind != "Linf" and not self._values.expression.is_zero:
            self._functional = Functional(builders.integral(square, mesh, self._degree), options_prefix)

    def value(self) -> float:
        """The norm, with Functions, Constants, callables and coordinates as they are now; collective.

        Raises:
            DataError: for numbers that are not finite.
        """
        if self._exact is not self._given and callable(self._given):
            self._exact.interpolate(self._given)
        return self._value()

    def _value(self) -> float:
        """The norm, with what a callable gave last."""
        if self._values.expression.is_zero:
            return 0.0
        if self._functional is None:
            return float(np.sqrt(_largest(self._values, self._mesh, self._degree)))
        # Rounding may leave a sum just below zero where forms cancel.
        return float(np.sqrt(max(self._functional.value(), 0.0)))


def _largest(values: ExpressionValues, mesh: Mesh, degree: int) -> float:
    """The largest value at the quadrature points of all ranks."""
    snapshot, largest = values.read(), -np.inf
    with collective(mesh.mpi):
        for block in mesh.blocks:
            points = default_rule(block.cell, degree).points
            for part in chunks(block.num_cells):
                found = snapshot.at(block, points, np.arange(part.start, part.stop))
                if not np.isfinite(found).all():
                    raise DataError("the error is not finite at a quadrature point; expected finite numbers in both functions")
                largest = max(largest, float(found.max(initial=-np.inf)))
    return mesh.mpi.allreduce(largest, op=MPI.MAX)
