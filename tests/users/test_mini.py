"""Problems whose functions have bubbles."""

import numpy as np
import pytest
import ufl
from petsc4py import PETSc
from random_meshes import random_cells
from ufl import div, ds, dx, grad, inner, sym

import femgpu
from femgpu.errors import FormError, OptionError


def mini(dm):
    """Velocity and pressure of the Mini element."""
    dim = dm.getDimension()
    return femgpu.MixedSpace({"u": femgpu.FunctionSpace(dm, "P+B", 1, dim), "p": femgpu.FunctionSpace(dm, "Lagrange", 1)})


@pytest.mark.parametrize(("cell", "count"), [("triangle", 23), ("tetrahedron", 17)])
def test_stokes_matrix_is_scikit_fem_s(cell, count, rng):
    """There the functions of vertices have no zero at the middle: ours are those less a part of the bubble."""
    skfem = pytest.importorskip("skfem")
    from skfem.helpers import ddot, dot, sym_grad
    from skfem.helpers import div as sk_div

    W = mini(random_cells(cell, count, rng))
    x = ufl.SpatialCoordinate(W.ufl_domain())
    (u, p), (v, q) = ufl.split(ufl.TrialFunction(W)), ufl.split(ufl.TestFunction(W))
    form = (2 * (2 + x[0]) * inner(sym(grad(u)), sym(grad(v))) + inner(u, v) - p * div(v) - q * div(u)) * dx
    found = femgpu.assemble(form + x[1] * inner(u, v) * ds)

    vertices_of = W.sub("p").collapse()
    positions, points = vertices_of.nodes()
    np.testing.assert_array_equal(positions, np.arange(len(points)))
    make = {"triangle": (skfem.MeshTri, skfem.ElementTriMini), "tetrahedron": (skfem.MeshTet, skfem.ElementTetMini)}[cell]
    mesh = make[0](points.T.copy(), vertices_of.offsets.T.copy())
    elements = skfem.ElementVector(make[1]()), mesh.elem()
    velocity, pressure = (skfem.Basis(mesh, element, intorder=9) for element in elements)
    outside = skfem.FacetBasis(mesh, elements[0], intorder=9)

    @skfem.BilinearForm
    def viscous(u, v, w):
        return 2 * (2 + w.x[0]) * ddot(sym_grad(u), sym_grad(v)) + dot(u, v)

    @skfem.BilinearForm
    def divergence(u, q, w):
        return -q * sk_div(u)

    @skfem.BilinearForm
    def friction(u, v, w):
        return w.x[1] * dot(u, v)

    block = viscous.assemble(velocity) + friction.assemble(outside)
    coupling = divergence.assemble(velocity, pressure).toarray()
    # Positions of our dofs, and their functions as combinations of scikit-fem's.
    dim, at = W.mesh.dim, W.sub("u").offsets
    change = np.zeros((velocity.N, W.num_dofs))
    for component in range(dim):
        bubbles, vertices = velocity.interior_dofs[component], velocity.nodal_dofs[component]
        change[bubbles, at[:, 0] + component] = 1
        for node in range(dim + 1):
            change[vertices[vertices_of.offsets[:, node]], at[:, 1 + node] + component] = 1
            change[bubbles, at[:, 1 + node] + component] = -1 / (dim + 1)
    scalar = np.zeros((pressure.N, W.num_dofs))
    scalar[vertices_of.offsets, W.sub("p").offsets] = 1
    mixed = scalar.T @ coupling @ change
    expected = change.T @ block.toarray() @ change + mixed + mixed.T
    rows = np.arange(W.num_dofs, dtype=PETSc.IntType)
    difference = found.getValues(rows, rows) - expected
    assert np.abs(difference).max() <= 1e-12 * np.abs(expected).max()


@pytest.mark.parametrize(("cell", "degree"), [("triangle", 1), ("tetrahedron", 3)])
def test_poisson(cell, degree, rng, set_options):
    """Polynomials of the degree are found exactly, and multigrid, whose first coarse level has no bubbles, needs few iterations."""
    counts = (4, 4) if cell == "triangle" else (1, 2, 1)
    dm = femgpu.mesh.box(counts, cell=cell, comm=PETSc.COMM_SELF)
    if degree == 1:
        dm = femgpu.mesh.refine(dm)
    V = femgpu.FunctionSpace(dm, "P+B", degree)
    x, a = ufl.SpatialCoordinate(V.ufl_domain()), rng.uniform(0.5, 1.5, len(counts))
    line = sum(float(each) * entry for each, entry in zip(a, x, strict=True))
    exact = line**degree + line
    u, v = femgpu.Function(V), ufl.TestFunction(V)
    F = inner(grad(u), grad(v)) * dx + div(grad(exact)) * v * dx
    options = {"ksp_type": "cg", "ksp_rtol": 1e-13, "pc_type": "python", "pc_python_type": "femgpu.PMG", "snes_type": "ksponly"}
    problem = femgpu.NonlinearProblem(F, u, [femgpu.DirichletBC(V, exact, "boundary")], petsc_options=options)
    problem.solve()
    nodal = femgpu.Function(V)
    nodal.interpolate(exact)
    np.testing.assert_allclose(u.vec.array, nodal.vec.array, atol=1e-10)
    assert problem.snes.getLinearSolveIterations() <= 25
    levels = problem.snes.getKSP().getPC().getPythonContext().levels
    assert levels[0][:2] == (f"degree {V.degree}", V.num_dofs)


def test_multigrid_refuses():
    dm = femgpu.mesh.box((2, 2), cell="triangle", comm=PETSc.COMM_SELF)
    V, W = femgpu.FunctionSpace(dm, "P+B", 1), mini(dm)
    u, w = femgpu.Function(V), femgpu.Function(W)
    options = {"ksp_type": "cg", "pc_type": "python", "pc_python_type": "femgpu.PMG"}
    F, bc = inner(grad(u), grad(ufl.TestFunction(V))) * dx - ufl.TestFunction(V) * dx, femgpu.DirichletBC(V, 0.0)
    with pytest.raises(OptionError, match="pmg_degrees 2,1: the form's space has degree 1 with bubbles; expected lower ones"):
        femgpu.NonlinearProblem(F, u, bc, petsc_options=options | {"pc_femgpu_pmg_degrees": "2,1"}).solve()
    z = ufl.TestFunction(W)
    with pytest.raises(FormError, match="fields of one degree"):
        femgpu.NonlinearProblem(inner(w, z) * dx - z[0] * dx, w, petsc_options=options).solve()
