"""Functionals, interpolation of expressions, projections and error norms."""

from math import pi, sqrt
from pathlib import Path

import numpy as np
import pytest
import ufl
from random_meshes import ALL_CELLS, MIXED, random_mesh, random_mixed
from ufl import as_vector, div, ds, dx, grad, inner

import femgpu
from femgpu.element import reference_cell
from femgpu.errors import DataError, FormError, MeshError, SolverError
from femgpu.mesh import Mesh, box
from femgpu.spaces import expressions, ufl_mesh

DATA = Path(__file__).parents[1] / "data"
COUNTS = {1: (5,), 2: (3, 3), 3: (2, 2, 2)}
KINDS = (*ALL_CELLS, *MIXED)
pytestmark = pytest.mark.timeout(120)
kinds = pytest.mark.parametrize("kind", KINDS)


def make(kind, seed=0):
    if "+" in kind:
        return random_mixed(kind, (2, 2) if "triangle" in kind else (2, 2, 2), seed)
    return random_mesh(kind, COUNTS[reference_cell(kind).dim], seed)


def random_values(u, seed):
    """Fills a function with values that do not depend on the ranks."""
    u.interpolate(lambda x: np.sin(7 * np.arange(1, u.space.num_comp + 1)[:, None] + seed + 5 * x.sum(axis=0)))
    return u


def stokes(dm):
    """A function of a vector field of degree 2 and a scalar field of degree 1."""
    dim = Mesh.of(dm).dim
    velocity, pressure = femgpu.FunctionSpace(dm, "Lagrange", 2, dim), femgpu.FunctionSpace(dm, "Lagrange", 1)
    return femgpu.Function(femgpu.MixedSpace({"velocity": velocity, "pressure": pressure}), "w")


@pytest.mark.parallel([1, 3])
def test_on_any_number_of_ranks():
    """In one test: ranks take long to start."""
    for kind in ("triangle", "tetrahedron+hexahedron+prism"):
        check_divergence_theorem(kind)
        check_interpolation(kind)
    check_subdomains()
    check_interpolation_of_jumps()
    check_boundary_jumps()
    check_projection()
    check_norms()
    check_failures_of_one_rank()


@kinds
def test_divergence_theorem(kind):
    check_divergence_theorem(kind)


def check_divergence_theorem(kind):
    """Closed surfaces: x.n gives dim times the volume, and a flux the divergence, exactly on distorted cells."""
    dm = make(kind, seed=1)
    dim = Mesh.of(dm).dim
    x, n, one = femgpu.coordinates(dm), ufl.FacetNormal(ufl_mesh(Mesh.of(dm))), femgpu.Constant(dm, 1.0)
    volume = femgpu.assemble(one * dx)
    assert femgpu.assemble(inner(x, n) * ds(degree=4)) == pytest.approx(dim * volume, rel=1e-13)
    w = stokes(dm)
    random_values(w.sub("velocity"), 1)
    random_values(w.sub("pressure"), 2)
    u, p = w.sub("velocity"), w.sub("pressure")
    velocity, pressure = ufl.split(w)
    out = femgpu.assemble(pressure * inner(velocity, n) * ds(degree=8))
    assert abs(out) > 1e-3
    assert femgpu.assemble((p * div(u) + inner(u, grad(p))) * dx(degree=8)) == pytest.approx(out, abs=1e-12)


@pytest.mark.parametrize("name", ["disk_3", "ball_2", "thick_quarter_ring_2"])
def test_volumes_of_curved_cells(name):
    """The degree of the quadrature counts that of det J."""
    dm = femgpu.mesh.read(DATA / f"{name}.msh")
    n, dim = ufl.FacetNormal(ufl_mesh(Mesh.of(dm))), Mesh.of(dm).dim
    volume = femgpu.assemble(femgpu.Constant(dm, 1.0) * dx)
    assert volume == pytest.approx(femgpu.assemble(femgpu.Constant(dm, 1.0) * dx(degree=12)), rel=1e-12)
    assert femgpu.assemble(inner(femgpu.coordinates(dm), n) * ds(degree=12)) == pytest.approx(dim * volume, rel=1e-12)


