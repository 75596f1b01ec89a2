"""Bad input: each kind raises one clear exception, on all ranks together, and leaves no partial output.

A message says what was given, what was expected and what to do; the tests look for these three.
"""

import errno
import os
import re
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import ufl
from conftest import CHILD_ENVIRONMENT
from mpi4py import MPI
from petsc4py import PETSc
from ufl import dx, grad, inner

from femgpu import (
    DirichletBC,
    Function,
    FunctionSpace,
    NonlinearProblem,
    PointwiseForm,
    assemble,
    coordinates,
    errors,
    mesh,
    petsc_c,
    runtime,
    write,
)
from femgpu.errors import BuildError, DataError, DeviceError, FormError, MeshError, OptionError, PlanError, SolverError
from femgpu.io import vtu
from femgpu.runtime import process, program

WORLD = MPI.COMM_WORLD
ROOT = Path(__file__).parents[2]
# A rank that waits for the others for ever would otherwise be noticed after ten minutes.
on_ranks = [pytest.mark.parallel([1, 2]), pytest.mark.timeout(120)]


def every_rank(*marks):
    """Decorates a test that must end on all ranks."""

    def decorate(test):
        for mark in (*on_ranks, *marks):
            test = mark(test)
        return test

    return decorate


@pytest.fixture(scope="module")
def space():
    return FunctionSpace(mesh.box((4, 4), cell="triangle", comm=PETSc.COMM_SELF), "Lagrange", 1)


def poisson(V, kappa=1.0, measure=dx, **arguments):
    """A problem on V that has nothing wrong with it."""
    u, v = Function(V), ufl.TestFunction(V)
    bcs = [DirichletBC(V, arguments.pop("value", 0.0), arguments.pop("region", "boundary"))]
    return NonlinearProblem(kappa * inner(grad(u), grad(v)) * measure - v * measure, u, bcs=bcs, **arguments)


def everywhere(kind, call):
    """The message of the exception that a call raises on this rank; all ranks have met once it returns."""
    with pytest.raises(kind) as caught:
        call()
    assert isinstance(caught.value, errors.FemgpuError)
    assert WORLD.allreduce(1) == WORLD.size
    return str(caught.value)


# Meshes


@every_rank()
def test_missing_mesh_file(set_options):
    text = everywhere(MeshError, lambda: mesh.read("no_such_mesh.msh"))
    assert "no_such_mesh.msh" in text and "does not exist" in text and "absolute" in text
    set_options(dm_plex_filename="no_such_mesh.msh")
    assert "no_such_mesh.msh" in everywhere(MeshError, mesh.create)


