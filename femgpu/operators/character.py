"""What kind of operator a Jacobian is, judged by its pointwise functions at random data, the same on all ranks.

Constants and coefficients have the signs that they have now, but other values: terms that cancel need not later. All is collective.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from femgpu.errors import FormError
from femgpu.forms import Form, Pointwise, field_block, schur_form

_NUM_POINTS, _NUM_DIRECTIONS = 32, 16
# Sizes of the data: where exponentials of the large ones overflow, those of the small ones say it.
_SIZES = np.logspace(-1, 0, _NUM_POINTS)[:, None]
# Of eigenvalues, relative.
_ROUNDING = 1e-10

# Pairs of blocks that are each other's transposes where the Jacobian is symmetric, and the axes of the second one.
_TRANSPOSED = (
    ("g0", "g0", (0, 2, 1)),
    ("g1", "g2", (0, 2, 1, 3)),
    ("g3", "g3", (0, 2, 1, 4, 3)),
    ("g4", "g6", (0, 2, 1, 3, 4)),
    ("g5", "g7", (0, 2, 1, 5, 3, 4)),
    ("g8", "g8", (0, 2, 1, 5, 6, 3, 4)),
)


# Data below this size tell whether the principal part is elliptic: a solid that is turned inside out is not.
_MODERATE = 0.3
# Points with such data where the state is positive, and coefficients that are not negative, as conductivities and viscosities are.
_MILD = (_SIZES[:, 0] < _MODERATE) & (np.arange(_NUM_POINTS) % 2 == 1)


@dataclass(frozen=True)
class Character:
    """What the integrals over cells say of a Jacobian.

    Attributes:
        elliptic: whether the part with two first derivatives is, by its symbol: n.g3.n positive definite for all components
            together and all directions n; never where there are two second derivatives.
        algebraic: whether there are no derivatives at all.
        advective: whether there are terms with one derivative that do not vanish with the gradient of the unknown, as those of
            k(u) grad(u) do.
        positive: whether the part without derivatives is nowhere negative, neither in cells nor on the boundary.
    """

    elliptic: bool
    algebraic: bool
    advective: bool
    positive: bool


def character(form: Form) -> Character:
    """The character of a form's Jacobian; of functions given as C, which cannot be evaluated here, nothing is known."""
    integrals = [i.jacobian for i in form.integrals if i.jacobian is not None and i.type == "cell"]
    if not form.has_jacobian or not integrals or any(pointwise.evaluate is None for pointwise in integrals):
        return Character(False, False, True, False)
    dim = form.space.mesh.dim
    directions = np.concatenate([np.eye(dim), np.random.default_rng(1).standard_normal((_NUM_DIRECTIONS, dim))])
    outputs = [_sample(form, pointwise, 1) for pointwise in integrals]
    symbols = [np.einsum("qcdij,mi,mj->qmcd", out["g3"][_MILD], directions, directions) for out in outputs if "g3" in out]
    fourth_order = any("g8" in out for out in outputs)
    return Character(
        elliptic=bool(symbols) and not fourth_order and all(_least(symbol) > _ROUNDING for symbol in symbols),
        algebraic=all(out.keys() <= {"g0"} for out in outputs),
        advective=any(
            bool(np.nan_to_num(out[name], posinf=0.0, neginf=0.0).any())
            for pointwise in integrals
            for out in [_sample(form, pointwise, 1, flat=True)]
            for name in out.keys() & {"g1", "g2"}
        ),
        positive=all(_least(out["g0"][_MILD]) > -_ROUNDING for out in [*outputs, *_on_boundary(form)] if "g0" in out),
    )


def _on_boundary(form: Form) -> list[Mapping[str, np.ndarray]]:
    """g0 to g8 of the integrals over exterior facets, of those that can be evaluated."""
    integrals = [i.jacobian for i in form.integrals if i.jacobian is not None and i.type == "exterior_facet"]
    return [_sample(form, pointwise, 1) for pointwise in integrals if pointwise.evaluate is not None]


