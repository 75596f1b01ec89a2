"""All quadrature points of a term with bounds of rounding errors: geometry, tabulations, fields and pointwise functions."""

from functools import cached_property
from math import prod

import numpy as np
from conformance.lines import line_tables, line_weights
from conformance.roundoff import ROUNDOFF, Bounded, contract, table
from conformance.running_error import evaluate, own_roundings

from femgpu.element import tensor_factors


class Points:
    """The points of a term as `operators.twin` has them, cell and point as first axes, with errors.

    Args:
        term: the term.
        arithmetic: how the kernels compute.
        transform: (num_modes, num_qpts) what makes coefficients of values at the points, where those stand for these; None: they do
            not.

    Attributes:
        rule: Bounded (num_cells, num_qpts), weights of the rule.
        measure: Bounded (num_cells, num_qpts), determinants, on facets times the facet's.
        weights: Bounded (num_cells, num_qpts), products of both.
        inverse: Bounded (num_cells, num_qpts, dim, dim), inverse Jacobians dX_k / dx_d.
        normals: Bounded (num_cells, num_qpts, dim), outward unit normals; None inside cells.
        other: the same points in the second cells of facets between two; None where there are none.
    """

    def __init__(self, term, arithmetic, transform=None):
        self.term, self.arithmetic, self._transform = term, arithmetic, transform
        self.shape = (term.num_cells, term.quadrature.num_qpts if transform is None else len(transform))
        self.lines = arithmetic.lines and term.facets is None and tensor_factors(term.quadrature, ()) is not None
        self.inverse, self.measure = self._geometry()
        self.normals = None
        weights = self._spread(term.weights if transform is None else np.ones((1, len(transform))))
        self.rule = line_weights(term, weights, arithmetic.unit) if self.lines else table(weights)
        if term.normals is not None:
            length, self.normals = self._facets()
            self.measure *= length
        self.weights = self.rule * self.measure
        self._bases, self._fields = {}, {}
        self.other = None if term.other is None else Points(term.other, arithmetic)

    def of(self, field):
        """The points in the cells that a field is of."""
        return self.other if field.side else self

    def basis(self, element, second=False, reference=False):
        """Sizes of an element's functions at the points, with errors.

        Args:
            element: the element.
            second: whether second derivatives are wanted.
            reference: whether derivatives are those with respect to reference coordinates.

        Returns:
            Values (num_cells, num_qpts, num_basis), gradients (..., dim) and, if asked for, second derivatives
            (..., dim, dim): sums of absolute values, of which the functions themselves may be small differences. Errors are
            those of the functions and of what is multiplied by them, in whatever order.
        """
        key = element, second, reference
        if key not in self._bases:
            self._bases[key] = self._basis(element, second, reference)
        return self._bases[key]

    def _basis(self, element, second, reference):
        tables = self._tables(element, second)
        values, gradients, *more = (Bounded(np.abs(self._spread(array.value)), self._spread(array.error)) for array in tables)
        inverse, dim = abs(self.inverse), self.term.dim
        values = Bounded(values.value, values.error + values.value)
        if reference:
            return values, *(Bounded(part.value, part.error + dim * part.value) for part in (gradients, *more))
        physical = contract("eqbk,eqkd->eqbd", gradients, inverse, roundings=2 * dim)
        if not second:
            return values, physical
        (hessians,) = more
        if not self.term.affine:
            hessians += contract("eqbm,eqmkl->eqbkl", physical, abs(self._bend), roundings=dim)
        return values, physical, contract("eqki,eqbkl,eqlj->eqbij", inverse, hessians, inverse, roundings=2 * (dim**2 + 1))

    def evaluate(self, pointwise, vectors, constants, state=None):
        """Outputs of a pointwise function, Bounded (num_cells, num_qpts, ...) by name; see `Bounds` for the arguments."""
        term, dim = self.term, self.term.dim
        reads = {array for array, _ in pointwise.reads}
        data = {name: array for name, array in (state or {}).items() if name in reads}
        data |= {"x": self._coordinates} if "x" in reads else {}
        data |= {"n": self.normals} if "n" in reads else {}
        data |= {"K": self.inverse, "det": self.measure, "weight": self.rule} if pointwise.reference else {}
        sizes = {"": (), "_x": (dim,), "_xx": (dim, dim)}
        for field in term.fields(pointwise):
            for (suffix, shape), part in zip(
                sizes.items(), self._field(field, vectors[field.vector], pointwise.reference), strict=False
            ):
                whole = data.setdefault(field.array + suffix, _zeros(*self.shape, self._components(field.array), *shape))
                where = slice(field.offset, field.offset + field.field.num_comp)
                whole.value[:, :, where], whole.error[:, :, where] = part.value, part.error
        num_points = self.shape[0] * self.shape[1]
        flat = {name: array.reshape(num_points, prod(array.value.shape[2:])) for name, array in data.items()}
        outputs = evaluate(pointwise, num_points, {**flat, "constants": self.arithmetic.given(constants)}, self.arithmetic)
        return {name: array.reshape(*self.shape, *array.value.shape[1:]) for name, array in outputs.items()}

    def _components(self, array):
        """Components of the functions behind an array."""
        form = self.term.form
        if array == "a":
            return form.coefficient_offsets[-1] * len(self.term.sides)
        return (form.unknown.space if array == "u" and form.unknown is not None else form.space).num_comp * len(self.term.sides)

    def _field(self, data, vector, reference):
        """Values (cell, point, comp), gradients (..., dim) and, if read, second derivatives (..., dim, dim) of a field."""
        key = data.name, data.hessian, reference
        known, found = self._fields.get(key, (None, None))
        if known is not vector:
            found = self.of(data.field).interpolate(data, self.term, vector, reference)
            self._fields[key] = vector, found
        return found

    def interpolate(self, data, whole, vector, reference):
        """What `_field` finds, for the term or, in these second cells, the `whole` that they are of."""
        term, dim = self.term, self.term.dim
        values, gradients, *more = self._tables(whole.element(data.field), data.hessian)
        local = self.arithmetic.given(vector[whole.offsets(data.field)[:, :, None] + np.arange(data.field.num_comp)])
        if reference:
            parts = zip((values, gradients, *more), ("", "k", "kl"), strict=False)
            return tuple(self._at_points(part, axes, local) for part, axes in parts)
        physical = contract("eqck,eqkd->eqcd", self._at_points(gradients, "k", local), self.inverse, roundings=dim)
        if not data.hessian:
            return self._at_points(values, "", local), physical
        hessians = self._at_points(more[0], "kl", local)
        if not term.affine:
            hessians -= contract("eqcm,eqmkl->eqckl", physical, self._bend, roundings=dim)
        hessians = contract("eqki,eqckl,eqlj->eqcij", self.inverse, hessians, self.inverse, roundings=dim**2 + 2)
        return self._at_points(values, "", local), physical, hessians

    def _tables(self, element, second):
        """Values, gradients and, if asked for, second derivatives of an element with errors, facets first."""
        arrays = self.term.tabulate(element, second)
        if self.lines:
            return line_tables(self.term, element, arrays, self.arithmetic.unit)
        if self._transform is None:
            return [table(array) for array in arrays]
        if element == self.term.coord_element:
            return [table(np.repeat(array[:, :1], len(self._transform), axis=1)) for array in arrays]
        return [self._coefficients(array[0]) for array in arrays]

    def _coefficients(self, values):
        """Those of functions with values (num_qpts, ...) at the points, facets first; the host takes sums in double precision."""
        found, sizes = (np.tensordot(size(self._transform), size(values), 1)[None] for size in (np.positive, np.abs))
        return Bounded(found, np.abs(found) + ROUNDOFF["double"] / self.arithmetic.unit * (2 + len(values)) * sizes)

    def _at_points(self, tabulated, axes, local):
        """Sums over a basis, (cell, point, comp, axes), of a table (facet, point, basis, axes) and values (cell, basis, comp)."""
        if self.term.facets is None:
            formula, tabulated = f"qb{axes},ebc->eqc{axes}", tabulated[0]
        else:
            formula, tabulated = f"eqb{axes},ebc->eqc{axes}", tabulated[self.term.facets]
        return contract(formula, tabulated, local, roundings=local.value.shape[1])

    @cached_property
    def _coords(self):
        block = self.term.block
        return block.coords[self.term.subset(block.coord_dofs)]

    @cached_property
    def _nodes(self):
        return self.arithmetic.given(self._coords)

    @cached_property
    def _coordinates(self):
        """(cell, point, dim)."""
        return self._at_points(self._tables(self.term.coord_element, False)[0], "", self._nodes)

    @cached_property
    def _bend(self):
        """(cell, point, dim, dim, dim) second derivatives of the map."""
        return self._at_points(self._tables(self.term.coord_element, True)[2], "kl", self._nodes)

    def _geometry(self):
        """Inverse Jacobian (cell, point, dim, dim) and determinant (cell, point)."""
        how, element = self.arithmetic, self.term.coord_element
        if how.geometry == "recomputed":
            return self._inverted(self._tables(element, False)[1], self._nodes, how.unit)
        # Rounded once, after the host's own roundings: those differ with the number of cells that it has at once.
        unit = ROUNDOFF["double"]
        exact = Bounded(self._coords, np.zeros(self._coords.shape))
        tabulated = table(self.term.tabulate(element, False)[1])
        if self._transform is not None:
            tabulated = tabulated[:, :1].spread(1, len(self._transform), *tabulated.value.shape[2:])
        found = self._inverted(tabulated, exact, unit)
        return tuple(Bounded(part.value, np.abs(part.value) + unit / how.unit * part.error) for part in found)

    def _inverted(self, tabulated, nodes, unit):
        """The same from gradients of the geometry basis and nodes of the cells."""
        term, dim = self.term, self.term.dim
        values = np.broadcast_to(term.geometry(), (*self.shape, dim * dim + 1))
        inverse, det = values[..., :-1].reshape(*self.shape, dim, dim), values[..., -1]
        if term.affine:
            tabulated = tabulated[:, :1].spread(*tabulated.value.shape)
        jacobian = self._at_points(tabulated, "k", nodes)
        absolute = np.abs(inverse)
        own_inverse, own_det = _inversion(jacobian.value, unit)
        # Tables are a rounding of one off where they are zero, and differ so between the points of an affine cell.
        off = ROUNDOFF["double"] / unit * np.abs(tabulated.value).max() * np.abs(nodes.value).sum(axis=1)
        jacobian_error = jacobian.error + off[:, None, :, None]
        error = np.einsum("eqkd,eqdl,eqlm->eqkm", absolute, jacobian_error, absolute, optimize=True)
        det_error = np.abs(det) * np.einsum("eqkd,eqdk->eq", absolute, jacobian_error, optimize=True)
        return Bounded(inverse, error + own_inverse), Bounded(det, det_error + own_det)

    def _facets(self):
        """Lengths |J^-T N| (cell, point) and unit normals (cell, point, dim) of facets."""
        dim, unit = self.term.dim, self.arithmetic.unit
        scaled = contract("eqkd,ek->eqd", self.inverse, table(self._spread(self.term.normals)), roundings=dim)
        square = contract("eqd,eqd->eq", scaled, scaled, roundings=dim)
        length = np.sqrt(square.value)
        error = square.error / (2 * length) + own_roundings("sqrt", unit) * length
        over = Bounded(1 / length, error / square.value + own_roundings("rcp", unit) / length)
        return Bounded(length, error), scaled * over.reshape(*self.shape, 1)

    def _spread(self, array):
        """An array over the rule's facets as one over the term's entries."""
        if self.term.facets is None:
            return np.broadcast_to(array[0], (self.term.num_cells, *array.shape[1:]))
        return array[self.term.facets]


