"""Coordinates that change after spaces and problems were made, on 1 and 2 ranks: everything follows."""

from pathlib import Path

import numpy as np
import pytest
import ufl
from mpi4py.MPI import MAX
from ufl import ds, dx, grad, inner

import femgpu
from femgpu.errors import DataError, MeshError
from femgpu.mesh import Mesh

ranks = pytest.mark.parallel([1, 2])

DISK = Path(__file__).parents[1] / "data" / "disk_2.msh"


def problem_on(dm, prefix):
    """Reads coordinates in all ways: gradients, x, facets, sizes and maps of cells, boundary values; stores geometry and state."""
    V = femgpu.FunctionSpace(dm, "Lagrange", 1)
    u, v, x = femgpu.Function(V), ufl.TestFunction(V), femgpu.coordinates(dm)
    domain = ufl.domain.extract_unique_domain(x)
    h = ufl.CellVolume(domain) * ufl.tr(ufl.JacobianInverse(domain)) ** 2
    F = inner((1 + u * u) * grad(u), grad(v)) * dx - (1 + h) * v * dx - x[0] * v * ds
    return femgpu.NonlinearProblem(F, u, femgpu.DirichletBC(V, lambda x: np.sin(x[0]), 1), options_prefix=prefix)


def solution(problem):
    problem.u.vec.set(0)
    return problem.solve().vec.array_r.copy()


def points(dm):
    return dm.getCoordinatesLocal().array_r.reshape(-1, dm.getDimension()).copy()


def replaced(dm, x):
    local = dm.getCoordinatesLocal().duplicate()
    local.setArray(x.ravel())
    dm.setCoordinatesLocal(local)


def in_place(dm, x):
    dm.getCoordinatesLocal().array[:] = x.ravel()


def by_global_vector(dm, x):
    replaced(other := dm.clone(), x)
    dm.setCoordinates(other.getCoordinates().copy())


WAYS = {
    "the user's DM, replaced": (replaced, lambda dm, V: dm),
    "the user's DM, in place": (in_place, lambda dm, V: dm),
    "the space's DM, replaced": (replaced, lambda dm, V: V.dm),
    "the user's DM, global vector": (by_global_vector, lambda dm, V: dm),
    "the space's DM, in place": (in_place, lambda dm, V: V.dm),
}


@ranks
@pytest.mark.parametrize("jacobian", ["matfree", "assembled"])
def test_motion_loop(set_options, jacobian):
    """Each step moves another vector; the first bends cells that were affine. A problem made anew says the same."""
    set_options("moving_", femgpu_jacobian=jacobian, femgpu_qdata="store", femgpu_geometry="stored", ksp_rtol=1e-12)
    dm = femgpu.mesh.box((4, 3), cell="quadrilateral")
    problem, start = problem_on(dm, "moving_"), points(dm)
    before = solution(problem)
    for step, (name, (move, holder)) in enumerate(WAYS.items(), 1):
        x = start * [1 + 0.1 * step, 1.0]
        x[:, 1] += 0.05 * step * x[:, 0] * x[:, 1]
        move(holder(dm, problem.u.space), x)
        fresh = dm.clone()  # another box may be distributed in another way
        replaced(fresh, x)
        found, expected = solution(problem), solution(problem_on(fresh, "moving_"))
        np.testing.assert_allclose(found, expected, rtol=0, atol=1e-9, err_msg=name)
        assert problem.u.space.comm.tompi4py().allreduce(np.abs(found - before).max(initial=0)) > 1e-3, name
        np.testing.assert_array_equal(points(dm), x)
        before = found
    motion = problem.u.space.mesh.motion
    assert (motion.moves, motion.bends) == (len(WAYS), 1)