def test_areas():
    """Of all sides of boxes; distorted inside."""
    for cell in ALL_CELLS:
        dim = reference_cell(cell).dim
        extents = (2.0, 3.0, 5.0)[:dim]
        dm = box(COUNTS[dim], cell=cell, upper=extents)
        one = femgpu.Constant(dm, 1.0)
        normal_axis = {1: (0, 0), 2: (1, 0, 1, 0), 3: (2, 2, 1, 1, 0, 0)}[dim]
        for side, axis in enumerate(normal_axis, start=1):
            expected = np.prod(extents) / extents[axis]
            assert femgpu.assemble(one * ds(side)) == pytest.approx(expected, rel=1e-13), (cell, side)


def check_subdomains():
    dm = box((4, 2, 2), cell="hexahedron")
    mesh = Mesh.of(dm)
    dm.createLabel("Cell Sets")
    centres = mesh.block.physical_points(np.zeros((1, 3)))[:, 0, 0]
    for cell, centre in enumerate(centres):
        dm.setLabelValue("Cell Sets", cell, 1 + int(4 * centre))
    one, x = femgpu.Constant(dm, 1.0), femgpu.coordinates(dm)
    n = ufl.FacetNormal(ufl_mesh(Mesh.of(dm)))
    assert femgpu.assemble(one * dx(1)) == pytest.approx(1 / 4)
    assert femgpu.assemble(one * dx((1, 3)) + 2 * one * dx(4) + one * dx) == pytest.approx(2)
    assert femgpu.assemble(x[0] * dx(2)) == pytest.approx((0.5**2 - 0.25**2) / 2)
    assert femgpu.assemble(x[0] * ds((5, 6)) + one * ds(1) - 3 * one * ds(2)) == pytest.approx(1 - 2)
    assert femgpu.assemble(inner(x, n) * ds(5) + one * dx(1)) == pytest.approx(1.25)
    w = stokes(dm)
    w.sub("velocity").interpolate(x * x[0])
    w.sub("pressure").interpolate(x[0] + x[1])
    flux = inner(w.sub("velocity"), n) * w.sub("pressure")
    assert femgpu.assemble(flux * ds(5) + flux * ds(6)) == pytest.approx(1.5)
    with pytest.raises(MeshError, match=r"no value 77 in label 'Face Sets'.*'Cell Sets': values 1, 2.*'Face Sets': values 1, 2"):
        femgpu.assemble(one * ds(77))
    with pytest.raises(MeshError, match=r"no value 9 in label 'Cell Sets'.*'Cell Sets': values 1, 2, 3, 4"):
        femgpu.assemble(one * dx((1, 9)))
    with pytest.raises(MeshError, match=r"no label 'Cell Sets'; it has 'Face Sets'"):
        femgpu.assemble(femgpu.Constant(box((2, 2), cell="triangle"), 1.0) * dx(1))


@kinds
def test_interpolation(kind):
    check_interpolation(kind)


def check_interpolation(kind):
    """Of functions of other spaces, their first and second derivatives, parts of mixed functions, Constants, conditionals.

    The products of coordinates are functions of degree 2 on every mapped cell, which all derivatives must see through.
    """
    dm = make(kind, seed=2)
    x, first, last = femgpu.coordinates(dm), 0, Mesh.of(dm).dim - 1
    t = femgpu.Constant(dm, 3.0)
    u = femgpu.Function(femgpu.FunctionSpace(dm, "Lagrange", 2), "u")
    u.interpolate(x[first] * x[last])
    check_nodes(u, lambda x: x[0] * x[-1])
    slope = femgpu.Function(femgpu.FunctionSpace(dm, "Lagrange", 1, last + 1))
    slope.interpolate(t * grad(u))
    expected = np.zeros((last + 1, last + 1))
    expected[first, last] += 3
    expected[last, first] += 3
    check_nodes(slope, lambda x: expected @ x)
    bend = femgpu.Function(femgpu.FunctionSpace(dm, "DG", 1, (last + 1, last + 1)))
    bend.interpolate(grad(grad(t * u)))
    check_nodes(bend, lambda x: np.broadcast_to(expected.reshape(-1, 1), (expected.size, x.shape[1])), atol=1e-9)
    w = stokes(dm)
    w.sub("velocity").interpolate(as_vector([(i + 1) * u for i in range(last + 1)]))
    w.sub("pressure").interpolate(w.sub("velocity")[last].dx(first) + t)
    check_nodes(w.sub("pressure").collapse(), lambda x: (last + 1) * (2 if last == 0 else 1) * x[-1] + 3)
    step = femgpu.Function(femgpu.FunctionSpace(dm, "DG", 0))
    step.interpolate(ufl.conditional(ufl.gt(x[0], 0.5), t, ufl.max_value(u, w.sub("velocity")[0])))
    check_nodes(step, lambda x: np.where(x[0] > 0.5, 3, x[0] * x[-1]))
    t.value = -1.0
    step.interpolate(t)
    check_nodes(step, lambda x: np.full(x.shape[1], -1.0))
    step.interpolate(ufl.as_ufl(2.5))
    check_nodes(step, lambda x: np.full(x.shape[1], 2.5))
    u.interpolate(u + u**2)
    check_nodes(u, lambda x: x[0] * x[-1] + (x[0] * x[-1]) ** 2)


