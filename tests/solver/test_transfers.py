"""Transfers between levels of multigrid: their kernels against matrices, and against their own transposes."""

from dataclasses import replace

import numpy as np
import pytest
from level_matrices import matrix_between
from petsc4py import PETSc
from random_meshes import ALL_CELLS, MIXED, random_mesh, random_mixed

import femgpu
from femgpu import runtime
from femgpu.errors import PlanError
from femgpu.krylov import Vectors
from femgpu.operators import Interpolation, Nesting, interpolation
from femgpu.operators.interpolation import ABSENT
from femgpu.solver.level_transfer import prescribed
from femgpu.spaces import injection, nested, refined

DTYPES = {"double": np.float64, "float": np.float32}


def random(cell, count=2):
    dim = {"interval": 1, "triangle": 2, "quadrilateral": 2}.get(cell, 3)
    return random_mesh(cell, (count,) * dim, 3)


def spaces(dm, coarse, fine, shape=()):
    return (femgpu.FunctionSpace(dm, "Lagrange", degree, shape) for degree in (coarse, fine))


def check(parts, matrix, types=("double", "double"), atomic=False):
    """Both directions, and what is prescribed, with random rows: free, prescribed and absent ones."""
    rng, device = np.random.default_rng(1), runtime.current()
    count, coarse_count = matrix.shape
    kind, absent = rng.integers(0, 4, count), rng.random(count) < 0.2
    # Components of a node mostly stand together.
    places = np.arange(3, count + 3, dtype=np.int32)
    places[:9] = rng.permutation(places[:9])
    rows = np.where(absent, ABSENT, np.where(kind == 0, ~places, places)).astype(np.int32)
    zero = (rng.random(coarse_count) < 0.3).astype(np.uint8)
    nesting = Nesting(device, parts, coarse_count, count)
    marked = (rng.random(count) < 0.05).astype(np.uint8)
    np.testing.assert_array_equal(nesting.reached(marked), (matrix[marked != 0] != 0).any(axis=0))
    transfer = Interpolation(nesting, rows, zero, types, atomic)
    fine_type, coarse_type = (DTYPES[name] for name in types)
    tolerance = 1e-13 if types == ("double", "double") else 1e-5
    exact = matrix * (rows >= 0)[:, None] * (zero == 0)
    x, r = rng.standard_normal(coarse_count).astype(coarse_type), rng.standard_normal(count + 3).astype(fine_type)
    given, residual = device.upload(x), device.upload(r)
    before = np.full(count + 3, 7, fine_type)
    fine, coarse = device.upload(before), device.upload(np.full(coarse_count, np.nan, coarse_type))
    for _ in range(2):
        for call in [*transfer.bind_prolong(given, fine), *transfer.bind_restrict(residual, coarse)]:
            call()
    made, back = device.read(fine, before.copy()), device.read(coarse, np.empty(coarse_count, coarse_type))
    wanted = before.copy()
    wanted[places[~absent]] = (exact @ x)[~absent]
    np.testing.assert_allclose(made, wanted, atol=tolerance * np.abs(x).max() * np.abs(matrix).sum(1).max())
    np.testing.assert_allclose(back, exact.T @ r[places], atol=tolerance * np.abs(r).max() * np.abs(matrix).sum(0).max())
    assert not back[zero != 0].any()
    present = places[~absent]
    assert r[present] @ made[present] == pytest.approx(x @ back, abs=tolerance * count)
    return back


@pytest.mark.parametrize("cell", ALL_CELLS)
def test_kernels_are_the_matrices(cell):
    """Cells and frames numbered at random, so that edges and faces of degree 3 and 4 have all orientations."""
    for degrees, shape in (((2, 4), ()), ((1, 3), 2)):
        coarse, fine = spaces(random(cell), *degrees, shape)
        matrix = matrix_between(coarse, fine)
        parts = nested(coarse, fine)
        assert (parts[0].dim > 1) == (cell in ("quadrilateral", "hexahedron"))
        check(parts, matrix)
        if degrees == (2, 4):
            check(parts, matrix, ("float", "float"), atomic=True)
        else:
            np.testing.assert_allclose(matrix[injection(parts, coarse.num_local)], np.eye(coarse.num_local), atol=1e-13)


