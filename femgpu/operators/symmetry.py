"""Whether a Jacobian is symmetric, judged by its pointwise functions."""

from __future__ import annotations

import numpy as np

from femgpu.forms import Form, Pointwise

_NUM_POINTS = 32
# Sizes of the data: where exponentials of the large ones overflow, those of the small ones say it.
_SIZES = np.logspace(-1, 0, _NUM_POINTS)[:, None]

# Pairs of blocks that are each other's transposes where the Jacobian is symmetric, and the axes of the second one.
_TRANSPOSED = (
    ("g0", "g0", (0, 2, 1)),
    ("g1", "g2", (0, 2, 1, 3)),
    ("g3", "g3", (0, 2, 1, 4, 3)),
    ("g4", "g6", (0, 2, 1, 3, 4)),
    ("g5", "g7", (0, 2, 1, 5, 3, 4)),
    ("g8", "g8", (0, 2, 1, 5, 6, 3, 4)),
)


def is_symmetric(form: Form) -> bool:
    """Whether g0, g3, g8 are symmetric and g1, g4, g5 the transposes of g2, g6, g7, at random data, the same on all ranks.

    Functions given as C cannot be evaluated here and count as not symmetric.
    """
    return form.has_jacobian and all(_is_symmetric(form, i.jacobian, i.sides) for i in form.integrals if i.jacobian is not None)


def _is_symmetric(form: Form, pointwise: Pointwise, sides: int) -> bool:
    if pointwise.evaluate is None:
        return False
    num_comp, dim = form.space.num_comp * sides, form.space.mesh.dim
    generator = np.random.default_rng(0)
    sizes = {"x": dim, "n": dim}
    for array, size in (("u", num_comp), ("a", form.coefficient_offsets[-1] * sides)):
        sizes |= {array: size, f"{array}_x": size * dim, f"{array}_xx": size * dim**2}
    data = {name: _SIZES * (0.5 + generator.random((_NUM_POINTS, size))) for name, size in sizes.items()}
    for values in data.values():
        # Terms may come and go with a sign; at every other point all is positive, for roots and logarithms.
        values[::2] *= generator.choice([-1.0, 1.0], values[::2].shape)
    data["constants"] = 0.5 + generator.random(form.constant_offsets[-1])
    outputs = pointwise.evaluate(data)
    pairs = []
    for name, mirrored, axes in _TRANSPOSED:
        if name in outputs or mirrored in outputs:
            other = outputs[mirrored].transpose(axes) if mirrored in outputs else np.zeros_like(outputs[name])
            pairs.append((outputs.get(name, np.zeros_like(other)), other))
    return all(_are_equal(one, other) for one, other in pairs)


def _are_equal(one: np.ndarray, other: np.ndarray) -> bool:
    """Whether two arrays agree at each point where all of their entries are finite, and there are such points."""
    axes = tuple(range(1, one.ndim))
    finite = np.isfinite(one).all(axes) & np.isfinite(other).all(axes)
    one, other = one[finite], other[finite]
    return bool(finite.any() and (np.abs(one - other).max(axes) <= 1e-12 * np.abs(one).max(axes)).all())