def check_nodes(u, expected, atol=1e-12):
    positions, points = u.space.nodes()
    values = u.local_array()[positions[:, None] + np.arange(u.space.num_comp)]
    np.testing.assert_allclose(values, np.reshape(expected(points.T), (u.space.num_comp, len(points))).T, atol=atol)


def test_interpolation_of_cell_quantities():
    dm = random_mesh("triangle", (3, 3))
    domain = ufl_mesh(Mesh.of(dm))
    size = femgpu.Function(femgpu.FunctionSpace(dm, "DG", 0))
    size.interpolate(ufl.CellVolume(domain))
    assert size.vec.sum() == pytest.approx(1)
    size.interpolate(ufl.CellVolume(domain) / ufl.Circumradius(domain) ** 2)
    assert size.vec.max()[1] < 3 * sqrt(3) / 4


def check_interpolation_of_jumps():
    """In a continuous space a node takes the value of one of its cells, and all ranks agree on which."""
    dm = random_mesh("quadrilateral", (4, 4), seed=1)
    jumps = random_values(femgpu.Function(femgpu.FunctionSpace(dm, "DG", 0)), 0)
    u = femgpu.Function(femgpu.FunctionSpace(dm, "Lagrange", 2))
    u.interpolate(jumps)
    known = np.concatenate(u.space.mesh.mpi.allgather(jumps.vec.getArray(readonly=True)))
    assert np.isin(u.local_array(), known).all()
    both = femgpu.Function(u.space)
    both.interpolate(u)
    np.testing.assert_array_equal(both.vec.getArray(), u.vec.getArray())


def everywhere_equal(space, positions, values):
    """Whether ranks that share dofs have the same values for them."""
    numbers = space.root.numbering.global_of_local[positions]
    table = {}
    return all(
        table.setdefault(number, value) == value
        for pairs in space.mesh.mpi.allgather(list(zip(numbers.tolist(), values.tolist(), strict=True)))
        for number, value in pairs
    )


def check_boundary_jumps():
    """The ghost of a boundary node has the value of its owner, which need not have the cell that the ghost's rank would take."""
    dm = random_mesh("triangle", (5, 5), seed=3)
    jumps = random_values(femgpu.Function(femgpu.FunctionSpace(dm, "DG", 0, 2)), 0)
    w = stokes(dm)
    for space, value, component in ((w.space.sub("velocity"), jumps, None), (w.space.sub("velocity"), jumps[1], 0)):
        bc = femgpu.DirichletBC(space, value, component=component)
        assert everywhere_equal(space, bc.local_rows, bc.values())


def test_boundary_values_from_expressions():
    """They follow Constants and Functions at every solve; fields and components of mixed spaces take theirs."""
    dm = box((4, 3), cell="quadrilateral")
    x, t = femgpu.coordinates(dm), femgpu.Constant(dm, 1.0)
    V = femgpu.FunctionSpace(dm, "Lagrange", 1)
    other = femgpu.Function(femgpu.FunctionSpace(dm, "Lagrange", 2))
    other.interpolate(x[1])
    u, v = femgpu.Function(V), ufl.TestFunction(V)
    problem = femgpu.NonlinearProblem(inner(grad(u), grad(v)) * dx, u, femgpu.DirichletBC(V, t * x[0] + other), options_prefix="l_")
    problem.solve()
    assert femgpu.error_norm(u, x[0] + x[1]) < 1e-6
    t.value = 2.0
    other.interpolate(-x[1])
    problem.solve()
    assert femgpu.error_norm(u, 2 * x[0] - x[1]) < 1e-6
    velocity = stokes(dm).space.sub("velocity")
    bc = femgpu.DirichletBC(velocity, grad(x[0] * x[1] * t), 2)
    where = velocity.nodes()[1][np.isin(velocity.nodes()[0], bc.local_rows)]
    np.testing.assert_allclose(bc.values().reshape(-1, 2), 2 * where[:, ::-1], atol=1e-14)
    bc = femgpu.DirichletBC(velocity, other, 2, component=1)
    np.testing.assert_allclose(bc.values(), -where[:, 1], atol=1e-14)


