"""The numpy twin of a printed body: the same graph, evaluated at many points at once."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from math import prod
from typing import Any

import numpy as np

from femgpu.errors import DataError
from femgpu.forms.graph.arrays import PER_POINT, Locate
from femgpu.forms.graph.graph import CONSTANT, INPUT, Graph
from femgpu.forms.graph.operations import OPERATIONS


@dataclass(frozen=True)
class Evaluation:
    """Evaluates entries of output arrays.

    Attributes:
        graph: the graph.
        roots: (output name, flat index, node) for each entry that is not always zero.
        shapes: shape of each output at one point.
        locate: maps an input (name, index) of the graph to the array it is in and its flat index there.
    """

    graph: Graph
    roots: tuple[tuple[str, int, int], ...]
    shapes: Mapping[str, tuple[int, ...]]
    locate: Locate

    def __call__(self, data: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
        """Evaluates at points.

        Args:
            data: (num_points, ...) per array "u", "u_x", "u_xx", the same of "w" and "a", "x", "n" and "s" of those that
                the body reads; what follows the first axis is in PETSc's order, of any shape. "constants" is
                (num_constants,). More arrays do no harm.

        Returns:
            (num_points,) + shape for each output that is written: f0 (C,), f1 (C, dim), f2 (C, dim, dim), g0 (C, C), g1
            and g2 (C, C, dim), g3, g4 and g6 (C, C, dim, dim), g5 and g7 (C, C, dim, dim, dim), g8 (C, C, dim, dim, dim, dim);
            f0 (1,) of a functional; C counts components.

        Raises:
            DataError: if an array is missing or too small.
        """
        num_points, flat = _flatten(data)
        outputs: dict[str, np.ndarray] = {}
        values = self._values(flat)
        for name, index, node in self.roots:
            if name not in outputs:
                outputs[name] = np.zeros((num_points, prod(self.shapes[name])), dtype=_dtype(flat))
            outputs[name][:, index] = values[node]
        return {name: array.reshape(num_points, *self.shapes[name]) for name, array in outputs.items()}

    def _values(self, flat: dict[str, np.ndarray]) -> dict[int, Any]:
        live = self.graph.live(node for _, _, node in self.roots)
        last_use = {operand: node for node in live for operand in self.graph.operands(node)}
        for _, _, node in self.roots:
            last_use[node] = -1
        values: dict[int, Any] = {}
        with np.errstate(all="ignore"):  # the branch that a condition does not take may divide by zero
            for node in live:
                kind, *rest = self.graph.nodes[node]
                if kind == CONSTANT:
                    values[node] = rest[0]
                elif kind == INPUT:
                    values[node] = self._input(flat, rest[0], rest[1])
                else:
                    values[node] = OPERATIONS[kind].numpy(*(values[operand] for operand in rest))
                    for operand in set(rest):  # large meshes: keep only what is still needed
                        if last_use[operand] == node:
                            del values[operand]
        return values

    def _input(self, flat: dict[str, np.ndarray], name: Any, index: int) -> np.ndarray:
        array, at = self.locate(name, index)
        if array not in flat:
            raise DataError(f"pointwise evaluation needs the array {array!r}; given are {sorted(flat)}")
        if flat[array].shape[-1] <= at:
            raise DataError(f"pointwise evaluation reads entry {at} of {array!r}, which has only {flat[array].shape[-1]} per point")
        return flat[array][..., at]


def _flatten(data: Mapping[str, np.ndarray]) -> tuple[int, dict[str, np.ndarray]]:
    flat = {name: np.asarray(data[name]) for name in PER_POINT if data.get(name) is not None}
    sizes = {array.shape[0] for array in flat.values()}
    if len(sizes) != 1:
        shapes = {name: array.shape for name, array in flat.items()}
        raise DataError(f"pointwise evaluation needs arrays with the same number of points first; given are {shapes}")
    num_points = sizes.pop()
    flat = {name: array.reshape(num_points, prod(array.shape[1:])) for name, array in flat.items()}
    if data.get("constants") is not None:
        flat["constants"] = np.ravel(data["constants"])
    return num_points, flat


def _dtype(flat: dict[str, np.ndarray]) -> np.dtype:
    return np.result_type(np.float32, *(array.dtype for array in flat.values()))
