import time
from itertools import permutations

import basix
import numpy as np
import pytest
from petsc4py import PETSc

from femgpu.element import (
    CELL_NAMES,
    SCHEMES,
    LagrangeElement,
    choose_rules,
    collocated_degree,
    default_rule,
    facet_rules,
    petsc_facet_rules,
    petsc_rule,
    reference_cell,
    scheme_rule,
)
from femgpu.element.reference import TENSOR_CELLS
from femgpu.errors import FormError, MeshError
from femgpu.mesh.box import from_cell_list

cells = pytest.mark.parametrize("cell", CELL_NAMES)
petsc_cells = pytest.mark.parametrize("cell", [name for name in CELL_NAMES if name != "prism"])


def monomials(cell, degree):
    """Exponents of a basis of the polynomials of a degree."""
    dim = reference_cell(cell).dim
    powers = np.indices((degree + 1,) * dim).reshape(dim, -1).T
    if cell == "prism":
        return powers[powers[:, :2].sum(axis=1) <= degree]
    return powers[powers.sum(axis=1) <= degree] if reference_cell(cell).is_simplex else powers


def evaluate(powers, x):
    return np.prod(x[:, None, :] ** powers[None], axis=2)


def gradient(powers, x):
    out = np.zeros((len(x), len(powers), x.shape[1]))
    for d in range(x.shape[1]):
        lowered = powers.copy()
        lowered[:, d] = np.maximum(lowered[:, d] - 1, 0)
        out[:, :, d] = powers[:, d] * evaluate(lowered, x)
    return out


def random_points(cell, num=20):
    """Convex combinations of the vertices."""
    weights = np.random.default_rng(3).dirichlet(np.ones(reference_cell(cell).num_vertices), num)
    return weights @ reference_cell(cell).vertices


@petsc_cells
def test_reference_cell_is_petscs(cell):
    reference = reference_cell(cell)
    fe = LagrangeElement(cell, 1).petsc_fe()
    plex = fe.getDualSpace().getDM()
    vertices = plex.getCoordinatesLocal().getArray().reshape(-1, reference.dim)
    first, _ = plex.getDepthStratum(0)
    closure = [p for p in plex.getTransitiveClosure(0)[0] if plex.getPointDepth(p) == 0]
    np.testing.assert_array_equal(vertices[np.array(closure) - first], reference.vertices)
    for facet, point in zip(reference.facets, plex.getCone(0), strict=True):
        points = [p for p in plex.getTransitiveClosure(point)[0] if plex.getPointDepth(p) == 0]
        assert sorted(closure.index(p) for p in points) == list(facet)
        assert tuple(closure.index(p) for p in points) in turned(reference.loops[plex.getCone(0).tolist().index(point)])
    assert default_rule(cell, 1).weights.sum() == pytest.approx(reference.volume, rel=1e-14)


def turned(loop):
    """A loop from any of its vertices in both directions."""
    both = (loop, loop[::-1])
    return {each[start:] + each[:start] for each in both for start in range(len(loop))}


def test_reference_prism_is_petscs():
    """Also in the mesh of one prism whose vertices are numbered in closure order."""
    reference = reference_cell("prism")
    plex = from_cell_list("prism", np.arange(6, dtype=np.int32)[None], reference.vertices.copy(), PETSc.COMM_SELF)
    closure = [p for p in plex.getTransitiveClosure(0)[0] if plex.getPointDepth(p) == 0]
    np.testing.assert_array_equal(np.array(closure) - plex.getDepthStratum(0)[0], np.arange(6))
    kinds = {PETSc.DM.PolytopeType.TRIANGLE: "triangle", PETSc.DM.PolytopeType.QUADRILATERAL: "quadrilateral"}
    assert tuple(kinds[plex.getCellType(point)] for point in plex.getCone(0)) == reference.facet_cells
    for loop, facet, point in zip(reference.loops, reference.facets, plex.getCone(0), strict=True):
        points = [p for p in plex.getTransitiveClosure(point)[0] if plex.getPointDepth(p) == 0]
        assert tuple(closure.index(p) for p in points) in turned(loop) and tuple(sorted(loop)) == facet
    edges = [p for p in plex.getTransitiveClosure(0)[0] if plex.getPointDepth(p) == 1]
    pairs = [tuple(sorted(closure.index(vertex) for vertex in plex.getCone(edge))) for edge in edges]
    assert pairs == [tuple(sorted(entity)) for entity in reference.entities if len(entity) == 2]
    assert default_rule("prism", 1).weights.sum() == pytest.approx(reference.volume, rel=1e-14)


