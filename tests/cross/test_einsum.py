"""femgpu against the assembly of `einsum_oracle`, with femgpu's quadrature rules, where scikit-fem has no element."""

from pathlib import Path

import pytest
from comparison import Comparison
from einsum_oracle import pieces
from random_meshes import random_cells, random_mixed
from weak_forms import Elasticity, Helmholtz, Robin, Species, Stokes, Transport

from femgpu import mesh

DATA = Path(__file__).parents[1] / "data"
NUM_CELLS = {"triangle": 23, "tetrahedron": 11, "quadrilateral": 7, "hexahedron": 3, "prism": 7}
CASES = [
    *[(Robin, cell, 3) for cell in ("tetrahedron", "quadrilateral", "hexahedron")],
    (Robin, "prism", 2),
    *[(Elasticity, cell, 4) for cell in ("tetrahedron", "quadrilateral", "hexahedron")],
    (Stokes, "quadrilateral", 3),
    (Transport, "prism", 2),
    (Transport, "quadrilateral", 3),
    *[(Helmholtz, cell, 5) for cell in ("triangle", "quadrilateral", "tetrahedron")],
    (Species, "prism", 2),
]
CURVED = [
    *[(Robin, name, 2) for name in ("quarter_ring_2", "ball_2", "thick_quarter_ring_2")],
    (Robin, "disk_2", 3),
    *[(Transport, name, 2) for name in ("disk_2", "thick_quarter_ring_2")],
]
MIXED = [
    (Robin, "triangle+quadrilateral", 1),
    (Robin, "tetrahedron+prism", 2),
    (Robin, "tetrahedron+hexahedron+prism", 3),
    *[(Transport, "tetrahedron+prism", degree) for degree in (1, 3)],
    (Stokes, "triangle+quadrilateral", 2),
]
# The diagonal has kernels of its own, whose building takes most of the time.
DIAGONAL = [(Robin, "prism", 2), (Transport, "prism", 2), (Stokes, "quadrilateral", 3), (Transport, "disk_2", 2)]


@pytest.mark.parametrize(("problem", "cell", "degree"), CASES)
def test_numbers_agree(rng, set_options, problem, cell, degree):
    compare(problem, random_cells(cell, NUM_CELLS[cell], rng), cell, degree, rng, set_options)


@pytest.mark.parametrize(("problem", "name", "degree"), CURVED)
def test_numbers_agree_on_curved_cells(rng, set_options, problem, name, degree):
    compare(problem, mesh.read(DATA / f"{name}.msh"), name, degree, rng, set_options)


@pytest.mark.parametrize(("problem", "kind", "degree"), MIXED)
def test_numbers_agree_on_several_cell_types(rng, set_options, problem, kind, degree):
    counts = (2, 2) if kind == "triangle+quadrilateral" else (2, 1, 2)
    dm = random_mixed(kind, counts, seed=int(rng.integers(2**31)))
    move_vertices(dm, 0.06, rng)
    compare(problem, dm, kind, degree, rng, set_options)


def compare(problem, dm, name, degree, rng, set_options):
    comparison = Comparison(problem, dm, degree, rng, set_options, diagonal=(problem, name, degree) in DIAGONAL)
    worst, key = comparison.difference(comparison.expected(pieces(comparison)))
    print("DIFFERENCE", problem.__name__, name, degree, worst, key)
    assert worst <= 1e-12


def move_vertices(dm, far, rng):
    """Moves all vertices, those of the boundary too, so that facets are not plane."""
    coordinates = dm.getCoordinatesLocal()
    moved = coordinates.duplicate()
    moved.setArray(coordinates.array_r + rng.uniform(-far, far, coordinates.getLocalSize()))
    dm.setCoordinatesLocal(moved)
