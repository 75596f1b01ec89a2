"""Types of PETSc's solvers that do not go with femgpu's problems, and what to take instead.

Of what PETSc 3.26 registers, all others solve (`tests/users/test_solver_types.py`).
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from petsc4py import PETSc

from femgpu.errors import OptionError

# Methods that integrate F(t, u, du/dt) = 0 at their order; eimex and glle lose it, the others are for other problems.
TIME_METHODS = ("bdf", "beuler", "cn", "theta", "alpha", "arkimex", "dirk", "rosw")

_SUBDOMAINS = "needs a matrix by subdomains (MATIS), which femgpu does not assemble: take -{p}pc_type asm, gasm or gamg"
_VIENNACL = "needs a ViennaCL matrix, which femgpu does not assemble: take -{p}pc_type jacobi or gamg"
_PATCHES = "needs PETSc's own finite elements, and would end the process"
_NO_ELEMENTS = "needs PETSc's own finite elements: take -{p}snes_type newtonls with -{p}pc_type asm"
# By kind and type; {p} is the options prefix.
_REMEDIES = {
    ("pc", "patch"): f"{_PATCHES}: take -{{p}}pc_type asm with -{{p}}sub_pc_type lu",
    ("pc", "mpi"): "serves programs on one rank, and would end the process: take -{p}pc_type bjacobi, asm or gamg",
    ("pc", "composite"): "needs its parts by name: -{p}pc_composite_pcs jacobi,sor",
    ("pc", "galerkin"): "is set up by a program alone: take -{p}pc_type gamg",
    ("pc", "bddc"): _SUBDOMAINS,
    ("pc", "nn"): _SUBDOMAINS,
    ("pc", "telescope"): "does not know meshes: add -{p}pc_telescope_ignore_dm",
    ("pc", "shell"): "is set up by a program in C: take -{p}pc_type python -{p}pc_python_type module.Class",
    ("pc", "qr"): "needs a PETSc with SuiteSparse: take -{p}pc_type lu, or svd for small problems",
    ("pc", "vpbjacobi"): "needs blocks of different sizes: take -{p}pc_type pbjacobi or bjacobi",
    ("pc", "tfs"): "is for several ranks: take -{p}pc_type lu",
    ("pc", "cp"): "projects along columns, on one rank: take -{p}pc_type sor or gamg",
    ("pc", "lsc"): "is for the Schur complement of a fieldsplit: take -{p}pc_type gamg or asm here",
    ("pc", "chowiluviennacl"): _VIENNACL,
    ("pc", "rowscalingviennacl"): _VIENNACL,
    ("pc", "saviennacl"): _VIENNACL,
    ("ksp", "eksm"): "is for shifted systems: take -{p}ksp_type gmres",
    ("ksp", "fetidp"): _SUBDOMAINS,
    ("ksp", "qcg"): "is for quadratic programs: take -{p}ksp_type cg, or stcg for trust regions",
    ("snes", "patch"): f"{_PATCHES}: take -{{p}}snes_type newtonls with -{{p}}pc_type asm",
    ("snes", "nasm"): _NO_ELEMENTS,
    ("snes", "aspin"): _NO_ELEMENTS,
    ("snes", "composite"): "needs its parts by name: -{p}snes_composite_sneses newtonls,nrichardson",
    ("snes", "fas"): "needs problems on coarser meshes: take -{p}snes_type newtonls, whose femgpu.PMG uses those of -dm_refine",
    ("snes", "ngs"): "colours an assembled matrix: take -{p}femgpu_jacobian assembled, or -{p}snes_type newtonls",
    ("snes", "newtonal"): "needs a load function: take -{p}snes_type newtonls or newtontr, and raise the load in steps",
    ("snes", "shell"): "is set up by a program in C: take -{p}snes_type python -{p}snes_python_type module.Class",
    ("linesearch", "shell"): "is set up by a program: take -{p}snes_linesearch_type bt, secant or cp",
}
# The set-up of these ends the process, or needs what no problem here has; nasm and aspin evaluate residuals on parts of the mesh.
_REFUSED = (
    *(("pc", "patch"), ("pc", "mpi"), ("pc", "bddc"), ("pc", "nn"), ("ksp", "fetidp")),
    *(("snes", "patch"), ("snes", "nasm"), ("snes", "aspin")),
)
# Options of types after a problem's prefix; other prefixes may be those of solvers that are no business of femgpu's.
_INNER = r"(?:npc_|sub_|ksp_|mg_\w+_|fieldsplit_\w+_|redundant_|telescope_|assembled_)*(pc|ksp|snes)_type"


def refuse_types(snes: PETSc.SNES) -> None:
    """Refuses types that end the process or cannot work, whoever asked for them.

    Args:
        snes: the solver; options with its prefix count, too, those of solvers inside it included.

    Raises:
        OptionError: for such a type, with what to take instead.
    """
    prefix = snes.getOptionsPrefix() or ""
    options = PETSc.Options().getAll().items()
    asked = [(name, found[1], value) for name, value in options if (found := re.fullmatch(re.escape(prefix) + _INNER, name))]
    for name, kind, value in [*asked, *((f"{prefix}{kind}_type", kind, value) for kind, value in _types(snes))]:
        if (kind, value) in _REFUSED:
            inner = name.removesuffix(f"{kind}_type")
            raise OptionError(f"-{name} {value} {_REMEDIES[kind, value].format(p=inner)}")


def type_remedy(snes: PETSc.SNES) -> str:
    """What to say of a solve that failed: the first type that does not go with femgpu's problems, or nothing."""
    prefix = snes.getOptionsPrefix() or ""
    for kind, value in [*_types(snes), ("linesearch", snes.getLineSearch().getType())]:
        if remedy := _REMEDIES.get((kind, value)):
            name = "snes_linesearch_type" if kind == "linesearch" else f"{kind}_type"
            return f"-{prefix}{name} {value} {remedy.format(p=prefix)}"
    return ""


def shifted_factors(prefix: str, comm: PETSc.Comm) -> str:
    """Options of factors of a matrix with zeros on its diagonal: on several ranks PETSc has them of all rows on each."""
    kind, inner = ("redundant", "redundant_") if comm.size > 1 else ("lu", "")
    return f"-{prefix}pc_type {kind} -{prefix}{inner}pc_factor_shift_type nonzero"


def _types(snes: PETSc.SNES) -> Iterator[tuple[str, str]]:
    ksp = snes.getKSP()
    yield "snes", snes.getType() or ""
    yield "ksp", ksp.getType() or ""
    yield "pc", ksp.getPC().getType() or ""
