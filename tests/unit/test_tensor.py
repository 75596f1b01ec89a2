"""1D factors: their products are the tabulations, against Lagrange's formula in extended precision."""

import numpy as np
import pytest

from femgpu.element import (
    CELL_NAMES,
    FacetQuadrature,
    LagrangeElement,
    Quadrature,
    collocated_degree,
    default_rule,
    facet_rules,
    petsc_facet_rules,
    petsc_rule,
    scheme_rule,
    tensor_factors,
)
from femgpu.element.reference import TENSOR_CELLS

tensor_cells = pytest.mark.parametrize("cell", TENSOR_CELLS)
DIM = {"interval": 1, "quadrilateral": 2, "hexahedron": 3}
LARGEST = 10


def rules(cell, degree):
    """One of each kind."""
    return {
        "Gauss": default_rule(cell, 2 * degree + 1),
        "PETSc": petsc_rule(cell, degree),
        "GLL": scheme_rule(cell, collocated_degree(degree), "GLL"),
        "more GLL": scheme_rule(cell, 2 * degree + 2, "GLL"),
        "vertex": scheme_rule(cell, 1, "vertex"),
        "one point": default_rule(cell, 0),
    }


def lagrange(nodes, x):
    """(3, len(x), len(nodes)) values, first and second derivatives of the polynomials that are 1 at one node, 0 at others."""
    nodes, x = nodes.astype(np.longdouble), x.astype(np.longdouble)
    numbers = range(len(nodes))
    out = np.zeros((3, len(x), len(nodes)), np.longdouble)

    def product(without):
        return np.prod(np.delete(x[:, None] - nodes, without, axis=1), axis=1)

    for j in numbers:
        scale = np.prod(nodes[j] - np.delete(nodes, j))
        out[0, :, j] = product([j]) / scale
        out[1, :, j] = sum(product([j, m]) for m in numbers if m != j) / scale
        out[2, :, j] = sum(product([j, m, n]) for m in numbers for n in numbers if len({j, m, n}) == 3) / scale
    return out


def exact(element, x, orders):
    """(num_points, num_basis) derivatives of given orders of the basis functions, from the positions of their nodes alone."""
    line = np.unique(element.nodes.round(12)[:, 0])
    nearest = np.abs(element.nodes[:, :, None] - line).argmin(axis=2)
    nodes = np.array([element.nodes[nearest[:, 0] == i, 0].mean() for i in range(len(line))])
    out = 1
    for d, order in enumerate(orders):
        coordinates, where = np.unique(x[:, d], return_inverse=True)
        out = out * lagrange(nodes, coordinates)[order][where][:, nearest[:, d]]
    return out


def product(matrices):
    """The Kronecker product, the first matrix's indices fastest."""
    out = np.ones((1, 1))
    for matrix in matrices:
        out = np.kron(matrix, out)
    return out


def places(line, dim):
    """(len(line)**dim, dim) points of a lattice, x fastest."""
    return np.stack(np.meshgrid(*[line] * dim, indexing="ij"), axis=-1).reshape(-1, dim)[:, ::-1]


def close(found, expected):
    """To 1e-14 of the largest entry, or of 1 where all are smaller."""
    np.testing.assert_allclose(found, np.asarray(expected, np.float64), rtol=0, atol=1e-14 * max(1.0, np.abs(expected).max()))


def orders(dim):
    """The value, the derivatives, and a second derivative of each kind."""
    unit = np.eye(dim, dtype=int)
    return [(0,) * dim, *map(tuple, unit), tuple(2 * unit[-1]), *([tuple(unit[0] + unit[-1])] if dim > 1 else [])]