def _inversion(cell_jac, unit):
    """Errors of inverse and determinant of exact matrices (..., dim, dim) by Cramer's rule."""
    dim = cell_jac.shape[-1]
    entry = [[Bounded(cell_jac[..., i, j], np.zeros(cell_jac.shape[:-2])) for j in range(dim)] for i in range(dim)]

    def minor(i, j):
        rows, columns = ([k for k in range(dim) if k != without] for without in (i, j))
        if dim == 1:
            return Bounded(np.ones(cell_jac.shape[:-2]), np.zeros(cell_jac.shape[:-2]))
        if dim == 2:
            return entry[rows[0]][columns[0]]
        (a, b), (c, d) = ([entry[row][column] for column in columns] for row in rows)
        return a * d - b * c

    minors = [[minor(i, j) if (i + j) % 2 == 0 else -minor(i, j) for j in range(dim)] for i in range(dim)]
    det = sum((entry[0][j] * minors[0][j] for j in range(1, dim)), entry[0][0] * minors[0][0])
    over = 1 / det.value
    scale = Bounded(over, det.error * over**2 + own_roundings("rcp", unit) * np.abs(over))
    inverse = [[(minors[j][i] * scale).error for j in range(dim)] for i in range(dim)]
    return np.moveaxis(np.array(inverse), (0, 1), (-2, -1)), det.error


def _zeros(*shape):
    return Bounded(np.zeros(shape), np.zeros(shape))
