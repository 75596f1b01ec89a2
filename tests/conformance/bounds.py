"""Bounds of the rounding errors of every kernel, entry by entry, from the formulas of the numpy twin.

A running error analysis to first order: inputs are rounded, interpolation, geometry and the pointwise function pass errors on and
add their own, and sums over points and cells add theirs in the precision that sums have. What comes out bounds the difference of
any right kernel from the twin, in whatever order it adds.
"""

from dataclasses import dataclass

import numpy as np
from conformance.points import Points
from conformance.roundoff import Arithmetic, Bounded, size

from femgpu.kernels import SECOND
from femgpu.operators import twin
from femgpu.operators.modes import ROUNDING

# Formulas of g0 to g8 with the weights in the block, order of derivative of test function and direction.
_BLOCKS = {name: (formula.replace(",eq,", ",", 1), *orders) for name, (formula, *orders) in twin.BLOCKS.items()}


@dataclass(frozen=True)
class Result:
    """What a kernel must compute.

    Attributes:
        value: the twin's.
        error: same shape, how far a right kernel may be from it.
    """

    value: np.ndarray
    error: np.ndarray

    def __getitem__(self, where):
        return Result(self.value[where], self.error[where])

    def reshape(self, *shape):
        return Result(self.value.reshape(shape), self.error.reshape(shape))

    def ratios(self, got):
        """Differences in units of the bound; infinite where the bound is not finite, NaN where `got` is."""
        assert got.shape == self.value.shape, (got.shape, self.value.shape)
        difference = np.abs(got - self.value)
        with np.errstate(divide="ignore", invalid="ignore"):
            found = np.where(difference == 0, 0.0, difference / self.error)
        return np.where(np.isfinite(self.error), found, np.inf)

    def worst(self, got):
        """The largest of the ratios, NaN if one is."""
        return float(self.ratios(got).max(initial=0.0))


class Bounds:
    """The bounds of one term's kernels.

    Args:
        term: the term.
        arithmetic: how the kernels compute.
        transform: as `Points` has it.
    """

    def __init__(self, term, arithmetic: Arithmetic, transform=None):
        self.term, self.arithmetic, self.transform = term, arithmetic, transform
        self.points = Points(term, arithmetic, transform)
        self.num_qpts = self.points.shape[1]

    def element_vectors(self, pointwise, vectors, constants, state=None, exact=None) -> Result:
        """Residual or action, (num_cells, num_rows).

        Args:
            pointwise: the pointwise function.
            vectors: L-vector of each function by name.
            constants: values of the form's constants.
            state: what `states` gives, where it reads stored numbers.
            exact: the same in physical coordinates and with nothing stored, for the twin; None: the function itself.
        """
        outputs = self._outputs(pointwise, vectors, constants, state)
        parts = [("f0", "eqb,eqc->ebc", 0), ("f1", "eqbd,eqcd->ebc", 1), ("f2", "eqbij,eqcij->ebc", 2)]
        parts = [part for part in parts if part[0] in outputs]
        rows = []
        for field in self.term.rows:
            basis = self.points.of(field).basis(self.term.element(field), "f2" in outputs, pointwise.reference)
            part = slice(field.offset, field.offset + field.num_comp)
            sums = [size(formula, basis[order], outputs[name][:, :, part]) for name, formula, order in parts]
            rows.append(_added(sums))
        error, dim = _joined(rows, 1), self.term.dim
        if self.transform is not None:
            # The twin's rule is as exact as it is.
            most = ROUNDING / self.arithmetic.unit * error.value.max(axis=1, keepdims=True)
            error = Bounded(error.value, error.error + most)
        num_terms = self.num_qpts * (1 + dim + dim**2 * ("f2" in outputs))
        if exact is None:
            stored = None if state is None else state["s"].value
            return self._result(twin.element_vectors(self.term, pointwise, vectors, constants, stored), error, num_terms)
        # The twin goes another way, and is wrong by what double precision makes of that.
        other = Bounds(self.term, Arithmetic("double")).element_vectors(exact, vectors, constants)
        return Result(other.value, self._result(other.value, error, num_terms).error + other.error)

    def element_matrices(self, pointwise, vectors, constants) -> Result:
        """Element matrices, (num_cells, num_rows, num_rows); the arguments are those of `element_vectors`."""
        outputs = self._outputs(pointwise, vectors, constants, None)
        second = bool(SECOND & set(outputs))
        lines = []
        for test in self.term.rows:
            blocks = []
            for trial in self.term.rows:
                psi, phi = (self.points.of(field).basis(self.term.element(field), second) for field in (test, trial))
                rows, columns = (slice(field.offset, field.offset + field.num_comp) for field in (test, trial))
                sums = [
                    size(formula, psi[one], outputs[name][:, :, rows, columns], phi[other])
                    for name, (formula, one, other) in _BLOCKS.items()
                    if name in outputs
                ]
                blocks.append(_added(sums))
            lines.append(_joined(blocks, 2))
        value = twin.element_matrices(self.term, pointwise, vectors, constants)
        return self._result(value, _joined(lines, 1), self.num_qpts)

    def cell_values(self, pointwise, vectors, constants) -> Result:
        """A functional's integral over each cell, (num_cells,); the arguments are those of `element_vectors`."""
        f0 = self._outputs(pointwise, vectors, constants, None)["f0"][..., 0]
        points = twin.Points(self.term)
        value = np.einsum("eq,eq->e", points.weights, points.evaluate(pointwise, vectors, constants)["f0"][..., 0])
        return self._result(value, size("eq->e", f0), self.num_qpts)

    def states(self, pointwise, vectors, constants):
        """Numbers stored at the points (`s`) and in the cells (`c`), Bounded (num_cells, num_qpts, count) by name."""
        found, unit = self.points.evaluate(pointwise, vectors, constants, None), self.arithmetic.stored_unit
        return {name: Bounded(array.value, array.error + unit * np.abs(array.value)) for name, array in found.items()}

    def state_results(self, states):
        """The same as a kernel's results: `s` (num_cells, num_qpts, count), `c` (num_cells, count)."""
        parts = {name: array[:, 0] if name == "c" else array for name, array in states.items()}
        how = self.arithmetic
        return {name: Result(array.value, how.floor + how.both * how.unit * array.error) for name, array in parts.items()}

    def _result(self, value, total, num_terms):
        how = self.arithmetic
        return Result(value, how.floor + how.both * (how.unit * total.error + how.sum_unit * num_terms * total.value))

    def _outputs(self, pointwise, vectors, constants, state):
        """Outputs of a pointwise function times the weights, which one in reference coordinates has applied."""
        outputs, weights = self.points.evaluate(pointwise, vectors, constants, state), self.points.weights
        if pointwise.reference:
            return outputs
        return {
            name: array * weights.reshape(*weights.value.shape, *(1,) * (array.value.ndim - 2)) for name, array in outputs.items()
        }