def check_projection():
    """What is in the space comes back; what is not leaves an error that is orthogonal to the space."""
    for kind, shape in (("triangle+quadrilateral", ()), ("tetrahedron", (3,))):
        dm = make(kind)
        x = femgpu.coordinates(dm)
        V = femgpu.FunctionSpace(dm, "Lagrange", 2, shape)
        u, v = random_values(femgpu.Function(V), 3), random_values(femgpu.Function(V), 4)
        rough = ufl.conditional(ufl.gt(x[0], 0.4), 1, ufl.exp(x[1])) * u
        p = femgpu.project(rough, V)
        assert abs(femgpu.assemble(inner(rough - p, v) * dx(degree=6))) < 1e-11
        assert femgpu.error_norm(p, rough) > 1e-2
        np.testing.assert_allclose(femgpu.project(p, V).vec.getArray(), p.vec.getArray(), atol=1e-9)


def test_projection_of_tensors():
    dm = random_mesh("quadrilateral", (3, 3))
    u = random_values(femgpu.Function(femgpu.FunctionSpace(dm, "DG", 1, (2, 2))), 5)
    np.testing.assert_allclose(femgpu.project(u, u.space).vec.getArray(), u.vec.getArray(), atol=1e-9)


def test_projections_of_other_sources():
    dm = random_mesh("triangle", (4, 4))
    x, V = femgpu.coordinates(dm), femgpu.FunctionSpace(dm, "Lagrange", 2)
    vector = femgpu.project(grad(femgpu.project(x[0] ** 2, V)), femgpu.FunctionSpace(dm, "DG", 1, 2))
    assert femgpu.error_norm(vector, as_vector([2 * x[0], 0])) < 1e-10
    smooth = femgpu.project(lambda x: np.exp(x[0]), V)
    assert femgpu.error_norm(smooth, femgpu.project(ufl.exp(x[0]), V)) < 1e-5
    assert femgpu.error_norm(femgpu.project([1, 2], vector.space), (1, 2)) < 1e-11
    assert femgpu.project(0, V).vec.norm() == 0
    assert femgpu.project(x[0], V).name == "projection"


def test_projection_with_conditions_and_options(set_options):
    dm = random_mesh("triangle", (4, 4))
    x, V = femgpu.coordinates(dm), femgpu.FunctionSpace(dm, "Lagrange", 1)
    bc = femgpu.DirichletBC(V, 7.0)
    u = femgpu.project(x[0], V, bc)
    np.testing.assert_array_equal(u.local_array()[bc.local_rows], 7)
    assert 0 < femgpu.error_norm(u, x[0]) < 7
    exact = femgpu.project(ufl.exp(x[0]), V)
    set_options("project_", ksp_rtol=1e-2)
    assert femgpu.error_norm(femgpu.project(ufl.exp(x[0]), V), exact) > 1e-6
    assert femgpu.error_norm(femgpu.project(ufl.exp(x[0]), V, options_prefix="other_"), exact) == 0
    set_options("project_", ksp_rtol=1e-14, ksp_max_it=1)
    with pytest.raises(SolverError, match="KSP_DIVERGED_MAX_IT"):
        femgpu.project(ufl.exp(x[0]), V)


