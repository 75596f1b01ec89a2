"""Levels of p-multigrid on coarser meshes: nested functions, Galerkin products, and iterations that depend on nothing."""

from pathlib import Path

import numpy as np
import pytest
import ufl
from krylov_support import own, random_vec, solver
from petsc4py import PETSc
from random_meshes import ALL_CELLS, random_mesh
from ufl import ds, dx, grad, inner

import femgpu
from femgpu import runtime
from femgpu.mesh import Mesh
from femgpu.operators import Interpolation, Nesting
from femgpu.solver.mesh_levels import injections, ladder

DATA = Path(__file__).parents[1] / "data"
PMG = {"pc_type": "python", "pc_python_type": "femgpu.PMG"}


def dimension(cell):
    return {"interval": 1, "triangle": 2, "quadrilateral": 2}.get(cell, 3)


def refined(dm, times=1):
    for _ in range(times):
        dm = femgpu.mesh.refine(dm)
    return dm


def box(cell, times, count=2, **arguments):
    return refined(femgpu.mesh.box((count,) * dimension(cell), cell=cell, **arguments), times)


def linear(space):
    """The L-vector of a linear function with two components."""
    function = femgpu.Function(space)
    function.interpolate(lambda x: np.array([1 + x.sum(axis=0), 3 - 2 * x[0]]))
    return function.local_array()


def prolonged(between, values, fine):
    """The L-vector of a coarse function in the finer space."""
    device, rows = runtime.current(), np.arange(fine.num_local, dtype=np.int32)
    nesting = Nesting(device, between, len(values), fine.num_local)
    transfer = Interpolation(nesting, rows, np.zeros(len(values), np.uint8), ("double", "double"), False)
    given, made = device.upload(values), device.upload(np.full(fine.num_local, np.nan))
    for call in transfer.bind_prolong(given, made):
        call()
    return device.read(made, np.empty(fine.num_local))


@pytest.mark.parallel([1, 3])
def test_coarse_functions_are_fine_ones():
    meshes = [box("quadrilateral", 2), box("prism", 1)]
    # Linear functions on their reference cells: none of x.
    bent = [box("triangle", 1, 3, periodic=(True, False))]
    if PETSc.COMM_WORLD.size == 1:
        meshes += [refined(random_mesh(cell, (2, 2, 2)[: dimension(cell)], 3)) for cell in ALL_CELLS]
        bent += [refined(femgpu.mesh.read(str(DATA / f"{name}.msh"))) for name in ("disk_2", "ball_3")]
    for dm in meshes + bent:
        V = femgpu.FunctionSpace(dm, "Lagrange", 1, 2)
        steps, refusal = ladder(V)
        assert steps and not refusal
        finer = [V, *(space for space, _ in steps)]
        for fine, (coarse, between) in zip(finer, steps, strict=False):
            if dm not in bent:
                np.testing.assert_allclose(prolonged(between, linear(coarse), fine), linear(fine), atol=1e-13)
            np.testing.assert_array_equal(prolonged(between, np.ones(coarse.num_local), fine), 1.0)
        rough = values = np.random.default_rng(0).standard_normal(finer[-1].num_local)
        for fine, (_, between) in reversed(list(zip(finer, steps, strict=False))):
            values = prolonged(between, values, fine)
        np.testing.assert_allclose(values[injections(V, V, steps)], rough, rtol=1e-14)


