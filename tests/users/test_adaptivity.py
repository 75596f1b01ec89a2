"""Local refinement: which cells are marked, what the new mesh is, what is refused, and the rate around a corner."""

from pathlib import Path

import numpy as np
import pytest
import ufl
from driver_modules import adaptive
from petsc4py import PETSc
from random_meshes import random_mesh
from ufl import dS, ds, dx, grad, inner, jump

import femgpu
from femgpu import Constant, Function, FunctionSpace
from femgpu.errors import MeshError
from femgpu.mesh import Mesh
from femgpu.mesh.adapt import _threshold

DATA = Path(__file__).parents[1] / "data"


def squares(dm):
    """Shares that depend on where cells are, not on how they are numbered."""
    u, v = Function(FunctionSpace(dm, "DG", 1)), ufl.TestFunction(FunctionSpace(dm, "DG", 0))
    u.interpolate(lambda x: np.exp(-4 * (x**2).sum(axis=0)))
    return femgpu.assemble(u**2 * v * dx)


@pytest.mark.parallel([1, 3])
@pytest.mark.parametrize(("cell", "counts"), [("triangle", (4, 3)), ("tetrahedron", (2, 2, 2))])
def test_meshes(cell, counts):
    """Twice refined, on ranks as on one: no hanging nodes, regions where they were, functions taken along."""
    sizes = []
    for comm in (PETSc.COMM_SELF, PETSc.COMM_WORLD):
        dm = random_mesh(cell, counts, 3, comm=comm)
        femgpu.mesh.mark(dm, "left", lambda x: x[0] < 1e-9)
        low = femgpu.assemble(Constant(dm, 1.0) * dx(domain=FunctionSpace(dm, "DG", 0).ufl_domain()))
        for _ in range(2):
            before = Function(FunctionSpace(dm, "Lagrange", 2))
            before.interpolate(lambda x: x[0] * x[1] + x[-1] ** 2)
            old, dm = dm, femgpu.mesh.adapt(dm, squares(dm), 0.4)
            assert not old.hasLabel("femgpu_adapt") and not dm.hasLabel("femgpu_adapt")
            u, one = Function(FunctionSpace(dm, "Lagrange", 2)), Constant(dm, 1.0)
            u.interpolate(before)
            x = femgpu.coordinates(dm)
            assert femgpu.assemble((u - x[0] * x[1] - x[len(counts) - 1] ** 2) ** 2 * dx) < 1e-24
            assert femgpu.assemble(inner(jump(grad(u)), jump(grad(u))) * dS) < 1e-22
            assert abs(femgpu.assemble(one * dx) - low) < 1e-12 and abs(femgpu.assemble(one * ds("left")) - 1) < 1e-12
            assert abs(femgpu.assemble(one * ds) - 2 * len(counts)) < 1e-12
        mesh = Mesh.of(dm)
        sizes.append((mesh.mpi.allreduce(mesh.num_cells), u.space.num_dofs))
    assert sizes[0] == sizes[1]


@pytest.mark.parallel([1, 3])
@pytest.mark.parametrize("cell", ["triangle", "quadrilateral"])
def test_discontinuous_functions_are_taken_along(cell, rng):
    """Nodes between two old cells take the value that their own cell sees: what is a polynomial in each stays that."""
    dm = random_mesh(cell, (4, 3), 3)
    for degree in (1, 3):
        old = Function(FunctionSpace(dm, "DG", degree))
        old.vec.setArray(rng.uniform(-1, 1, old.vec.getLocalSize()))
        finer = femgpu.mesh.adapt(dm, squares(dm), 0.4) if cell == "triangle" else femgpu.mesh.refine(dm)
        new = Function(FunctionSpace(finer, "DG", degree))
        new.interpolate(old)
        for power in (1, 2):
            assert femgpu.assemble(new**power * dx) == pytest.approx(femgpu.assemble(old**power * dx), rel=1e-9, abs=1e-9)


@pytest.mark.parallel([1, 3])
def test_marks(rng):
    """The fewest cells that have the fraction; all of several equal ones."""
    mpi = PETSc.COMM_WORLD.tompi4py()
    entries = mpi.bcast(rng.uniform(0, 1, 50) ** 4)
    entries[:7] = entries[7]
    for fraction in (1e-6, 0.3, 0.5, 0.9, 1.0):
        largest = np.sort(entries)[::-1]
        expected = largest[np.searchsorted(largest.cumsum(), fraction * largest.sum() * (1 - 1e-12))]
        assert _threshold(np.array_split(entries, mpi.size)[mpi.rank], fraction, mpi) == expected
    dm = femgpu.mesh.box((4, 4), "triangle")
    one = np.zeros(Mesh.of(dm).num_cells)
    one[: 1 if mpi.rank == 0 else 0] = 1.0
    # the cell in four, and neighbours in two
    assert mpi.allreduce(Mesh.of(femgpu.mesh.adapt(dm, one)).num_cells) in range(32 + 3 + 2, 32 + 3 + 12)


@pytest.mark.parallel([1, 2])
def test_refusals():
    dm = femgpu.mesh.box((2, 2), "triangle")
    ones = np.ones(Mesh.of(dm).num_cells)
    function = Function(FunctionSpace(dm, "DG", 0))
    function.vec.set(1.0)
    assert Mesh.of(femgpu.mesh.adapt(dm, function, 1)).num_cells == 4 * len(ones)
    for mesh, indicator, fraction, said in (
        (femgpu.mesh.box((2, 2), "quadrilateral"), ones, 0.5, "cells of type quadrilateral cannot be refined locally"),
        (femgpu.mesh.box((4, 4), "triangle", periodic=(True, False)), ones, 0.5, "this periodic mesh"),
        (femgpu.mesh.read(DATA / "disk_2.msh"), ones, 0.5, "this curved mesh"),
        (dm, ones[1:], 0.5, "expected one number for each of this rank's"),
        (dm, "much", 0.5, "the indicator is 'much'; expected a number per cell"),
        (dm, -ones, 0.5, "negative or not finite"),
        (dm, 0 * ones, 0.5, "zero everywhere"),
        (dm, ones, 0.0, "fraction 0.0 of the squared error"),
    ):
        with pytest.raises(MeshError, match=said):
            femgpu.mesh.adapt(mesh, indicator, fraction)


@pytest.mark.parametrize(("fraction", "degree", "most", "expected"), [(0.5, 2, 1200, 1.0), (None, 2, 1200, 1 / 3)])
def test_rate_around_a_corner(fraction, degree, most, expected):
    """Of grad u by the dofs; the estimate is as far above it on all meshes."""
    dm = adaptive.cut(femgpu.mesh.box((4, 4), "triangle", comm=PETSc.COMM_SELF))
    found = [(u.space.num_dofs, estimate, error) for u, estimate, error in adaptive.solve(dm, degree, most, fraction)]
    sizes, estimates, errors = np.array(found[len(found) // 2 :]).T
    rate = -np.polyfit(np.log(sizes), np.log(errors), 1)[0]
    print(found, rate)
    assert abs(rate - expected) < 0.15
    assert np.ptp(np.log(estimates / errors)) < 0.3
