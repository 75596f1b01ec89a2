"""Pointwise functions in reference coordinates: the same numbers, and of the geometry the cut stores no more than needed."""

from dataclasses import replace
from functools import cache
from math import inf

import numpy as np
import pytest
import ufl
from forms_cases import neo_hookean
from forms_support import Constant, Function, Mixed, Space, compiled, make_mesh, names, random_data
from test_forms_state import STATEFUL
from ufl import div, dot, ds, dx, exp, grad, inner

from femgpu.forms import PointwiseForm, functional, lower_form, pull_back, split_states

CELLS = {2: "quadrilateral", 3: "hexahedron"}
ON_CELLS = (("K", 0), ("det", 0))
NUM_QPTS = 8
# Price of a scalar for `-femgpu_qdata store`.
STORE = 4.0


def _scalar(dim, degree=1, cell=None):
    V = Space(make_mesh(dim, cell), degree)
    return V, Function(V), ufl.TestFunction(V)


def mass(dim):
    _, u, v = _scalar(dim)
    return u * v * dx, u, None


def poisson(dim):
    _, u, v = _scalar(dim)
    return inner(grad(u), grad(v)) * dx, u, None


def helmholtz(dim):
    V, u, v = _scalar(dim)
    k, kappa = Constant(V.ufl_domain()), Constant(V.ufl_domain())
    return (kappa * inner(grad(u), grad(v)) + k**2 * u * v) * dx, u, None


def diffusion(dim):
    """A coefficient, its gradient, and x."""
    V, u, v = _scalar(dim, 2)
    a, x = Function(V), ufl.SpatialCoordinate(V.ufl_domain())
    return (a * x[0] * inner(grad(u), grad(v)) + dot(grad(a), grad(u)) * exp(u) * v) * dx, u, None


def stokes(dim):
    W = Mixed(make_mesh(dim), velocity=("P", 2, (dim,)), pressure=("P", 1, ()))
    w, nu = Function(W), Function(Space(W.ufl_domain(), 1))
    (u, p), (v, q) = ufl.split(w), ufl.TestFunctions(W)
    return (nu * inner(ufl.sym(grad(u)), grad(v)) - p * div(v) - q * div(u) + nu * inner(u, grad(q))) * dx, w, None


def supg(dim):
    """Second derivatives of unknown and coefficient, g4 and g5."""
    V, u, v = _scalar(dim, 2)
    f, b = Function(V), Function(Space(V.ufl_domain(), 1, (dim,)))
    residual = dot(b, grad(u)) - (1 + u**2) * div(grad(u)) + u.dx(0, 1) - div(grad(f))
    return residual * (v + dot(b, grad(v))) * dx, u, None


def traction(dim):
    V, u, v = _scalar(dim, 2)
    n = ufl.FacetNormal(V.ufl_domain())
    return (u**2 * dot(n, grad(u)) * v + dot(n, grad(v)) * u) * ds, u, None


CASES = {
    f"{form.__name__} {dim}D": lambda form=form, dim=dim: form(dim)
    for form in (mass, poisson, helmholtz, diffusion, stokes, supg, traction, neo_hookean)
    for dim in (2, 3)
}


@cache
def _lowered(name):
    F, u, _ = {**STATEFUL, **CASES}[name]()
    return lower_form(F, u), int(name[-2])


def _data(form, dim, one_cell=False, seed=0):
    """Random inputs, those of a form in reference coordinates too; `one_cell`: all points in the same affine cell."""
    data = random_data(form, dim, seed=seed)
    num_points = len(data["x"])
    rng = np.random.default_rng(seed)
    data["K"] = np.eye(dim) + rng.uniform(-0.2, 0.2, (1 if one_cell else num_points, dim, dim))
    data["det"] = rng.uniform(0.5, 2.0, 1 if one_cell else num_points)
    data["weight"] = rng.uniform(0.5, 2.0, num_points)
    for array in ("K", "det"):
        data[array] = np.broadcast_to(data[array], (num_points, *data[array].shape[1:]))
    return data


def _physical(data):
    """The same inputs with derivatives in physical coordinates."""
    K, found = data["K"], dict(data)
    for name in "uwa":
        found[f"{name}_x"] = np.einsum("pck,pkd->pcd", data[f"{name}_x"], K)
        found[f"{name}_xx"] = np.einsum("pckl,pki,plj->pcij", data[f"{name}_xx"], K, K)
    return found


def _to_reference(outputs, data):
    """Outputs in physical coordinates to those in reference coordinates."""
    found = {}
    for name, values in outputs.items():
        for axis in range(2 if name[0] == "f" else 3, values.ndim):
            values = np.moveaxis(np.einsum("pkd,p...d->p...k", data["K"], np.moveaxis(values, axis, -1)), -1, axis)
        found[name] = np.einsum("p,p...->p...", data["weight"] * data["det"], values)
    return found


def _assert_close(found, expected, tolerance=1e-13):
    assert set(found) == set(expected)
    for key, values in expected.items():
        np.testing.assert_allclose(found[key], values, rtol=0, atol=tolerance * np.max(np.abs(values)))