@dataclass(frozen=True)
class Saddle:
    """The fields of a saddle point, by name.

    Attributes:
        elliptic: the field whose own block is elliptic.
        constraint: the other one, a scalar, whose own block has no derivatives.
        symmetric: whether the whole Jacobian is.
    """

    elliptic: str
    constraint: str
    symmetric: bool


def saddle(form: Form) -> Saddle | str:
    """The fields of a form whose Jacobian is a saddle point, or why it is none, in words.

    That is one of two fields, the first (or second) of which has an elliptic block without advection, while the other is a scalar
    whose block is algebraic, and coupled to the first one's divergence: its Schur complement is a mass matrix of one sign.
    """
    fields = form.space.fields
    known = form.has_jacobian and all(i.jacobian is None or i.jacobian.evaluate is not None for i in form.integrals)
    if len(fields) != 2 or not known:
        return "it is for two fields, and for forms in UFL"
    for elliptic, constraint in ((fields[0], fields[1]), (fields[1], fields[0])):
        if not elliptic.continuous or constraint.num_comp != 1:
            continue
        space = form.space.sub(constraint.name)
        block = field_block(form, elliptic, form.space.sub(elliptic.name))
        kind = character(block)
        if not kind.elliptic or kind.advective or not kind.positive:
            continue
        own = field_block(form, constraint, space)
        if own.integrals and not character(own).algebraic:
            continue
        try:
            complement = schur_form(form, elliptic, constraint, space)
        except FormError:
            continue
        values = [_sample(complement, i.jacobian, 1)["g0"][_MILD] for i in complement.integrals if i.jacobian is not None]
        signs = {sign for part in values for sign in np.sign(part[np.isfinite(part)])}
        if len(signs) == 1 and 0.0 not in signs:
            return Saddle(elliptic.name, constraint.name, is_symmetric(form))
    return "none of its fields is elliptic, without advection, and coupled by its divergence to the other, a scalar"


def couples_displacements(form: Form) -> bool:
    """Whether the unknown is one vector with as many components as the mesh has dimensions, and the Jacobian couples these."""
    space = form.space
    fits = len(space.fields) == 1 and space.num_comp == space.mesh.dim and not space.fields[0].symmetric
    return fits and couples_components(form)


def couples_components(form: Form) -> bool:
    """Whether the Jacobian couples different components in the cells."""
    pairs = [pair for i in form.integrals if i.jacobian is not None and i.type == "cell" for pair in i.jacobian.couples]
    return any(test != trial for test, trial in pairs)


def uncoupled_fields(form: Form) -> tuple[list[str], list[str]]:
    """Names of the fields without an equation, and of those in no equation: rows or columns of the Jacobian are zero.

    Of functions given as C nothing is known, and none are named.
    """
    functions = [i.jacobian for i in form.integrals if i.jacobian is not None]
    if not form.has_jacobian or any(function.evaluate is None for function in functions):
        return [], []
    num_comp = form.space.num_comp
    pairs = [(test % num_comp, trial % num_comp) for function in functions for test, trial in function.couples]
    names: tuple[list[str], list[str]] = ([], [])
    first = 0
    for field in form.space.fields:
        comps = range(first, first + field.num_comp)
        first += field.num_comp
        for side, found in enumerate(names):
            if not any(pair[side] in comps for pair in pairs):
                found.append(field.name)
    return names


def _least(blocks: np.ndarray) -> float:
    """The least eigenvalue of symmetric parts, relative to the largest of the same block, among finite blocks (..., n, n)."""
    blocks = blocks.reshape(-1, *blocks.shape[-2:])
    blocks = blocks[np.isfinite(blocks).all((1, 2))]
    values = np.linalg.eigvalsh(blocks + blocks.transpose(0, 2, 1))
    return float((values[:, 0] / np.maximum(np.abs(values).max(1, initial=0.0), 1e-300)).min(initial=1.0)) if len(blocks) else -1.0


