"""The options of femgpu: one table that feeds parsing, `-help` and the documentation.

PETSc's own options keep their meaning; two of them (`-petscfe_num_blocks`, `-petscfe_num_batches`) also steer femgpu's kernels and
stand in the table for that reason.
"""

from __future__ import annotations

import difflib
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, Any

from femgpu.errors import OptionError

if TYPE_CHECKING:
    # Imported where it is used: `femgpu --help` shows the table also where petsc4py does not load.
    from petsc4py import PETSc


@dataclass(frozen=True)
class Option:
    """One row of the table.

    Attributes:
        name: the option without its dash.
        kind: `str`, `int` or `bool`.
        default: the value when the option is not given.
        help: one line for `-help` and the documentation.
        choices: the legal values, empty when any value of the kind is legal.
        minimum: the smallest legal integer.
        maximum: the largest legal integer.
        parameters: of a choice, names of integers that may follow it: `choice:name=value,...`.
    """

    name: str
    kind: type
    default: Any
    help: str
    choices: tuple[str, ...] = ()
    minimum: int | None = None
    maximum: int | None = None
    parameters: tuple[tuple[str, tuple[str, ...]], ...] = ()

    @property
    def attribute(self) -> str:
        """The name of the option's value in `Settings`."""
        return self.name.removeprefix("femgpu_").removeprefix("petscfe_")

    @property
    def legal(self) -> tuple[str, ...]:
        """The legal values in words."""
        parameters = dict(self.parameters)
        return tuple(f"{c}[:{','.join(f'{name}=N' for name in parameters[c])}]" if c in parameters else c for c in self.choices)


# Of what kernels count; more serves nothing, and products of these numbers have to fit into 32 bits.
_MOST = 65536
_SWITCHES = ("copies", "shared")  # what is on or off

OPTIONS = (
    Option("femgpu_schedule", str, "auto", "how work is laid out on the device",
           ("auto", "gemm", "sumfact", "tiled", "cell", "transposed", "matrix"),
           parameters=(("sumfact", ("group_size", "lanes", "items", "cells", "pencils", "planes", "slices", "copies", "shared",
                                    "derivatives", "registers")),
                       ("gemm", ("cells", "items", "tile", "mma", "registers")), ("transposed", ("blocks", "batches")),
                       ("tiled", ("cells", "width", "parts", "points", "mma")), ("matrix", ("rows", "columns", "cells", "points")),
                       ("cell", ("group_size", "lanes", "sums", "turns", "slots")))),
    Option("femgpu_precision", str, "double", "arithmetic of the kernels; PETSc stays double", ("double", "single", "mixed")),
    Option("femgpu_geometry", str, "auto", "inverse Jacobians from memory or rebuilt", ("auto", "stored", "recomputed")),
    Option("femgpu_scatter", str, "auto", "how cells add into vectors and matrices", ("auto", "gather", "atomic")),
    Option("femgpu_deterministic", bool, False, "forbid what depends on the order of execution (atomic scatter)"),
    Option("femgpu_qdata", str, "auto", "what of the Jacobian is kept at quadrature points; auto: by the device's ceilings; "
           "single: as store, in single precision, which leaves seven digits of its products",
           ("auto", "store", "single", "recompute")),
    Option("femgpu_modes", str, "auto",
           "on affine simplices, where what the form multiplies is constant in a cell, actions sum over orthonormal polynomials in "
           "place of quadrature points where they are no more than the points", ("auto", "no")),
    Option("femgpu_tune", str, "off", "the choice among all plans: by a model, or by measurements, once for a form on a device",
           ("off", "model", "measure")),
    Option("femgpu_tune_best", int, 9, "plans that are measured for each term, the best by the model", minimum=1, maximum=_MOST),
    Option("femgpu_reorder", bool, True,
           "vectors of spaces of degree 2 and 3 made from then on: dofs of neighbouring cells side by side"),
    Option("femgpu_reorder_mesh", bool, False,
           "files of meshes read from then on, but for femgpu's own: neighbouring cells side by side, at 3 us for each; pays in "
           "runs of ten thousand products with the operator"),
    Option("femgpu_device", str, "", "index of the device, or a part of its name; default: node-local rank modulo devices"),
    Option("femgpu_jacobian", str, "matfree", "the Jacobian that KSP multiplies with", ("matfree", "assembled")),
    Option("femgpu_pmat", str, "auto", "what the preconditioner sees; auto: assembled when the PC needs entries",
           ("auto", "none", "assembled")),
    Option("femgpu_assembly_memory", int, 512, "MiB of element matrices that are stored at a time", minimum=1, maximum=_MOST),
    Option("femgpu_form", str, "",
           "form of femgpu.FormMatrix and femgpu.AssembledPC: path/to/file.py:function or package.module:function"),
    Option("femgpu_solver", str, "auto",
           "linear solver where -ksp_type and -pc_type name none; auto: by the form, from 10 000 dofs on", ("auto", "petsc")),
    Option("femgpu_ksp_check", int, 0,
           "iterations whose norms femgpu's Krylov methods read together; 0: what costs least on a GPU that works alone, else 1",
           minimum=0, maximum=32),
    Option("femgpu_view", bool, False, "print device, plans, bytes, flops and times"),
    Option("femgpu_kernel_dump", str, "",
           "directory that receives every kernel's source and build log; NVIDIA's logs name registers and spills"),
    Option("femgpu_debug", bool, False,
           "memory that nobody has written is NaN, and where kernels read and write buffers is checked: slow"),
    Option("petscfe_num_blocks", int, 0, "blocks per batch; selects schedule transposed", minimum=0, maximum=_MOST),
    Option("petscfe_num_batches", int, 0, "batches per chunk; selects schedule transposed", minimum=0, maximum=_MOST),
    Option("petscfe_default_quadrature_order", int, -1, "PETSc's own points: order+1 per direction", minimum=-1, maximum=50),
)  # fmt: skip