@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize("affine", [True, False])
def test_values_are_those_in_physical_coordinates(name, affine):
    form, dim = _lowered(name)
    for integral in form.integrals:
        for function in integral.pointwise:
            pulled = pull_back(function, dim, affine)
            if pulled is None:
                assert not affine and name.startswith("supg")
                continue
            assert pulled.reference and not function.reference and pulled.kind == function.kind
            data = _data(form, dim)
            _assert_close(pulled.evaluate(data), _to_reference(function.evaluate(_physical(data)), data))
            assert ("weight", 0) in pulled.reads and ("det", 0) in pulled.reads
            has_gradients = any(array.endswith("x") and array != "x" for array in names(function.reads)) or bool(
                names(function.writes) & {"f1", "g1", "g2", "g3", "g4", "g5"}
            )
            assert (("K", 0) in pulled.reads) == has_gradients


@pytest.mark.parametrize("dim", [2, 3])
def test_functionals(dim):
    V, u, _ = _scalar(dim, 2)
    x = ufl.SpatialCoordinate(V.ufl_domain())
    form = functional((inner(grad(u), grad(u)) + x[0] * u**2) * dx + u.dx(0) * ds)
    for integral in form.integrals:
        data = _data(form, dim)
        pulled = pull_back(integral.functional, dim, False)
        _assert_close(pulled.evaluate(data), _to_reference(integral.functional.evaluate(_physical(data)), data))


@pytest.mark.parametrize("name", CASES)
def test_what_is_read_and_written_is_declared(name):
    form, dim = _lowered(name)
    for function in form.integrals[0].pointwise:
        pulled = pull_back(function, dim, True)
        poisoned = {key: np.array(values) for key, values in _data(form, dim).items()}
        for key, values in poisoned.items():
            if key in ("x", "n", "K", "det", "weight"):
                if (key, 0) not in pulled.reads:
                    values[:] = np.nan
            elif key != "constants":
                values[:, [i for i in range(values.shape[1]) if (key, i) not in pulled.reads]] = np.nan
        for key, values in pulled.evaluate(poisoned).items():
            assert np.isfinite(values).all()
            assert {(key, c) for c in range(values.shape[1]) if values[:, c].any()} <= pulled.writes


@pytest.mark.parametrize("name", ["diffusion 3D", "stokes 2D", "supg 2D", "traction 3D", "neo_hookean 2D"])
def test_printed_bodies_equal_the_numpy_twin(name, tmp_path):
    form, dim = _lowered(name)
    data = _data(form, dim)
    for function in form.integrals[0].pointwise:
        pulled = pull_back(function, dim, True)
        _assert_close(compiled(pulled, form, dim, tmp_path)(data), pulled.evaluate(data))


def test_the_metric_of_a_cell_has_six_entries():
    form, dim = _lowered("poisson 3D")
    pulled = pull_back(form.integrals[0].jacobian, dim, False)
    assert len(pulled.evaluate.roots) == 9 and len({node for _, _, node in pulled.evaluate.roots}) == 6


def test_second_derivatives_need_affine_cells():
    form, dim = _lowered("supg 2D")
    for function in form.integrals[0].pointwise:
        assert pull_back(function, dim, False) is None
        assert pull_back(function, dim, True) is not None


def test_bodies_of_the_user_are_not_pulled_back():
    V = Space(make_mesh(2), 1)
    form = PointwiseForm(V, f1="for (int d = 0; d < dim; ++d) f1[d] = u_x[d];", g0="g0[0] = u[0];").lower(Function(V))
    assert all(pull_back(function, 2, True) is None for function in form.integrals[0].pointwise)


def _input_costs(dim):
    """Interpolation with eight basis functions; of K and det what comes on top of the Jacobian."""
    costs = {"x": 16 * dim, "n": 2 * dim**2, "K": 4 * dim**2, "det": 4 * dim}
    return lambda field: costs.get(field[0], 16 * (dim if field[0].endswith("_x") else 1))


def _gather_costs(dim):
    return lambda field: 16.0 * dim**2 if field == ("K", 0) else 0.0


def _splits(name, prices, affine, on_cells=ON_CELLS):
    form, dim = _lowered(name)
    pulled = pull_back(form.integrals[0].action, dim, affine)
    more = {"num_qpts": NUM_QPTS, "on_cells": on_cells} if affine else {}
    return split_states(pulled, prices, _input_costs(dim), _gather_costs(dim), **more)


def _stored(split, data):
    """What the state part finds without knowing the direction; `c` is that of the first point, of all points of a cell."""
    if split.state is None:
        return {}
    found = split.state.evaluate({key: values for key, values in data.items() if not key.startswith("w") or key == "weight"})
    if "c" in found:
        np.testing.assert_array_equal(found["c"], found["c"][:1].repeat(len(data["x"]), axis=0))
    return found


COUNTS = {
    "mass 2D": 1, "mass 3D": 1, "poisson 2D": 3, "poisson 3D": 6, "helmholtz 2D": 4, "helmholtz 3D": 7,
}  # fmt: skip


