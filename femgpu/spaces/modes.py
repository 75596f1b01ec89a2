"""Modes that operators map to zero, or to little: constants, and the motions of a rigid body."""

from __future__ import annotations

import itertools
from collections.abc import Callable

import numpy as np
import numpy.typing as npt
from petsc4py import PETSc

from femgpu.errors import FormError
from femgpu.spaces.function import Function
from femgpu.spaces.function_space import FunctionSpace
from femgpu.spaces.space import SingleSpace

Mode = Callable[[npt.NDArray[np.float64]], npt.NDArray[np.float64]]


def constant_modes(space: SingleSpace) -> PETSc.NullSpace:
    """The functions that are the same everywhere, as PETSc wants them: orthonormal vectors of dofs; collective.

    Args:
        space: a FunctionSpace, or a field of a mixed one: all other fields are zero then.

    Returns:
        A null space of one vector per component that is stored, for `NonlinearProblem.set_nullspace`: that of a problem whose
        boundary conditions fix derivatives only, of the pressure in an enclosed flow (`constant_modes(W.sub("pressure"))`), and so
        on.

    Raises:
        FormError: for a mixed space.
    """
    if not isinstance(space, SingleSpace):
        raise FormError(f"constant modes of {space}: expected a FunctionSpace, or a field: W.sub(name)")
    vectors = []
    for unit in np.eye(space.num_comp):
        function = Function(space.root)
        (function if space.root is space else function.sub(space.field.name)).interpolate(unit[space.entry_components])
        function.vec.normalize()
        vectors.append(function.vec)
    return PETSc.NullSpace().create(constant=False, vectors=vectors, comm=space.comm)


def rigid_body_modes(space: FunctionSpace) -> PETSc.NullSpace:
    """The translations and infinitesimal rotations of a displacement space, as orthonormal vectors of dofs; collective.

    Args:
        space: a space with as many components as the mesh has dimensions.

    Returns:
        A null space of 1 vector in 1D, 3 in 2D and 6 in 3D, for `NonlinearProblem.set_near_nullspace`, or for `set_nullspace` where
        nothing holds the body.

    Raises:
        FormError: when the space has another number of components, or is none.
    """
    if not isinstance(space, FunctionSpace):
        raise FormError(f"rigid-body modes of {space}: expected a FunctionSpace")
    dim = space.mesh.dim
    if space.num_comp != dim or space.field.symmetric:
        raise FormError(f"{space} has {space.num_comp} components; rigid-body modes need a displacement, with {dim} in {dim}D")
    vectors: list[PETSc.Vec] = []
    # Found once: that takes longer than all modes.
    positions, points = space.nodes()
    for mode in _modes(space):
        function, local = Function(space), np.zeros(space.num_local)
        local[positions[:, None] + np.arange(dim)] = mode(points.T).T
        function.set_local(local)
        vectors.append(_orthonormal(function.vec, vectors))
    return PETSc.NullSpace().create(constant=False, vectors=vectors, comm=space.comm)


def _modes(space: FunctionSpace) -> list[Mode]:
    """Callables of x (dim, num_points) that return displacements of the same shape."""
    dim = space.mesh.dim
    # Around the middle of the mesh: rotations about a distant point are all but translations.
    centre = np.array(space.dm.getBoundingBox()).mean(axis=1)
    translations = [_translation(axis) for axis in range(dim)]
    return translations + [_rotation(first, second, centre) for first, second in itertools.combinations(range(dim), 2)]


def _translation(axis: int) -> Mode:
    def mode(x: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
        values = np.zeros_like(x)
        values[axis] = 1.0
        return values

    return mode


def _rotation(first: int, second: int, centre: npt.NDArray[np.float64]) -> Mode:
    """The rotation in the plane of two axes."""

    def mode(x: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
        values = np.zeros_like(x)
        values[first] = centre[second] - x[second]
        values[second] = x[first] - centre[first]
        return values

    return mode


def _orthonormal(vec: PETSc.Vec, others: list[PETSc.Vec]) -> PETSc.Vec:
    """The vector without its parts along the others, of norm 1; Gram-Schmidt, twice against rounding."""
    for _ in range(2):
        for other, part in zip(others, [vec.dot(other) for other in others], strict=True):
            vec.axpy(-part, other)
        vec.normalize()
    return vec
