"""femgpu against scikit-fem, for the elements that scikit-fem has, with femgpu's quadrature rules."""

import pytest
from comparison import Comparison
from random_meshes import random_cells
from skfem_oracle import pieces
from weak_forms import Elasticity, NeoHookean, Robin, Species, Stokes

NUM_CELLS = {"triangle": 31, "tetrahedron": 29, "quadrilateral": 17, "hexahedron": 7, "prism": 11}
CASES = [
    *[(Robin, "triangle", degree) for degree in (1, 3)],
    *[(Robin, cell, degree) for cell in ("quadrilateral", "tetrahedron", "hexahedron") for degree in (1, 2)],
    (Elasticity, "prism", 1),
    *[(Stokes, cell, 2) for cell in ("triangle", "quadrilateral", "tetrahedron", "hexahedron")],
    *[(NeoHookean, cell, 2) for cell in ("triangle", "tetrahedron", "hexahedron")],
    (Species, "triangle", 2),
]


@pytest.mark.parametrize(("problem", "cell", "degree"), CASES)
def test_numbers_agree(rng, set_options, problem, cell, degree):
    comparison = Comparison(problem, random_cells(cell, NUM_CELLS[cell], rng), degree, rng, set_options)
    worst, key = comparison.difference(comparison.expected(pieces(comparison)))
    print("DIFFERENCE", problem.__name__, cell, degree, worst, key)
    assert worst <= 1e-12