@tensor_cells
@pytest.mark.parametrize("continuous", [True, False])
def test_products_are_the_tabulation(cell, continuous, rng):
    dim = DIM[cell]
    for degree in [0, 1, *rng.choice(np.arange(2, LARGEST + 1), 4 - dim, replace=False).tolist()]:
        element = LagrangeElement(cell, degree, continuous)
        for rule in rules(cell, degree).values():
            tensor = tensor_factors(rule, (LagrangeElement(cell, 1), element))
            found, (lattice,) = tensor.factors[1], tensor.lattice
            assert tensor.q1d**dim == rule.num_qpts and found.p1d**dim == element.num_basis
            assert found.lattice.dtype == lattice.dtype == np.int32
            x = places(tensor.points, dim)
            np.testing.assert_allclose(rule.points[lattice], x, rtol=0, atol=1e-15)
            close(rule.weights[lattice], product([tensor.weights[:, None]] * dim)[:, 0])
            matrices = (found.B, found.D, found.H)
            # The formula takes its time: at some points only.
            some = rng.choice(len(x), min(len(x), 60), replace=False)
            values, slopes = element.tabulate(x)
            for order in orders(dim):
                parts = product([matrices[n] for n in order])
                close(parts[some], exact(element, x[some], order)[:, found.lattice])
                if sum(order) < 2:
                    full = slopes[:, :, order.index(1)] if any(order) else values
                    close(parts, full[:, found.lattice])


@pytest.mark.parametrize("cell", ["quadrilateral", "hexahedron"])
def test_products_on_facets(cell, rng):
    """The facet's plane first, then the other directions."""
    dim, degree = DIM[cell], int(rng.integers(1, 7))
    element = LagrangeElement(cell, degree)
    schemes = [facet_rules(cell, 2 * degree - 1, scheme) for scheme in ("default", "GLL", "vertex")]
    for (rule,) in [*schemes, petsc_facet_rules(cell, degree)]:
        tensor = tensor_factors(rule, (element,))
        (found,) = tensor.factors
        assert len(tensor.axes) == len(tensor.sides) == len(tensor.lattice) == 2 * dim
        close(rule.weights[0][tensor.lattice[0]], product([tensor.weights[:, None]] * (dim - 1))[:, 0])
        for axis, side, lattice, points in zip(tensor.axes, tensor.sides, tensor.lattice, rule.points, strict=True):
            x = np.insert(places(tensor.points, dim - 1), axis, 2 * side - 1, axis=1)
            np.testing.assert_allclose(points[lattice], x, rtol=0, atol=1e-15)
            for order in orders(dim):
                inside, ends = (found.B, found.D, found.H), (found.end_B, found.end_D, found.end_H)
                parts = [ends[n][[side]] if d == axis else inside[n] for d, n in enumerate(order)]
                close(product(parts), exact(element, x, order)[:, found.lattice])


@pytest.mark.parametrize("degree", range(1, LARGEST + 6))
def test_gll_points_are_the_nodes(degree):
    rule = scheme_rule("interval", collocated_degree(degree), "GLL")
    for continuous in (True, False):
        tensor = tensor_factors(rule, (LagrangeElement("interval", degree, continuous), LagrangeElement("interval", 0)))
        assert tensor.q1d == degree + 1 and tensor.factors[0].collocated and not tensor.factors[1].collocated
        np.testing.assert_array_equal(tensor.factors[0].B, np.eye(degree + 1))
        close(tensor.factors[0].D, tensor.D)
    assert not tensor_factors(default_rule("interval", 2 * degree), (LagrangeElement("interval", degree),)).factors[0].collocated
    assert not tensor_factors(rule, (LagrangeElement("interval", degree + 1),)).factors[0].collocated
    larger = tensor_factors(scheme_rule("interval", 2 * degree, "GLL"), (LagrangeElement("interval", degree),))
    assert larger.q1d == degree + 2 and not larger.factors[0].collocated