def problem_on(dm, degree, shape=(), rough=False):
    """Diffusion and reaction with a coefficient that jumps from cell to cell, and a side, half of which is prescribed.

    Args:
        dm: the mesh.
        degree: of the elements.
        shape: of the values.
        rough: adds polynomials of a rough state, and what flows out.
    """
    V = femgpu.FunctionSpace(dm, "Lagrange", degree, shape)
    u, v, k = femgpu.Function(V), ufl.TestFunction(V), femgpu.Function(femgpu.FunctionSpace(dm, "DG", 0))
    k.interpolate(lambda x: 1 + (16 * x[0]) // 1 % 3)
    F = k * inner(grad(u), grad(v)) * dx + 3 * inner(u, v) * dx
    bcs = [femgpu.DirichletBC(V, 0.5, lambda x: (x[0] < 1e-9) & (x[1] < 0.6))]
    if rough:
        F += inner(u, u) * inner(grad(u), grad(v)) * dx + (1 + inner(u, u)) * inner(u, v) * ds(2)
    if shape:
        F += ufl.div(u) * ufl.div(v) * dx
        bcs.append(femgpu.DirichletBC(V, 0.0, 1, component=1))
    problem = femgpu.NonlinearProblem(F, u, bcs)
    values = random_vec(problem, 3)
    problem.insert_boundary_values(values)
    problem.linearise(values)
    return problem


def free(space, rows, seed=5):
    """A T-vector of noise, zero where it is prescribed."""
    owned = space.numbering.local_of_owned
    return np.random.default_rng(seed + space.mesh.mpi.rank).standard_normal(len(owned)) * (rows.mask()[owned] == 0)


def check_same(mpi, found, wanted, tolerance):
    size = mpi.allreduce(float(wanted @ wanted)) ** 0.5
    assert size > 0 and np.abs(found - wanted).max(initial=0) <= tolerance * size


@pytest.mark.parallel([1, 3])
def test_matrices_are_galerkin_products():
    """On all meshes, of degree 1 and below degree 2; PETSc's matrix is that of the coarsest one."""
    kinds = [("triangle", (), 1, 2, "double"), ("quadrilateral", 2, 1, 2, "single")]
    if PETSc.COMM_WORLD.size == 1:
        kinds += [("hexahedron", (), 1, 1, "double"), ("tetrahedron", (), 2, 1, "double")]
    for cell, shape, degree, times, precision in kinds:
        tolerance = 1e-12 if precision == "double" else 1e-5
        problem = problem_on(box(cell, times), degree, shape, rough=cell == "triangle")
        runtime, mpi = problem.operator.local.runtime, problem.u.space.mesh.mpi
        with solver([problem.jacobian], PMG | {"pc_femgpu_pmg_precision": precision}) as ksp:
            ksp.setUp()
            levels = ksp.getPC().getPythonContext()._meshes
            meshes = levels.meshes
            assert len(meshes) == times + 1

            def read(mesh, buffer, runtime=runtime):
                return runtime.read(buffer, np.full(mesh.vectors.num_owned, np.nan, mesh.vectors.dtype))

            # The finest matrix is the Jacobian of degree 1.
            linear = levels._bottom
            given = free(meshes[0].space, meshes[0].rows)
            kind = np.float32 if linear.device.single else np.float64
            wanted, found = runtime.empty(8 * len(given)), meshes[0].vectors.empty()
            linear.device.action(runtime.upload(given.astype(kind)), wanted)
            meshes[0].operator.apply(runtime.upload(given.astype(meshes[0].vectors.dtype)), found)
            check_same(mpi, read(meshes[0], found), runtime.read(wanted, np.empty(len(given), kind)), tolerance)
            for finer, coarse, restrict, prolong in zip(meshes, meshes[1:], levels.restrict, levels.prolong, strict=False):
                dtype = finer.vectors.dtype
                given, rough = free(coarse.space, coarse.rows).astype(dtype), free(finer.space, finer.rows, 7).astype(dtype)
                c, r, fine, product = runtime.upload(given), runtime.upload(rough), finer.vectors.empty(), finer.vectors.empty()
                galerkin, found = coarse.vectors.empty(), coarse.vectors.empty()
                for call in prolong(c, fine):
                    call()
                finer.operator.apply(fine, product)
                for call in restrict(product, galerkin):
                    call()
                coarse.operator.apply(c, found)
                result = read(coarse, found)
                check_same(mpi, result, read(coarse, galerkin), tolerance)
                for call in restrict(r, galerkin):
                    call()
                products = rough @ read(finer, fine), read(coarse, galerkin) @ given
                left, right = (mpi.allreduce(float(product)) for product in products)
                assert left == pytest.approx(right, rel=100 * tolerance)
            x, y = levels.mat.createVecs()
            x.setArray(given)
            for _ in range(2):  # a second set-up finds the numbers of the first one
                levels.mat.mult(x, y)
                check_same(mpi, result, y.array_r, tolerance)
                levels.fill()
            coarse.diagonal(found)
            levels.mat.getDiagonal(y)
            inside = coarse.rows.mask()[coarse.space.numbering.local_of_owned] == 0
            check_same(mpi, read(coarse, found)[inside], y.array_r[inside], tolerance)
            # The owner alone says what stands on the diagonal of prescribed rows.
            np.testing.assert_allclose(y.array_r[~inside], problem.operator.transfer.scale if degree == 1 else y.array_r[~inside])


# Iterations of CG by cell, components and degree: on a box that was refined so many times, on any number of ranks.
ITERATIONS = {
    ("triangle", (), 1): {3: 8, 5: 8},
    ("quadrilateral", 2, 1): {3: 8, 5: 8},
    ("tetrahedron", (), 2): {1: 8, 2: 11},
    ("hexahedron", (), 1): {2: 5, 3: 7},
}


@pytest.mark.parallel([1, 2, 3])
def test_iterations_depend_neither_on_the_mesh_nor_on_ranks():
    found = {}
    for number, ((cell, shape, degree), wanted) in enumerate(ITERATIONS.items()):
        for times in wanted if PETSc.COMM_WORLD.size == 1 else list(wanted)[: 1 if number < 2 else 0]:
            problem = problem_on(box(cell, times), degree, shape)
            with solver([problem.jacobian], PMG | own("CG") | {"ksp_rtol": 1e-8}) as ksp:
                b = random_vec(problem)
                ksp.solve(b, b.duplicate())
                assert ksp.getConvergedReason() > 0 and ksp.getPC().getPythonContext()._meshes is not None
                found.setdefault((cell, shape, degree), {})[times] = ksp.getIterationNumber()
    assert all(abs(its - ITERATIONS[key][times]) <= 1 for key, own in found.items() for times, its in own.items()), found


def view_of(pc):
    viewer = PETSc.Viewer().createASCII("pmg_view.txt", comm=pc.comm)
    pc.getPythonContext().view(pc, viewer)
    viewer.flush()
    viewer.destroy()
    with open("pmg_view.txt") as file:
        return file.read()


def test_where_there_are_none_it_is_as_before(tmp_path, monkeypatch):
    """Switched off, on a mesh that nobody refined, and on one whose cells are not the children of the coarser one's."""
    monkeypatch.chdir(tmp_path)
    found = {}
    for name in ("off", "unknown", "wrong", "on"):
        dm = femgpu.mesh.box((4, 4), cell="triangle")
        fine = refined(dm)
        if name in ("unknown", "wrong"):
            fine = dm.refine()
        if name == "wrong":
            fine.setCoarseDM(femgpu.mesh.box((8, 2), cell="triangle"))
        problem = problem_on(fine, 1)
        with solver(
            [problem.jacobian], PMG | own("CG") | {"pc_femgpu_pmg_geometric": "no"} if name == "off" else PMG | own("CG")
        ) as ksp:
            b = random_vec(problem)
            ksp.solve(b, b.duplicate())
            found[name] = ksp.getConvergenceHistory().tolist(), view_of(ksp.getPC())
    for name in ("unknown", "wrong"):
        assert found[name][0] == pytest.approx(found["off"][0])
    assert "levels on coarser meshes: the cells of a rank are not the children" in found["wrong"][1]
    assert "coarser meshes" not in found["off"][1] + found["unknown"][1] + found["on"][1]
    assert "on 128 cells, sparse: 81 dofs" in found["on"][1] and "cells" not in found["off"][1]


def test_newton_keeps_them():
    """p-Laplace: numbers are all that a second set-up changes."""
    dm = box("triangle", 3)
    V = femgpu.FunctionSpace(dm, "Lagrange", 2)
    u, v = femgpu.Function(V), ufl.TestFunction(V)
    F = (0.01 + inner(grad(u), grad(u))) ** 0.5 * inner(grad(u), grad(v)) * dx - v * dx
    bcs = [femgpu.DirichletBC(V, 0.0, "boundary")]
    problem = femgpu.NonlinearProblem(F, u, bcs, petsc_options=PMG | own("CG") | {"ksp_rtol": 1e-6, "snes_rtol": 1e-9})
    kept = []

    def note(snes, number, norm):
        context = snes.ksp.pc.getPythonContext()
        kept.append((context._meshes, context._cycle))

    problem.snes.setMonitor(note)
    problem.solve()
    newton, linear = problem.snes.getIterationNumber(), problem.snes.getLinearSolveIterations()
    assert newton >= 3 and kept[1] == kept[-1] and kept[1][0] is not None
    assert linear <= 14 * newton, (linear, newton)
    # Tolerances of Eisenstat and Walker reach femgpu's methods as they do PETSc's that look at residuals.
    counts = []
    for kind in (own("CG"), {"ksp_type": "cg", "ksp_norm_type": "unpreconditioned"}):
        u.vec.set(0)
        problem = femgpu.NonlinearProblem(F, u, bcs, petsc_options=PMG | kind | {"snes_ksp_ew": None, "snes_rtol": 1e-9})
        problem.solve()
        counts.append((problem.snes.getIterationNumber(), problem.snes.getLinearSolveIterations()))
    assert counts[0] == counts[1] and counts[0][1] < linear, (counts, linear)


def test_near_null_spaces_reach_the_coarsest_mesh():
    dm = refined(femgpu.mesh.box((8, 2, 2), cell="hexahedron", upper=(4, 1, 1)))
    V = femgpu.FunctionSpace(dm, "Lagrange", 1, 3)
    u, v = femgpu.Function(V), ufl.TestFunction(V)
    strain = ufl.sym(grad(u))
    problem = femgpu.NonlinearProblem(inner(2 * strain + ufl.tr(strain) * ufl.Identity(3), grad(v)) * dx - v[2] * dx, u)
    problem.set_near_nullspace(femgpu.rigid_body_modes(V))
    problem.linearise(u.vec)
    with solver([problem.jacobian], PMG) as ksp:
        ksp.setUp()
        context = ksp.getPC().getPythonContext()
        mat, modes = context._meshes.mat, context._meshes.mat.getNearNullSpace().getVecs()
        assert len(modes) == 6 and mat.getBlockSize() == 3
        product = modes[0].duplicate()
        for mode in modes:
            mat.mult(mode, product)
            assert product.norm() <= 1e-12 * mat.norm() * mode.norm()


def test_meshes_of_the_command_line_keep_those_that_they_refine():
    for name, cells in (("dm_refine", (32, 8, 2)), ("dm_refine_hierarchy", (32, 8, 2))):
        options = PETSc.Options()
        given = {"dm_plex_dim": "2", "dm_plex_box_faces": "1,1", name: "2"}
        for key, value in given.items():
            options[key] = value
        mesh, found = Mesh.of(femgpu.mesh.create()), []
        for key in given:
            options.delValue(key)
        V = femgpu.FunctionSpace(mesh.clone_dm(), "Lagrange", 1)
        assert len(ladder(V)[0]) == 2
        while mesh is not None:
            found.append(mesh.num_cells_global)
            mesh = mesh.coarser
        assert tuple(found) == cells