_BY_NAME = {option.name: option for option in OPTIONS}
_BOOLEANS = {
    "": True,
    "1": True,
    "true": True,
    "yes": True,
    "on": True,
    "0": False,
    "false": False,
    "no": False,
    "off": False,
}


@dataclass(frozen=True)
class Settings:
    """Values of the options for one problem, read once. One field per row of `OPTIONS`."""

    schedule: str = "auto"
    precision: str = "double"
    geometry: str = "auto"
    scatter: str = "auto"
    deterministic: bool = False
    qdata: str = "auto"
    modes: str = "auto"
    tune: str = "off"
    tune_best: int = 9
    reorder: bool = True
    reorder_mesh: bool = False
    device: str = ""
    jacobian: str = "matfree"
    pmat: str = "auto"
    assembly_memory: int = 512
    form: str = ""
    solver: str = "auto"
    ksp_check: int = 0
    view: bool = False
    kernel_dump: str = ""
    debug: bool = False
    num_blocks: int = 0
    num_batches: int = 0
    default_quadrature_order: int = -1

    @property
    def stores(self) -> bool:
        """Whether an action is asked to keep something at the points."""
        return self.qdata in ("store", "single")

    @property
    def schedule_name(self) -> str:
        """The schedule that is asked for by name; empty for `auto`."""
        name = self.schedule.partition(":")[0]
        return "" if name == "auto" else name

    @property
    def first_schedule(self) -> tuple[str, tuple[tuple[str, int], ...]]:
        """The schedule to try first and its parameters: the one that is asked for, else PETSc's blocks and batches name one."""
        name, _, given = self.schedule.partition(":")
        blocks = {name: value for name, value in (("blocks", self.num_blocks), ("batches", self.num_batches)) if value}
        if name == "auto":
            return ("transposed", tuple(blocks.items())) if blocks else ("", ())
        pairs = (pair.partition("=") for pair in given.split(",") if pair)
        parameters = {key: int(value) for key, _, value in pairs}
        return name, tuple(((blocks if name == "transposed" else {}) | parameters).items())


def check_prefix(prefix: Any) -> None:
    """Refuses what is no string, and what options cannot begin with.

    Raises:
        OptionError: when it is none.
    """
    if not isinstance(prefix, str):
        raise OptionError(f"options_prefix {prefix!r} of type {type(prefix).__name__}; expected a string such as 'heat_'")
    if prefix.startswith("-") or any(character.isspace() for character in prefix):
        raise OptionError(f"options_prefix {prefix!r}; expected a word without dash and blanks, such as 'heat_'")


