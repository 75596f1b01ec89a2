"""Manufactured solutions of (1 + u^2) diffusion converge in L2 at the rate degree + 1.

Strong form: -div((1 + u^2) grad u) = f in the unit box, u given on its boundary; f from the exact solution
u = 1/2 + sin(k . x + phase), whose wave vector k and phase are random.
Vertices are moved on every mesh, so that no quadrilateral and no hexahedron is affine.
"""

import math

import numpy as np
import pytest
import ufl
from ufl import dx, grad, inner

import femgpu
from femgpu.mesh import Mesh

# Cells per direction of two meshes: the smallest on which the rate has settled.
MESHES = {
    ("triangle", 1): (16, 32),
    ("triangle", 2): (16, 32),
    ("triangle", 3): (16, 32),
    ("triangle", 4): (12, 24),
    ("quadrilateral", 1): (16, 32),
    ("quadrilateral", 2): (16, 32),
    ("quadrilateral", 3): (16, 32),
    ("quadrilateral", 4): (12, 24),
    ("tetrahedron", 1): (6, 12),
    ("tetrahedron", 2): (4, 8),
    ("tetrahedron", 3): (4, 8),
    ("tetrahedron", 4): (4, 7),
    ("hexahedron", 1): (6, 12),
    ("hexahedron", 2): (4, 8),
    ("hexahedron", 3): (4, 8),
    ("hexahedron", 4): (4, 7),
}


# Part of the mesh size by which vertices are moved at random. The error of degree 4 goes with the fifth power of local
# sizes: larger parts make the rate between two meshes a matter of luck.
RANDOM = 0.02


def distorted_box(cell, count, rng):
    """A box whose vertices are moved smoothly, and by a part of the mesh size at random; those on a side stay on it."""
    dim = 2 if cell in ("triangle", "quadrilateral") else 3
    dm = femgpu.mesh.box((count,) * dim, cell=cell)
    local = dm.getCoordinatesLocal()
    x = local.getArray().reshape(-1, dim).copy()
    inside = (x > 1e-9) & (x < 1 - 1e-9)
    smooth = 0.04 * np.sin(np.pi * x) * np.cos(np.pi * x[:, [*range(1, dim), 0]])
    local.setArray((x + (smooth + RANDOM / count * rng.uniform(-1, 1, x.shape)) * inside).ravel())
    dm.setCoordinatesLocal(local)
    return dm


def error(cell, degree, count, wave, phase, rng, set_options):
    dm = distorted_box(cell, count, rng)
    assert Mesh.of(dm).reference.is_simplex or not Mesh.of(dm).block.affine.any()
    V = femgpu.FunctionSpace(dm, "Lagrange", degree)
    u, v, x = femgpu.Function(V), ufl.TestFunction(V), femgpu.coordinates(dm)
    k, shift = femgpu.Constant(dm, wave), femgpu.Constant(dm, phase)
    exact = 0.5 + ufl.sin(ufl.dot(k, x) + shift)
    f = -ufl.div((1 + exact**2) * grad(exact))
    F = (inner((1 + u**2) * grad(u), grad(v)) - f * v) * dx(degree=2 * degree + 1)
    bc = femgpu.DirichletBC(V, lambda x: 0.5 + np.sin(wave @ x + phase), "boundary")
    u.interpolate(0.5)
    set_options("mms_", femgpu_jacobian="assembled", snes_rtol=1e-13, snes_atol=1e-13, ksp_rtol=1e-9, ksp_type="gmres")
    set_options("mms_", pc_type="lu" if len(wave) == 2 else "ilu", snes_stol=0)
    femgpu.NonlinearProblem(F, u, bcs=[bc], options_prefix="mms_").solve()
    return math.sqrt(femgpu.assemble((u - exact) ** 2 * dx(degree=2 * degree + 2)))


@pytest.mark.parametrize(("cell", "degree"), MESHES)
def test_rate(rng, set_options, cell, degree):
    dim = 2 if cell in ("triangle", "quadrilateral") else 3
    wave = rng.uniform(0.8, 1.3, dim) * rng.choice([-1, 1], dim)
    phase = float(rng.uniform(0, 2 * np.pi))
    coarse, fine = MESHES[cell, degree]
    errors = [error(cell, degree, count, wave, phase, rng, set_options) for count in (coarse, fine)]
    rate = math.log(errors[0] / errors[1]) / math.log(fine / coarse)
    print(cell, degree, wave, phase, errors, rate)
    assert abs(rate - (degree + 1)) <= 0.15


def lumped_error(cell, degree, scheme, count, wave, phase, rng, set_options):
    """-div grad u + u = f with du/dn + u = g, every integral by one rule."""
    dm = distorted_box(cell, count, rng)
    V = femgpu.FunctionSpace(dm, "Lagrange", degree)
    u, v, x, n = femgpu.Function(V), ufl.TestFunction(V), femgpu.coordinates(dm), ufl.FacetNormal(V)
    k, shift = femgpu.Constant(dm, wave), femgpu.Constant(dm, phase)
    exact = 0.5 + ufl.sin(ufl.dot(k, x) + shift)
    cells, facets = dx(scheme=scheme), ufl.ds(scheme=scheme)
    F = (inner(grad(u), grad(v)) + (u + ufl.div(grad(exact)) - exact) * v) * cells
    F += (u - ufl.dot(grad(exact), n) - exact) * v * facets
    set_options("lumped_", snes_type="ksponly", ksp_rtol=1e-10, ksp_type="cg", pc_type="jacobi")
    femgpu.NonlinearProblem(F, u, options_prefix="lumped_").solve()
    return math.sqrt(femgpu.assemble((u - exact) ** 2 * dx(degree=2 * degree + 2)))


@pytest.mark.parametrize(
    ("cell", "degree", "scheme", "counts"),
    [
        ("triangle", 1, "vertex", (12, 24)),
        ("tetrahedron", 1, "vertex", (6, 12)),
        ("quadrilateral", 1, "vertex", (12, 24)),
        ("quadrilateral", 3, "GLL", (8, 16)),
        ("hexahedron", 2, "GLL", (4, 8)),
    ],
)
def test_rate_with_points_at_the_nodes(rng, set_options, cell, degree, scheme, counts):
    """Lumped masses, loads and boundary terms lose nothing of the rate."""
    dim = 2 if cell in ("triangle", "quadrilateral") else 3
    wave = rng.uniform(0.8, 1.3, dim) * rng.choice([-1, 1], dim)
    phase = float(rng.uniform(0, 2 * np.pi))
    errors = [lumped_error(cell, degree, scheme, count, wave, phase, rng, set_options) for count in counts]
    rate = math.log(errors[0] / errors[1]) / math.log(counts[1] / counts[0])
    print(cell, degree, scheme, wave, phase, errors, rate)
    assert abs(rate - (degree + 1)) <= 0.15
