"""Manufactured solutions of (1 + u^2) diffusion converge in L2 at the rate degree + 1.

Strong form: -div((1 + u^2) grad u) = f in the unit box, u given on its boundary; f from the exact solution
u = 1/2 + sin(k . x + phase), whose wave vector k and phase are random.
Vertices are moved by a fixed fraction of the mesh size on every mesh, so that quadrilaterals and hexahedra stay non-affine.
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
    ("tetrahedron", 4): (3, 6),
    ("hexahedron", 1): (6, 12),
    ("hexahedron", 2): (4, 8),
    ("hexahedron", 3): (4, 8),
    ("hexahedron", 4): (3, 6),
}


def distorted_box(cell, count):
    """A box whose vertices are moved by up to a tenth of the mesh size, without order; those on a side stay on it."""
    dim = 2 if cell in ("triangle", "quadrilateral") else 3
    dm = femgpu.mesh.box((count,) * dim, cell=cell)
    local = dm.getCoordinatesLocal()
    x = local.getArray().reshape(-1, dim).copy()
    inside = (x > 1e-9) & (x < 1 - 1e-9)
    # Waves shorter than the mesh size look random at its vertices, and are the same on all ranks.
    waves = np.array([[37.0, 11.0, 23.0], [19.0, 41.0, 13.0], [17.0, 29.0, 43.0]])[:dim, :dim]
    moved = x + 0.1 / count * np.sin(count * x @ waves.T + np.arange(dim)) * inside
    local.setArray(moved.ravel())
    dm.setCoordinatesLocal(local)
    return dm


def error(cell, degree, count, wave, phase, set_options):
    dm = distorted_box(cell, count)
    assert Mesh.of(dm).reference.is_simplex or not Mesh.of(dm).affine.any()
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
    wave = rng.uniform(1.0, 2.0, dim) * rng.choice([-1, 1], dim)
    phase = float(rng.uniform(0, 2 * np.pi))
    coarse, fine = MESHES[cell, degree]
    errors = [error(cell, degree, count, wave, phase, set_options) for count in (coarse, fine)]
    rate = math.log(errors[0] / errors[1]) / math.log(fine / coarse)
    print(cell, degree, wave, phase, errors, rate)
    assert abs(rate - (degree + 1)) <= 0.15
