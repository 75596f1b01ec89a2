"""Nodal values of expressions, callables and numbers."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from femgpu.errors import DataError, collective, told, whole_arrays
from femgpu.spaces.constant import Constant
from femgpu.spaces.expressions import expression_values, is_expression, write_nodal
from femgpu.spaces.space import SingleSpace


def interpolate(local: npt.NDArray[np.float64], space: SingleSpace, source: Any, name: str) -> None:
    """Writes the nodal values of a source into an L-vector; collective.

    Args:
        local: (num_local,), written at the space's dofs.
        space: the space, or a field of a mixed one.
        source: a UFL expression, or what `node_values` takes.
        name: of the function, for messages.

    Raises:
        DataError: when the values have another shape, belong to another mesh, or are not finite.
        FormError: for expressions that are not supported.
    """
    what = f"values of {name}"
    if is_expression(source) and not isinstance(source, Constant):
        write_nodal(local, expression_values(source, space, space.value_shape, what), space, what)
        return
    positions, points = space.nodes()
    with collective(space.mesh.mpi):
        values = node_values(source, points, space.value_shape, what)
    (values,) = space.stored([values], what)
    for component in range(space.num_comp):
        local[positions + component] = values[:, component]


def node_values(source: Any, points: npt.NDArray[np.float64], shape: tuple[int, ...], what: str) -> npt.NDArray[np.float64]:
    """Values of a callable, number, sequence or Constant at nodes.

    Args:
        source: callable of x (dim, num_points), number, num_comp numbers, or a Constant of them. A callable may return plain
            numbers, alone or beside arrays: `lambda x: (x[1], 0)`.
        points: (num_points, dim); only callables look at them.
        shape: of one value, with num_comp entries.
        what: names the values in messages.

    Returns:
        (num_points, num_comp).

    Raises:
        DataError: for a wrong shape, complex values, or values that are not finite.
    """
    values = shaped_values(source, points, shape, what)
    if not np.isfinite(values).all():
        bad = int(np.flatnonzero(~np.isfinite(values).all(axis=1))[0])
        where = f", first at the point {points[bad].tolist()}" if callable(source) else ""
        raise DataError(f"{what} are not finite{where}: {values[bad].tolist()}")
    return values


def shaped_values(source: Any, points: npt.NDArray[np.float64], shape: tuple[int, ...], what: str) -> npt.NDArray[np.float64]:
    """As `node_values`, but the values need not be finite."""
    num_points, num_comp = len(points), int(np.prod(shape, dtype=int))
    if isinstance(source, Constant):
        source = source.value
    with whole_arrays(f"the function that gives {what}", DataError):
        raw = source(np.ascontiguousarray(points.T)) if callable(source) else source
    if raw is None or isinstance(raw, str | bytes):
        raise DataError(f"{what} are {told(raw)}; expected numbers, {num_comp} per node")
    try:
        values = np.asarray(_spread(raw, num_points) if callable(source) and _has_arrays(raw) else raw)
        if np.iscomplexobj(values):
            raise DataError(f"{what} are complex; this PETSc has real scalars: expected real numbers, for example their .real")
        values = np.asarray(values, np.float64)
    except (TypeError, ValueError) as error:
        raise DataError(f"{what} are {told(raw)}; expected numbers, {num_comp} per node ({error})") from None
    if values.shape in ((), tuple(shape)) or (not callable(source) and values.size == num_comp):
        values = np.broadcast_to(values.reshape(-1, 1), (num_comp, num_points))
    legal = [(num_comp, num_points), (*shape, num_points)] + ([(num_points,)] if num_comp == 1 else [])
    if values.shape not in legal:
        raise DataError(f"{what} have shape {values.shape}; expected {' or '.join(map(str, dict.fromkeys(legal)))}")
    return values.reshape(num_comp, num_points).T


def _has_arrays(raw: Any) -> bool:
    return any(map(_has_arrays, raw)) if isinstance(raw, tuple | list) else np.ndim(raw) > 0


def _spread(raw: Any, num_points: int) -> Any:
    """What a callable returned, plain numbers as arrays of one number per point: of `(x[1], 0)` the 0."""
    if isinstance(raw, tuple | list):
        return [_spread(entry, num_points) for entry in raw]
    return raw if np.ndim(raw) else np.broadcast_to(raw, (num_points,))