@cells
def test_points_are_told_apart_by_the_part_they_lie_in(cell):
    reference = reference_cell(cell)
    centres = [reference.vertices[list(entity)].mean(axis=0) for entity in reference.entities]
    np.testing.assert_array_equal(reference.entity_of(centres), np.arange(len(centres)))
    assert reference.facet_cells == tuple(
        {1: "point", 2: "interval", 3: "triangle", 4: "quadrilateral"}[len(f)] for f in reference.facets
    )


def test_prism_nodes_are_those_of_triangle_and_interval():
    """So that prisms meet tetrahedra, hexahedra and each other in common nodes."""
    for degree in range(1, 6):
        nodes = LagrangeElement("prism", degree).nodes
        assert len(nodes) == (degree + 1) ** 2 * (degree + 2) // 2
        for facet, name in enumerate(("triangle", "triangle", "quadrilateral", "quadrilateral", "quadrilateral")):
            reference = reference_cell("prism")
            flat = LagrangeElement(name, 1)
            loop = np.array(reference.loops[facet])
            order = [int(np.abs(flat.reference.vertices - node).sum(axis=1).argmin()) for node in flat.nodes]
            placed = flat.tabulate(LagrangeElement(name, degree).nodes)[0] @ reference.vertices[loop[order]]
            on_facet = nodes[LagrangeElement("prism", degree).facet_nodes()[facet]]
            distance = np.abs(placed[:, None] - on_facet[None]).max(axis=2)
            assert distance.shape[0] == distance.shape[1] and distance.min(axis=1).max() < 1e-14


def test_unknown_cell_is_named():
    with pytest.raises(MeshError, match="'wedge'.*interval"):
        reference_cell("wedge")
    with pytest.raises(MeshError, match="'wedge'"):
        LagrangeElement("wedge", 1)
    with pytest.raises(FormError, match="degree -1"):
        LagrangeElement("triangle", -1)


@cells
@pytest.mark.parametrize("degree", range(1, 9))
def test_basis_reproduces_polynomials(cell, degree):
    element = LagrangeElement(cell, degree)
    x = random_points(cell)
    values, grads = element.tabulate(x)
    powers = monomials(cell, degree)
    at_nodes = evaluate(powers, element.nodes)
    assert element.num_basis == len(powers)
    np.testing.assert_allclose(values @ at_nodes, evaluate(powers, x), rtol=0, atol=1e-13)
    scale = degree**2
    found = np.einsum("qbd,bm->qmd", grads, at_nodes)
    np.testing.assert_allclose(found, gradient(powers, x), rtol=0, atol=1e-13 * scale)


@cells
@pytest.mark.parametrize("degree", [1, 2, 3, 5])
@pytest.mark.parametrize("continuous", [True, False])
def test_basis_is_nodal_and_sums_to_one(cell, degree, continuous):
    element = LagrangeElement(cell, degree, continuous)
    np.testing.assert_allclose(element.tabulate(element.nodes)[0], np.eye(element.num_basis), atol=1e-13)
    values, grads = element.tabulate(random_points(cell))
    np.testing.assert_allclose(values.sum(axis=1), 1, rtol=1e-13)
    np.testing.assert_allclose(grads.sum(axis=1), 0, atol=1e-12)
    assert values.flags.c_contiguous and grads.flags.c_contiguous and values.dtype == grads.dtype == np.float64