def is_symmetric(form: Form) -> bool:
    """Whether g0, g3, g8 are symmetric and g1, g4, g5 the transposes of g2, g6, g7.

    Functions given as C cannot be evaluated here and count as not symmetric.
    """
    return form.has_jacobian and all(_is_symmetric(form, i.jacobian, i.sides) for i in form.integrals if i.jacobian is not None)


def is_definite(form: Form) -> bool:
    """Whether the Jacobian is symmetric and elliptic, without reactions that could make it indefinite."""
    kind = character(form)
    return kind.elliptic and kind.positive and is_symmetric(form)


def _is_symmetric(form: Form, pointwise: Pointwise, sides: int) -> bool:
    if pointwise.evaluate is None:
        return False
    outputs = _sample(form, pointwise, sides)
    pairs = []
    for name, mirrored, axes in _TRANSPOSED:
        if name in outputs or mirrored in outputs:
            other = outputs[mirrored].transpose(axes) if mirrored in outputs else np.zeros_like(outputs[name])
            pairs.append((outputs.get(name, np.zeros_like(other)), other))
    return all(_are_equal(one, other) for one, other in pairs)


def _sample(form: Form, pointwise: Pointwise, sides: int, flat: bool = False) -> Mapping[str, np.ndarray]:
    """g0 to g8 at random data; `flat`: where u has no gradient."""
    assert pointwise.evaluate is not None
    num_comp, dim = form.state_space.num_comp * sides, form.space.mesh.dim
    generator = np.random.default_rng(0)
    sizes = {"x": dim, "n": dim}
    for array, size in (("u", num_comp), ("a", form.coefficient_offsets[-1] * sides)):
        sizes |= {array: size, f"{array}_x": size * dim, f"{array}_xx": size * dim**2}
    data = {name: _SIZES * (0.5 + generator.random((_NUM_POINTS, size))) for name, size in sizes.items()}
    for values in data.values():
        # Terms may come and go with a sign; at every other point all is positive, for roots and logarithms.
        values[::2] *= generator.choice([-1.0, 1.0], values[::2].shape)
    data["a"][1::2] *= np.tile(_signs(form, pointwise, generator), sides)
    for name in ("u_x", "u_xx") if flat else ():
        data[name] = np.zeros_like(data[name])
    now = form.constant_values()
    data["constants"] = np.where(now < 0, -1.0, 1.0) * (0.5 + generator.random(now.shape))
    return pointwise.evaluate(data)


def _signs(form: Form, pointwise: Pointwise, generator: np.random.Generator) -> np.ndarray:
    """(_NUM_POINTS / 2, components of all coefficients) -1 where a Function has negative values only, any where it has both.

    Those whose values the function does not read are not looked at.
    """
    offsets = form.coefficient_offsets
    found = np.ones((_NUM_POINTS // 2, offsets[-1]))
    read = {number % offsets[-1] for array, number in pointwise.reads if array == "a"}
    for function, first, end in zip(form.coefficients, offsets[:-1], offsets[1:], strict=True):
        if read.isdisjoint(range(first, end)):
            continue
        least, largest = function.vec.min()[1], function.vec.max()[1]
        if least < 0:
            found[:, first:end] = generator.choice([-1.0, 1.0], (len(found), end - first)) if largest > 0 else -1.0
    return found


def _are_equal(one: np.ndarray, other: np.ndarray) -> bool:
    """Whether two arrays agree at each point where all of their entries are finite, and there are such points."""
    axes = tuple(range(1, one.ndim))
    finite = np.isfinite(one).all(axes) & np.isfinite(other).all(axes)
    one, other = one[finite], other[finite]
    return bool(finite.any() and (np.abs(one - other).max(axes) <= 1e-12 * np.abs(one).max(axes)).all())