def check_norms():
    """Of x against x^2, whose difference has known norms; by Function, expression, callable, on one and several fields."""
    dm = box((4, 2), cell="quadrilateral")
    x = femgpu.coordinates(dm)
    u = femgpu.Function(femgpu.FunctionSpace(dm, "Lagrange", 1), "u")
    u.interpolate(x[0])
    square = femgpu.Function(femgpu.FunctionSpace(dm, "Lagrange", 2))
    square.interpolate(x[0] ** 2)
    expected = {"L2": sqrt(1 / 30), "H10": sqrt(1 / 3), "H1": sqrt(1 / 30 + 1 / 3)}
    for kind, value in expected.items():
        assert femgpu.error_norm(u, x[0] ** 2, kind) == pytest.approx(value, rel=1e-12)
    assert femgpu.error_norm(u, lambda x: x[0] ** 2, "H1") == pytest.approx(expected["H1"], rel=1e-12)
    assert femgpu.error_norm(square, u) == pytest.approx(expected["L2"], rel=1e-12)
    for exact in (x[0] ** 2, square, lambda x: x[0] ** 2):
        assert 0.2 < femgpu.error_norm(u, exact, "Linf") <= 0.25
        assert femgpu.error_norm(u, exact, "Linf", degree=30) == pytest.approx(0.25, rel=1e-2)
    assert femgpu.error_norm(u**2, x[0] ** 2) < 1e-14
    assert femgpu.error_norm(u, 1, "H1") == pytest.approx(sqrt(4 / 3))
    for kind in ("L2", "H1", "H10", "Linf"):
        assert femgpu.error_norm(u, u, kind) == 0
    w = stokes(dm)
    w.sub("velocity").interpolate(x)
    w.sub("pressure").interpolate(2.0)
    assert femgpu.error_norm(w.sub("velocity"), (0, 0)) == pytest.approx(sqrt(2 / 3))
    assert femgpu.error_norm(w.sub("velocity"), lambda x: 0 * x, "H10") == pytest.approx(sqrt(2))
    assert femgpu.error_norm(w.sub("velocity"), kind="Linf", degree=40) == pytest.approx(sqrt(2), rel=1e-2)
    assert femgpu.error_norm(w.sub("pressure")) == pytest.approx(2)
    assert femgpu.error_norm(w, (0, 0, 2)) == pytest.approx(sqrt(2 / 3))


def test_rates_of_interpolation_and_projection():
    """Degree k: k + 1 in L2, k in H1."""
    for kind, degree, coarse in (("prism", 1, 2), ("quadrilateral", 2, 8)):
        errors = []
        for n in (coarse, 2 * coarse):
            dm = box((n,) * reference_cell(kind).dim, cell=kind)
            x, V = femgpu.coordinates(dm), femgpu.FunctionSpace(dm, "Lagrange", degree)
            exact = ufl.sin(pi * x[0]) * ufl.cos(x[1])
            u, p = femgpu.Function(V), femgpu.project(exact, V)
            u.interpolate(exact)
            errors.append([femgpu.error_norm(f, exact, kind) for f in (u, p) for kind in ("L2", "H1")])
        rates = np.log2(np.divide(*errors))
        np.testing.assert_allclose(rates, [degree + 1, degree, degree + 1, degree], atol=0.25)


def check_failures_of_one_rank():
    """A value that is not finite on one rank is an error on all."""
    dm = random_mesh("triangle", (4, 4))
    x, V = femgpu.coordinates(dm), femgpu.FunctionSpace(dm, "Lagrange", 1)
    u = femgpu.Function(V, "u")
    with pytest.raises(DataError, match=r"values of u are not finite, first at the point \[.*\]: \[nan\]"):
        u.interpolate(ufl.ln(x[0] + x[1] - 0.3))
    with pytest.raises(DataError, match="boundary values are not finite"):
        femgpu.DirichletBC(V, ufl.ln(x[0] + x[1] - 0.3)).values()
    poisoned = femgpu.Function(V, "poisoned")
    if V.numbering.num_owned and V.mesh.mpi.rank == V.mesh.mpi.size - 1:
        poisoned.vec.array[0] = np.nan
    with pytest.raises(DataError, match="coefficient poisoned"):
        femgpu.assemble(poisoned * dx)
    with pytest.raises(DataError, match="coefficient poisoned"):
        femgpu.error_norm(u, poisoned)
    with pytest.raises(DataError, match="error is not finite"):
        femgpu.error_norm(u, poisoned, "Linf")
    with pytest.raises(DataError, match="coefficient poisoned"):
        femgpu.project(poisoned, V)
    with pytest.raises(DataError, match="values of u are not finite"):
        u.interpolate(2 * poisoned)


