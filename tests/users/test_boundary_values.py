"""What boundary conditions prescribe: numbers, callables and expressions, at nodes that several ranks have."""

import numpy as np
import pytest
import ufl

import femgpu
from femgpu.errors import DataError


@pytest.mark.parallel([1, 3])
def test_boundary_values_are_checked_when_the_condition_is_made():
    dm = femgpu.mesh.box((2, 2), "triangle")
    V, Q = femgpu.FunctionSpace(dm, "P", 1, shape=2), femgpu.FunctionSpace(dm, "P", 1)
    for space, value in ((V, [1, 2, 3]), (V, lambda x: [x[0]] * 3), (Q, lambda x: [x[0], x[1]]), (Q, femgpu.Constant(dm, [1, 2]))):
        with pytest.raises(DataError, match="boundary values (have|are an expression of) shape"):
            femgpu.DirichletBC(space, value)
    with pytest.raises(DataError, match="expected numbers"):
        femgpu.DirichletBC(Q, "zero")
    for value in (1j, np.complex128(1), lambda x: np.exp(1j * x[0]), [1, 2j]):
        with pytest.raises(DataError, match="boundary values are complex; .*expected real numbers"):
            femgpu.DirichletBC(V if isinstance(value, list) else Q, value)
    with pytest.raises(DataError, match="is complex"):
        femgpu.Constant(dm, np.array([1j, 2]))
    with pytest.raises(DataError, match="values of f are complex"):
        femgpu.Function(Q, name="f").interpolate(lambda x: 1j * x[0])
    # Not all values are known yet: those that are not finite are refused when they are used.
    scale = femgpu.Constant(dm, 0.0)
    with np.errstate(all="ignore"):
        bc = femgpu.DirichletBC(Q, lambda x: np.float64(1) / scale.value + 0 * x[0])
    scale.value = 2.0
    assert set(bc.values()) <= {0.5}


@pytest.mark.parametrize("entry", ["scalar", "vector", "symmetric", "component"])
def test_values_at_points_are_those_in_cells(entry):
    """Expressions of constants and coordinates alone are evaluated at the nodes, others in all cells there; coefficients decide."""
    dm = femgpu.mesh.box((2, 3), cell="quadrilateral")
    x, t = femgpu.coordinates(dm), femgpu.Constant(dm, 0.3)
    f = femgpu.Function(femgpu.FunctionSpace(dm, "Lagrange", 1))
    vector = ufl.as_vector([ufl.sin(x[0] + t), x[0] * x[1] ** 2])
    value = {"vector": vector, "symmetric": ufl.outer(vector, vector)}.get(entry, vector[1] / (1 + t))
    shape = {"scalar": (), "symmetric": (2, 2)}.get(entry, (2,))
    V = femgpu.FunctionSpace(dm, "Lagrange", 3, shape=shape, **({"symmetry": True} if entry == "symmetric" else {}))
    component = 1 if entry == "component" else None
    bc, in_cells = (femgpu.DirichletBC(V, value + part, "boundary", component) for part in (0 * value, f * value / t))
    assert bc._expression.of_points and not in_cells._expression.of_points
    for number in (0.3, 0.7):
        t.value = number
        np.testing.assert_allclose(bc.values(), in_cells.values(), rtol=0, atol=1e-13)
    assert np.ptp(bc.values()) > 0.1


@pytest.mark.parallel(3)
@pytest.mark.parametrize("kind", ["expression", "callable"])
def test_ranks_agree_on_which_side_of_a_seam_a_node_is(kind):
    """Its owner decides, where each rank finds it in a cell of another side."""
    dm = femgpu.mesh.box((4, 4), cell="quadrilateral", periodic=(True, False))
    V, x = femgpu.FunctionSpace(dm, "Lagrange", 2), femgpu.coordinates(dm)
    bc = femgpu.DirichletBC(V, x[0] if kind == "expression" else lambda x: x[0], lambda x: x[0] > -1)
    u = femgpu.Function(V)
    own = np.zeros(V.num_local)
    own[bc.local_rows] = bc.values()
    u.set_local(own)
    np.testing.assert_array_equal(u.local_array()[bc.local_rows], bc.values())
