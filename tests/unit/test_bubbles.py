"""Lagrange functions with bubbles: elements and spaces."""

import numpy as np
import pytest
import ufl
from petsc4py import PETSc
from random_meshes import random_mesh

from femgpu.element import LagrangeElement, choose_rules, reference_cell
from femgpu.errors import FormError
from femgpu.forms import lower_form
from femgpu.forms.ufl.subfunctions import own_spaces
from femgpu.mesh import Mesh, box
from femgpu.operators import make_terms
from femgpu.operators.splits import on_cells
from femgpu.options import Settings
from femgpu.spaces import Function, FunctionSpace, MixedSpace

CASES = [("triangle", 1), ("triangle", 2), ("tetrahedron", 1), ("tetrahedron", 2), ("tetrahedron", 3)]
COUNTS = {"triangle": (4, 3), "tetrahedron": (2, 2, 1)}


def functions(cell, degree, points):
    """Barycentric coordinates' products that span the space: the bubble, which is 1 at the barycentre, and those of the degree."""
    corners = reference_cell(cell).vertices
    sizes = np.linalg.solve(np.c_[np.ones(len(corners)), corners].T, np.c_[np.ones(len(points)), points].T)
    powers = [n for n in np.ndindex(*(degree + 1,) * len(corners)) if sum(n) == degree]
    bubble = np.prod(len(corners) * sizes, axis=0)
    return np.stack([bubble, *(np.prod(sizes ** np.array(n)[:, None], axis=0) for n in powers)], axis=1)


def slopes(values, points, step=0.125):
    """Differences that are exact to degree 4, the last axis the direction."""
    steps = step * np.eye(points.shape[1])
    weights = {-2: 1 / 12, -1: -2 / 3, 1: 2 / 3, 2: -1 / 12}
    return np.stack([sum(w * values(points + n * each) for n, w in weights.items()) / step for each in steps], axis=-1)


@pytest.mark.parametrize(("cell", "degree"), CASES)
def test_elements(cell, degree, rng):
    element, plain = LagrangeElement(cell, degree, bubble=True), LagrangeElement(cell, degree)
    assert (element.degree, element.polynomial_degree) == (degree, reference_cell(cell).dim + 1)
    corners = reference_cell(cell).vertices
    x = rng.dirichlet(np.ones(len(corners)), 7) @ corners
    values, gradients = element.tabulate(x)
    np.testing.assert_allclose(element.tabulate(element.nodes)[0], np.eye(plain.num_basis + 1), atol=1e-14)
    np.testing.assert_allclose(values.sum(axis=1), 1, rtol=1e-13)
    np.testing.assert_allclose(values @ functions(cell, degree, element.nodes), functions(cell, degree, x), atol=1e-13)
    np.testing.assert_allclose(values[:, 0], functions(cell, degree, x)[:, 0], atol=1e-14)
    np.testing.assert_allclose(gradients, slopes(lambda y: element.tabulate(y)[0], x), atol=1e-12)
    np.testing.assert_allclose(element.hessians(x), slopes(lambda y: element.tabulate(y)[1], x), atol=1e-11)
    for facet, nodes, others in zip(reference_cell(cell).facets, element.facet_nodes(), plain.facet_nodes(), strict=True):
        np.testing.assert_array_equal(nodes, others + 1)
        on_facet = rng.dirichlet(np.ones(len(facet)), 5) @ corners[list(facet)]
        assert not element.tabulate(on_facet)[0][:, np.setdiff1d(np.arange(element.num_basis), nodes)].any()
        np.testing.assert_allclose(element.tabulate(on_facet)[0][:, 1:], plain.tabulate(on_facet)[0], atol=1e-14)


