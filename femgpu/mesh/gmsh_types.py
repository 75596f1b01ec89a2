"""The elements of gmsh files that PETSc knows."""

from __future__ import annotations

from dataclasses import dataclass
from math import comb

# Numbers of gmsh's complete elements, by order from 1.
_NUMBERS = {
    "line": (1, 8, 26, 27, 28, 62, 63, 64, 65, 66),
    "triangle": (2, 9, 21, 23, 25, 42, 43, 44, 45, 46),
    "quadrilateral": (3, 10, 36, 37, 38, 47, 48, 49, 50, 51),
    "tetrahedron": (4, 11, 29, 30, 31, 71, 72, 73, 74, 75),
    "hexahedron": (5, 12, 92, 93, 94, 95, 96, 97, 98),
    "prism": (6, 13, 90, 91, 106, 107, 108, 109, 110),
    "pyramid": (7, 14, 118, 119, 120, 121, 122, 123, 124),
}
_DIMS = {"line": 1, "triangle": 2, "quadrilateral": 2, "tetrahedron": 3, "hexahedron": 3, "prism": 3, "pyramid": 3}


@dataclass(frozen=True)
class ElementType:
    """One of gmsh's elements: name, dimension, order, vertices, and nodes."""

    name: str
    dim: int
    order: int
    num_vertices: int
    num_nodes: int


def _types() -> dict[int, ElementType]:
    found = {15: ElementType("point", 0, 1, 1, 1)}
    for name, numbers in _NUMBERS.items():
        for k, number in enumerate(numbers, 1):
            count = {
                "line": k + 1,
                "triangle": comb(k + 2, 2),
                "quadrilateral": (k + 1) ** 2,
                "tetrahedron": comb(k + 3, 3),
                "hexahedron": (k + 1) ** 3,
                "prism": (k + 1) * comb(k + 2, 2),
                "pyramid": (k + 1) * (k + 2) * (2 * k + 3) // 6,
            }[name]
            vertices = {"line": 2, "triangle": 3, "quadrilateral": 4, "tetrahedron": 4, "hexahedron": 8, "prism": 6, "pyramid": 5}
            found[number] = ElementType(name, _DIMS[name], k, vertices[name], count)
    return found


TYPES = _types()