@pytest.mark.parametrize("degree", range(1, LARGEST + 6))
def test_mirror_symmetry_is_exact(degree):
    for rule in rules("interval", degree).values():
        tensor = tensor_factors(rule, (LagrangeElement("interval", degree), LagrangeElement("interval", degree // 2)))
        for found in tensor.factors:
            np.testing.assert_array_equal(found.B, found.B[::-1, ::-1])
            np.testing.assert_array_equal(found.D, -found.D[::-1, ::-1])
            np.testing.assert_array_equal(found.H, found.H[::-1, ::-1])
        np.testing.assert_array_equal(tensor.D, -tensor.D[::-1, ::-1])
        np.testing.assert_array_equal(tensor.weights, tensor.weights[::-1])
        assert tensor.weights.sum() == pytest.approx(2, rel=1e-14)


@tensor_cells
def test_derivatives_of_what_is_interpolated(cell, rng):
    degree = int(rng.integers(1, 7))
    for rule in rules(cell, degree).values():
        tensor = tensor_factors(rule, (LagrangeElement(cell, degree),))
        if tensor.q1d > degree:
            np.testing.assert_allclose(tensor.D @ tensor.factors[0].B, tensor.factors[0].D, rtol=0, atol=1e-12)


@tensor_cells
def test_nodes_of_ones_own(cell, rng):
    """Equispaced nodes, as of coordinates from files, in any order; and nodes that are not symmetric."""
    dim = DIM[cell]
    rule = default_rule(cell, 5)
    for line in (np.linspace(-1, 1, 4), np.array([-1.0, -0.3, 0.2, 1.0])):
        nodes = rng.permutation(places(line, dim))
        element = LagrangeElement(cell, 3, True, tuple(map(tuple, nodes.tolist())))
        tensor = tensor_factors(rule, (element,))
        (found,) = tensor.factors
        assert np.array_equal(found.B, found.B[::-1, ::-1]) == np.allclose(line, -line[::-1])
        np.testing.assert_allclose(found.nodes, line, atol=1e-15)
        np.testing.assert_allclose(nodes[found.lattice], places(line, dim), atol=1e-15)
        for order in orders(dim):
            parts = product([(found.B, found.D, found.H)[n] for n in order])
            close(parts, exact(element, places(tensor.points, dim), order)[:, found.lattice])


def test_what_is_no_product_has_no_factors():
    for cell in set(CELL_NAMES) - set(TENSOR_CELLS):
        assert tensor_factors(default_rule(cell, 2), (LagrangeElement(cell, 1),)) is None
        assert LagrangeElement(cell, 2).product is None
    assert tensor_factors(facet_rules("interval", 1)[0], (LagrangeElement("interval", 1),)) is None
    rule, square = default_rule("quadrilateral", 3), LagrangeElement("quadrilateral", 1)
    skew = LagrangeElement("quadrilateral", 1, True, ((-1, -1), (1, -1), (0.8, 1), (-1, 1)))
    assert tensor_factors(rule, (square, skew)) is None
    wide = LagrangeElement("quadrilateral", 1, True, ((-1, -0.5), (1, -0.5), (1, 0.5), (-1, 0.5)))
    assert tensor_factors(rule, (wide,)) is None
    np.testing.assert_allclose(skew.tabulate(skew.nodes)[0], np.eye(4), atol=1e-14)
    for points, weights in (
        (rule.points, rule.weights * [1, 1, 1, 1.1]),
        (rule.points * [1, 0.5], rule.weights),
        (rule.points[:3], rule.weights[:3]),
        (rule.points[[0, 0, 1, 1]], rule.weights),
    ):
        assert tensor_factors(Quadrature("quadrilateral", points, weights, 0, "none"), (square,)) is None
    (facets,) = facet_rules("quadrilateral", 3)
    moved = facets.points.copy()
    moved[2, :, 0] += 0.1
    other = FacetQuadrature("quadrilateral", facets.facets, moved, facets.weights, facets.normals, 3, "none")
    assert tensor_factors(other, (square,)) is None


def test_factors_are_kept_and_read_only():
    rule, element = default_rule("hexahedron", 4), LagrangeElement("hexahedron", 2)
    tensor = tensor_factors(rule, (element,))
    assert tensor_factors(rule, (element,)) is tensor
    (found,) = tensor.factors
    arrays = [tensor.points, tensor.weights, tensor.D, tensor.lattice, found.nodes, found.B, found.D, found.H, found.lattice]
    assert not any(array.flags.writeable for array in (*arrays, found.end_B, found.end_D, found.end_H))
    assert all(array.flags.c_contiguous for array in arrays)