@pytest.mark.parametrize("kind", MIXED[:1] + MIXED[3:])
def test_mixed_cells_and_several_fields(kind):
    dm = random_mixed(kind, (2,) * (2 if kind == MIXED[0] else 3))
    made = []
    for degree in (1, 2):
        fields = {"a": femgpu.FunctionSpace(dm, "Lagrange", degree), "b": femgpu.FunctionSpace(dm, "Lagrange", degree, 2)}
        made.append(femgpu.MixedSpace(fields))
    check(nested(*made), matrix_between(*made), ("float", "double"))


def test_coarser_meshes_and_periods():
    for cell, shape in (("tetrahedron", 3), ("prism", ()), ("hexahedron", ())):
        dm = random(cell, 1)
        coarse, fine = (femgpu.FunctionSpace(mesh, "Lagrange", 1, shape) for mesh in (dm, femgpu.mesh.refine(dm)))
        parts = refined(coarse, fine)
        assert (parts[0].dim > 1) == (cell == "hexahedron")
        check(parts, matrix_between(coarse, fine, children=True))
    dm = femgpu.mesh.box((3, 2), cell="quadrilateral", periodic=(True, False))
    coarse, fine = spaces(dm, 1, 2)
    check(nested(coarse, fine), matrix_between(coarse, fine))


def test_groups_of_items_give_the_same(monkeypatch):
    """As on a GPU, where items share cells; the last group has fewer."""
    for cell, degrees in (("hexahedron", (2, 3)), ("quadrilateral", (1, 2)), ("triangle", (1, 2))):
        coarse, fine = spaces(random(cell), *degrees, 2)
        parts, matrix, found = nested(coarse, fine), matrix_between(coarse, fine), []
        for group in ((1, 2), (8, 3)):
            monkeypatch.setattr(interpolation, "_group", lambda *_, group=group: group)
            found.append(check(parts, matrix, atomic=True))
        np.testing.assert_allclose(*found, rtol=1e-12, atol=1e-13)


@pytest.mark.parallel([1, 3])
def test_ranks_agree_about_what_is_prescribed():
    """A coarse dof is prescribed where its function does not vanish at a prescribed fine one, on whichever rank."""
    dm = femgpu.mesh.box((3, 3), cell="triangle")
    coarse, fine = spaces(dm, 1, 2)
    mask = np.zeros(fine.num_local, np.uint8)
    positions, where = fine.nodes()
    mask[positions[np.abs(where[:, 0]) < 1e-9]] = 1
    # One node in the middle of an edge, too.
    mask[positions[np.abs(where - [5 / 6, 1 / 3]).max(axis=1) < 1e-9]] = 1
    nesting = Nesting(runtime.current(), nested(coarse, fine), coarse.num_local, fine.num_local)
    positions, where = coarse.nodes()
    expected = (where[:, 0] < 1e-9) | (np.abs(where - [5 / 6, 1 / 3]).max(axis=1) < 0.17)
    wanted = positions[expected & ((where[:, 0] < 1e-9) | (np.abs(where[:, 1] - 1 / 3) < 1e-9))]
    assert PETSc.COMM_WORLD.size > 1 or len(wanted) == 6
    np.testing.assert_array_equal(prescribed(coarse, nesting, mask), np.sort(wanted))


def test_cells_that_are_too_large_are_refused(monkeypatch):
    coarse, fine = spaces(random("hexahedron", 1), 2, 4)
    nesting = Nesting(runtime.current(), nested(coarse, fine), coarse.num_local, fine.num_local)
    rows = np.arange(fine.num_local, dtype=np.int32)

    monkeypatch.setattr(nesting.runtime, "device", replace(nesting.runtime.device, local_bytes=1000))
    with pytest.raises(PlanError, match="between 27 and 125 nodes of a cell takes 1600 bytes of local memory"):
        Interpolation(nesting, rows, np.zeros(coarse.num_local, np.uint8), ("double", "double"), False)


@pytest.mark.parametrize("single", [False, True])
def test_noise_is_petscs(single):
    vectors = Vectors(runtime.current(), 1000, PETSc.COMM_SELF.tompi4py(), single=single)
    made = vectors.empty()
    vectors.fill_noise(made, 2**31 - 500)
    found = vectors.runtime.read(made, np.empty(1000, vectors.dtype))
    x = np.arange(2**31 - 500, 2**31 + 500, dtype=np.uint32)
    for _ in range(2):
        x = ((x >> np.uint32(16)) ^ x) * np.uint32(0x45D9F3B)
    x = (x >> np.uint32(16)) ^ x
    np.testing.assert_array_equal(found, ((x.astype(np.float64) - 2.0**31) * 5e-10).astype(vectors.dtype))
