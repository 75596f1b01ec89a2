#!/usr/bin/env python3
"""Makes meshes/bracket.msh: an L-shaped steel bracket with bolt holes, a load bore, a fillet and a stiffening rib.

Coordinates are metres. Face Sets: 1 the four mounting holes of the base plate, 2 the load bore of the wall, 3 all other
surfaces. Cell Sets: 1 the solid. Needs the Python module gmsh (extra `mesh`).

    python scripts/make_bracket.py                       # about 45 thousand tetrahedra, what the repository holds
    python scripts/make_bracket.py --size 8 -o fine.msh  # other edge length in millimetres, other file
"""

from __future__ import annotations

import argparse
import math
from pathlib import Path

import gmsh

# Millimetres; the saved file is scaled to metres.
LENGTH, WIDTH, HEIGHT, THICKNESS = 120.0, 80.0, 110.0, 12.0
FILLET, ROUNDING = 10.0, 15.0
BOLT_RADIUS, BORE_RADIUS, BOSS_RADIUS, BOSS_DEPTH = 5.5, 18.0, 28.0, 10.0
BOLT_CENTRES = [(x, y) for x in (45.0, 103.0) for y in (16.0, 64.0)]
BORE_CENTRE = (WIDTH / 2, 70.0)  # y, z
RIB_THICKNESS, RIB_LENGTH, RIB_HEIGHT = 10.0, 70.0, 26.0
MOUNTING, BORE, OTHER = 1, 2, 3
MIN_QUALITY = 0.1


def profile() -> int:
    """The L extruded along y, with a fillet in its inner corner; returns the volume."""
    occ = gmsh.model.occ
    corners = [(0, 0), (LENGTH, 0), (LENGTH, THICKNESS), (THICKNESS + FILLET, THICKNESS),
               (THICKNESS, THICKNESS + FILLET), (THICKNESS, HEIGHT), (0, HEIGHT)]  # fmt: skip
    points = [occ.addPoint(x, 0, z) for x, z in corners]
    centre = occ.addPoint(THICKNESS + FILLET, 0, THICKNESS + FILLET)
    lines = [occ.addLine(points[i], points[(i + 1) % len(points)]) for i in range(len(points)) if i != 3]
    lines.insert(3, occ.addCircleArc(points[3], centre, points[4]))
    face = occ.addPlaneSurface([occ.addCurveLoop(lines)])
    return next(tag for dim, tag in occ.extrude([(2, face)], 0, WIDTH, 0) if dim == 3)


def rounded_corners(solid: int) -> int:
    """Rounds the free corners of both plates; returns the volume."""
    gmsh.model.occ.synchronize()
    edges = []
    for _, edge in gmsh.model.getEntities(1):
        x0, y0, z0, x1, y1, z1 = gmsh.model.getBoundingBox(1, edge)
        at_side = min(abs(y0), abs(y0 - WIDTH)) < 0.1 and y1 - y0 < 0.1
        of_base = x1 - x0 < 0.1 and abs(x0 - LENGTH) < 0.1 and abs(z1 - z0 - THICKNESS) < 0.1
        of_wall = z1 - z0 < 0.1 and abs(z0 - HEIGHT) < 0.1 and abs(x1 - x0 - THICKNESS) < 0.1
        if at_side and (of_base or of_wall):
            edges.append(edge)
    if len(edges) != 4:
        raise SystemExit(f"expected 4 free corners to round, found {len(edges)}")
    return gmsh.model.occ.fillet([solid], edges, [ROUNDING])[0][1]


def rib() -> int:
    """The triangular rib between base and wall, in the middle plane; returns the volume."""
    occ = gmsh.model.occ
    y, inside = (WIDTH - RIB_THICKNESS) / 2, THICKNESS / 2  # it starts inside the plates, so that the union is clean
    corners = [(inside, inside), (RIB_LENGTH, inside), (RIB_LENGTH, THICKNESS + 2),
               (THICKNESS + 2, THICKNESS + RIB_HEIGHT), (inside, THICKNESS + RIB_HEIGHT)]  # fmt: skip
    points = [occ.addPoint(x, y, z) for x, z in corners]
    lines = [occ.addLine(points[i], points[(i + 1) % len(points)]) for i in range(len(points))]
    face = occ.addPlaneSurface([occ.addCurveLoop(lines)])
    return next(tag for dim, tag in occ.extrude([(2, face)], 0, RIB_THICKNESS, 0) if dim == 3)


