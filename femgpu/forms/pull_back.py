"""Pointwise functions in reference coordinates: inverse Jacobian and measure become inputs of the expression graph.

With the reference coordinates X of a cell, `K[k, d] = dX_k / dx_d` and the measure `m = weight * det`, gradients of
fields are `u_x[c, d] = sum_k U_x[c, k] K[k, d]`, where U_x is the gradient with respect to X, and what a physical gradient
of the test function multiplies becomes `F1[c, k] = m sum_d K[k, d] f1[c, d]`. The cut of an action (`state`) then sees the
geometry: it stores `m` for a mass matrix, and the six entries of `m K K^T` for the Laplacian in 3D.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from femgpu.forms.graph.copying import copy_nodes
from femgpu.forms.graph.evaluate import Evaluation
from femgpu.forms.graph.graph import INPUT, Graph
from femgpu.forms.graph.identities import SharedGraph
from femgpu.forms.graph.levels import Levels
from femgpu.forms.graph.pointwise import pointwise as record
from femgpu.forms.records import Pointwise

# Outputs that multiply second derivatives of the test function or the direction.
_SECOND = ("f2", "g4", "g5", "g6", "g7", "g8")


def pull_back(pointwise: Pointwise, dim: int, affine: bool) -> Pointwise | None:
    """Moves inverse Jacobian and measure into a pointwise function.

    Args:
        pointwise: a residual, action, jacobian or functional in physical coordinates.
        dim: dimension of space.
        affine: whether it is for affine cells, whose second derivatives transform like products of first ones.

    Returns:
        The same function with `reference` set: it reads gradients with respect to reference coordinates and "K", "det" and
        "weight", and writes what multiplies reference gradients, measure included. None for bodies of the user, and for second
        derivatives in cells that are not affine.
    """
    given = pointwise.evaluate
    if not isinstance(given, Evaluation):
        return None
    nodes = [node for _, _, node in given.roots]
    inputs = {node: given.graph.nodes[node][1:] for node in given.graph.live(nodes) if given.graph.nodes[node][0] == INPUT}
    is_second = any(_order(name) == 2 for name, _ in inputs.values()) or any(name in _SECOND for name, _, _ in given.roots)
    if is_second and not affine:
        return None
    geometry = _Geometry(SharedGraph(Levels(given.locate, dim)), dim)
    fields = {node: geometry.field(name, index) for node, (name, index) in inputs.items()}
    copies = copy_nodes(given.graph, nodes, geometry.graph, fields)
    roots = []
    for name in dict.fromkeys(name for name, _, _ in given.roots):
        shape = given.shapes[name]
        entries = {index: copies[node] for output, index, node in given.roots if output == name}
        for index, node in geometry.output(entries, len(shape) - (1 if name[0] == "f" else 2)).items():
            roots.append((name, index, geometry.integrand(node, pointwise.kind == "action" and affine)))
    evaluation = Evaluation(geometry.graph, tuple(sorted(roots)), given.shapes, given.locate)
    return record(pointwise.kind, evaluation, dim, reference=True)


def _order(name: Any) -> int:
    """The order of the derivatives in an input array of a graph."""
    return len((name if isinstance(name, str) else name[0]).partition("_")[2])


class _Geometry:
    """Transformations between physical and reference coordinates as nodes of a graph."""

    def __init__(self, graph: Graph, dim: int) -> None:
        self.graph = graph
        self.dim = dim
        self.inverse = [[graph.input("K", k * dim + d) for d in range(dim)] for k in range(dim)]
        self.weight, self.det = graph.input("weight", 0), graph.input("det", 0)
        self.measure = graph.mul(self.weight, self.det)

    def field(self, name: Any, index: int) -> int:
        """An entry of an input array, from derivatives with respect to reference coordinates."""
        dim = self.dim
        if _order(name) == 0:
            return self.graph.input(name, index)
        if _order(name) == 1:
            component, d = divmod(index, dim)
            return self._product([self.graph.input(name, component * dim + k) for k in range(dim)], self._column(d))
        component, i, j = index // dim**2, index // dim % dim, index % dim
        # second derivatives commute: one input for both orders
        rows = [[(component * dim + min(k, m)) * dim + max(k, m) for m in range(dim)] for k in range(dim)]
        along = [self._product([self.graph.input(name, entry) for entry in row], self._column(j)) for row in rows]
        return self._product(along, self._column(i))

    def output(self, entries: dict[int, int], num_derivatives: int) -> dict[int, int]:
        """Entries of an output array, for derivatives with respect to reference coordinates.

        Args:
            entries: nodes by their flat index; those that are absent are zero.
            num_derivatives: axes of the array, its last ones, that stand for derivatives.
        """
        zero, dim = self.graph.constant(0.0), self.dim
        for axis in range(num_derivatives):
            stride = dim**axis
            first = {index - index // stride % dim * stride: None for index in entries}
            columns = {index: [entries.get(index + d * stride, zero) for d in range(dim)] for index in first}
            entries = {
                index + k * stride: self._product(self.inverse[k], column) for index, column in columns.items() for k in range(dim)
            }
        return {index: node for index, node in entries.items() if self.graph.value(node) != 0}

    def integrand(self, node: int, is_last: bool) -> int:
        """A value times the measure; `is_last`: times the weight at the very end, behind what is constant on an affine cell."""
        if is_last:
            return self.graph.mul(self.weight, self.graph.mul(self.det, node))
        return self.graph.mul(self.measure, node)

    def _column(self, d: int) -> list[int]:
        return [row[d] for row in self.inverse]

    def _product(self, a: Sequence[int], b: Sequence[int]) -> int:
        total = self.graph.constant(0.0)
        for left, right in zip(a, b, strict=True):
            total = self.graph.add(total, self.graph.mul(left, right))
        return total
