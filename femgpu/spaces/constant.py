"""Constants, as UFL terminals with numbers behind them."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import ufl
from petsc4py import PETSc

from femgpu.errors import DataError, told
from femgpu.mesh import Mesh
from femgpu.spaces.space import ufl_mesh


class Constant(ufl.Constant):
    """A number, vector or tensor that kernels get as an argument: a new value never rebuilds a kernel.

    Args:
        dm: the DM of the mesh it is used on.
        value: a number or an array.
    """

    def __init__(self, dm: PETSc.DM, value: Any):
        array = _numbers(value)
        self._mesh = Mesh.of(dm)  # UFL's mesh does not keep it alive
        super().__init__(ufl_mesh(self._mesh), array.shape)
        self._value = np.empty(array.shape)
        self.value = value

    @property
    def value(self) -> Any:
        """The value: a float for a scalar, else a copy of the array."""
        return float(self._value) if not self._value.shape else self._value.copy()

    @value.setter
    def value(self, value: Any) -> None:
        array = _numbers(value)
        if array.shape != self._value.shape:
            raise DataError(f"value of shape {array.shape} for a Constant of shape {self._value.shape}; make a new Constant")
        if not np.isfinite(array).all():
            raise DataError(f"Constant {value!r}: expected finite numbers")
        self._value[...] = array

    def __float__(self) -> float:
        return float(self._scalar("float"))

    def __int__(self) -> int:
        return int(self._scalar("int"))

    def __complex__(self) -> complex:
        return complex(self._scalar("complex"))

    def __format__(self, spec: str) -> str:
        return format(self._scalar(f"the format {spec!r}"), spec) if spec else str(self)

    def ufl_evaluate(self, x: Any, component: tuple[int, ...], derivatives: tuple[int, ...]) -> float:
        """The value of a component, by which UFL evaluates expressions such as `float(2 * c)`."""
        return 0.0 if derivatives else float(self._value[component])

    def _scalar(self, kind: str) -> float:
        if self._value.shape:
            raise DataError(f"{kind} of a Constant of shape {self._value.shape}; expected a scalar one, or one entry: c.value[0]")
        return float(self._value)

    @property
    def flat(self) -> npt.NDArray[np.float64]:
        """The entries in row-major order."""
        return self._value.ravel()


def _numbers(value: Any) -> npt.NDArray[np.float64]:
    if np.iscomplexobj(value):
        raise DataError(f"Constant {value!r} is complex; this PETSc has real scalars: expected real numbers")
    try:
        if value is None or isinstance(value, str):
            raise TypeError(f"of type {type(value).__name__}")
        return np.array(value, np.float64)
    except (TypeError, ValueError) as error:
        why = f"; {error}" if isinstance(value, list | tuple | np.ndarray) else ""
        raise DataError(
            f"the value of a Constant is {told(value)}; expected a number or an array of numbers, after the mesh: "
            f"femgpu.Constant(dm, 2.0){why}"
        ) from None