@pytest.mark.parametrize("name", COUNTS)
def test_the_geometry_that_is_stored_at_points(name):
    (split,) = _splits(name, (STORE,), affine=False)
    assert (split.num_scalars, split.num_cell_scalars) == (COUNTS[name], 0)
    assert split.state.reference and split.action.reference
    assert names(split.action.reads) <= {"w", "w_x", "s"}
    dim = int(name[-2])
    products = {"mass": 1, "poisson": dim * (2 * dim - 1), "helmholtz": dim * (2 * dim - 1) + 1}[name.split()[0]]
    assert split.action.flops == products


@pytest.mark.parametrize("name", COUNTS)
def test_the_geometry_that_is_stored_in_affine_cells(name):
    (split,) = _splits(name, (STORE,), affine=True)
    assert (split.num_scalars, split.num_cell_scalars) == (0, COUNTS[name])
    assert split.state.writes == {("c", i) for i in range(COUNTS[name])}
    assert not names(split.state.reads) - {"K", "det"}
    assert names(split.action.reads) <= {"w", "w_x", "c", "weight"}
    assert str(split).startswith(f"{COUNTS[name]} scalars per cell stored, ")


def test_what_a_coefficient_multiplies_is_stored_in_cells():
    (split,) = _splits("diffusion 3D", (STORE,), affine=True)
    assert split.num_cell_scalars == 6 and not names(split.action.reads) & {"K", "det", "a"}
    assert f"{split.num_scalars} scalars per point and 6 scalars per cell stored" in str(split)


def test_coefficients_may_be_constant_on_cells():
    V, u, v = _scalar(3)
    a = Function(Space(V.ufl_domain(), 0, family="DG"))
    action = pull_back(lower_form(a * inner(grad(u), grad(v)) * dx, u).integrals[0].action, 3, True)
    more = {"num_qpts": NUM_QPTS, "on_cells": (*ON_CELLS, ("a", 0))}
    (split,) = split_states(action, (STORE,), _input_costs(3), _gather_costs(3), **more)
    assert (split.num_scalars, split.num_cell_scalars, split.action.flops) == (0, 6, 18)
    # linear functions on simplices: so is all of the state
    form, dim = _lowered("neo_hookean 3D")
    more["on_cells"] = (*ON_CELLS, *(("u_x", c) for c in range(dim)))
    action = pull_back(form.integrals[0].action, dim, True)
    (split,) = split_states(action, (STORE,), _input_costs(dim), _gather_costs(dim), **more)
    assert split.num_scalars == 0 and names(split.action.reads) == {"w_x", "c", "weight"}


def test_a_single_point_needs_no_scalars_of_the_cell():
    form, dim = _lowered("poisson 3D")
    action = pull_back(form.integrals[0].action, dim, True)
    (split,) = split_states(action, (STORE,), _input_costs(dim), _gather_costs(dim), num_qpts=1, on_cells=ON_CELLS)
    assert (split.num_scalars, split.num_cell_scalars) == (6, 0)


def test_what_all_points_share_costs_a_part():
    """Computed once per cell where that is cheaper than loading, and stored where it is not."""
    form, dim = _lowered("mass 2D")
    action = pull_back(form.integrals[0].action, dim, True)
    for cost, stored in ((STORE - 1, 0), (STORE + 1, 1)):
        (split,) = split_states(action, (STORE,), lambda field, cost=cost: cost, num_qpts=NUM_QPTS, on_cells=ON_CELLS)
        assert (split.num_scalars, split.num_cell_scalars) == (0, stored)
        assert split.flops_before == 2 + cost / NUM_QPTS


@pytest.mark.parametrize("affine", [True, False])
@pytest.mark.parametrize("name", {**STATEFUL, **CASES})
def test_both_parts_together_are_the_action(name, affine):
    form, dim = _lowered(name)
    action = form.integrals[0].action
    if pull_back(action, dim, affine) is None:
        return
    data = _data(form, dim, one_cell=affine, seed=1)
    expected = _to_reference(action.evaluate(_physical(data)), data)
    for split in _splits(name, (0.0, STORE, 30.0, inf), affine):
        assert (split.state is None) == (split.num_scalars + split.num_cell_scalars == 0)
        stored = _stored(split, data)
        assert stored.get("s", np.zeros((7, 0))).shape[1] == split.num_scalars
        assert stored.get("c", np.zeros((7, 0))).shape[1] == split.num_cell_scalars
        _assert_close(split.action.evaluate(data | stored), expected)


@pytest.mark.parametrize("name", ["diffusion 3D", "neo_hookean 2D", "fibres 2D"])
def test_printed_parts_equal_the_numpy_twin(name, tmp_path):
    form, dim = _lowered(name)
    (split,) = _splits(name, (STORE,), affine=True)
    sizes = f"real s[{split.num_scalars + 1}], c[{split.num_cell_scalars + 1}];"
    body = f"{sizes}\n{{\n{split.state.body}\n}}\n{split.action.body}"
    data = _data(form, dim, one_cell=True)
    expected = split.action.evaluate(data | _stored(split, data))
    _assert_close(compiled(replace(split.action, body=body), form, dim, tmp_path)(data), expected)
