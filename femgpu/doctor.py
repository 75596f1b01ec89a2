"""Looks at everything that femgpu stands on, and says what is missing and how to mend it.

No library is imported before its own check, so that the checks run also where PETSc or OpenCL cannot be loaded.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from importlib import import_module, metadata
from importlib.util import find_spec
from pathlib import Path

from femgpu.caches import cache_folder, refusal

PYTHON = (3, 11)
# Distribution, module, and how its version must begin.
REQUIRED = (
    ("numpy", "numpy", ""),
    ("fenics-ufl", "ufl", "2026.2"),
    ("fenics-basix", "basix", "0.11"),
    ("Mako", "mako", ""),
    ("rich", "rich", ""),
)
OPTIONAL = (
    ("pyvista", "pictures of solutions", "pip install 'femgpu[plot]'"),
    ("matplotlib", "plots of benchmarks", "pip install 'femgpu[plot]'"),
    ("gmsh", "scripts that make meshes", "pip install 'femgpu[mesh]'"),
)
PETSC = "3.26"
_NO_PLATFORM = "install a driver that puts a file into /etc/OpenCL/vendors; unset OCL_ICD_VENDORS and OCL_ICD_FILENAMES"


@dataclass(frozen=True)
class Finding:
    """What one check found.

    Attributes:
        status: `ok`, `warn` (something optional is missing) or `fail`.
        what: the thing that was looked at.
        text: what was found.
        remedy: what to do; empty when all is well.
    """

    status: str
    what: str
    text: str
    remedy: str = ""

    def __str__(self) -> str:
        lines = [f"{self.status:<5} {self.what}: {self.text}"]
        if self.remedy:
            lines.append(f"      -> {self.remedy}")
        return "\n".join(lines)


Findings = Iterator[Finding]


def examine() -> Findings:
    """Runs all checks; a check that breaks off becomes a finding."""
    for what, check in CHECKS:
        try:
            yield from check()
        except Exception as error:
            yield Finding("fail", what, f"{type(error).__name__}: {error}")


def check_python() -> Findings:
    """The interpreter."""
    version = ".".join(map(str, sys.version_info[:3]))
    if sys.version_info[:2] >= PYTHON:
        yield Finding("ok", "Python", f"{version}, {sys.executable}")
    else:
        wanted = ".".join(map(str, PYTHON))
        yield Finding("fail", "Python", version, f"expected {wanted} or newer: PYTHON=python{wanted} scripts/setup")


def check_packages() -> Findings:
    """The packages that femgpu imports, without PETSc, MPI and OpenCL."""
    for distribution, module, wanted in REQUIRED:
        try:
            import_module(module)
            version = _version(distribution, module)
        except (ImportError, OSError) as error:
            yield Finding("fail", distribution, str(error), _install(distribution, wanted))
            continue
        if version.startswith(wanted):
            yield Finding("ok", distribution, version)
        else:
            yield Finding("fail", distribution, f"{version}; expected {wanted}", _install(distribution, wanted))


def check_petsc() -> Findings:
    """PETSc, its version and its build."""
    try:
        from petsc4py import PETSc
    except (ImportError, OSError) as error:
        remedy = "run scripts/setup, or set PETSC_DIR and pip install --no-build-isolation petsc4py of PETSc's version"
        yield Finding("fail", "petsc4py", str(error), remedy)
        return
    version, bindings = ".".join(map(str, PETSc.Sys.getVersion())), _version("petsc4py", "petsc4py")
    good = version.startswith(PETSC) and bindings.startswith(PETSC)
    text = f"PETSc {version}, petsc4py {bindings}, {PETSc.__file__}"
    yield Finding("ok" if good else "fail", "petsc4py", text, "" if good else f"expected {PETSC}: run scripts/setup")
    # Imports refuse complex, single-precision and 64-bit builds.
    from femgpu import petsc_c

    yield Finding("ok", "PETSc's numbers", ", ".join(given for given, _ in petsc_c.build_kinds()))
    for package, loss, option in (
        ("viennacl", "PETSc's own solvers keep no vectors on the device", "--download-viennacl --with-opencl"),
        ("hdf5", "no .h5 files can be written or read", "--with-hdf5"),
    ):
        if PETSc.Sys.hasExternalPackage(package):
            yield Finding("ok", f"PETSc with {package}", "yes")
        else:
            yield Finding("warn", f"PETSc with {package}", f"no: {loss}", f"configure PETSc with {option}")


def check_mpi() -> Findings:
    """mpi4py, and whether it talks to the same MPI as PETSc."""
    try:
        from mpi4py import MPI
    except (ImportError, OSError) as error:
        remedy = "pip install mpi4py, with the mpicc of PETSc's MPI on the PATH"
        yield Finding("fail", "mpi4py", str(error), remedy)
        return
    library = MPI.Get_library_version().splitlines()[0].split(",")[0]
    yield Finding("ok", "mpi4py", f"{_version('mpi4py', 'mpi4py')}, {library}")
    try:
        from petsc4py import PETSc
    except (ImportError, OSError):
        return
    found = _mapped("libmpi.") | _mapped("libmpich.")
    if len(found) > 1:
        remedy = "build both with one mpicc: MPICC=... pip install --no-binary mpi4py --force-reinstall mpi4py"
        yield Finding("fail", "MPI of PETSc and mpi4py", f"two libraries: {', '.join(sorted(found))}", remedy)
        return
    same = MPI.Comm.Compare(PETSc.COMM_WORLD.tompi4py(), MPI.COMM_WORLD) in (MPI.IDENT, MPI.CONGRUENT)
    remedy = "" if same else "install mpi4py with the mpicc that PETSc was built with"
    text = f"the same, {MPI.COMM_WORLD.size} rank(s)" if same else "their communicators differ"
    yield Finding("ok" if same else "fail", "MPI of PETSc and mpi4py", text, remedy)


def check_opencl() -> Findings:
    """OpenCL's loaders and devices; one kernel on the device that this process takes."""
    from femgpu.errors import FemgpuError

    try:
        from femgpu import runtime
        from femgpu.runtime.loaders import loaders, variables
    except (ImportError, OSError) as error:
        yield Finding("fail", "pyopencl", str(error), "pip install pyopencl")
        return
    yield Finding("ok", "pyopencl", _version("pyopencl", "pyopencl"))
    for name, value in variables().items():
        yield Finding("ok", name, f"{value} (steers the loaders below)")
    for path, count in loaders():
        whose = "pyopencl's" if "pyopencl" in path else "PETSc's or the system's"
        text = f"{path} ({whose}) finds {count} platform(s)"
        yield Finding("ok" if count else "warn", "OpenCL loader", text, "" if count else _NO_PLATFORM)
    try:
        for device, _ in runtime.devices():
            remedy = "" if device.fp64 else "femgpu cannot use this device; choose another by -femgpu_device"
            text = f"{device}, {'double precision' if device.fp64 else 'no double precision'}"
            yield Finding("ok" if device.fp64 else "warn", "device", text, remedy)
        yield from _check_kernel()
    except FemgpuError as error:
        yield Finding("fail", "OpenCL", str(error))


