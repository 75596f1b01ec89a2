"""Devices, builds and files that are not what they should be: one clear exception each, on all ranks together."""

import errno
import os
import subprocess
import sys
from dataclasses import replace

import numpy as np
import pytest
from bad_input import WORLD, every_rank, everywhere, poisson
from conftest import CHILD_ENVIRONMENT
from petsc4py import PETSc
from ufl import dx

from femgpu import (
    Function,
    FunctionSpace,
    assemble,
    mesh,
    petsc_c,
    runtime,
    write,
)
from femgpu.errors import DataError, DeviceError
from femgpu.io import vtu
from femgpu.runtime import process, program


@pytest.fixture(scope="module")
def space():
    return FunctionSpace(mesh.box((4, 4), cell="triangle", comm=PETSc.COMM_SELF), "Lagrange", 1)


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