@ranks
def test_functionals_follow():
    """What was made once sees other coefficients, constants and coordinates as what is made anew; cells may stop being affine."""
    dm = femgpu.mesh.box((4, 3), cell="quadrilateral")
    V = femgpu.FunctionSpace(dm, "Lagrange", 2)
    u, c, x, start = femgpu.Function(V), femgpu.Constant(dm, 1.0), femgpu.coordinates(dm), points(dm)
    form = (c * u**2 + x[0]) * dx + u * ds
    kept, errors = femgpu.Functional(form), {kind: femgpu.ErrorNorm(u, c * x[1], kind) for kind in ("L2", "Linf")}
    shift = [0.0]
    called = femgpu.ErrorNorm(u, lambda x: (x[0] + shift[0]) ** 2)
    stretched, bent = start * [2.0, 1.0], start.copy()
    bent[:, 1] += 0.3 * start[:, 0] * start[:, 1]
    seen = []
    for step, place in enumerate((start, stretched, bent, bent * 2)):
        replaced(dm, place)
        u.interpolate(lambda x, step=step: np.sin(x[0] + step))
        c.value = 1.0 + step
        seen.append(kept.value())
        assert seen[-1] == pytest.approx(femgpu.assemble(form), rel=1e-13)
        for kind, error in errors.items():
            assert error.value() == pytest.approx(femgpu.error_norm(u, c * x[1], kind), rel=1e-13), kind
        shift[0] = step
        assert called.value() == pytest.approx(femgpu.error_norm(u, (x[0] + step) ** 2, degree=12), rel=1e-10)
    assert np.ptp(seen) > 1 and len(set(seen)) == len(seen)


@ranks
def test_affine_cells_stay_affine():
    """Nothing is built anew for cells that are affine whatever happens, and nothing is read where nobody wrote."""
    dm = femgpu.mesh.box((3, 3), cell="triangle")
    problem = problem_on(dm, "")
    solution(problem)
    built = problem.operator.local.applications["action"]
    replaced(dm, points(dm) ** 2)
    solution(problem)
    assert problem.operator.local.applications["action"] is built
    if dm.comm.rank == 0:
        assert len(dm.getCoordinatesLocal().array)  # asks for write access
    solution(problem)
    assert Mesh.of(dm).motion.moves == 1


@ranks
@pytest.mark.parametrize("cell", ["triangle", "prism"])
def test_functions_and_functionals_follow(cell):
    dm = femgpu.mesh.box((2,) * (2 if cell == "triangle" else 3), cell=cell)
    V = femgpu.FunctionSpace(dm, "Lagrange", 2)
    u, x = femgpu.Function(V), femgpu.coordinates(dm)
    bc = femgpu.DirichletBC(V, lambda x: x[0])
    one = femgpu.Constant(dm, 1.0) * dx
    size = ufl.CellVolume(ufl.domain.extract_unique_domain(x)) * dx

    def values():
        u.interpolate(lambda x: x[0])
        far = u.vec.max()[1]
        u.interpolate(x[0])
        at = u.evaluate(np.full((1, dm.getDimension()), 0.75))[0]
        reach = dm.comm.tompi4py().allreduce(bc.values().max(initial=0), MAX)
        return [femgpu.assemble(one), femgpu.assemble(size), far, u.vec.max()[1], at, reach]

    first = np.array(values())
    in_place(V.dm, 2 * points(V.dm))
    factor = 2.0 ** dm.getDimension()
    np.testing.assert_allclose(values(), first * [factor, factor**2, 2, 2, 1, 2], rtol=1e-13)
    assert V.nodes()[1].max(initial=0) == points(dm).max(initial=0)


@ranks
def test_curved_and_periodic_meshes():
    disk = femgpu.mesh.read(DISK)
    area = femgpu.Constant(disk, 1.0) * dx
    before = femgpu.assemble(area)
    in_place(disk, 2 * points(disk))
    assert femgpu.assemble(area) == pytest.approx(4 * before)
    ring = femgpu.mesh.box((4, 3), cell="triangle", periodic=(True, False))
    V = femgpu.FunctionSpace(ring, "Lagrange", 1)
    area = femgpu.Constant(ring, 1.0) * dx
    stretch = np.array([1.0, 3.0])
    in_place(ring, points(ring) * stretch)
    with pytest.raises(MeshError, match="across the period were not; expected both"):
        femgpu.assemble(area)
    cells = ring.getCellCoordinatesLocal()
    cells.array[:] = (cells.array_r.reshape(-1, 2) * stretch).ravel()
    assert femgpu.assemble(area) == pytest.approx(3.0)
    assert V.nodes()[1].max(initial=3.0) == 3.0


