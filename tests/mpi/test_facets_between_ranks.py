"""dS on several ranks: numbers that do not depend on how cells and dofs are numbered are those of one rank.

Tests run on one rank first, which builds their kernels.
"""

import numpy as np
import pytest
import ufl
from mpi4py import MPI
from petsc4py import PETSc
from petsc_offsets import constrained
from random_meshes import random_mesh
from ufl import avg, div, dot, dS, ds, dx, grad, inner, jump

import femgpu
from femgpu import Constant, DirichletBC, Function, FunctionSpace, MixedSpace, NonlinearProblem
from femgpu.element import LagrangeElement
from femgpu.errors import MeshError
from femgpu.mesh import Mesh


def waves(*numbers):
    """A periodic function of x, with a component for each number."""
    return lambda x: np.array(
        [1 + 0.3 * np.sin(2 * np.pi * (k * x[0] - x[1])) + 0.2 * np.cos(2 * np.pi * k * x[1]) for k in numbers]
    )


def materials(comm):
    """Two fields, one of them continuous, two materials and a state, in a periodic box."""
    dm = femgpu.mesh.box((4, 3), "triangle", comm=comm, periodic=(True, False))
    M = MixedSpace({"velocity": FunctionSpace(dm, "DG", 1, 2), "pressure": FunctionSpace(dm, "Lagrange", 2)})
    w, k = Function(M), Function(FunctionSpace(dm, "DG", 0))
    k.interpolate(lambda x: np.where(x[0] < 0.5, 1.0, 3.0))
    (u, p), (v, q), n = ufl.split(w), ufl.TestFunctions(M), ufl.FacetNormal(M.ufl_domain())
    F = inner(u, v) * dx(degree=2) + p * q * dx(degree=2) + jump(grad(p), n) * inner(avg(u), avg(v)) * dS(degree=3)
    return F + avg(k) * dot(jump(u), jump(u)) * (inner(jump(u), jump(v)) + jump(grad(q), n)) * dS(degree=3), w, None


def biharmonic(comm, counts=(3, 3)):
    """C0 interior penalty, whose dofs on the boundary are prescribed, on cells of this rank and of others."""
    dm = femgpu.mesh.box(counts, "quadrilateral", comm=comm)
    u = Function(FunctionSpace(dm, "Lagrange", 2))
    v, n, h = ufl.TestFunction(u.space), ufl.FacetNormal(u.space.ufl_domain()), ufl.CellDiameter(u.space.ufl_domain())
    F = div(grad(u)) * div(grad(v)) * dx(degree=3) - avg(div(grad(u))) * jump(grad(v), n) * dS(degree=4)
    F += 8 / avg(h) * jump(grad(u), n) * jump(grad(v), n) * dS(degree=4)
    return F, u, DirichletBC(u.space, femgpu.coordinates(dm)[0], "boundary")


def interpolated(space, *numbers):
    """A function of a space, the same on all ranks."""
    found = Function(space)
    for field in femgpu.spaces.fields_of(found):
        field.interpolate(waves(*numbers[: field.space.num_comp]))
    return found


def numbers(problem, u):
    """What residual, Jacobian, its transpose, diagonal and matrix come to at a state."""
    v, w = interpolated(u.space, 2, 3), interpolated(u.space, 1, 2)
    interpolated(u.space, 1, 3).vec.copy(u.vec)
    result, found = u.vec.duplicate(), []
    problem.residual(u.vec, result)
    found += [result.norm(), result.dot(v.vec)]
    matrix = problem.jacobian
    matrix.mult(w.vec, result)
    found += [result.norm(), result.dot(v.vec)]
    matrix.multTranspose(v.vec, result)
    found += [result.norm(), result.dot(w.vec)]
    matrix.getDiagonal(result)
    found += [result.norm(), result.sum()]
    return [*found, matrix.norm()] if matrix.getType().endswith("aij") else found


def solved(comm, make, **options):
    """The numbers of a problem, and what it has."""
    F, u, bcs = make(comm)
    problem = NonlinearProblem(F, u, bcs, petsc_options=options)
    return numbers(problem, u), problem, u


def compare(make, rtol=1e-12, **options):
    """On all ranks and on this one."""
    (one, *_), (ranks, *rest) = (solved(comm, make, **options) for comm in (PETSc.COMM_SELF, PETSc.COMM_WORLD))
    np.testing.assert_allclose(ranks, one, rtol=rtol)
    return rest


@pytest.mark.parallel([1, 3])
def test_operators():
    compare(materials, femgpu_qdata="store")


@pytest.mark.parallel([1, 3])
@pytest.mark.parametrize(("make", "scatter"), [(materials, "atomic"), (biharmonic, "gather")])
def test_matrices(make, scatter):
    compare(make, femgpu_jacobian="assembled", femgpu_scatter=scatter)


@pytest.mark.parallel([2])
def test_single_precision():
    compare(biharmonic, 1e-5, femgpu_precision="single")


@pytest.mark.parallel([3])
def test_ranks_without_cells():
    _, u = compare(lambda comm: biharmonic(comm, counts=(2, 1)), femgpu_jacobian="assembled")
    assert PETSc.COMM_WORLD.tompi4py().allreduce(u.space.mesh.num_cells, op=MPI.MIN) == 0


