"""Values of lowered forms: against formulas by hand, compiled C, finite differences, and between operators."""

import numpy as np
import pytest
from forms_cases import CASES
from forms_field_cases import FIELD_CASES
from forms_support import compiled, names, random_data, times_direction, total

from femgpu.forms import lower_form

ALL = CASES | FIELD_CASES
pytestmark = pytest.mark.parametrize("name", ALL)


def _lowered(name):
    F, u, expected = ALL[name]()
    form = lower_form(F, u)
    dim = u.ufl_function_space().ufl_domain().geometric_dimension
    return form, dim, random_data(form, dim), expected


def _close(a, b, tolerance=1e-13):
    scale = max(1.0, float(np.max(np.abs(b), initial=0.0)))
    np.testing.assert_allclose(a, b, rtol=0, atol=tolerance * scale)


def test_residual_equals_the_formula(name):
    form, _, data, expected = _lowered(name)
    found = total(form, "residual", data)
    for key, values in expected(data, form).items():
        _close(found[key], np.broadcast_to(values, found[key].shape))


def test_compiled_bodies_equal_the_numpy_twin(name, tmp_path):
    form, dim, data, _ = _lowered(name)
    for integral in form.integrals:
        for entry in integral.pointwise:
            twin = entry.evaluate(data)
            assert set(twin) == names(entry.writes)
            for key, values in compiled(entry, form, dim, tmp_path)(data).items():
                _close(values, twin[key])


def test_single_precision_bodies_compile(name, tmp_path):
    form, dim, data, _ = _lowered(name)
    entry = form.integrals[0].residual
    for key, values in compiled(entry, form, dim, tmp_path, real="float")(data).items():
        _close(values, entry.evaluate(data)[key], 1e-5)


def test_action_is_the_derivative_of_the_residual(name):
    form, _, data, _ = _lowered(name)
    h = 1e-6
    moved = [total(form, "residual", _moved(data, sign * h)) for sign in (1, -1)]
    action = total(form, "action", data)
    for key in ("f0", "f1", "f2"):
        _close((moved[0][key] - moved[1][key]) / (2 * h), action[key], 1e-7)


def test_jacobian_times_direction_is_the_action(name):
    form, _, data, _ = _lowered(name)
    action = total(form, "action", data)
    for key, values in times_direction(total(form, "jacobian", data), data).items():
        _close(values, action[key])


def test_nothing_is_read_that_is_not_declared(name):
    form, dim, data, _ = _lowered(name)
    for integral in form.integrals:
        for entry in integral.pointwise:
            poisoned = {key: values.copy() for key, values in data.items()}
            for key in poisoned:
                if key in ("x", "n") and (key, 0) not in entry.reads:
                    poisoned[key][:] = np.nan
                elif key[0] in "uwa":
                    poisoned[key][:, [i for i in range(data[key].shape[1]) if (key, i) not in entry.reads]] = np.nan
            for key, values in entry.evaluate(poisoned).items():
                assert np.isfinite(values).all(), key
                assert {(key, c) for c in range(values.shape[1]) if values[:, c].any()} <= entry.writes


def test_fresh_coefficients_give_the_same_text(name):
    assert _lowered(name)[0].integrals == _lowered(name)[0].integrals


def _moved(data, h):
    return {**data, **{f"u{suffix}": data[f"u{suffix}"] + h * data[f"w{suffix}"] for suffix in ("", "_x", "_xx")}}
