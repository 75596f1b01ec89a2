"""The functions of libpetsc that petsc4py lacks, called through ctypes; nothing but this and its like, `petsc_...`, do so.

petsc4py's own extension module is linked against libpetsc, so loading it resolves every C function of the very library
that petsc4py uses. Each function checks its preconditions in Python first: an error in the middle of some of these leaves
the DM impossible to destroy.
"""

from __future__ import annotations

from collections.abc import Callable
from ctypes import CDLL, CFUNCTYPE, POINTER, byref, c_char_p, c_double, c_int, c_int32, c_int64, c_void_p, cast
from typing import Any

import numpy as np
import numpy.typing as npt
from petsc4py import PETSc

from femgpu.errors import DeviceError, FemgpuError

_LIB = CDLL(PETSc.__file__)
_Int: Any = c_int64 if np.dtype(PETSc.IntType).itemsize == 8 else c_int32
_IntPtr = POINTER(_Int)
_INT32_MAX = np.iinfo(np.int32).max

# Value of PetscDTSimplexQuadratureType.
_MINIMAL_SYMMETRIC = 1

_SIGNATURES: dict[str, list[Any]] = {
    "DMPlexGetCones": [c_void_p, POINTER(_IntPtr)],
    "DMPlexGetConeOrientations": [c_void_p, POINTER(_IntPtr)],
    "DMPlexGetConeSection": [c_void_p, POINTER(c_void_p)],
    "DMPlexGetOverlap": [c_void_p, _IntPtr],
    "DMGetVecType": [c_void_p, POINTER(c_char_p)],
    "DMSetPeriodicity": [c_void_p, c_void_p, c_void_p, c_void_p],
    "DMPlexInsertBoundaryValues": [c_void_p, c_int, c_void_p, c_double, c_void_p, c_void_p, c_void_p],
    "MatMFFDSetFunction": [c_void_p, c_void_p, c_void_p],
    "MatMFFDSetFunctionError": [c_void_p, c_double],
    "MatMFFDSetOptionsPrefix": [c_void_p, c_char_p],
    "TSGetAdapt": [c_void_p, POINTER(c_void_p)],
    "TSAdaptSetType": [c_void_p, c_char_p],
    "TSSetPreStage": [c_void_p, c_void_p],
    "VecLockGet": [c_void_p, _IntPtr],
    "VecLockReadPop": [c_void_p],
    "MatMFFDSetBase": [c_void_p, c_void_p, c_void_p],
    "PetscDTCreateDefaultQuadrature": [c_int, _Int, POINTER(c_void_p), POINTER(c_void_p)],
    "PetscDTSimplexQuadrature": [_Int, _Int, c_int, POINTER(c_void_p)],
    "PetscQuadratureGetData": [c_void_p, *[_IntPtr] * 3, *[POINTER(POINTER(c_double))] * 2],
    "PetscQuadratureGetOrder": [c_void_p, _IntPtr],
    "PetscQuadratureDestroy": [POINTER(c_void_p)],
    "PetscSectionGetOffset": [c_void_p, _Int, _IntPtr],
    "PetscSectionGetDof": [c_void_p, _Int, _IntPtr],
    "PetscViewerHDF5HasGroup": [c_void_p, c_char_p, POINTER(c_int)],
}


def declare(signatures: dict[str, list[Any]]) -> None:
    """Tells ctypes the arguments of functions that return an error code."""
    for name, argtypes in signatures.items():
        function = getattr(_LIB, name)
        function.argtypes, function.restype = argtypes, c_int


declare(_SIGNATURES)


def check_build() -> None:
    """Refuses builds of PETSc whose numbers are not those of femgpu's kernels; called when femgpu loads.

    Raises:
        DeviceError: for complex scalars, other than double precision, or 64-bit indices.
    """
    wrong = [f"{given} (expected {expected})" for given, expected in build_kinds() if given != expected]
    if wrong:
        raise DeviceError(
            f"this petsc4py ({PETSc.__file__}) is built with {' and '.join(wrong)}; femgpu needs PETSc configured with "
            "--with-scalar-type=real --with-precision=double --with-64-bit-indices=0: set PETSC_DIR and PETSC_ARCH to such "
            "a build, or run scripts/setup"
        )