def bracket() -> None:
    """The whole part in the current gmsh model."""
    occ = gmsh.model.occ
    solid = rounded_corners(profile())
    boss = occ.addCylinder(THICKNESS / 2, *BORE_CENTRE, THICKNESS / 2 + BOSS_DEPTH, 0, 0, BOSS_RADIUS)
    solids, _ = occ.fuse([(3, solid)], [(3, boss), (3, rib())])
    holes = [(3, occ.addCylinder(x, y, -1, 0, 0, THICKNESS + 2, BOLT_RADIUS)) for x, y in BOLT_CENTRES]
    holes.append((3, occ.addCylinder(-1, *BORE_CENTRE, THICKNESS + BOSS_DEPTH + 2, 0, 0, BORE_RADIUS)))
    occ.cut(solids, holes)
    occ.synchronize()


def hole_of(face: int) -> int:
    """The physical group of a surface: a cylinder of a hole's radius around the hole's axis, or anything else."""
    if gmsh.model.getType(2, face) != "Cylinder":
        return OTHER
    x0, y0, z0, x1, y1, z1 = gmsh.model.getBoundingBox(2, face)
    y, z, x = (y0 + y1) / 2, (z0 + z1) / 2, (x0 + x1) / 2
    if math.dist((y, z), BORE_CENTRE) < 0.1 and abs(y1 - y0 - 2 * BORE_RADIUS) < 0.1:
        return BORE
    if any(math.dist((x, y), centre) < 0.1 for centre in BOLT_CENTRES) and abs(x1 - x0 - 2 * BOLT_RADIUS) < 0.1:
        return MOUNTING
    return OTHER


def mark() -> None:
    """Names the physical groups."""
    groups: dict[int, list[int]] = {MOUNTING: [], BORE: [], OTHER: []}
    for _, face in gmsh.model.getEntities(2):
        groups[hole_of(face)].append(face)
    if len(groups[MOUNTING]) != len(BOLT_CENTRES) or len(groups[BORE]) != 1:
        raise SystemExit(f"expected {len(BOLT_CENTRES)} bolt holes and one bore, found {groups}")
    for value, name in ((MOUNTING, "mounting holes"), (BORE, "load bore"), (OTHER, "free surface")):
        gmsh.model.addPhysicalGroup(2, groups[value], value, name)
    gmsh.model.addPhysicalGroup(3, [tag for _, tag in gmsh.model.getEntities(3)], 1, "solid")


def mesh(size: float) -> None:
    """Meshes and optimises.

    Args:
        size: edge length away from curved faces, in millimetres.
    """
    options = {
        "Mesh.MeshSizeMax": size,
        "Mesh.MeshSizeMin": size / 3,
        "Mesh.MeshSizeFromCurvature": 24,
        "Mesh.Algorithm3D": 1,
        "Mesh.Optimize": 1,
        "Mesh.OptimizeNetgen": 1,
        "Mesh.OptimizeThreshold": 0.4,
        "Mesh.RandomSeed": 1,
        "Mesh.MshFileVersion": 4.1,
        "Mesh.Binary": 1,
        "Mesh.ScalingFactor": 1e-3,
        "General.NumThreads": 1,
    }
    for name, value in options.items():
        gmsh.option.setNumber(name, value)
    gmsh.model.mesh.generate(3)
    gmsh.model.mesh.optimize("Netgen")
    gmsh.model.mesh.optimize("Relocate3D")


def report(path: Path) -> None:
    """Prints the figures of the mesh and refuses bad cells."""
    tags = gmsh.model.mesh.getElementsByType(4)[0]
    quality = gmsh.model.mesh.getElementQualities(tags, "minSICN")
    volume = sum(gmsh.model.mesh.getElementQualities(tags, "volume")) * 1e-9
    exact = sum(gmsh.model.occ.getMass(3, tag) for _, tag in gmsh.model.getEntities(3)) * 1e-9
    vertices = len(set(gmsh.model.mesh.getElementsByType(4)[1].tolist()))
    print(f"{path}: {len(tags)} tetrahedra, {vertices} vertices, {path.stat().st_size / 1e6:.2f} MB")
    print(f"SICN: least {quality.min():.3f}, mean {quality.mean():.3f}; volume {volume:.6e} m^3 (geometry {exact:.6e})")
    if quality.min() < MIN_QUALITY:
        raise SystemExit(f"the worst SICN is {quality.min():.3f}, expected at least {MIN_QUALITY}; change --size")


def main() -> None:
    """Reads the command line, makes the mesh and writes it."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    default = Path(__file__).resolve().parent.parent / "meshes" / "bracket.msh"
    parser.add_argument("--size", type=float, default=4.1, help="edge length in millimetres (default %(default)s)")
    parser.add_argument("-o", "--output", type=Path, default=default, help="file to write (default meshes/bracket.msh)")
    arguments = parser.parse_args()
    gmsh.initialize()
    gmsh.option.setNumber("General.Verbosity", 2)
    bracket()
    mark()
    mesh(arguments.size)
    gmsh.write(str(arguments.output))
    report(arguments.output)
    gmsh.finalize()


if __name__ == "__main__":
    main()
