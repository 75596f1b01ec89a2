"""Finite elements for PETSc on GPUs: weak forms in, OpenCL kernels out, SNES and KSP on top.

Public names are loaded on their first use, so that `femgpu doctor` runs also where PETSc or OpenCL cannot be loaded.
What must be settled before these load is settled here.
"""

from importlib import import_module
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

from femgpu import caches, forks, leaving

if TYPE_CHECKING:
    from femgpu import mesh
    from femgpu.forms import PointwiseForm
    from femgpu.io import write
    from femgpu.operators import ErrorNorm, Functional, error_norm, norm
    from femgpu.solver import (
        CG,
        FCG,
        FGMRES,
        GMRES,
        MINRES,
        PMG,
        AssembledPC,
        BiCGStab,
        Chebyshev,
        FieldSplit,
        FormMatrix,
        LinearProblem,
        NonlinearProblem,
        TimeProblem,
        assemble,
        project,
        start,
    )
    from femgpu.spaces import (
        Constant,
        DirichletBC,
        Function,
        FunctionSpace,
        MixedSpace,
        constant_modes,
        coordinates,
        rigid_body_modes,
        time_derivative,
    )

__all__ = [
    "CG",
    "FCG",
    "FGMRES",
    "GMRES",
    "MINRES",
    "PMG",
    "AssembledPC",
    "BiCGStab",
    "Chebyshev",
    "Constant",
    "DirichletBC",
    "ErrorNorm",
    "FieldSplit",
    "FormMatrix",
    "Function",
    "FunctionSpace",
    "Functional",
    "LinearProblem",
    "MixedSpace",
    "NonlinearProblem",
    "PointwiseForm",
    "TimeProblem",
    "assemble",
    "constant_modes",
    "coordinates",
    "error_norm",
    "mesh",
    "norm",
    "project",
    "rigid_body_modes",
    "start",
    "time_derivative",
    "write",
]

# Where the public names live; `mesh` is a module itself.
_HOMES = {
    "forms": ("PointwiseForm",),
    "io": ("write",),
    "operators": ("ErrorNorm", "Functional", "error_norm", "norm"),
    "solver": (
        "CG",
        "FCG",
        "FGMRES",
        "GMRES",
        "MINRES",
        "PMG",
        "AssembledPC",
        "BiCGStab",
        "Chebyshev",
        "FieldSplit",
        "FormMatrix",
        "LinearProblem",
        "NonlinearProblem",
        "TimeProblem",
        "assemble",
        "project",
        "start",
    ),
    "spaces": (
        "Constant",
        "DirichletBC",
        "Function",
        "FunctionSpace",
        "MixedSpace",
        "constant_modes",
        "coordinates",
        "rigid_body_modes",
        "time_derivative",
    ),
}

caches.prepare()
forks.watch()
leaving.watch()


def __getattr__(name: str) -> Any:
    home = next((module for module, names in _HOMES.items() if name in names), None)
    if home is not None:
        if home == "spaces":
            import_module("femgpu.forms")  # lets Functions and boundary conditions take UFL expressions
        value = globals()[name] = getattr(import_module(f"femgpu.{home}"), name)
        return value
    if not name.startswith("_") and find_spec(f"femgpu.{name}") is not None:
        return import_module(f"femgpu.{name}")
    raise AttributeError(f"module 'femgpu' has no attribute {name!r}; its public names are {', '.join(__all__)}")


def __dir__() -> list[str]:
    return sorted({*__all__, *globals()})