def build_kinds() -> tuple[tuple[str, str], ...]:
    """What this petsc4py computes with, and what femgpu expects: scalars, precision, indices."""
    scalars = "complex scalars" if np.dtype(PETSc.ScalarType).kind == "c" else "real scalars"
    bits = 8 * np.dtype(PETSc.RealType).itemsize
    precision = {32: "single precision", 64: "double precision"}.get(bits, f"{bits}-bit precision")
    indices = f"{8 * np.dtype(PETSc.IntType).itemsize}-bit indices"
    return (scalars, "real scalars"), (precision, "double precision"), (indices, "32-bit indices")


def cones(dm: PETSc.DMPlex, start: int, end: int) -> npt.NDArray[np.int32]:
    """Cones of the points [start, end) one after the other, (num_entries,) int32: PETSc's own array, which goes with the DM."""
    return _cone_entries("DMPlexGetCones", dm, start, end)


def cone_orientations(dm: PETSc.DMPlex, start: int, end: int) -> npt.NDArray[np.int32]:
    """Orientations of the entries of `cones`."""
    return _cone_entries("DMPlexGetConeOrientations", dm, start, end)


def _cone_entries(function: str, dm: PETSc.DMPlex, start: int, end: int) -> npt.NDArray[np.int32]:
    if end <= start:
        return np.empty(0, np.int32)
    section, first, last, size = c_void_p(), _Int(), _Int(), _Int()
    call("DMPlexGetConeSection", dm.handle, byref(section))
    call("PetscSectionGetOffset", section, start, byref(first))
    call("PetscSectionGetOffset", section, end - 1, byref(last))
    call("PetscSectionGetDof", section, end - 1, byref(size))
    stop = last.value + size.value
    if stop <= first.value:
        return np.empty(0, np.int32)
    flat = _IntPtr()
    call(function, dm.handle, byref(flat))
    entries = np.ctypeslib.as_array(flat, (stop,))[first.value :]
    entries.flags.writeable = False
    return entries


def default_rule(polytope: int, order: int) -> tuple[npt.NDArray[np.float64], npt.NDArray[np.float64], int]:
    """The quadrature that PETSc gives elements on a cell type by itself.

    Args:
        polytope: a PETSc.DM.PolytopeType.
        order: `-petscfe_default_quadrature_order`.

    Returns:
        (num_qpts, dim) points, (num_qpts,) weights, and the degree up to which PETSc takes the rule for exact.
    """
    rule, on_facets = c_void_p(), c_void_p()
    call("PetscDTCreateDefaultQuadrature", polytope, order, byref(rule), byref(on_facets))
    found = _points_and_weights(rule)
    call("PetscQuadratureDestroy", byref(on_facets))
    return found


def symmetric_rule(dim: int, degree: int) -> tuple[npt.NDArray[np.float64], npt.NDArray[np.float64], int]:
    """PETSc's symmetric quadrature on simplices, to degree 20 in one to three dimensions; as `default_rule`."""
    rule = c_void_p()
    call("PetscDTSimplexQuadrature", dim, degree, _MINIMAL_SYMMETRIC, byref(rule))
    return _points_and_weights(rule)


def _points_and_weights(rule: c_void_p) -> tuple[npt.NDArray[np.float64], npt.NDArray[np.float64], int]:
    """What is in a quadrature, which is destroyed."""
    dim, num_comp, num_points, exact = _Int(), _Int(), _Int(), _Int()
    points, weights = POINTER(c_double)(), POINTER(c_double)()
    call("PetscQuadratureGetData", rule, byref(dim), byref(num_comp), byref(num_points), byref(points), byref(weights))
    call("PetscQuadratureGetOrder", rule, byref(exact))
    found = np.ctypeslib.as_array(points, (num_points.value, dim.value)).copy()
    weight = np.ctypeslib.as_array(weights, (num_points.value,)).copy()
    call("PetscQuadratureDestroy", byref(rule))
    return found, weight, exact.value