@cells
def test_degree_zero(cell):
    element = LagrangeElement(cell, 0)
    assert element == LagrangeElement(cell, 0, continuous=False)
    np.testing.assert_allclose(element.nodes, reference_cell(cell).vertices.mean(axis=0)[None], atol=1e-15)
    values, grads = element.tabulate(random_points(cell, 4))
    np.testing.assert_allclose(values, 1, rtol=1e-14)
    assert grads.shape == (4, 1, reference_cell(cell).dim) and not grads.any()
    assert all(len(nodes) == 0 for nodes in element.facet_nodes())


@cells
@pytest.mark.parametrize("degree", [1, 2, 4])
def test_facet_nodes_span_the_trace(cell, degree):
    element = LagrangeElement(cell, degree)
    facets = element.facet_nodes()
    dim = reference_cell(cell).dim
    expected = {
        "point": 1,
        "interval": degree + 1,
        "triangle": (degree + 1) * (degree + 2) // 2,
        "quadrilateral": (degree + 1) ** 2,
    }
    for facet, name, nodes in zip(reference_cell(cell).facets, reference_cell(cell).facet_cells, facets, strict=True):
        assert nodes.dtype == np.int32
        assert len(nodes) == expected[name]
        corner = reference_cell(cell).vertices[list(facet)]
        x = np.random.default_rng(0).dirichlet(np.ones(len(facet)), 5) @ corner
        others = np.setdiff1d(np.arange(element.num_basis), nodes)
        np.testing.assert_allclose(element.tabulate(x)[0][:, others], 0, atol=1e-13)
        assert x.shape[1] == dim


@cells
@pytest.mark.parametrize("degree", [0, 1, 2, 5, 8, 12])
def test_default_rules_are_exact(cell, degree):
    check_exact(default_rule(cell, degree), degree)


@pytest.mark.parametrize("degree, num_qpts", [(15, 214), (16, 304), (17, 364), (18, 436), (19, 487), (20, 552)])
def test_tetrahedra_have_symmetric_rules_to_degree_20(degree, num_qpts):
    rule = default_rule("tetrahedron", degree)
    assert rule.num_qpts == num_qpts and rule.degree == degree and (rule.weights > 0).all()
    check_exact(rule, degree)
    corners = reference_cell("tetrahedron").vertices
    inside = np.linalg.solve(np.vstack([corners.T, np.ones(4)]), np.vstack([rule.points.T, np.ones(num_qpts)]))
    assert inside.min() > 0
    # The same points and weights, whatever the order of the vertices.
    for order in permutations(range(4)) if degree > 15 else []:
        distances = abs(inside[order, :, None] - inside[:, None]).max(axis=0)
        np.testing.assert_allclose(rule.weights[distances.argmin(axis=1)], rule.weights, rtol=1e-12)
        assert distances.min(axis=1).max() <= 1e-14


def test_prism_rules_multiply_triangle_and_gauss():
    """The point counts of paper 002: a triangle rule of degree 2p times p + 1 points."""
    assert [default_rule("prism", 2 * p).num_qpts for p in (1, 2, 3)] == [3 * 2, 6 * 3, 12 * 4]
    for degree in (0, 1, 3, 6, 9):
        rule, triangle, interval = (default_rule(cell, degree) for cell in ("prism", "triangle", "interval"))
        for a, b, c in monomials("prism", degree):
            across = triangle.weights @ (triangle.points[:, 0] ** a * triangle.points[:, 1] ** b)
            along = interval.weights @ interval.points[:, 0] ** c
            found = rule.weights @ (rule.points[:, 0] ** a * rule.points[:, 1] ** b * rule.points[:, 2] ** c)
            assert found == pytest.approx(across * along, abs=1e-13)
    for order in (0, 1, 3):
        assert petsc_rule("prism", 2, order).num_qpts == (order + 1) ** 3
        check_exact(petsc_rule("prism", 2, order), 2 * order)
    assert petsc_rule("prism", 2).num_qpts == 27


