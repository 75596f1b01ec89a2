"""The forms behind femgpu's own post-processing: errors and projections."""

from __future__ import annotations

from typing import Any

import numpy as np
import ufl
from ufl.algorithms.analysis import extract_coefficients
from ufl.domain import extract_domains

from femgpu.errors import DataError, told
from femgpu.forms.ufl.check import polynomial_degree
from femgpu.forms.ufl.show import show
from femgpu.mesh import Mesh
from femgpu.spaces import Constant, Function, FunctionSpace, mesh_of, ufl_mesh

# What the degree of a space for a callable is larger by than that of what the callable is compared with.
EXTRA_DEGREE = 3


def as_expression(source: Any, mesh: Mesh, shape: tuple[int, ...], degree: int, what: str) -> Any:
    """A source of values as a UFL expression; collective.

    Args:
        source: a UFL expression, a callable of x (dim, num_points), a number, or numbers of the shape.
        mesh: the mesh.
        shape: value shape.
        degree: of what the values are compared with: callables are interpolated in a space of this degree plus `EXTRA_DEGREE`.
        what: names the values in messages.

    Raises:
        DataError: for values of another shape, or another mesh.
    """
    if isinstance(source, ufl.core.expr.Expr):
        _check_shape(tuple(source.ufl_shape), shape, what)
        if _domains(source) - {ufl_mesh(mesh)}:
            raise DataError(f"{what} is {show(source)}, which lives on another mesh; build all spaces and Constants from one DM")
        return source
    dm = mesh.clone_dm()
    if callable(source):
        # Broken, because interpolation needs no shared nodes and cells of all types have broken elements of high degrees.
        nodal = Function(FunctionSpace(dm, "DG", degree + EXTRA_DEGREE, shape), what)
        nodal.interpolate(source)
        return nodal
    try:
        if source is None:
            raise TypeError("nothing was given")
        values = np.asarray(source, np.float64)
    except (TypeError, ValueError) as error:
        raise DataError(f"{what} is {told(source)}; expected a UFL expression, a callable of x or numbers ({error})") from None
    _check_shape(values.shape or tuple(shape), shape, what)
    return Constant(dm, np.broadcast_to(values, shape))


def _domains(expression: Any) -> set[Any]:
    return set(extract_domains(expression))


def _check_shape(given: tuple[int, ...], expected: tuple[int, ...], what: str) -> None:
    if given != tuple(expected):
        raise DataError(f"{what} has shape {given}; expected {tuple(expected)}")


def mesh_and_degree(expression: Any, what: str) -> tuple[Mesh, int]:
    """The mesh that an expression lives on, and the largest degree of its Functions, 1 where there are none.

    Raises:
        DataError: when it is no expression, or lives on no mesh of femgpu's or on several.
    """
    domains = _domains(expression) if isinstance(expression, ufl.core.expr.Expr) else set()
    mesh = mesh_of(domains.pop()) if len(domains) == 1 else None
    if mesh is None:
        given = show(expression) if isinstance(expression, ufl.core.expr.Expr) else told(expression)
        raise DataError(f"{what} is {given}; expected a Function, or a UFL expression of Functions on one mesh")
    degrees = [polynomial_degree(entry.ufl_function_space()) for entry in extract_coefficients(expression)]
    return mesh, max(degrees, default=1)


def squared(error: Any, kind: str) -> Any:
    """The integrand of a squared norm.

    Args:
        error: a UFL expression.
        kind: "L2", "H1" or "H10"; "Linf" is the square of what has the largest value.
    """
    value = ufl.inner(error, error)
    if kind in ("L2", "Linf"):
        return value
    slope = ufl.inner(ufl.grad(error), ufl.grad(error))
    return slope if kind == "H10" else value + slope


def integral(integrand: Any, mesh: Mesh, degree: int) -> Any:
    """The integral over all cells, by quadrature of a degree."""
    return integrand * ufl.dx(ufl_mesh(mesh), degree=degree)


def projection(space: FunctionSpace, expression: Any) -> Any:
    """The L2 projection of an expression: (u - expression, v) = 0 for all v of a space, u its trial function."""
    u, v = ufl.TrialFunction(space), ufl.TestFunction(space)
    return ufl.inner(u - expression, v) * ufl.dx == 0