@every_rank()
def test_malformed_mesh_files(folder):
    whole = (ROOT / "meshes" / "bracket.msh").read_bytes()
    contents = {
        "empty.msh": b"",
        "text.msh": b"solid teapot\n",
        "cut.msh": whole[: len(whole) // 3],
        "mixed.msh": whole.replace(b"$EndNodes", b"$EndNode_"),
        "unknown.xyz": b"1 2 3\n",
    }
    if WORLD.rank == 0:
        for name, data in contents.items():
            (folder / name).write_bytes(data)
    WORLD.barrier()
    for name in contents:
        text = everywhere(MeshError, lambda name=name: mesh.read(folder / name))
        assert name in text and ("expected" in text or "write it again" in text), text


@every_rank()
def test_mesh_without_the_label():
    V = FunctionSpace(mesh.box((3, 3), cell="triangle"), "Lagrange", 1)
    text = everywhere(MeshError, lambda: poisson(V, region=7))
    assert "no value 7 in label 'Face Sets'" in text and "'Face Sets': values 1, 2, 3, 4" in text and "gmsh" in text
    text = everywhere(MeshError, lambda: poisson(V, region=("Inlet", 1)))
    assert "no label 'Inlet'" in text and "'marker'" in text
    text = everywhere(MeshError, lambda: poisson(V, measure=dx(5)))
    assert "no label 'Cell Sets'" in text and "'Face Sets'" in text


# Data


@pytest.mark.parametrize("value", [lambda x: np.zeros(3), lambda x: x, [1.0, 2.0], "one"])
def test_boundary_values_of_wrong_shape(space, value):
    with pytest.raises(DataError, match=r"boundary values (have shape .*; expected|are 'one'; expected numbers)"):
        poisson(space, value=value)


def test_boundary_value_on_another_mesh(space):
    other = Function(FunctionSpace(mesh.box((3, 3), cell="triangle"), "Lagrange", 2), name="g")
    with pytest.raises(DataError, match="the expression g lives on another mesh"):
        poisson(space, value=other)


def test_coefficients_of_wrong_shape(space):
    vector = Function(FunctionSpace(space.dm, "Lagrange", 1, shape=(2,)), name="wind")
    with pytest.raises(DataError, match=r"values of wind have shape \(3, \d+\); expected \(2, \d+\)"):
        vector.interpolate(lambda x: np.zeros((3, x.shape[1])))
    with pytest.raises(DataError, match=r"values of wind have shape \(3,\); expected"):
        vector.interpolate([1.0, 2.0, 3.0])
    elsewhere = Function(FunctionSpace(mesh.box((2, 2), cell="triangle", comm=PETSc.COMM_SELF), "Lagrange", 1), name="k")
    with pytest.raises(FormError, match="two meshes .*build all spaces, Functions and Constants from one DM"):
        poisson(space, kappa=elsewhere, measure=dx(space.ufl_domain()))


@every_rank()
def test_coefficient_that_is_not_finite():
    V = FunctionSpace(mesh.box((3, 3), cell="triangle"), "Lagrange", 1)
    kappa = Function(V, name="kappa")
    kappa.interpolate(1.0)
    if WORLD.rank == WORLD.size - 1:
        values = kappa.vec.array_r.copy()
        values[0] = np.nan
        kappa.vec.setArray(values)
    text = everywhere(DataError, lambda: poisson(V, kappa).solve())
    assert "coefficient kappa has 1 entries" in text and "expected finite numbers" in text
    assert "coefficient kappa" in everywhere(DataError, lambda: assemble(kappa * dx))
    kappa.interpolate(1.0)
    problem = poisson(V, kappa)
    problem.solve()
    if WORLD.rank == WORLD.size - 1:
        # Only this rank's vector changes its state: the others must look at theirs again.
        values[0] = np.inf
        kappa.vec.setArray(values)
    assert "coefficient kappa" in everywhere(DataError, problem.solve)


@every_rank()
def test_initial_guess_that_is_not_finite():
    V = FunctionSpace(mesh.box((3, 3), cell="triangle"), "Lagrange", 1)
    problem = poisson(V)
    if WORLD.rank == 0:
        problem.u.vec.setArray(np.full(problem.u.vec.getLocalSize(), np.inf))
    text = everywhere(DataError, problem.solve)
    assert "the initial guess u has" in text and "expected finite numbers" in text


@every_rank()
def test_boundary_values_that_are_not_finite():
    V = FunctionSpace(mesh.box((3, 3), cell="triangle"), "Lagrange", 1)
    text = everywhere(DataError, lambda: poisson(V, value=lambda x: np.where(x[0] + x[1] > 1.9, np.nan, 0.0)))
    assert "boundary values are not finite, first at the point" in text
    given = Function(V, name="given")
    given.vec.set(np.nan)
    assert "boundary values of given are not finite" in everywhere(DataError, lambda: poisson(V, value=given))


# Forms


def test_unsupported_ufl_is_printed(space):
    u, v = Function(space), ufl.TestFunction(space)
    with pytest.raises(FormError, match="[Bb]essel") as caught:
        NonlinearProblem(ufl.bessel_K(0.5, u) * v * dx, u)
    assert "u" in str(caught.value)
    with pytest.raises(FormError, match=r"[Ff]acet"):
        NonlinearProblem(inner(ufl.FacetNormal(space.ufl_domain()), grad(v)) * u * dx, u)


def test_facets_that_are_not_there(space):
    u, v = Function(space), ufl.TestFunction(space)
    F = inner(grad(u), grad(v)) * dx
    with pytest.raises(MeshError, match="the mesh has no value 77 in label 'Face Sets'; it has 'Face Sets': values 1"):
        NonlinearProblem(F - v * ufl.ds(77), u)
    with pytest.raises(MeshError, match="no value 77"):
        NonlinearProblem(PointwiseForm(space, f0="f0[0] = 1;", facets={77: {"f0": "f0[0] = 1;"}}), u)
    with pytest.raises(MeshError, match="the mesh has no value 77 in label 'Face Sets'"):
        NonlinearProblem(F - ufl.avg(v) * ufl.dS(77), u)
    with pytest.raises(MeshError, match="the region 1 marks no facet between two cells"):
        NonlinearProblem(F - ufl.avg(v) * ufl.dS(1), u)


def test_mixed_function_spaces_of_ufl_are_refused_by_name(space):
    W = ufl.MixedFunctionSpace(space, FunctionSpace(space.dm, "Lagrange", 2))
    u, (v, q) = Function(space), ufl.TestFunctions(W)
    with pytest.raises(FormError, match="MixedFunctionSpace; expected an unknown Function for each part, .* femgpu.MixedSpace"):
        NonlinearProblem(inner(grad(u), grad(v)) * dx + u * q * dx, u)


def test_families_without_lagrange_functions_are_refused_by_name(space):
    for family, said in (
        ("Real", r".* dense rows of the matrix; .*set_nullspace.* Lagrange multiplier of c . u = m two solves"),
        ("Bubble", "bubbles alone are no space of femgpu's: take 'P[+]B'"),
        ("Quadrature", "its functions have no values between the points of a rule"),
        ("RT", "expected one of Lagrange"),
    ):
        with pytest.raises(FormError, match=f"element family '{family}': {said}"):
            FunctionSpace(space.dm, family, 3)


def test_pointwise_c_that_does_not_compile(space):
    form = PointwiseForm(space, f0="f0[0] = u[0] + no_such_name;", g0="g0[0] = 1;")
    with pytest.raises(BuildError, match="no_such_name") as caught:
        NonlinearProblem(form, Function(space)).solve()
    text = str(caught.value)
    assert "C bodies of yours" in text and "error: " in text
    path = Path(re.search(r"its source is in (\S+\.cl)", text)[1])
    assert "no_such_name" in path.read_text()
    path.unlink()


# Devices and builds of PETSc

_SOLVE = """
import sys, ufl
from ufl import dx
from femgpu import Function, FunctionSpace, NonlinearProblem, mesh
from femgpu.errors import DeviceError
V = FunctionSpace(mesh.box((2, 2), cell="triangle"), "Lagrange", 1)
u, v = Function(V), ufl.TestFunction(V)
try:
    NonlinearProblem(u * v * dx - v * dx, u)
except DeviceError as error:
    print(error)
    sys.exit(3)
"""


def test_no_opencl_platform(tmp_path):
    environment = {**CHILD_ENVIRONMENT, "OCL_ICD_VENDORS": str(tmp_path), "OCL_ICD_FILENAMES": ""}
    done = subprocess.run([sys.executable, "-c", _SOLVE], env=environment, capture_output=True, text=True, timeout=120)
    assert done.returncode == 3, done.stderr
    assert "no OpenCL platform found" in done.stdout and "pocl-opencl-icd" in done.stdout


@pytest.fixture
def other_devices(monkeypatch):
    """`other_devices(fp64=(False, True))`: copies of this process's device stand for the node's, none of them taken."""
    device, handle = runtime.devices()[0]

    def put(**properties):
        count = len(next(iter(properties.values())))
        found = [replace(device, index=i, **{name: each[i] for name, each in properties.items()}) for i in range(count)]
        monkeypatch.setattr(process, "devices", lambda: [(entry, handle) for entry in found])
        monkeypatch.setattr(process, "_current", None)

    return put


@pytest.mark.parametrize("precision", ["double", "single", "mixed"])
def test_no_double_precision_on_the_device(space, set_options, other_devices, precision):
    set_options(femgpu_precision=precision)
    other_devices(fp64=(False,))
    with pytest.raises(DeviceError, match=r"no double precision \(cl_khr_fp64\).*pocl-opencl-icd"):
        poisson(space)
    other_devices(fp64=(False, True))
    with pytest.raises(DeviceError, match=r"no double precision.*choose another by -femgpu_device: \[1\]"):
        poisson(space)


def test_device_that_is_not_there(space, set_options, other_devices):
    other_devices(fp64=(True,))
    set_options(femgpu_device="3")
    with pytest.raises(DeviceError, match=r"-femgpu_device 3: no such index; devices are \[0\]"):
        poisson(space)
    set_options(femgpu_device="no such name")
    with pytest.raises(DeviceError, match=r"no device has this in its name; devices are \[0\]"):
        poisson(space)


def test_not_enough_device_memory(space, monkeypatch):
    chosen = runtime.current()
    small = replace(chosen.device, global_bytes=chosen.allocated_bytes + 1000)
    monkeypatch.setattr(chosen, "device", small)
    before = chosen.num_allocations
    with pytest.raises(DeviceError, match=r"needs at least \d+ bytes; 1000 of the \d+ bytes .*[Uu]se more ranks"):
        poisson(space)
    assert chosen.num_allocations == before


@every_rank()
def test_an_allocation_that_fails_on_one_rank_fails_on_all(set_options, monkeypatch):
    """Whichever it is: no rank is left waiting for the others."""
    set_options(femgpu_scatter="gather", femgpu_qdata="store")
    V = FunctionSpace(mesh.box((4, 4), cell="triangle"), "Lagrange", 1)
    kappa = Function(V, "kappa")
    kappa.interpolate(lambda x: 1 + x[0])
    kind = type(runtime.current())
    plain, made, fails = kind.empty, 0, 0

    def empty(self, num_bytes):
        nonlocal made
        made += 1
        if made == fails and WORLD.rank == WORLD.size - 1:
            raise DeviceError("planted")
        return plain(self, num_bytes)

    def build():
        problem = poisson(V, kappa * (1 + kappa))
        problem.build()

    monkeypatch.setattr(kind, "empty", empty)
    for call in (lambda: assemble(kappa * kappa * dx), build):
        made, fails = 0, 0
        call()
        count = WORLD.bcast(made, WORLD.size - 1)
        assert count >= 5
        for number in range(1, count + 1):
            made, fails = 0, number
            runtime.current()._uploaded.clear()  # what a failure before still holds would be shared
            assert "planted" in everywhere(DeviceError, call)


def test_buffer_larger_than_the_device_allows(monkeypatch):
    chosen = runtime.current()
    monkeypatch.setattr(chosen, "device", replace(chosen.device, max_alloc_bytes=4096))
    before = chosen.allocated_bytes
    with pytest.raises(DeviceError, match="4104 bytes needed in one buffer; .* one buffer may have 4096"):
        chosen.upload(np.zeros(513))
    assert chosen.allocated_bytes == before


@pytest.mark.parametrize(
    "name, kind, said",
    [
        ("ScalarType", np.complex128, "complex scalars .*--with-scalar-type=real"),
        ("IntType", np.int64, "64-bit indices .*--with-64-bit-indices=0"),
        ("RealType", np.float32, "single precision .*--with-precision=double"),
    ],
)
def test_builds_of_petsc_that_do_not_fit(monkeypatch, name, kind, said):
    petsc_c.check_build()
    monkeypatch.setattr(PETSc, name, kind)
    with pytest.raises(DeviceError, match=said):
        petsc_c.check_build()


# Options


@pytest.mark.parametrize(
    "name, value, said",
    [
        ("petscfe_num_blocks", "-1", "expected an integer of at least 0"),
        ("petscfe_num_batches", "many", "expected an integer"),
        (
            "femgpu_schedule",
            "sideways",
            r"expected one of auto, gemm\[.*\], sumfact\[:group_size=N,.*\], cell\[:group_size=N,lanes=N,.*sums=.*\], transposed\[",
        ),
        ("femgpu_deterministic", "perhaps", "expected nothing, or one of 1, true"),
        ("femgpu_shedule", "cell", "did you mean -femgpu_schedule.*-femgpu_precision"),
    ],
)
def test_illegal_options(space, set_options, name, value, said):
    set_options(**{name: value})
    with pytest.raises(OptionError, match=f"-{name}.*{said}"):
        poisson(space)


def test_options_that_contradict_each_other(space, set_options):
    set_options(femgpu_deterministic=True, femgpu_scatter="atomic")
    with pytest.raises(OptionError, match="forbids -femgpu_scatter atomic; use"):
        poisson(space)


def test_work_group_that_the_device_does_not_allow(space, set_options):
    limit = runtime.current().device.max_group
    set_options(femgpu_schedule=f"cell:group_size={limit + 1}")
    with pytest.raises(PlanError, match=f"-femgpu_schedule cell:group_size={limit + 1}: the device allows 1 to {limit}"):
        poisson(space).solve()


def test_schedule_asked_for_by_name_that_does_not_serve(space, set_options):
    set_options(femgpu_schedule="transposed")
    u, v = Function(space), ufl.TestFunction(space)
    F = u * v * ufl.ds
    with pytest.raises(PlanError, match="-femgpu_schedule transposed: .* serves cells, not facets; use schedule cell"):
        NonlinearProblem(F, u)


def test_kernel_dump_into_a_file(space, set_options, tmp_path):
    (tmp_path / "dump").write_text("")
    set_options(femgpu_kernel_dump=str(tmp_path / "dump"), femgpu_schedule="cell:group_size=61")
    try:
        with pytest.raises(OptionError, match="-femgpu_kernel_dump .*name another folder"):
            poisson(space).solve()
    finally:
        runtime.current().programs.dump_folder = ""


# Solvers


def test_divergence_names_the_reason(space, set_options):
    set_options("stuck_", snes_max_it=1, snes_rtol=1e-14, snes_type="newtonls")
    u, v = Function(space), ufl.TestFunction(space)
    x = coordinates(space.dm)
    F = (1 + u**2) * inner(grad(u), grad(v)) * dx - 100 * x[0] * v * dx
    problem = NonlinearProblem(F, u, bcs=[DirichletBC(space, 1.0)], options_prefix="stuck_")
    with pytest.raises(SolverError, match=r"SNES_DIVERGED_MAX_IT after 1 iterations.*KSP_CONVERGED.*-stuck_snes_monitor"):
        problem.solve()


def test_residual_that_is_not_finite(space):
    u, v = Function(space), ufl.TestFunction(space)
    F = inner(grad(u), grad(v)) * dx + ufl.ln(u - 1) * v * dx
    with pytest.raises(SolverError, match=r"SNES_DIVERGED_\w+ after 0 iterations.*initial guess"):
        NonlinearProblem(F, u, bcs=[DirichletBC(space, 0.0)]).solve()


def test_driver_that_diverges_has_an_exit_code(tmp_path):
    output = tmp_path / "u.vtu"
    options = "-dm_plex_box_faces 4,4 -ksp_type cg -pc_type none -ksp_max_it 1 -exact trigonometric".split()
    command = [
        "mpiexec",
        "-n",
        "2",
        sys.executable,
        str(ROOT / "drivers" / "poisson.py"),
        *options,
        "-output",
        str(output),
    ]
    done = subprocess.run(command, env=CHILD_ENVIRONMENT, capture_output=True, text=True, timeout=120)
    assert done.returncode != 0
    assert "SNES_DIVERGED_LINEAR_SOLVE" in done.stderr and "KSP_DIVERGED_MAX_IT" in done.stderr
    assert not list(tmp_path.iterdir())


# Files


@pytest.fixture
def stored_programs(monkeypatch):
    """The kernel cache is used also where the driver keeps programs itself, as PoCL does."""
    monkeypatch.setattr(runtime.Device, "caches_programs", False)
    monkeypatch.setattr(runtime.current().programs, "_known", {})


_KERNEL = "__kernel void put(__global float *x) { x[get_global_id(0)] = %d; }"


@pytest.mark.parametrize("damage", ["cut", "garbled", "foreign", "another"])
def test_damaged_cache_entry_is_rebuilt(tmp_path, monkeypatch, stored_programs, damage):
    monkeypatch.setenv("FEMGPU_CACHE_DIR", str(tmp_path))
    chosen = runtime.current()
    source = _KERNEL % os.getpid()
    path = tmp_path / f"{program.key(source, chosen.device)}.bin"
    chosen.build(source, "put")
    whole = path.read_bytes()
    if damage == "another":
        # A whole entry of another program, under the name of this one.
        chosen.build(_KERNEL % -1, "put")
        other = tmp_path / f"{program.key(_KERNEL % -1, chosen.device)}.bin"
        other.replace(path)
    elif damage == "cut":
        path.write_bytes(whole[:-100])
    elif damage == "garbled":
        path.write_bytes(whole[:200] + bytes([whole[200] ^ 1]) + whole[201:])
    else:
        # An entry that is whole, with a binary that no driver knows.
        program._store(path, program.key(source, chosen.device), b"no binary of any device", "")
    monkeypatch.setattr(chosen.programs, "_known", {})
    with pytest.warns(
        UserWarning, match=f"{path.name} is damaged, or another program's; it is built anew|refuses the cached kernel"
    ):
        chosen.build(source, "put")
    assert program._load(path, path.stem) not in (None, b"no binary of any device")
    assert [entry.name for entry in tmp_path.iterdir()] == [path.name]


def test_cache_that_cannot_be_written(tmp_path, monkeypatch, stored_programs):
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("FEMGPU_CACHE_DIR", str(tmp_path / "file"))
    with pytest.warns(UserWarning, match="cannot be written .*; set FEMGPU_CACHE_DIR, 0 disables it"):
        runtime.current().build(_KERNEL % (os.getpid() + 1), "put")


@every_rank()
@pytest.mark.parametrize("suffix", ["vtu", "pvtu", "h5"])
def test_output_that_cannot_be_written(folder, suffix):
    u = Function(FunctionSpace(mesh.box((3, 3), cell="triangle"), "Lagrange", 1))
    target = folder / f"u.{suffix}"
    if WORLD.rank == 0:
        target.mkdir()
    WORLD.barrier()
    text = everywhere(DataError, lambda: write(target, u))
    assert f"cannot write {str(target)!r}" in text
    assert "create it first" in everywhere(DataError, lambda: write(folder / "nowhere" / f"u.{suffix}", u))
    assert [entry.name for entry in folder.iterdir()] == [target.name]


@every_rank()
def test_disk_that_fills_up(folder, monkeypatch):
    def full(stream, *arguments):
        stream.write(b"some")
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    if WORLD.rank == 0:
        monkeypatch.setattr(vtu, "write_vtu", full)
    u = Function(FunctionSpace(mesh.box((3, 3), cell="triangle"), "Lagrange", 1))
    for suffix in ("vtu", "pvtu"):
        assert "No space left" in everywhere(DataError, lambda suffix=suffix: write(folder / f"u.{suffix}", u))
    assert not list(folder.iterdir())
