"""The slow twin: every operator in numpy float64, straight from the formulas. Kernels are tested against it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from femgpu.errors import FormError
from femgpu.forms import Pointwise
from femgpu.kernels import SECOND
from femgpu.mesh.geometry import physical_hessians
from femgpu.operators.term import FieldData, Term
from femgpu.spaces import Field

Vectors = Mapping[str, npt.NDArray[np.float64]]

# Test function and direction of the blocks g0 to g8: t(est), d(irection); 0 value, 1 gradient, 2 second derivatives.
BLOCKS = {
    "g0": ("eqi,eq,eqfg,eqj->eifjg", 0, 0),
    "g1": ("eqi,eq,eqfgd,eqjd->eifjg", 0, 1),
    "g2": ("eqid,eq,eqfgd,eqj->eifjg", 1, 0),
    "g3": ("eqid,eq,eqfgdp,eqjp->eifjg", 1, 1),
    "g4": ("eqi,eq,eqfgpr,eqjpr->eifjg", 0, 2),
    "g5": ("eqid,eq,eqfgdpr,eqjpr->eifjg", 1, 2),
    "g6": ("eqist,eq,eqfgst,eqj->eifjg", 2, 0),
    "g7": ("eqist,eq,eqfgstp,eqjp->eifjg", 2, 1),
    "g8": ("eqist,eq,eqfgstpr,eqjpr->eifjg", 2, 2),
}


def element_vectors(
    term: Term,
    pointwise: Pointwise,
    vectors: Vectors,
    constants: npt.NDArray[np.float64],
    state: npt.NDArray[np.float64] | None = None,
) -> np.ndarray:
    """Residual or action of each cell or facet: B^T W f0 + sum_k D_k^T W f1_k + sum_kl H_kl^T W f2_kl.

    Args:
        term: the term.
        pointwise: its residual or action.
        vectors: L-vector of each function by name.
        constants: values of the form's constants.
        state: (num_cells, num_qpts, num_state) numbers kept at the points, where the function reads such.

    Returns:
        (num_cells, num_rows), rows by field, basis function and component.
    """
    points = Points(term)
    outputs = points.evaluate(pointwise, vectors, constants, state)
    result = []
    for field in term.rows:
        phi, phi_x, phi_xx = points.of(field).basis(term.element(field), second="f2" in outputs)
        part = slice(field.offset, field.offset + field.num_comp)
        rows = np.zeros((term.num_cells, phi.shape[2], field.num_comp))
        if "f0" in outputs:
            rows += np.einsum("eqb,eq,eqc->ebc", phi, points.weights, outputs["f0"][:, :, part], optimize=True)
        if "f1" in outputs:
            rows += np.einsum("eqbd,eq,eqcd->ebc", phi_x, points.weights, outputs["f1"][:, :, part], optimize=True)
        if "f2" in outputs:
            rows += np.einsum("eqbij,eq,eqcij->ebc", phi_xx, points.weights, outputs["f2"][:, :, part], optimize=True)
        result.append(rows.reshape(term.num_cells, rows.shape[1] * field.num_comp))
    return np.concatenate(result, axis=1)


def element_matrices(term: Term, pointwise: Pointwise, vectors: Vectors, constants: npt.NDArray[np.float64]) -> np.ndarray:
    """Element matrices from g0 to g8.

    Args:
        term: the term.
        pointwise: its jacobian.
        vectors: L-vector of each function by name.
        constants: values of the form's constants.

    Returns:
        (num_cells, num_rows, num_rows), rows and columns by field, basis function and component.
    """
    points = Points(term)
    outputs = points.evaluate(pointwise, vectors, constants)
    second = bool(SECOND & set(outputs))
    lines = []
    for test in term.rows:
        blocks = []
        for trial in term.rows:
            psi, phi = (points.of(field).basis(term.element(field), second) for field in (test, trial))
            rows, columns = (slice(field.offset, field.offset + field.num_comp) for field in (test, trial))
            total = np.zeros((term.num_cells, psi[0].shape[2], test.num_comp, phi[0].shape[2], trial.num_comp))
            for name, (formula, one, other) in BLOCKS.items():
                if name in outputs:
                    g = outputs[name][:, :, rows, columns]
                    total += np.einsum(formula, psi[one], points.weights, g, phi[other], optimize=True)
            size = (psi[0].shape[2] * test.num_comp, phi[0].shape[2] * trial.num_comp)
            blocks.append(total.reshape(term.num_cells, *size))
        lines.append(np.concatenate(blocks, axis=2))
    return np.concatenate(lines, axis=1)


def scatter(term: Term, element: np.ndarray) -> npt.NDArray[np.float64]:
    """E-vector (num_cells, num_rows) summed into an L-vector (num_local,)."""
    out = np.zeros(term.form.space.storage(term.form.wide).num_local)
    np.add.at(out, term.dofs().ravel(), element.ravel())
    return out


class Points:
    """All quadrature points of a term: weights, geometry and tabulations, with the cell as first and the point as second axis.

    Attributes:
        weights: (num_cells, num_qpts) weights times the measure of cell or facet.
        inverse: (num_cells, num_qpts, dim, dim) inverse Jacobians dX_k / dx_d.
        normals: (num_cells, num_qpts, dim) outward unit normals; zero inside cells.
        other: the same points in the second cells of facets, where there are such.
    """

    def __init__(self, term: Term):
        self.term = term
        dim, shape = term.dim, (term.num_cells, term.quadrature.num_qpts)
        geometry = np.broadcast_to(term.geometry(), (*shape, dim * dim + 1))
        self.inverse = geometry[..., :-1].reshape(*shape, dim, dim)
        self.weights = self._spread(term.weights) * geometry[..., -1]
        self.normals = np.zeros((*shape, dim))
        if term.normals is not None:
            scaled = np.einsum("eqkd,ek->eqd", self.inverse, self._spread(term.normals))
            length = np.linalg.norm(scaled, axis=-1)
            self.weights = self.weights * length
            self.normals = scaled / length[..., None]
        self.other = None if term.other is None else Points(term.other)

    def of(self, field: Field) -> Points:
        """The points in the cells that a field is of."""
        return self.other if self.other is not None and field.side else self

    def basis(self, element: Any, second: bool) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Values (cell, point, basis), gradients (..., dim) and second derivatives (..., dim, dim) in physical coordinates.

        Without `second` the latter are not a number.
        """
        values, gradients, *more = (self._spread(array) for array in self.term.tabulate(element, second))
        physical = np.einsum("eqbk,eqkd->eqbd", gradients, self.inverse, optimize=True)
        if not second:
            return values, physical, np.broadcast_to(np.nan, (*physical.shape, self.term.dim))
        bend = None if self.term.affine else self._mapped(self.term.block.hessians)
        return values, physical, physical_hessians(more[0], physical, self.inverse, bend)

    def evaluate(
        self,
        pointwise: Pointwise,
        vectors: Vectors,
        constants: npt.NDArray[np.float64],
        state: npt.NDArray[np.float64] | None = None,
    ) -> dict[str, np.ndarray]:
        """Outputs of a pointwise function, (cell, point, ...).

        Raises:
            FormError: for a function given as C.
        """
        if pointwise.evaluate is None:
            raise FormError("a pointwise function given as C has no numpy twin")
        term, dim = self.term, self.term.dim
        num_cells, num_qpts = self.weights.shape
        aux = term.form.coefficient_offsets[-1] * len(term.sides)
        unknown = term.form.unknown.space if term.form.unknown is not None else term.form.space
        sizes = {
            "a": aux,
            "u": 0 if unknown is None else unknown.num_comp * len(term.sides),
            "w": sum(field.num_comp for field in term.rows),
        }
        data = {"x": self._mapped(self.term.block.physical_points), "n": self.normals} | ({} if state is None else {"s": state})
        for array, size in sizes.items():
            for suffix, shape in (("", ()), ("_x", (dim,)), ("_xx", (dim, dim))):
                data[array + suffix] = np.zeros((num_cells, num_qpts, size, *shape))
        for field in term.fields(pointwise):
            part = slice(field.offset, field.offset + field.field.num_comp)
            for suffix, values in zip(("", "_x", "_xx"), self._interpolate(field, vectors[field.vector]), strict=True):
                data[field.array + suffix][:, :, part] = values
        flat = {name: array.reshape(num_cells * num_qpts, *array.shape[2:]) for name, array in data.items()}
        outputs = pointwise.evaluate({**flat, "constants": constants})
        return {name: array.reshape(num_cells, num_qpts, *array.shape[1:]) for name, array in outputs.items()}

    def _interpolate(self, data: FieldData, vector: np.ndarray) -> tuple[np.ndarray, ...]:
        """Values (cell, point, comp), gradients (..., dim) and second derivatives (..., dim, dim) of a field."""
        values, gradients, hessians = self.of(data.field).basis(self.term.element(data.field), data.hessian)
        local = vector[self.term.offsets(data.field)[:, :, None] + np.arange(data.field.num_comp)]
        return (
            np.einsum("eqb,ebc->eqc", values, local, optimize=True),
            np.einsum("eqbd,ebc->eqcd", gradients, local, optimize=True),
            np.einsum("eqbij,ebc->eqcij", hessians, local, optimize=True) if data.hessian else np.zeros(()),
        )

    def _mapped(self, function: Callable[[np.ndarray, np.ndarray], np.ndarray]) -> np.ndarray:
        """What a function of reference points and cells of the block gives at the points, (cell, point, ...)."""
        cells = self.term.subset(np.arange(self.term.block.num_cells))
        parts = [function(at, cells[entries]) for at, entries in zip(self.term.points, self.term.groups, strict=True)]
        out = np.empty((self.term.num_cells, *parts[0].shape[1:]))
        for entries, part in zip(self.term.groups, parts, strict=True):
            out[entries] = part
        return out

    def _spread(self, array: np.ndarray) -> np.ndarray:
        """An array over the rule's facets as one over the term's entries."""
        if self.term.facets is None:
            return np.broadcast_to(array[0], (self.term.num_cells, *array.shape[1:]))
        return array[self.term.facets]