def local_vector(space, parts, arithmetic) -> Result:
    """The L-vector (num_local,) of a form.

    Args:
        space: of the test function.
        parts: (term, Result of its element vectors), all terms of the form.
        arithmetic: the kernels'.
    """
    value, error, total, count = (np.zeros(space.num_local) for _ in range(4))
    for term, result in parts:
        value += twin.scatter(term, result.value)
        error += twin.scatter(term, result.error)
        total += twin.scatter(term, np.abs(result.value))
        count += twin.scatter(term, np.ones(result.value.shape))
    return Result(value, error + arithmetic.both * arithmetic.sum_unit * count * total)


def diagonal(matrices, term, shift=0) -> Result:
    """The diagonals (num_cells, num_rows) of element matrices; a dof of both cells of a facet has two rows and columns.

    Args:
        matrices: Result (num_cells, num_rows, num_rows).
        term: whose matrices they are.
        shift: how many components further the columns are, in turns.
    """
    wanted = []
    for field in term.rows:
        others = term.offsets(field)[:, :, None] + (np.arange(field.num_comp) + shift) % field.num_comp
        wanted.append(others.reshape(term.num_cells, -1))
    same = np.concatenate(wanted, axis=1)[:, :, None] == term.dofs()[:, None, :]
    return Result(*(np.where(same, array, 0.0).sum(axis=2) for array in (matrices.value, matrices.error)))


def _added(sums):
    """Sums of the same entries, added at the points: (cell, basis, comp, ...) becomes (cell, row, ...)."""
    value, error = sum(part.value for part in sums), sum(part.error for part in sums)
    shape = value.shape
    return Bounded(value, error + (len(sums) - 1) * value).reshape(
        shape[0], *(a * b for a, b in zip(shape[1::2], shape[2::2], strict=True))
    )


def _joined(parts, axis):
    value, error = (np.concatenate([getattr(part, name) for part in parts], axis=axis) for name in ("value", "error"))
    return Bounded(value, error)