def read(prefix: str = "") -> Settings:
    """Reads femgpu's options from PETSc's database.

    Args:
        prefix: options prefix of the problem; an option with the prefix wins over the one without.

    Returns:
        The settings.

    Raises:
        OptionError: for an unknown `-femgpu_*` option or an illegal value, which lists the legal ones, and for a prefix that is
            none.
    """
    from petsc4py import PETSc

    check_prefix(prefix)
    database = PETSc.Options()
    for name, what, instead in (
        ("femgpu_reorder", "spaces", "FunctionSpace(reorder=...)"),
        ("femgpu_reorder_mesh", "meshes", "femgpu.mesh.reorder(dm)"),
    ):
        if prefix and database.hasName(prefix + name):
            raise OptionError(f"-{prefix}{name}: {what} come before problems; expected -{name}, or {instead}")
    if database.hasName("help"):
        _show_help()
    _refuse_unknown(database, prefix)
    values = {}
    for option in OPTIONS:
        for name in (prefix + option.name, option.name):
            if database.hasName(name):
                values[option.attribute] = _value(option, name, database)
                break
    settings = Settings(**values)
    if settings.deterministic and settings.scatter == "atomic":
        raise OptionError("-femgpu_deterministic forbids -femgpu_scatter atomic; use -femgpu_scatter gather, or leave it out")
    return settings


def flag(name: str) -> bool:
    """The value of one option without a prefix, for what no problem is there yet.

    Raises:
        OptionError: for an illegal value.
    """
    from petsc4py import PETSc

    database, option = PETSc.Options(), _BY_NAME[name]
    return bool(_value(option, name, database) if database.hasName(name) else option.default)


@cache
def _show_help() -> None:
    """Prints the table, once, on the first rank."""
    from petsc4py import PETSc

    PETSc.Sys.Print(help_text(), comm=PETSc.COMM_WORLD)


def help_text() -> str:
    """The block that `-help` prints."""
    lines = ["femgpu options " + "-" * 48]
    for option in OPTIONS:
        legal = f" (one of {', '.join(option.legal)})" if option.choices else ""
        default = str(option.default).lower() if option.kind is bool else option.default
        lines.append(f"  -{option.name}: <{default!s}> {option.help}{legal}")
    return "\n".join(lines)


def _value(option: Option, name: str, database: PETSc.Options) -> Any:
    text = database.getString(name, "").strip()
    if option.kind is bool:
        if text.lower() not in _BOOLEANS:
            raise OptionError(f"-{name} {text!r}: expected nothing, or one of {', '.join(filter(None, _BOOLEANS))}")
        return _BOOLEANS[text.lower()]
    if option.kind is int:
        try:
            value = int(text)
        except ValueError:
            raise OptionError(f"-{name} {text!r}: expected an integer") from None
        if option.minimum is not None and value < option.minimum:
            raise OptionError(f"-{name} {value}: expected an integer of at least {option.minimum}")
        if option.maximum is not None and value > option.maximum:
            raise OptionError(f"-{name} {value}: expected an integer of at most {option.maximum}")
        return value
    choice, colon, given = text.partition(":")
    if option.choices and choice not in option.choices:
        raise OptionError(f"-{name} {text!r}: expected one of {', '.join(option.legal)}")
    if option.choices and colon:
        _check_parameters(f"-{name} {text!r}", dict(option.parameters).get(choice, ()), choice, given)
    return text


def _check_parameters(what: str, names: tuple[str, ...], choice: str, given: str) -> None:
    """Refuses what follows a choice but parameters that it has, set to integers from 1 to `_MOST`, or to 0 what is on or off."""
    for name, _, value in (pair.partition("=") for pair in given.split(",")):
        if name not in names:
            legal = f"{choice}[:{','.join(f'{known}=N' for known in names)}]" if names else f"{choice} alone"
            raise OptionError(f"{what}: {choice} has no parameter {name!r}; expected {legal}")
        on_off = name in _SWITCHES
        if not (value in ("0", "1") if on_off else value.isdecimal() and 0 < int(value) <= _MOST):
            raise OptionError(f"{what}: {name}={value}: expected {'0 or 1' if on_off else f'an integer from 1 to {_MOST}'}")


def _refuse_unknown(database: PETSc.Options, prefix: str) -> None:
    for name in database.getAll():
        at = name.find("femgpu_")
        if at < 0 or name in _BY_NAME or name[at:] in _BY_NAME:
            continue
        if at > 0 and name[:at] != prefix:
            continue
        legal = [option.name for option in OPTIONS if option.name.startswith("femgpu_")]
        close = difflib.get_close_matches(name[at:], legal, n=1)
        hint = f"did you mean -{name[:at]}{close[0]}? " if close else ""
        raise OptionError(f"-{name}: no such option; {hint}legal are " + ", ".join("-" + entry for entry in legal))
