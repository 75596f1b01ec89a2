import math
from pathlib import Path

import numpy as np
import pytest

from femgpu.element import default_rule
from femgpu.mesh import Mesh, read

BRACKET = Path(__file__).resolve().parents[2] / "meshes" / "bracket.msh"


@pytest.mark.parallel([1, 2])
def test_bracket_is_the_part_that_its_readme_describes():
    mesh = Mesh.of(read(BRACKET))
    assert mesh.num_cells_global == 48748
    assert {"Cell Sets": [1], "Face Sets": [1, 2, 3]}.items() <= mesh.labels().items()
    rule = default_rule("tetrahedron", 1)
    volume = mesh.mpi.allreduce(float((np.linalg.det(mesh.block.jacobians(rule.points)) @ rule.weights).sum()))
    assert volume == pytest.approx(2.145e-4, rel=1e-3)
    areas = {value: mesh.mpi.allreduce(area(mesh, value)) for value in (1, 2)}
    assert areas[1] == pytest.approx(4 * 2 * math.pi * 5.5e-3 * 12e-3, rel=0.01)
    assert areas[2] == pytest.approx(2 * math.pi * 18e-3 * 22e-3, rel=0.01)


def area(mesh, value):
    cells, facets = mesh.facets(value)
    corners = mesh.block.physical_points(mesh.reference.vertices, cells)
    which = np.array(mesh.reference.facets)[facets]
    a, b, c = (corners[np.arange(len(cells)), which[:, i]] for i in range(3))
    return 0.5 * float(np.linalg.norm(np.cross(b - a, c - a), axis=1).sum())
