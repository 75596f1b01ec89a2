"""Makes the curved meshes of this directory and volumes.json, the volumes that gmsh integrates for them.

Needs gmsh; run it in this directory.
"""

import json

import gmsh


def disk() -> int:
    gmsh.model.occ.addDisk(0, 0, 0, 1, 1)
    gmsh.model.occ.synchronize()
    return 2


def ball() -> int:
    gmsh.model.occ.addSphere(0, 0, 0, 1)
    gmsh.model.occ.synchronize()
    return 3


def quarter_ring() -> int:
    points = [gmsh.model.occ.addPoint(*x, 0) for x in ((1, 0), (2, 0), (0, 2), (0, 1), (0, 0))]
    lines = [
        gmsh.model.occ.addLine(points[0], points[1]),
        gmsh.model.occ.addCircleArc(points[1], points[4], points[2]),
        gmsh.model.occ.addLine(points[2], points[3]),
        gmsh.model.occ.addCircleArc(points[3], points[4], points[0]),
    ]
    surface = gmsh.model.occ.addPlaneSurface([gmsh.model.occ.addCurveLoop(lines)])
    gmsh.model.occ.synchronize()
    for line in lines:
        gmsh.model.mesh.setTransfiniteCurve(line, 3)
    gmsh.model.mesh.setTransfiniteSurface(surface)
    gmsh.model.mesh.setRecombine(2, surface)
    return 2


def thick_quarter_ring() -> int:
    quarter_ring()
    gmsh.model.occ.extrude([(2, 1)], 0, 0, 1, [2], recombine=True)
    gmsh.model.occ.synchronize()
    return 3


def volume(dim: int) -> float:
    total = 0.0
    for kind in gmsh.model.mesh.getElementTypes(dim):
        points, weights = gmsh.model.mesh.getIntegrationPoints(kind, "Gauss8")
        dets = gmsh.model.mesh.getJacobians(kind, points)[1]
        total += float((dets.reshape(-1, len(weights)) @ weights).sum())
    return total


volumes = {}
for geometry in (disk, ball, quarter_ring, thick_quarter_ring):
    for order in (2, 3):
        gmsh.initialize()
        gmsh.option.setNumber("General.Terminal", 0)
        dim = geometry()
        gmsh.model.addPhysicalGroup(dim, [tag for _, tag in gmsh.model.getEntities(dim)], 7)
        gmsh.model.addPhysicalGroup(dim - 1, [tag for _, tag in gmsh.model.getEntities(dim - 1)], 5)
        gmsh.option.setNumber("Mesh.MeshSizeMin", 0.8)
        gmsh.option.setNumber("Mesh.MeshSizeMax", 0.8)
        gmsh.model.mesh.generate(dim)
        gmsh.model.mesh.setOrder(order)
        name = f"{geometry.__name__}_{order}.msh"
        gmsh.write(name)
        volumes[name] = volume(dim)
        gmsh.finalize()
with open("volumes.json", "w") as file:
    json.dump(volumes, file, indent=2)
    file.write("\n")
