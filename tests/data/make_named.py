"""Makes named_plate_{2,4}.msh and named_box.msh: meshes whose physical groups have names, some parts being in two groups.

Run it in this folder: python make_named.py (needs gmsh). The plate is the unit square with the square [1/4, 3/4]^2 in it; "sides"
are left, right and top together. The box is the unit cube with one named side, one of its edges and a corner.
"""

import gmsh


def near(dim, place):
    """Parts of the model of a dimension whose centre of mass satisfies a condition."""
    centre = gmsh.model.occ.getCenterOfMass if dim else lambda _, tag: gmsh.model.getValue(0, tag, [])
    return [tag for _, tag in gmsh.model.getEntities(dim) if place(*centre(dim, tag))]


def name(dim, number, tags, word):
    gmsh.model.addPhysicalGroup(dim, tags, number, name=word)


def plate():
    outer, inner = gmsh.model.occ.addRectangle(0, 0, 0, 1, 1), gmsh.model.occ.addRectangle(0.25, 0.25, 0, 0.5, 0.5)
    gmsh.model.occ.fragment([(2, outer)], [(2, inner)])
    gmsh.model.occ.synchronize()
    left, right = near(1, lambda x, y, z: x < 1e-9), near(1, lambda x, y, z: x > 1 - 1e-9)
    name(1, 11, left, "left")
    name(1, 12, right, "right side")
    name(1, 13, left + right + near(1, lambda x, y, z: y > 1 - 1e-9), "sides")
    name(1, 14, near(1, lambda x, y, z: 0.2 < x < 0.8 and 0.2 < y < 0.8), "interface")
    name(2, 21, [inner], "inclusion")
    name(2, 22, [tag for _, tag in gmsh.model.getEntities(2) if tag != inner], "matrix")
    name(0, 1, near(0, lambda x, y, z: x + y < 1e-9), "origin")


def box():
    body = gmsh.model.occ.addBox(0, 0, 0, 1, 1, 1)
    gmsh.model.occ.synchronize()
    name(3, 7, [body], "body")
    name(2, 7, near(2, lambda x, y, z: x < 1e-9), "left")
    name(1, 7, near(1, lambda x, y, z: x + y < 1e-9), "edge/of it")
    name(0, 7, near(0, lambda x, y, z: x + y + z < 1e-9), "depth")


def write(path, version, binary):
    gmsh.option.setNumber("Mesh.MshFileVersion", version)
    gmsh.option.setNumber("Mesh.Binary", binary)
    gmsh.write(path)


gmsh.initialize()
gmsh.option.setNumber("General.Terminal", 0)
gmsh.option.setNumber("Mesh.MeshSizeMax", 0.5)
gmsh.model.add("plate")
plate()
gmsh.model.mesh.generate(2)
write("named_plate_2.msh", 2.2, 0)
write("named_plate_4.msh", 4.1, 1)
gmsh.option.setNumber("Mesh.MeshSizeMax", 1)
gmsh.option.setNumber("Mesh.MeshSizeMin", 1)
gmsh.model.add("box")
box()
gmsh.model.mesh.generate(3)
write("named_box.msh", 4.1, 0)
gmsh.finalize()
