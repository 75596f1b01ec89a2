"""What others reach on the bake-off problems, and what femgpu is to reach: GDOF/s, one H200, f64, ten million dofs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

# Hexahedra: trilinear cells, Gauss-Lobatto nodes; BP1 and BP3 with Gauss points, BP5 with Gauss-Lobatto points; six stored factors.
# Tetrahedra: affine cells, rules of basix, exact to degree 2 p and 2 p - 2; the better of two backends, from degree 5 on not fused.
SOURCE = "libCEED 64e0491, cuda-gen, one H200, 2026-11-20"
_GEN = {
    "bp1": (4.88, 17.77, 23.30, 29.35, 30.32, 34.11, 28.03, 28.62),
    "bp3": (1.25, 6.96, 8.77, 8.24, 10.34, 12.25, 9.15, 12.49),
    "bp5": (6.56, 15.31, 21.72, 23.60, 23.97, 21.67, 23.71, 17.47),
    "tet_mass": (3.58, 5.03, 6.05, 5.28, 1.05, 0.60, 0.91, 0.45),
    "tet_diffusion": (2.66, 4.96, 3.71, 3.54, 0.61, 0.43, 0.20, 0.21),
}
_GOALS = {
    "bp1": (7.5, 27, 36, 44, 46, 51, 43, 43),
    "bp3": (4, 15, 23, 26, 28, 30, 28, 30),
    "bp5": (9.5, 27, 41, 43, 43, 42, 53, 44),
    "tet_mass": (14, 20, 24, 20, 14, 10, 9, 6),
    "tet_diffusion": (10, 21, 15, 13, 9, 6.5, 5, 3.2),
}


def peer(problem: str, degree: int) -> float:
    """GDOF/s of `SOURCE`; NaN where it was not measured."""
    return _entry(_GEN, problem, degree)


def goal(problem: str, degree: int) -> float:
    """GDOF/s that the best plan is to reach; NaN where nothing was said."""
    return _entry(_GOALS, problem, degree)


def _entry(table: Mapping[str, Sequence[float]], problem: str, degree: int) -> float:
    rates = table.get(problem, ())
    return rates[degree - 1] if degree <= len(rates) else float("nan")