@ranks
def test_motions_that_are_refused():
    """On all ranks; the mesh stays where it was, and a legal motion is taken afterwards."""
    dm = femgpu.mesh.box((3, 3), cell="quadrilateral")
    V, area = femgpu.FunctionSpace(dm, "Lagrange", 1), femgpu.Constant(dm, 1.0) * dx
    start = points(dm)
    for x, text in ((start * [-1.0, 1.0], "inverted or collapsed"), (start + np.nan, "not finite")):
        replaced(dm, x)
        for _ in range(2):
            with pytest.raises(MeshError, match=text):
                femgpu.assemble(area)
    replaced(dm, 2 * start)
    replaced(V.dm, 3 * start)
    with pytest.raises(MeshError, match="changed in two ways"):
        femgpu.assemble(area)
    replaced(dm, 3 * start)
    assert femgpu.assemble(area) == pytest.approx(9.0)
    dm.createCoordinateSpace(2, False, True)
    with pytest.raises(MeshError, match="coordinates of the same degree"):
        femgpu.assemble(area)
    assert femgpu.assemble(femgpu.Constant(dm, 2.0) * dx) == pytest.approx(18.0)  # a new mesh


def test_restart_of_a_mesh_that_moved(tmp_path):
    def heat(dm):
        u = femgpu.Function(femgpu.FunctionSpace(dm, "Lagrange", 1))
        v = ufl.TestFunction(u.space)
        return femgpu.TimeProblem(
            (femgpu.time_derivative(u) * v + inner(grad(u), grad(v)) - v) * dx, u, femgpu.DirichletBC(u.space, 0.0)
        )

    dm, path = femgpu.mesh.box((3, 3)), tmp_path / "heat.h5"
    problem = heat(dm)
    problem.checkpoint(path, every=2)
    replaced(dm, 1.25 * points(dm))
    expected = problem.solve(t_end=0.2, dt=0.1).vec.norm()
    with pytest.raises(DataError, match="before or after this one moved: 54 of 54 nodes of u, counted in each cell"):
        heat(femgpu.mesh.box((3, 3))).restart(path)
    again = heat(femgpu.mesh.read(path))
    again.restart(path)
    assert again.u.vec.norm() == pytest.approx(expected, rel=1e-14)


@ranks
@pytest.mark.parametrize("jacobian", ["matfree", "assembled"])
def test_jacobian_after_a_motion(set_options, jacobian):
    """Whoever asks for it after the mesh or a constant has changed gets that of now, at the state that was given."""
    set_options("asked_", femgpu_jacobian=jacobian)

    def make(dm):
        V = femgpu.FunctionSpace(dm, "Lagrange", 1)
        u, v, c = femgpu.Function(V), ufl.TestFunction(V), femgpu.Constant(dm, 1.0)
        u.interpolate(lambda x: np.sin(3 * x[0]))
        return femgpu.NonlinearProblem(inner((c + u * u) * grad(u), grad(v)) * dx, u, options_prefix="asked_"), c

    def product(problem):
        w, y = problem.u.vec.duplicate(), problem.u.vec.duplicate()
        w.setArray(np.cos(np.arange(*w.getOwnershipRange())))
        problem.jacobian.mult(w, y)
        return y.array_r.copy()

    dm = femgpu.mesh.box((3, 3), cell="quadrilateral")
    problem, c = make(dm)
    fresh, other = make(copy := dm.clone())
    replaced(copy, points(dm))
    state = problem.u.vec.copy()
    before = product(problem)
    problem.linearise(state)
    problem.u.assign(7.0)  # not the state of the Jacobian
    for change in (
        lambda: [replaced(each, points(each) * [1.5, 1.0]) for each in (dm, copy)],
        lambda: (setattr(c, "value", 3.0), setattr(other, "value", 3.0)),
    ):
        change()
        fresh.linearise(state)
        found = product(problem)
        np.testing.assert_allclose(found, product(fresh), rtol=0, atol=1e-13)
        assert dm.comm.tompi4py().allreduce(np.abs(found - before).max(initial=0), op=MAX) > 1e-3
        before = found


@ranks
def test_coordinates_written_in_the_global_vector():
    """PETSc looks at the local one alone; the mesh follows both, whichever was written last."""
    dm = femgpu.mesh.box((3, 3), cell="triangle")
    area = femgpu.Constant(dm, 1.0) * dx
    assert femgpu.assemble(area) == pytest.approx(1.0)
    kept = dm.getCoordinates()
    for size in (4.0, 16.0):
        kept.array[:] *= 2.0
        assert femgpu.assemble(area) == pytest.approx(size)
    replaced(dm, 0.5 * points(dm))
    assert femgpu.assemble(area) == pytest.approx(4.0)
    dm.getCoordinates().array[:] *= 2.0
    assert femgpu.assemble(area) == pytest.approx(16.0)
