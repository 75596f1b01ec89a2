"""Words and operations of the CEED bake-off problems on hexahedra, of the sum-factorised algorithm with nothing transformed.

Paper 000: K. Swirydowicz, N. Chalmers, A. Karakus, T. Warburton, Acceleration of tensor-product operations for high-order finite
element methods (2019), table 2 and equations (12) and (13).
"""

from __future__ import annotations

from dataclasses import dataclass

# Numbers of the geometry at a point: w det J; the symmetric w det J J^-1 J^-T; both.
FACTORS = {"mass": 1, "diffusion": 6, "screened": 7}


@dataclass(frozen=True)
class Bakeoff:
    """A bake-off problem.

    Attributes:
        name: bp1 to bp6 between L-vectors; bp10, bp35 and bp30 between E-vectors (paper 000).
        form: `mass`; `diffusion`; `screened`: both.
        num_comp: components, all with the same form.
        collocated: Gauss-Lobatto points at the nodes; else Gauss points, one more per direction than there are nodes.
        evector: whether vectors are E-vectors.
    """

    name: str
    form: str
    num_comp: int = 1
    collocated: bool = False
    evector: bool = False

    def q1d(self, degree: int) -> int:
        """Points per direction."""
        return degree + 1 + (not self.collocated)

    def flops(self, degree: int) -> int:
        """Operations of one cell: paper 000's counts; without its term of mass a diffusion needs three less at a point."""
        p, q = degree + 1, self.q1d(degree)
        count = 0 if self.collocated else 4 * (q * p**3 + q**2 * p**2 + q**3 * p)
        if self.form == "mass":
            count += q**3
        else:
            count += 12 * q**4 + (18 if self.form == "screened" else 15) * q**3
        return count * self.num_comp

    def evector_bytes(self, degree: int, scalar: int = 8, real: int = 8) -> int:
        """Bytes that one cell moves between E-vectors, the factors of the geometry stored (paper 000, table 2).

        Args:
            degree: of the elements.
            scalar: bytes of a number in vectors.
            real: bytes of a number in the geometry.
        """
        return 2 * scalar * self.num_comp * (degree + 1) ** 3 + real * FACTORS[self.form] * self.q1d(degree) ** 3

    def lvector_bytes(
        self, degree: int, cells: int, dofs: int, stored: bool = True, atomic: bool = True, scalar: int = 8, real: int = 8
    ) -> int:
        """Bytes that an application between L-vectors moves when each word passes once.

        Args:
            degree: of the elements.
            cells: how many.
            dofs: length of the vectors.
            stored: whether the factors of the geometry are loaded; else 8 vertices of each cell, each from memory once.
            atomic: whether the result is zeroed first and then added to.
            scalar: bytes of a number in vectors.
            real: bytes of a number in the geometry.
        """
        offsets = 4 * cells * (degree + 1) ** 3
        factors = real * FACTORS[self.form] * self.q1d(degree) ** 3
        geometry = cells * (factors if stored else 8 * 4 + 3 * real)
        return (2 + 2 * atomic) * scalar * dofs + offsets + geometry


PROBLEMS = {
    problem.name: problem
    for problem in (
        Bakeoff("bp1", "mass"),
        Bakeoff("bp2", "mass", 3),
        Bakeoff("bp3", "diffusion"),
        Bakeoff("bp4", "diffusion", 3),
        Bakeoff("bp5", "diffusion", 1, True),
        Bakeoff("bp6", "diffusion", 3, True),
        Bakeoff("bp10", "mass", evector=True),
        Bakeoff("bp35", "screened", collocated=True, evector=True),
        Bakeoff("bp30", "screened", evector=True),
    )
}


def roofline(bandwidth: float, flops: float, moved: float) -> float:
    """Operations per second that a memory of some bytes per second allows: (12) for global, (13) for local memory.

    Args:
        bandwidth: bytes per second, of a copy of moved / 2 bytes for (12).
        flops: operations.
        moved: bytes that are read and written for them.
    """
    return bandwidth * flops / moved