def _check_kernel() -> Findings:
    try:
        from mpi4py import MPI

        from femgpu import options
    except (ImportError, OSError):
        yield Finding("warn", "kernel", "not run: it needs petsc4py and mpi4py", "mend these first")
        return
    from femgpu import runtime
    from femgpu.runtime.selftest import self_test

    chosen = runtime.for_comm(options.read().device, MPI.COMM_WORLD)
    error = self_test(chosen)
    yield Finding("ok", "kernel", f"built and run on {chosen.device}, relative error {error:.0e}")


def check_cache() -> Findings:
    """Where built kernels are kept."""
    folder = cache_folder()
    if folder is None:
        text = "off (FEMGPU_CACHE_DIR=0): every run compiles its kernels"
        yield Finding("warn", "kernel cache", text, "unset FEMGPU_CACHE_DIR")
        return
    if why := refusal(folder):
        yield Finding("fail", "kernel cache", why, "set FEMGPU_CACHE_DIR to a writable folder, or to 0")
        return
    entries = list(folder.glob("*.bin"))
    size = sum(entry.stat().st_size for entry in entries) / 2**20
    yield Finding("ok", "kernel cache", f"{folder}, {len(entries)} kernels, {size:.1f} MiB")


def check_optional() -> Findings:
    """What only some things need."""
    for module, purpose, remedy in OPTIONAL:
        if find_spec(module) is None:
            yield Finding("warn", module, f"not installed; only for {purpose}", remedy)
        else:
            yield Finding("ok", module, f"{_version(module, module)} (optional: {purpose})")


def _version(distribution: str, module: str) -> str:
    """Of a package that is there; one that was built with PETSc, say, brings no metadata."""
    try:
        return metadata.version(distribution)
    except metadata.PackageNotFoundError:
        return str(getattr(sys.modules.get(module), "__version__", "of unknown version"))


def _install(distribution: str, wanted: str) -> str:
    return f"pip install '{distribution}=={wanted}.*'" if wanted else f"pip install {distribution}"


def _mapped(name: str) -> set[str]:
    """Files mapped into this process whose name begins so; empty where that cannot be seen."""
    try:
        lines = Path("/proc/self/maps").read_text().splitlines()
    except OSError:
        return set()
    return {str(Path(line.split()[-1]).resolve()) for line in lines if Path(line.split()[-1]).name.startswith(name)}


CHECKS: tuple[tuple[str, Callable[[], Findings]], ...] = (
    ("Python", check_python),
    ("packages", check_packages),
    ("petsc4py", check_petsc),
    ("MPI", check_mpi),
    ("OpenCL", check_opencl),
    ("kernel cache", check_cache),
    ("optional packages", check_optional),
)