def test_what_is_refused(monkeypatch):
    dm, elsewhere = box((2, 2), cell="triangle"), box((2, 2), cell="triangle")
    x, far = femgpu.coordinates(dm), femgpu.coordinates(elsewhere)
    V, Q = femgpu.FunctionSpace(dm, "Lagrange", 1), femgpu.FunctionSpace(dm, "Lagrange", 1, 2)
    u, away, w = femgpu.Function(V, "u"), femgpu.Function(femgpu.FunctionSpace(elsewhere, "Lagrange", 1), "away"), stokes(dm)
    with pytest.raises(DataError, match=r"values of u are an expression of shape \(2,\); expected \(\), as P1"):
        u.interpolate(x)
    with pytest.raises(DataError, match=r"expression of shape \(\); expected \(2,\)"):
        w.sub("velocity").interpolate(u)
    with pytest.raises(DataError, match=r"w has several fields; interpolate into each: w.sub\('velocity'\)"):
        w.interpolate(u)
    for foreign in (far[0], away + 1, ufl.SpatialCoordinate(ufl.Mesh(ufl_mesh(V.mesh).ufl_coordinate_element()))[0]):
        with pytest.raises(DataError, match="lives on another mesh"):
            u.interpolate(foreign)
    with pytest.raises(FormError, match="two meshes"):
        u.interpolate(u + away)
    with pytest.raises(FormError, match="FacetNormal"):
        u.interpolate(ufl.FacetNormal(ufl_mesh(Mesh.of(dm)))[0])
    with pytest.raises(FormError, match=r"is a ufl.Constant, which has no values; expected a femgpu.Constant\(dm, value\)"):
        u.interpolate(ufl.Constant(ufl_mesh(V.mesh)))
    with pytest.raises(FormError, match=r"is a ufl.Constant, which has no values"):
        femgpu.assemble(ufl.Constant(ufl_mesh(V.mesh)) * dx)
    with pytest.raises(FormError, match=r"argument v_0"):
        u.interpolate(ufl.TestFunction(V))

    with pytest.raises(DataError, match=r"boundary values are an expression of shape \(\); expected \(2,\)"):
        femgpu.DirichletBC(Q, x[0])
    with pytest.raises(DataError, match=r"boundary values are an expression of shape \(2,\); expected \(\)"):
        femgpu.DirichletBC(Q, x, component=0)
    with pytest.raises(DataError, match="lives on another mesh"):
        femgpu.DirichletBC(V, far[0])

    with pytest.raises(DataError, match="expected a FunctionSpace; project the fields"):
        femgpu.project(x[0], w.space)
    with pytest.raises(DataError, match="expected a FunctionSpace"):
        femgpu.project(x, w.space.sub("velocity"))
    with pytest.raises(DataError, match=r"the expression to project has shape \(2,\); expected \(\)"):
        femgpu.project(x, V)
    with pytest.raises(DataError, match="the expression to project is .* which lives on another mesh"):
        femgpu.project(away, V)
    with pytest.raises(DataError, match="expected a UFL expression, a callable of x or numbers"):
        femgpu.project("x", V)

    with pytest.raises(DataError, match="norm of kind 'l2'; expected one of L2, H1, H10, Linf"):
        femgpu.error_norm(u, 0, "l2")
    with pytest.raises(DataError, match=r"the exact solution has shape \(2,\); expected \(\)"):
        femgpu.error_norm(u, x)
    with pytest.raises(DataError, match=r"the exact solution has shape \(3,\); expected \(2,\)"):
        femgpu.error_norm(x, (1, 2, 3))
    with pytest.raises(DataError, match="the exact solution is away, which lives on another mesh"):
        femgpu.error_norm(u, away)
    for nothing in (1.0, ufl.as_ufl(1.0), lambda x: x):
        with pytest.raises(DataError, match="u is .*expected a Function, or a UFL expression of Functions on one mesh"):
            femgpu.error_norm(nothing, 0)
    with pytest.raises(DataError, match=r"values of the exact solution have shape \(2, "):
        femgpu.error_norm(u, lambda x: x)

    monkeypatch.setattr(expressions, "_maker", None)
    with pytest.raises(FormError, match="import femgpu.forms first"):
        u.interpolate(x[0])


def test_collapsed_fields_stay_on_their_mesh():
    dm = box((2, 2), cell="triangle")
    w = stokes(dm)
    part = w.sub("pressure").collapse()
    assert part.space.mesh is w.space.mesh
    part.interpolate(femgpu.coordinates(dm)[0])
    w.sub("pressure").interpolate(part)
    assert femgpu.error_norm(w.sub("pressure"), part) < 1e-15