def test_what_has_no_bubbles():
    said = "bubbles beside degree {} on {} cells: expected degree 1 or 2 on triangles, 1 to 3 on tetrahedra; .* take 'Lagrange', {}"
    for cell, degree, remedy in (
        ("interval", 1, 2),
        ("quadrilateral", 1, 2),
        ("hexahedron", 2, 2),
        ("prism", 1, 2),
        ("triangle", 3, 3),
        ("tetrahedron", 4, 4),
    ):
        dm = box((1,) * reference_cell(cell).dim, cell=cell, comm=PETSc.COMM_SELF)
        with pytest.raises(FormError, match=said.format(degree, cell, remedy)):
            FunctionSpace(dm, "P+B", degree)
    dm = box((1, 1), cell="triangle", comm=PETSc.COMM_SELF)
    for arguments, said in (
        (("P+B", 0), "at least 1"),
        (("P+B", 1.5), "degree 1.5 of family 'P[+]B': expected an integer"),
        (("Bubble", 3), "bubbles alone are no space of femgpu's: take 'P[+]B'"),
        (("P-B", 1), "expected one of Lagrange, .*, P[+]B"),
    ):
        with pytest.raises(FormError, match=said):
            FunctionSpace(dm, *arguments)
    with pytest.raises(FormError, match="bubbles beside degree 1 on triangle cells"):
        LagrangeElement("triangle", 1, continuous=False, bubble=True)
    with pytest.raises(FormError, match="has no PetscFE"):
        LagrangeElement("triangle", 1, bubble=True).petsc_fe()


@pytest.mark.parametrize(("cell", "degree"), CASES)
def test_spaces(cell, degree, rng):
    dm = random_mesh(cell, COUNTS[cell], int(rng.integers(1 << 31)), comm=PETSc.COMM_SELF)
    V, dim = FunctionSpace(dm, "CG+B", degree, 2), Mesh.of(dm).dim
    plain = FunctionSpace(dm, "Lagrange", degree, 2)
    assert (V.num_dofs, V.degree, V.field.degree) == (plain.num_dofs + 2 * V.mesh.num_cells, dim + 1, degree)
    assert V == FunctionSpace(dm, "Lagrange+Bubble", degree, 2) != plain and str(V) == f"P{degree}+B({cell}, (2,))"
    element = V.ufl_element()
    assert (element.embedded_superdegree, element.embedded_subdegree) == (dim + 1, degree)
    u = Function(V, "u")
    u.vec.setArray(rng.standard_normal(V.num_dofs))
    # Polynomials of the bubble's degree contain the functions.
    points = np.concatenate([block.physical_points(LagrangeElement(cell, 5).nodes[:9]) for block in V.mesh.blocks]).reshape(-1, dim)
    whole = Function(FunctionSpace(dm, "DG", dim + 1, 2))
    whole.interpolate(u)
    np.testing.assert_allclose(whole.evaluate(points), u.evaluate(points), atol=1e-12)
    again = Function(V)
    again.interpolate(whole)
    np.testing.assert_allclose(again.vec.array, u.vec.array, atol=1e-13)
    W = MixedSpace({"u": V, "p": FunctionSpace(dm, "Lagrange", 1), "q": FunctionSpace(dm, "DG", 1)})
    assert W.sub("u").collapse() == V.unconstrained == V
    names, sets, _ = W.dm.createFieldDecomposition()
    assert names == ["u", "p", "q"] and [len(rows.indices) for rows in sets] == [W.sub(name).collapse().num_dofs for name in names]


def test_the_element_of_several_unknowns():
    """UFL makes the space of a derivative with respect to several Functions from their elements."""
    dm = box((1, 1), cell="triangle", comm=PETSc.COMM_SELF)
    u, p = Function(FunctionSpace(dm, "P+B", 1, 2)), Function(FunctionSpace(dm, "Lagrange", 1))
    form = own_spaces(ufl.derivative((ufl.inner(u, u) + p**2) * ufl.dx, (u, p)))
    (argument,) = form.arguments()
    parts = [field.elements for field in argument.ufl_function_space().fields]
    assert parts == [u.space.field.elements, p.space.field.elements]
    assert str(argument.ufl_function_space()) == "P1+B(triangle, (2,)) x P1(triangle)"


def test_degrees_count_bubbles():
    """Gradients change in cells, and points of PETSc's kind are as many as for all polynomials of the bubble's degree."""
    dm = box((1, 1), cell="triangle", comm=PETSc.COMM_SELF)
    for family, constant in (("Lagrange", True), ("P+B", False)):
        u = Function(FunctionSpace(dm, family, 1))
        slope = ufl.grad(u)
        (term,) = make_terms(lower_form(ufl.inner(slope, slope) ** 2 * ufl.TestFunction(u.space) * ufl.dx, u), Settings())
        assert (("u_x", 0) in on_cells(term)) == constant
    (rule,) = choose_rules("triangle", "cell", None, elements=[LagrangeElement("triangle", 1, bubble=True)])
    assert rule is choose_rules("triangle", "cell", None, elements=[LagrangeElement("triangle", 3)])[0]