@pytest.mark.parallel([1, 2])
def test_a_mesh_that_moves():
    """Coordinates of other ranks' cells follow, also where affine cells begin to bend."""
    found = []
    for comm in (PETSc.COMM_SELF, PETSc.COMM_WORLD):
        before, problem, u = solved(comm, biharmonic)
        x = u.space.mesh.dm.getCoordinatesLocal()
        x.setArray(x.array_r + 0.05 * np.sin(3 * x.array_r.reshape(-1, 2)[:, ::-1].ravel()))
        found.append([before, numbers(problem, u)])
    np.testing.assert_allclose(*found, rtol=1e-12)
    assert abs(found[0][0][0] - found[0][1][0]) > 1e-3 * found[0][0][0]


@pytest.mark.parallel([3])
def test_regions_and_functionals():
    """Each facet counts once, whichever rank a region was marked on; a constant on a form without a space, too."""
    dm = femgpu.mesh.box((4, 4), "quadrilateral")
    femgpu.mesh.mark(dm, "interface", lambda x: abs(x[0] - 0.5) < 1e-9, dim=1)
    mesh, one = Mesh.of(dm), Constant(dm, 1.0)
    for form, value in ((one * dS, 6.0), (one * dS("interface"), 1.0), (one * dS + one * ds, 10.0)):
        assert abs(femgpu.assemble(form) - value) < 1e-13
    shared = mesh.interior.ghosts.here.points
    assert mesh.mpi.allreduce(len(shared)) > 0
    # PETSc's labels know what each rank was told: the rank that does not integrate says it here.
    dm.createLabel("told")
    start, end = dm.getHeightStratum(1)
    for point in set(range(start, end)) - set(mesh.interior.points) - set(mesh.exterior.points):
        dm.setLabelValue("told", point, 1)
    assert abs(femgpu.assemble(one * dS("told")) - 0.25 * mesh.mpi.allreduce(len(shared))) < 1e-13
    u = Function(FunctionSpace(dm, "DG", 1))
    slope = Function(FunctionSpace(dm, "DG", 0))
    slope.interpolate(lambda x: np.where(x[0] < 0.5, 1.0, 3.0))
    u.interpolate(slope * femgpu.coordinates(dm)[0])
    assert abs(femgpu.assemble(jump(u) ** 2 * dS) - 1) < 1e-12
    with pytest.raises(MeshError, match="marks no facet between two cells"):
        femgpu.assemble(one * dS(2))


@pytest.mark.parallel([2])
def test_multigrid(folder):
    """Of degrees; refined meshes have nothing to add, for the matrices of facets are of no coarser cell."""
    counts = []
    for comm in (PETSc.COMM_SELF, PETSc.COMM_WORLD):
        dm = femgpu.mesh.refine(femgpu.mesh.box((4, 4), "triangle", comm=comm))
        u = Function(FunctionSpace(dm, "Lagrange", 2))
        v, n, h = ufl.TestFunction(u.space), ufl.FacetNormal(u.space.ufl_domain()), ufl.CellDiameter(u.space.ufl_domain())
        F = (inner(grad(u), grad(v)) - v) * dx + 0.01 * avg(h) ** 2 * jump(grad(u), n) * jump(grad(v), n) * dS
        solver = {"ksp_type": "cg", "pc_type": "python", "pc_python_type": "femgpu.PMG", "ksp_rtol": 1e-8}
        problem = NonlinearProblem(F, u, DirichletBC(u.space, 0.0, "boundary"), petsc_options=solver)
        problem.solve()
        counts.append((problem.snes.getLinearSolveIterations(), u.vec.norm()))
        text = folder / f"{comm.size} {MPI.COMM_WORLD.rank if comm.size == 1 else 0}"
        problem.snes.ksp.pc.view(PETSc.Viewer().createASCII(str(text), comm=comm))
        comm.barrier()
        assert "no levels on coarser meshes: matrices of facets" in text.read_text()
    # Aggregates of GAMG are those of a rank.
    (one, size), (ranks, norm) = counts
    assert abs(one - ranks) <= 1 and ranks < 20 and norm == pytest.approx(size, rel=1e-7)


@pytest.mark.parallel([3])
@pytest.mark.parametrize("cell", ["triangle", "hexahedron"])
def test_nodes_of_other_ranks_cells(cell):
    """Values come from where the nodes are, also in sections that constrain dofs and are numbered in another order."""
    mesh = Mesh.of(random_mesh(cell, (3, 2) if cell == "triangle" else (2, 2, 1), 5, turned=True))
    mesh.dm.createLabel("marker")
    mesh.dm.markBoundaryFaces("marker", 1)
    mesh.dm.labelComplete(mesh.dm.getLabel("marker"))
    dm, _ = constrained(mesh, LagrangeElement(cell, 2).petsc_fe(mesh.dim, mesh.comm))
    spaces = (FunctionSpace(dm), FunctionSpace(mesh.dm, "Lagrange", 3, mesh.dim), FunctionSpace(mesh.dm, "DG", 1, mesh.dim))
    for space in spaces:
        storage, local = space.storage(True), np.zeros(space.num_local)
        components = np.arange(mesh.dim)
        local[space.offsets[..., None] + components] = mesh.block.physical_points(space.element.nodes)
        (block,), (field,) = mesh.interior.blocks, storage.fields
        found = storage.extend(local)[field.offsets[0][..., None] + components]
        np.testing.assert_allclose(found, block.physical_points(space.element.nodes), atol=1e-12)
        assert storage.num_local == len(storage.extend(local)) == storage.numbering.num_local
        far = mesh.mpi.allreduce(block.num_cells - mesh.num_cells)
        assert far == mesh.mpi.allreduce(len(mesh.interior.ghosts.here.points)) > 0
