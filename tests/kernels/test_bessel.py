"""Bessel functions in kernels against scipy, and UFL's derivatives of them."""

import numpy as np
import pytest
import ufl
from petsc4py import PETSc
from scipy import special
from ufl import dx

import femgpu
from femgpu import mesh, runtime
from femgpu.kernels.source import source, type_macros

FUNCTIONS = {"j": special.jv, "y": special.yv, "i": special.iv, "k": special.kv}
ORDERS = range(11)
# Of the modulus of J and Y; closer to their zeros a relative error has no meaning.
NEAR_ZERO = 0.05
KERNEL = """
__kernel void all_orders(const int count, __global const real *x, __global real *y) {
  const int i = (int)get_global_id(0);
  if (i < count)
    for (int n = 0; n < %d; ++n) y[i * %d + n] = bessel_%s(n, x[i]);
}
"""


@pytest.mark.parametrize(("precision", "tolerance"), [("double", 1e-13), ("single", 1e-6)])
@pytest.mark.parametrize("name", FUNCTIONS)
def test_values(rng, name, precision, tolerance):
    real = np.float64 if precision == "double" else np.float32
    x = np.concatenate([np.geomspace(1e-3, 1e5 if name in "jy" else 700, 3000), rng.uniform(0.01, 60, 3000), [2, 25, 10]]).astype(
        real
    )
    x = np.concatenate([x, -x]) if name in "ji" else x
    got, chosen = np.empty((len(x), len(ORDERS)), real), runtime.current()
    text = [*type_macros(precision), source("common.cl"), source("bessel.cl"), KERNEL % (len(ORDERS), len(ORDERS), name)]
    given, out = chosen.upload(x), chosen.upload(got)
    runtime.Kernel(chosen, "\n".join(text), "all_orders", [np.int32(len(x)), given, out], len(x), 64)()
    chosen.read(out, got)
    orders, x = np.arange(len(ORDERS)), x.astype(float)[:, None]
    expected = FUNCTIONS[name](orders, x)
    limits = np.finfo(real)
    counts = (np.abs(expected) > limits.tiny) & (np.abs(expected) < limits.max)
    if name in "jy":
        with np.errstate(over="ignore"):
            modulus = np.hypot(special.jv(orders, np.abs(x)), special.yv(orders, np.abs(x)))
        counts &= (np.abs(expected) > NEAR_ZERO * modulus) | ((np.abs(x) < orders) & (name == "j"))
    assert counts.mean() > 0.7
    assert (np.abs(got - expected)[counts] <= tolerance * np.abs(expected[counts])).all()


def test_limits():
    """At zero, beyond all numbers, where they are not real."""
    text = [*type_macros("double"), source("common.cl"), source("bessel.cl")]
    text += [(KERNEL % (2, 2, name)).replace("all_orders", f"orders_{name}") for name in FUNCTIONS]
    x = np.array([0.0, np.inf, np.nan, 1e4])
    nan, inf = np.nan, np.inf
    expected = {
        "j": [(1, 0), (0, 0), (nan, nan)],
        "y": [(-inf, -inf), (0, 0), (nan, nan)],
        "i": [(1, 0), (inf, inf), (nan, nan), (inf, inf)],
        "k": [(inf, inf), (0, 0), (nan, nan), (0, 0)],
    }
    chosen, got = runtime.current(), np.empty((len(x), 2))
    given, out = chosen.upload(x), chosen.upload(got)
    for name, values in expected.items():
        runtime.Kernel(chosen, "\n".join(text), f"orders_{name}", [np.int32(len(x)), given, out], len(x), 4)()
        np.testing.assert_array_equal(chosen.read(out, got)[: len(values)], values)


def test_forms_and_their_derivatives(rng):
    """By the kernels, and by numpy where expressions are interpolated."""
    dm = mesh.box((40,), cell="interval", comm=PETSc.COMM_SELF)
    V = femgpu.FunctionSpace(dm, "DG", 0)
    u, w = femgpu.Function(V), femgpu.Function(V)
    u.vec.setArray(rng.uniform(0.5, 12, 40))
    w.vec.setArray(rng.uniform(0.5, 1, 40))
    F = (ufl.bessel_J(3, u) + ufl.bessel_Y(0, u) + ufl.bessel_I(1, u / 4) + ufl.bessel_K(2, u)) * dx
    x, factor = u.vec.array_r, w.vec.array_r
    values = special.jv(3, x) + special.yv(0, x) + special.iv(1, x / 4) + special.kv(2, x)
    slopes = special.jvp(3, x) + special.yvp(0, x) + special.ivp(1, x / 4) / 4 + special.kvp(2, x)
    assert femgpu.assemble(F) == pytest.approx(values.mean(), rel=1e-12)
    assert femgpu.assemble(ufl.derivative(F, u, w)) == pytest.approx((slopes * factor).mean(), rel=1e-12)
    found = femgpu.Function(V)
    found.interpolate(ufl.bessel_J(3, u))
    np.testing.assert_allclose(found.vec.array_r, special.jv(3, x), rtol=1e-14)
