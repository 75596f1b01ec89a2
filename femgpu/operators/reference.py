"""The slow twin: every operator in numpy float64, straight from the formulas. Kernels are tested against it."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import numpy.typing as npt

from femgpu.errors import FormError
from femgpu.forms import Pointwise
from femgpu.operators.term import FieldData, Term

Vectors = Mapping[str, npt.NDArray[np.float64]]


def element_vectors(term: Term, pointwise: Pointwise, vectors: Vectors, constants: npt.NDArray[np.float64]) -> np.ndarray:
    """Residual or action of each cell: B^T W f0 + sum_k D_k^T W f1_k.

    Args:
        term: the term.
        pointwise: its residual or action.
        vectors: L-vector of each field by name.
        constants: values of the form's constants.

    Returns:
        (num_cells, num_basis, num_comp).
    """
    outputs, weights, inverse = _at_points(term, pointwise, vectors, constants)
    values, gradients = term.form.space.element.tabulate(term.quadrature.points)
    result = np.zeros((term.num_cells, values.shape[1], term.form.space.num_comp))
    if "f0" in outputs:
        result += np.einsum("qb,eq,eqc->ebc", values, weights, outputs["f0"], optimize=True)
    if "f1" in outputs:
        result += np.einsum("qbk,eq,eqkd,eqcd->ebc", gradients, weights, inverse, outputs["f1"], optimize=True)
    return result


def element_matrices(term: Term, pointwise: Pointwise, vectors: Vectors, constants: npt.NDArray[np.float64]) -> np.ndarray:
    """Element matrices from g0 to g3.

    Args:
        term: the term.
        pointwise: its jacobian.
        vectors: L-vector of each field by name.
        constants: values of the form's constants.

    Returns:
        (num_cells, num_basis * num_comp, num_basis * num_comp), rows and columns in the order (basis, component).
    """
    outputs, weights, inverse = _at_points(term, pointwise, vectors, constants)
    phi, reference = term.form.space.element.tabulate(term.quadrature.points)
    phi_x = np.einsum("qbk,eqkd->eqbd", reference, inverse, optimize=True)
    num_basis, num_comp = phi.shape[1], term.form.space.num_comp
    result = np.zeros((term.num_cells, num_basis, num_comp, num_basis, num_comp))
    pieces = {
        "g0": ("qi,eq,eqfg,qj->eifjg", phi, phi),
        "g1": ("qi,eq,eqfgd,eqjd->eifjg", phi, phi_x),
        "g2": ("eqid,eq,eqfgd,qj->eifjg", phi_x, phi),
        "g3": ("eqid,eq,eqfgdp,eqjp->eifjg", phi_x, phi_x),
    }
    for name, (formula, test, trial) in pieces.items():
        if name in outputs:
            result += np.einsum(formula, test, weights, outputs[name], trial, optimize=True)
    return result.reshape(term.num_cells, num_basis * num_comp, num_basis * num_comp)


def cell_values(term: Term, pointwise: Pointwise, vectors: Vectors, constants: npt.NDArray[np.float64]) -> np.ndarray:
    """(num_cells,) integrals of a functional."""
    outputs, weights, _ = _at_points(term, pointwise, vectors, constants)
    return np.einsum("eq,eq->e", weights, outputs["f0"][..., 0])


def scatter(term: Term, element: np.ndarray) -> npt.NDArray[np.float64]:
    """E-vector (num_cells, num_basis, num_comp) summed into an L-vector (num_local,)."""
    space = term.form.space
    out = np.zeros(space.num_local)
    positions = term.subset(space.offsets)[:, :, None] + np.arange(space.num_comp)
    np.add.at(out, positions.ravel(), element.ravel())
    return out


def _at_points(
    term: Term, pointwise: Pointwise, vectors: Vectors, constants: npt.NDArray[np.float64]
) -> tuple[dict[str, np.ndarray], np.ndarray, np.ndarray]:
    """Outputs of the pointwise function (cell, point, ...), weights (cell, point) and inverse Jacobians at all points."""
    if pointwise.evaluate is None:
        raise FormError("a pointwise function given as C has no numpy twin")
    points, dim = term.quadrature.points, term.mesh.dim
    num_cells, num_qpts = term.num_cells, len(points)
    geometry = np.broadcast_to(term.geometry(), (num_cells, num_qpts, dim * dim + 1))
    inverse = geometry[..., :-1].reshape(num_cells, num_qpts, dim, dim)
    offsets = term.form.coefficient_offsets
    cells = slice(None) if term.cells is None else term.cells
    data = {
        "a": np.zeros((num_cells, num_qpts, offsets[-1])),
        "a_x": np.zeros((num_cells, num_qpts, offsets[-1], dim)),
        "x": term.mesh.physical_points(points, cells),
    }
    for field in term.fields(pointwise):
        value, gradient = _interpolate(term, field, vectors[field.name], inverse)
        if field.array == "a":
            part = slice(field.offset, field.offset + field.space.num_comp)
            data["a"][:, :, part], data["a_x"][:, :, part] = value, gradient
        else:
            data[field.array], data[field.array + "_x"] = value, gradient
    flat = {name: array.reshape(num_cells * num_qpts, -1) for name, array in data.items()}
    outputs = pointwise.evaluate({**flat, "constants": constants})
    shaped = {name: array.reshape(num_cells, num_qpts, *array.shape[1:]) for name, array in outputs.items()}
    return shaped, term.quadrature.weights * geometry[..., -1], inverse


def _interpolate(term: Term, field: FieldData, vector: np.ndarray, inverse: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Values (cell, point, comp) and gradients (cell, point, comp, dim) of a field."""
    values, gradients = field.space.element.tabulate(term.quadrature.points)
    positions = term.subset(field.space.offsets)[:, :, None] + np.arange(field.space.num_comp)
    local = vector[positions]
    return (
        np.einsum("qb,ebc->eqc", values, local, optimize=True),
        np.einsum("qbk,ebc,eqkd->eqcd", gradients, local, inverse, optimize=True),
    )
