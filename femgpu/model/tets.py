"""Words and operations of mass and diffusion on affine tetrahedra, of the algorithm by points with nothing transformed."""

from __future__ import annotations

from dataclasses import dataclass
from math import comb

# Points of the default rules by the degree that they integrate exactly; products of Gauss-Jacobi rules beyond.
_POINTS = (1, 1, 4, 6, 14, 15, 24, 31, 45, 57, 74, 95, 122, 146, 177, 214, 304, 364, 436, 487, 552)
# Vertices of a large mesh for each of its cells.
_VERTICES = 1 / 6


@dataclass(frozen=True)
class Tets:
    """A form on tetrahedra, one component.

    Attributes:
        name: of the problem.
        form: `mass` or `diffusion`.
    """

    name: str
    form: str
    num_comp: int = 1

    def exactness(self, degree: int) -> int:
        """The degree that the rule integrates exactly, as the integrand of affine cells needs it."""
        return 2 * degree if self.form == "mass" else 2 * degree - 2

    def flops(self, degree: int) -> int:
        """Operations of one cell: interpolation to the points and back, of values or of three derivatives."""
        exact = self.exactness(degree)
        points = _POINTS[exact] if exact < len(_POINTS) else ((exact + 2) // 2) ** 3
        return (4 if self.form == "mass" else 12) * points * comb(degree + 3, 3)

    def lvector_bytes(
        self, degree: int, cells: int, dofs: int, stored: bool = True, atomic: bool = True, scalar: int = 8, real: int = 8
    ) -> float:
        """Bytes that an application between L-vectors moves when each word passes once.

        Args:
            degree: of the elements.
            cells: how many.
            dofs: length of the vectors.
            stored: whether the factors of the geometry are loaded, once per cell; else vertices, each from memory once.
            atomic: whether the result is zeroed first and then added to.
            scalar: bytes of a number in vectors.
            real: bytes of a number in the geometry.
        """
        factors = real * (1 if self.form == "mass" else 6)
        geometry = cells * (factors if stored else 4 * 4 + 3 * real * _VERTICES)
        return (2 + 2 * atomic) * scalar * dofs + 4 * cells * comb(degree + 3, 3) + geometry


TETS = {problem.name: problem for problem in (Tets("tet_mass", "mass"), Tets("tet_diffusion", "diffusion"))}