def overlap(dm: PETSc.DMPlex) -> int:
    """The number of layers of ghost cells that the distribution added."""
    layers = _Int()
    call("DMPlexGetOverlap", dm.handle, byref(layers))
    return layers.value


def vec_type(dm: PETSc.DM) -> str:
    """The type of the vectors that a DM makes."""
    name = c_char_p()
    call("DMGetVecType", dm.handle, byref(name))
    return (name.value or b"standard").decode()


def forget_periods(dm: PETSc.DMPlex) -> None:
    """Makes a DM forget its periods; the coordinates that it keeps per cell across them stay."""
    call("DMSetPeriodicity", dm.handle, None, None, None)


def insert_boundary_values(dm: PETSc.DMPlex, local_vec: PETSc.Vec, time: float = 0.0) -> None:
    """Writes the essential boundary values of the DM's own discrete system at a time into a local vector."""
    call("DMPlexInsertBoundaryValues", dm.handle, 1, local_vec.handle, float(time), None, None, None)


def difference_residual(mat: PETSc.Mat, snes: PETSc.SNES) -> None:
    """Makes a Mat of type mffd the directional difference of the residual of a solver, which must outlive its last product."""
    call("MatMFFDSetFunction", mat.handle, cast(_LIB.SNESComputeFunction, c_void_p), snes.handle)


def difference_options(mat: PETSc.Mat, prefix: str, error: float) -> None:
    """Gives a Mat of type mffd an options prefix and the square root of its function's relative error."""
    call("MatMFFDSetOptionsPrefix", mat.handle, prefix.encode())
    call("MatMFFDSetFunctionError", mat.handle, float(error) ** 0.5)


def difference_at(mat: PETSc.Mat, state: PETSc.Vec) -> None:
    """Sets the state of a Mat of type mffd; its residual there is computed at the first product."""
    call("MatMFFDSetBase", mat.handle, state.handle, None)


def before_stages(ts: PETSc.TS, function: Callable[[float], None]) -> Any:
    """Calls a function, which must not raise, with the time of each stage of a TS before it is solved.

    What is returned must be kept as long as the TS lives: PETSc calls it.
    """

    def before(_: Any, time: float) -> int:
        function(time)
        return 0

    callback = CFUNCTYPE(c_int, c_void_p, c_double)(before)
    call("TSSetPreStage", ts.handle, cast(callback, c_void_p))
    return callback


def set_adapt_type(ts: PETSc.TS, kind: str) -> None:
    """Sets how a TS chooses its step; -ts_adapt_type overrides it where options are read afterwards."""
    adapt = c_void_p()
    call("TSGetAdapt", ts.handle, byref(adapt))
    call("TSAdaptSetType", adapt, kind.encode())


def unlock(vec: PETSc.Vec) -> None:
    """Lifts the read locks that a call of PETSc which failed in the middle left on a vector."""
    state = _Int()
    call("VecLockGet", vec.handle, byref(state))
    for _ in range(max(0, state.value)):
        call("VecLockReadPop", vec.handle)


def has_h5_group(viewer: PETSc.ViewerHDF5, path: str) -> bool:
    """Whether an HDF5 file holds a group; collective."""
    found = c_int()
    call("PetscViewerHDF5HasGroup", viewer.handle, path.encode(), byref(found))
    return bool(found.value)


def call(name: str, *args: Any) -> None:
    """Calls a function that was declared.

    Raises:
        FemgpuError: when it fails.
    """
    code = getattr(_LIB, name)(*args)
    if code:
        raise FemgpuError(f"{name} failed: {PETSc.Error(code)}")


check_build()
