"""Expressions that are evaluated at points."""

import basix.ufl
import numpy as np
import pytest
import ufl
from forms_support import Constant, Function, Mixed, Space, compiled, make_mesh, part, random_data
from ufl import TestFunction, as_matrix, as_vector, derivative, det, dot, grad, inner, sym

import femgpu
from femgpu.errors import FormError
from femgpu.forms import lower_expression

MESH = make_mesh(2)
V, V2 = Space(MESH, 2), Space(MESH, 2, (2,))
W = Mixed(MESH, velocity=("P", 2, (2,)), pressure=("P", 1, ()))
f, b, w, x = Function(V), Function(V2), Function(W), ufl.SpatialCoordinate(MESH)
c = Constant(MESH, (2,))


def _strain(d, form):
    G = d["a_x"]
    return (G + G.transpose(0, 2, 1)) / 2


CASES = {
    "number": (ufl.as_ufl(3), lambda d, form: np.full(7, 3.0)),
    "zero vector": (as_vector([0, 0]), lambda d, form: np.zeros((7, 2))),
    "function": (f, lambda d, form: d["a"][:, 0]),
    "coordinates": (x, lambda d, form: d["x"]),
    "scalar": (f * x[0] + inner(c, c), lambda d, form: d["a"][:, 0] * d["x"][:, 0] + (d["constants"] ** 2).sum()),
    "vector": (as_vector([f, 0, f.dx(1)]), lambda d, form: np.stack([d["a"][:, 0], 0 * d["a"][:, 0], d["a_x"][:, 0, 1]], 1)),
    "stress": (2 * sym(grad(b)), lambda d, form: 2 * _strain(d, form)),
    "Hessian": (grad(grad(f)), lambda d, form: d["a_xx"][:, 0]),
    "rank three": (grad(grad(b)), lambda d, form: d["a_xx"]),
    "determinant": (det(grad(b)), lambda d, form: np.linalg.det(d["a_x"])),
    "conditional": (ufl.conditional(ufl.gt(f, 1), f, -f), lambda d, form: np.where(d["a"] > 1, d["a"], -d["a"])[:, 0]),
    "derivative": (derivative(f**3, f, f), lambda d, form: 3 * d["a"][:, 0] ** 3),
    "part": (part(w, "velocity"), lambda d, form: d["a"][:, :2]),
    "gradient of a part": (grad(part(w, "pressure")), lambda d, form: d["a_x"][:, 2]),
    "constant matrix": (as_matrix([[1, 2], [3, 4]]), lambda d, form: np.broadcast_to([[1.0, 2.0], [3.0, 4.0]], (7, 2, 2))),
}


@pytest.mark.parametrize("name", CASES)
def test_values(name, tmp_path):
    expression, expected = CASES[name]
    form = lower_expression(expression)
    assert form.shape == expression.ufl_shape and form.mesh is None
    assert form.pointwise.writes == {("f0", i) for i in range(form.num_values)}
    data = random_data(form, 2)
    values = expected(data, form).reshape(7, -1)
    np.testing.assert_allclose(form.pointwise.evaluate(data)["f0"], values, atol=1e-14)
    np.testing.assert_allclose(compiled(form.pointwise, form, 2, tmp_path)(data)["f0"], values, atol=1e-14)


def test_record():
    form = lower_expression(f * c + dot(grad(b), b))
    assert set(form.coefficients) == {f, b} and form.constants == (c,)
    assert form.coefficient_offsets[-1] == 3 and form.constant_offsets == (0, 2)
    first = form.coefficient_offsets[form.coefficients.index(b)]
    scalar = form.coefficient_offsets[form.coefficients.index(f)]
    expected = {("a", i) for i in range(3)} | {("a_x", first), ("a_x", first + 1)}
    assert form.pointwise.reads == expected and ("a", scalar) in expected


def test_fresh_coefficients_give_the_same_text():
    def make(power):
        return lower_expression(Constant(MESH) * Function(V) ** power).pointwise

    assert make(2) == make(2) != make(3)


def test_mesh():
    dm = femgpu.mesh.box((2, 2), cell="triangle")
    space = femgpu.FunctionSpace(dm, "Lagrange", 1)
    assert lower_expression(femgpu.coordinates(dm)).mesh is space.mesh
    (volume,) = lower_expression(ufl.CellVolume(space.ufl_domain())).coefficients
    assert volume.name == "CellVolume"


REFUSED = {
    "number": (lambda: 3.0, "is of type float; expected a UFL expression with a value"),
    "condition": (lambda: ufl.gt(f, 1), "is of type GT; expected a UFL expression"),
    "argument": (lambda: f * TestFunction(V), "the expression has the argument v_0; expected Functions"),
    "free index": (lambda: f * x[ufl.i], r"has free indices: .*; expected as_tensor"),
    "two meshes": (lambda: f * Function(Space(make_mesh(2))), "the expression: two meshes"),
    "normal": (lambda: ufl.FacetNormal(MESH), "FacetNormal where there is no facet"),
    "third derivatives": (lambda: grad(grad(grad(Function(Space(MESH, 3))))), "third derivatives are not supported"),
    "mapped element": (lambda: Function(ufl.FunctionSpace(MESH, basix.ufl.element("RT", "triangle", 1))), "ContravariantPiola"),
    "imaginary": (lambda: ufl.imag(f), "UFL refuses the expression: Unexpected imag"),
    "restriction": (lambda: f("+"), "a restriction to one side of a facet between two cells, where there is none"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_refused(name):
    make, message = REFUSED[name]
    with pytest.raises(FormError, match=message):
        lower_expression(make())
