"""A plan in one line of words."""

from __future__ import annotations

from femgpu.kernels.work import Work


def in_words(work: Work, way: str, precision: str, geometry: str, scatter: str) -> str:
    """What is computed and how, for `-femgpu_view` and messages.

    Args:
        work: what is computed.
        way: schedule and sizes in words.
        precision: of the plan.
        geometry: of the plan.
        scatter: of the plan.
    """
    apart = " apart" * (work.parts > 1)
    rows = " + ".join(f"{row.num_basis} basis x {row.num_comp * work.parts} comp{apart}" for row in work.rows)
    where = "" if not work.facet else " on facets" if len(work.sides) == 1 else " on facets between two cells"
    points = "points" if work.modes < 0 else "polynomials"
    parts = [f"{work.target}{where}: {way}", rows, f"{work.num_qpts} {points}"]
    rounded = " in single precision" if work.rounded else ""
    parts += [f"{work.num_state} stored numbers per point{rounded}"] if work.num_state else []
    parts += [f"{work.num_cell_state} stored numbers per cell{rounded}"] if work.num_cell_state else []
    kind = "per cell" if work.affine else "per point"
    parts += [precision, f"geometry {geometry} {kind}" if work.maps else "no geometry"]
    parts += [f"scatter {scatter}"] if work.sums else ["into the sparse matrix"] if work.place else []
    return ", ".join(part for part in parts if part)