@petsc_cells
@pytest.mark.parametrize(("degree", "order"), [(1, None), (2, None), (3, None), (1, 0), (2, 1), (4, 5)])
def test_petsc_rules_are_exact_and_petscs(cell, degree, order):
    rule = petsc_rule(cell, degree, order)
    check_exact(rule, rule.degree)
    reference = reference_cell(cell)
    fe = PETSc.FE().createLagrange(reference.dim, 1, reference.is_simplex, degree, -1 if order is None else order)
    np.testing.assert_array_equal(rule.weights, fe.getQuadrature().getData()[1])
    if not reference.is_simplex:
        assert rule.num_qpts == ((degree if order is None else order) + 1) ** reference.dim


def check_exact(rule, degree):
    powers = monomials(rule.cell, degree)
    powers = powers[powers.sum(axis=1) <= max(degree, 1)]
    fine = default_rule(rule.cell, degree + 5)
    expected = fine.weights @ evaluate(powers, fine.points)
    np.testing.assert_allclose(rule.weights @ evaluate(powers, rule.points), expected, rtol=0, atol=2e-13)
    assert not rule.points.flags.writeable and not rule.weights.flags.writeable
    assert rule.points.shape == (rule.num_qpts, reference_cell(rule.cell).dim)


@pytest.mark.parametrize("cell", TENSOR_CELLS)
def test_gll_rules_are_exact(cell, rng):
    """The least number of points, ends included, that is exact to the degree: q points are to 2 q - 3."""
    for degree in [0, 1, *rng.integers(2, 20 if cell != "hexahedron" else 10, 3).tolist()]:
        rule = scheme_rule(cell, degree, "GLL")
        num = max(2, -(-(degree + 3) // 2))
        assert rule.num_qpts == num ** reference_cell(cell).dim and rule.degree == 2 * num - 3 >= degree
        check_exact(rule, rule.degree)
        check_random_polynomials(rule, rule.degree, rng)
        above = np.zeros(reference_cell(cell).dim, int)
        above[0] = rule.degree + 1
        found = rule.weights @ evaluate(above[None], rule.points)
        assert abs(found / rule.weights.sum() - 1 / (rule.degree + 2)) > 1e-4 / 2**degree
        on_ends = [len(set(rule.points[:, d].tolist()) & {-1.0, 1.0}) for d in range(reference_cell(cell).dim)]
        assert on_ends == [2] * reference_cell(cell).dim


@pytest.mark.parametrize("cell", TENSOR_CELLS)
@pytest.mark.parametrize("degree", range(1, 7))
def test_gll_points_of_a_degree_are_the_nodes(cell, degree):
    points = scheme_rule(cell, collocated_degree(degree), "GLL").points
    for continuous in (True, False):
        nodes = LagrangeElement(cell, degree, continuous).nodes
        assert points.shape == nodes.shape
        assert np.abs(points[:, None] - nodes[None]).max(axis=2).min(axis=1).max() < 1e-14


@pytest.mark.parametrize("cell", TENSOR_CELLS)
def test_gll_rules_are_those_of_basix(cell):
    dim = reference_cell(cell).dim
    for degree in (1, 4, 9):
        rule = scheme_rule(cell, degree, "GLL")
        points, weights = basix.make_quadrature(basix.CellType[cell], degree, rule=basix.QuadratureType.gll)
        mine, theirs = (np.lexsort(np.round(array, 9).T) for array in (rule.points, 2 * points - 1))
        np.testing.assert_allclose(rule.points[mine], 2 * points[theirs] - 1, rtol=0, atol=1e-14)
        np.testing.assert_allclose(rule.weights[mine], 2.0**dim * weights[theirs], rtol=1e-13)


@cells
def test_vertex_rules(cell, rng):
    """The mean over the vertices, exact to degree 1 on every cell; of degree 1 GLL is the same."""
    reference = reference_cell(cell)
    for rule in (scheme_rule(cell, 1, "vertex"), scheme_rule(cell, 7, "vertex")):
        assert (rule.num_qpts, rule.degree, rule.name) == (reference.num_vertices, 1, "vertex")
        np.testing.assert_array_equal(rule.points, reference.vertices)
        check_exact(rule, 1)
        check_random_polynomials(rule, 1, rng)
    same = scheme_rule(cell, 1, "GLL")
    order = np.abs(same.points[:, None] - reference.vertices[None]).sum(axis=2).argmin(axis=0)
    np.testing.assert_allclose(same.points[order], reference.vertices, rtol=0, atol=1e-15)
    np.testing.assert_allclose(same.weights[order], rule.weights, rtol=1e-15)


def check_random_polynomials(rule, degree, rng):
    """All polynomials of the degree, in each variable on tensor cells, against a finer rule."""
    powers = monomials(rule.cell, degree)
    coefficients = rng.uniform(0, 1, len(powers))
    fine = default_rule(rule.cell, degree + 1)
    expected = fine.weights @ (evaluate(powers, fine.points) @ coefficients)
    # Monomials are at most 1 on the cell.
    assert rule.weights @ (evaluate(powers, rule.points) @ coefficients) == pytest.approx(
        expected, rel=0, abs=1e-14 * coefficients.sum() * fine.weights.sum()
    )


@cells
@pytest.mark.parametrize("scheme", SCHEMES)
def test_facet_rules_are_exact(cell, scheme, rng):
    """Polynomials of the cell's coordinates on each facet."""
    reference = reference_cell(cell)
    smooth = scheme == "GLL" and set(reference.facet_cells) <= {*TENSOR_CELLS, "point"}
    for degree in (1,) if scheme == "vertex" or not (smooth or scheme == "default") else (0, 1, 2, 5):
        rules = facet_rules(cell, degree, scheme)
        assert sorted(facet for rule in rules for facet in rule.facets) == list(range(len(reference.facets)))
        powers = np.indices((degree + 1,) * reference.dim).reshape(reference.dim, -1).T
        powers = powers[powers.sum(axis=1) <= degree]
        coefficients = rng.uniform(0, 1, len(powers))
        for rule, fine in zip(rules, facet_rules(cell, degree + 3), strict=True):
            for points, weights, other, expected in zip(rule.points, rule.weights, fine.points, fine.weights, strict=True):
                value = expected @ (evaluate(powers, other) @ coefficients)
                found = weights @ (evaluate(powers, points) @ coefficients)
                assert found == pytest.approx(value, rel=0, abs=1e-14 * coefficients.sum() * expected.sum())
            if scheme != "default" and reference.dim > 1 and degree == 1:
                for facet, points in zip(rule.facets, rule.points, strict=True):
                    corners = reference.vertices[list(reference.facets[facet])]
                    distance = np.abs(points[:, None] - corners[None]).max(axis=2)
                    assert len(points) == len(corners) and distance.min(axis=0).max() < 1e-15


def test_rules_that_do_not_exist():
    for cell in ("triangle", "tetrahedron", "prism"):
        with pytest.raises(FormError, match=f'"GLL" of degree 2 on a {cell}.*quadrilateral, hexahedron.*"default"'):
            scheme_rule(cell, 2, "GLL")
    for cell in ("tetrahedron", "prism"):
        with pytest.raises(FormError, match='"GLL" of degree 3 on a triangle'):
            facet_rules(cell, 3, "GLL")
    with pytest.raises(FormError, match="'gauss' is not supported; expected one of 'default', 'GLL', 'vertex'"):
        choose_rules("triangle", "cell", 1, "gauss")
    for scheme in ("default", "GLL"):
        with pytest.raises(FormError, match="degree -1"):
            scheme_rule("quadrilateral", -1, scheme)
        with pytest.raises(FormError, match="degree -1"):
            choose_rules("hexahedron", "exterior_facet", -1, scheme)


@cells
def test_the_choice_of_a_rule(cell):
    """What is given decides, PETSc's option above all."""
    elements = [LagrangeElement(cell, degree) for degree in (1, 2)]
    facets = "exterior_facet"
    assert choose_rules(cell, "cell", 3) == (default_rule(cell, 3),)
    assert choose_rules(cell, "cell", 1, "GLL") == (scheme_rule(cell, 1, "GLL"),)
    assert choose_rules(cell, "cell", 1, "vertex") == (scheme_rule(cell, 1, "vertex"),)
    assert choose_rules(cell, "cell", None, elements=elements) == (petsc_rule(cell, 2, None),)
    for scheme in SCHEMES:
        assert choose_rules(cell, "cell", 5, scheme, elements, order=0) == (petsc_rule(cell, 2, 0),)
        assert choose_rules(cell, facets, 5, scheme, elements, order=0) is petsc_facet_rules(cell, 2, 0)
    assert choose_rules(cell, facets, 3) is facet_rules(cell, 3, "default")
    assert choose_rules(cell, facets, 1, "GLL") is facet_rules(cell, 1, "GLL")
    assert choose_rules(cell, facets, None, elements=elements) is petsc_facet_rules(cell, 2, None)


def test_rules_are_cached_and_point_counts_known():
    assert default_rule("triangle", 2) is default_rule("triangle", 2)
    assert petsc_rule("triangle", 1).num_qpts == 3
    assert petsc_rule("triangle", 1, 0).num_qpts == 1
    with pytest.raises(FormError, match="degree -1"):
        default_rule("triangle", -1)


@petsc_cells
@pytest.mark.parametrize("continuous", [True, False])
@pytest.mark.parametrize(("degree", "num_comp"), [(0, 1), (1, 1), (2, 1), (2, 3), (4, 1)])
def test_petsc_fe_has_the_nodes_of_the_element(cell, degree, continuous, num_comp):
    element = LagrangeElement(cell, degree, continuous)
    fe = element.petsc_fe(num_comp)
    assert fe.getNumComponents() == num_comp
    assert fe.getDimension() == num_comp * element.num_basis
    assert LagrangeElement.of_fe(cell, fe) == element


def test_nodes_of_high_degree_take_no_time():
    """A PetscFE inverts a matrix of 4096 rows."""
    started = time.perf_counter()
    assert LagrangeElement("hexahedron", 15, False).num_basis == 4096
    assert time.perf_counter() - started < 2


def test_element_with_nodes_of_its_own():
    nodes = ((-1.0,), (-0.2,), (1.0,))
    element = LagrangeElement("interval", 2, True, nodes)
    np.testing.assert_allclose(element.tabulate(element.nodes)[0], np.eye(3), atol=1e-14)
    with pytest.raises(FormError, match="nodes of its own"):
        element.petsc_fe()
    with pytest.raises(FormError, match="prism element of degree 2 has no PetscFE"):
        LagrangeElement("prism", 2).petsc_fe()


@cells
@pytest.mark.parametrize("degree", [0, 1, 2, 3, 5])
def test_hessians_of_polynomials(cell, degree):
    """Exact for every polynomial of the element, and symmetric."""
    element = LagrangeElement(cell, degree)
    x = random_points(cell)
    powers = monomials(cell, degree)
    found = np.einsum("qbij,bm->qmij", element.hessians(x), evaluate(powers, element.nodes))
    step = 1e-6
    for axis in range(element.reference.dim):
        shift = step * np.eye(element.reference.dim)[axis]
        expected = (gradient(powers, x + shift) - gradient(powers, x - shift)) / (2 * step)
        np.testing.assert_allclose(found[..., axis], expected, rtol=0, atol=1e-8 * max(1, degree) ** 3)
    np.testing.assert_allclose(found, found.swapaxes(2, 3), rtol=0, atol=1e-12 * max(1, degree) ** 4)
