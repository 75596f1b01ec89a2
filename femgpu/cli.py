"""The command line: `python -m femgpu doctor | devices | roofline | bench | warmup | tune`, also the script `femgpu`.

Options that argparse does not know go to PETSc; `--help` shows those of femgpu, too. Everything else of femgpu is imported inside
the commands, so that `doctor` runs where PETSc or OpenCL do not load.
"""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, nullcontext
from typing import Any

from femgpu import doctor, leaving, options
from femgpu.errors import FemgpuError, OptionError
from femgpu.version import VERSION

# Columns of tables that go into files or pipes: enough for the longest names of devices.
_WIDTH = 240
_BAKEOFF = tuple(f"bp{number}" for number in (1, 2, 3, 4, 5, 6, 10, 35, 30))
_UFL = ("mass", "helmholtz")
_SOLVED = ("poisson", "elasticity", "hyperelasticity", "stokes", "bracket")
_WORKLOADS = ("ex12", "qdata", "assembly", "launch", "build", "cg", "solve", "tets", "ufl", "petsc", *_BAKEOFF)


def main(argv: Sequence[str] | None = None) -> int:
    """Runs a command.

    Args:
        argv: the command line without the program's name; default that of the process.

    Returns:
        The exit code: 0, 1 when the command failed, 2 when the command line is wrong.
    """
    parser = _parser()
    arguments, rest = parser.parse_known_args(argv)
    if "-h" in rest:
        parser.parse_args([arguments.command, "--help"])
    stray = [word for word in rest[:1] if not word.startswith("-")] + [word for word in rest if word.startswith("--")]
    if stray:
        lists = stray[0].isdigit() and arguments.command == "bench"
        hint = "--degrees and --blocks take numbers with commas, as in 1,2" if lists else "PETSc's options have one dash"
        parser.error(f"{stray[0]}: no such argument of {arguments.command}; {hint}")
    try:
        return int(arguments.run(arguments, rest))
    except FemgpuError as error:
        if _first_rank():
            print(f"femgpu {arguments.command}: {type(error).__name__}: {error}", file=sys.stderr, flush=True)
        if argv is None:
            leaving.quiet()
        return 1


def run_doctor(arguments: argparse.Namespace, rest: list[str]) -> int:
    """Prints the findings; 1 when one fails."""
    _initialise(rest, required=False)
    failed = False
    for finding in doctor.examine():
        failed = failed or finding.status == "fail"
        if _first_rank():
            print(finding, flush=True)
    return int(failed)


def run_devices(arguments: argparse.Namespace, rest: list[str]) -> int:
    """Prints a table of all devices, and which one this rank would take."""
    _initialise(rest)
    from mpi4py import MPI
    from rich import console, table

    from femgpu import runtime

    chosen = runtime.select(options.read().device, runtime.local_rank(MPI.COMM_WORLD)[0])
    columns = ("", "index", "name", "platform", "driver", "type", "fp64", "memory", "units", "local memory")
    view = table.Table(*columns, caption="* taken by this rank; -femgpu_device <index or part of a name> takes another")
    for device, _ in runtime.devices():
        view.add_row(
            "*" if device == chosen else "",
            str(device.index),
            device.name,
            device.platform,
            device.driver,
            "GPU" if device.is_gpu else "CPU or other",
            "yes" if device.fp64 else "no",
            f"{device.global_bytes / 2**30:.1f} GiB",
            str(device.units),
            f"{device.local_bytes / 2**10:.0f} KiB",
        )
    if _first_rank():
        console.Console(width=None if sys.stdout.isatty() else _WIDTH).print(view)
    return 0


def run_roofline(arguments: argparse.Namespace, rest: list[str]) -> int:
    """Prints what the device does at most, measured where that is not stored, and writes a report where one is asked for."""
    _initialise(rest)
    from femgpu.bench import roofline
    from femgpu.bench.report import check_folder, write_report

    folder = check_folder(arguments.out) if arguments.out else None
    result, device = roofline.run(arguments.again)
    print(result.text(), end="")
    for path in write_report(result, device, folder) if folder else ():
        print(f"wrote {path}")
    return 0


def run_bench(arguments: argparse.Namespace, rest: list[str]) -> int:
    """Runs a workload and writes its report."""
    with _empty_caches() if arguments.workload == "build" else nullcontext():
        return _bench(arguments, rest)


def _bench(arguments: argparse.Namespace, rest: list[str]) -> int:
    _initialise(rest)
    from femgpu.bench import workloads
    from femgpu.bench.report import check_folder, write_report

    folder = check_folder(arguments.out)
    result, device = workloads.run(arguments)
    if _first_rank():
        print(result.text())
        for path in write_report(result, device, folder):
            print(f"wrote {path}")
    return 0


@contextmanager
def _empty_caches() -> Iterator[None]:
    """Kernels are built anew: folders of femgpu, PoCL and NVIDIA's driver are new ones. Comes before any of them is loaded."""
    with tempfile.TemporaryDirectory(prefix="femgpu-build-") as folder:
        os.environ |= {name: folder for name in ("FEMGPU_CACHE_DIR", "POCL_CACHE_DIR", "CUDA_CACHE_PATH")}
        yield


def run_warmup(arguments: argparse.Namespace, rest: list[str]) -> int:
    """Builds the kernels of a script."""
    _initialise(arguments.options, program=arguments.script)
    from femgpu.warmup import warm_up

    line = warm_up(arguments.script, arguments.options)
    if _first_rank():
        print(line)
    return 0


def run_tune(arguments: argparse.Namespace, rest: list[str]) -> int:
    """Runs a script with its plans measured; takes winners from a file before, and writes them to one after."""
    if not (arguments.script or arguments.export or arguments.taken):
        raise OptionError("tune: nothing to do; expected a script, --import FILE or --export FILE")
    if late := [word for word in arguments.options if word.partition("=")[0] in ("--import", "--export")]:
        raise OptionError(f"tune: {late[0]} behind the script {arguments.script}, whose own it would be; expected it before")
    _initialise([*arguments.options, "-femgpu_tune", "measure"], program=arguments.script or "femgpu")
    from femgpu.warmup import tune

    for line in tune(arguments.script, arguments.options, arguments.taken, arguments.export):
        if _first_rank():
            print(line)
    return 0


def _parser() -> argparse.ArgumentParser:
    epilog = (
        "PETSc's options, and those of femgpu below, go behind a command, or to programs that use femgpu.\n\n" + options.help_text()
    )
    parser = _Parser(prog="femgpu", description=__doc__.splitlines()[0] if __doc__ else "", epilog=epilog,
                     formatter_class=argparse.RawDescriptionHelpFormatter)  # fmt: skip
    commands = parser.add_subparsers(dest="command", required=True, metavar="doctor | devices | roofline | bench | warmup | tune")
    _command(commands, "doctor", "checks the installation and says how to mend it", run_doctor)
    _command(commands, "devices", "lists OpenCL devices and the one that is taken", run_devices)
    roofline = _command(
        commands, "roofline", "measures what a device does at most, once, for the models that choose plans", run_roofline
    )
    roofline.add_argument("--again", action="store_true", help="measures also where the cache has the numbers of device and driver")
    roofline.add_argument("--out", default="", help="folder of a report; default none is written")
    bench = _command(commands, "bench", "times a workload and writes a report", run_bench)
    bench.add_argument("workload", choices=_WORKLOADS,
                       help="ex12: paper 004's residuals of Poisson's equation and elasticity on P1, which takes --out, --cell, "
                       "--cells, --problems, --precision and --blocks; qdata: actions with state stored and recomputed, "
                       "which takes --out, --cells, --schedules, --precision and --exhaustive; "
                       "assembly: matrices of Poisson's equation and elasticity, from cells to PETSc; "
                       "launch: host time of launches, small copies and actions (-dm_vec_type viennacl: on such "
                       "vectors), which takes none of the arguments but --out; build: time to build the kernels of all drivers "
                       "with cold caches, on any number of ranks, which takes --out, --scripts, --cell and --degrees; cg: "
                       "iterations of conjugate gradients, femgpu's and PETSc's (-dm_vec_type viennacl: on such vectors), which "
                       "takes --out, --cell, --degrees, --dofs and --problems; solve: whole solves by phase (-dm_vec_type "
                       "viennacl: on such vectors), which takes --out, --cell, --degrees, --dofs, --problems and --solvers; "
                       "bp1 to bp6: actions of CEED's bake-off problems on bent hexahedra between L-vectors, which take --out, "
                       "--degrees, --dofs, --schedules, --ways, --plans and --precision; tets: mass and diffusion on affine "
                       "tetrahedra, which takes the same, with one number of --dofs; ufl: paper 001's five forms on "
                       "triangles and tetrahedra against its roofline, which takes --out, --cell, --degrees, --cells, --problems, "
                       "--precision, --tuned and --exhaustive; petsc: a residual on P2 tetrahedra beside PETSc's own, with "
                       "pointwise functions that cc builds, on ranks PETSc's alone, which takes --out and --cells; bp10, bp35, "
                       "bp30: between E-vectors, which take --out, --degrees, --cells, --schedules, --plans and "
                       "--precision")  # fmt: skip
    bench.add_argument("--cells", type=_count, help="about so many; default on a GPU (else): ex12 1e7 triangles and 6e6 tetrahedra "
                       "(1e4), qdata 2e5 (2e3), assembly 1e6 (2e4), petsc 1e5, ufl 5e5 triangles and 2e5 tetrahedra (1e3), "
                       "bp10, bp35, bp30 512, 4096 and what moves 2 GB (512)")  # fmt: skip
    bench.add_argument("--precision", choices=("single", "double", "mixed"), help="default double; ex12: single and double")
    bench.add_argument("--blocks", type=_counts, help="of ex12: blocks to sweep, for example 4,8,16; default 4 to 64")
    bench.add_argument("--out", default="docs/benchmarks", help="folder of the report; default docs/benchmarks")
    bench.add_argument("--scripts", nargs="+", help="each with its options, for example 'drivers/heat.py -conductivity nonlinear'; "
                       "default all drivers")  # fmt: skip
    bench.add_argument("--cell", nargs="+", choices=("triangle", "quadrilateral", "tetrahedron", "hexahedron", "prism"),
                       help="types of cells; default all but prisms, cg, solve: hexahedron tetrahedron, "
                       "ufl, ex12: triangle tetrahedron")  # fmt: skip
    bench.add_argument("--degrees", type=_counts, help="for example 1,2; default 1 to 4, cg: 1 to 3, solve: 2,4, bp1 to bp6, "
                       "tets: 1 to 8 on a GPU, ufl: 1 to 8 and, of tetrahedra, 1 to 6, "
                       "bp10, bp35, bp30: 1 to 15, all of these 1 to 3 else")  # fmt: skip
    bench.add_argument("--dofs", nargs="+", type=_count, help="lengths of vectors, about; default cg: 1e5 4e6, bp1 to bp6, solve: "
                       "1e6 1e7 on a GPU, tets 1e7 (at most 3e6 at degree 1), else 1e4")  # fmt: skip
    bench.add_argument("--problems", nargs="+", choices=[*(f"BP{i}" for i in range(1, 7)), *_SOLVED, *_UFL],
                       help="of cg: CEED's bake-off problems; of solve: poisson, elasticity, hyperelasticity, stokes, bracket; of "
                       "ufl: mass, poisson, helmholtz, elasticity, hyperelasticity; of ex12: poisson, elasticity; default all but "
                       "bracket, which wants -dm_plex_filename meshes/bracket.msh")  # fmt: skip
    bench.add_argument("--solvers", nargs="+", choices=("femgpu", "double", "walker", "gamg", "jacobi"), help="of solve: "
                       "femgpu.CG with femgpu.PMG, that in double precision, with -snes_ksp_ew, PETSc's CG with GAMG, femgpu.CG "
                       "with the diagonal; default femgpu")  # fmt: skip
    bench.add_argument("--schedules", nargs="+", help="values of -femgpu_schedule, or all; default auto")
    bench.add_argument(
        "--plans", type=_count, help="of each schedule, that the bake-off problems time besides the choice; default 0"
    )
    bench.add_argument("--ways", nargs="+", choices=("default", "rebuilt", "stored", "rounded"), help="geometry as femgpu "
                       "chooses, rebuilt from the vertices, stored at the points, stored in single precision; default the first "
                       "three, tets: default")  # fmt: skip
    # Not --tune, which mpiexec of Open MPI 4 takes for its own wherever it stands.
    bench.add_argument("--tuned", action="store_true", help="of ufl: times the plan, too, that -femgpu_tune measure chooses")
    bench.add_argument("--exhaustive", action="store_true", help="of ufl: times all plans of all schedules; "
                       "of qdata: all ways to divide an action into what is stored and what is computed")  # fmt: skip
    warmup = _command(
        commands,
        "warmup",
        "builds the kernels of a script's first problem into the cache, and of what it assembles before",
        run_warmup,
    )
    warmup.add_argument("script", help="a Python script that solves a problem, assembles or integrates")
    warmup.add_argument("options", nargs=argparse.REMAINDER, help="the script's own command line")
    tune = _command(commands, "tune", "runs a script with -femgpu_tune measure: plans are measured, and the fastest kept", run_tune)
    tune.add_argument("--export", default="", metavar="FILE", help="then writes all that is kept for the device to a file")
    tune.add_argument("--import", default="", metavar="FILE", dest="taken", help="first keeps what such a file holds")
    tune.add_argument("script", nargs="?", default="", help="a Python script that solves a problem")
    tune.add_argument("options", nargs=argparse.REMAINDER, help="the script's own command line")
    return parser


class _Parser(argparse.ArgumentParser):
    """A parser whose only own options without a value are --help and --version: -h would swallow PETSc's -help."""

    def __init__(self, **kwargs: Any):
        super().__init__(add_help=False, allow_abbrev=False, **kwargs)
        self.add_argument("--help", action="help", help="shows this")
        self.add_argument("--version", action="version", version=f"femgpu {VERSION}", help="shows the version")


def _command(commands: Any, name: str, help: str, run: Any) -> argparse.ArgumentParser:
    parser: argparse.ArgumentParser = commands.add_parser(name, help=help, description=help)
    parser.set_defaults(run=run)
    return parser


def _count(text: str) -> float:
    value = float(text)
    if not 1 <= value < 1e12:
        raise argparse.ArgumentTypeError(f"{text}: expected a number from 1")
    return value


def _counts(text: str) -> tuple[int, ...]:
    words = text.split(",")
    if not all(word.isdecimal() and int(word) for word in words):
        raise argparse.ArgumentTypeError(f"{text}: expected numbers from 1, with commas, as in 1,2")
    return tuple(map(int, words))


def _initialise(options: list[str], required: bool = True, program: str = "femgpu") -> None:
    """Hands the options to PETSc before anything else loads it.

    Raises:
        FemgpuError: when petsc4py does not load and is required.
    """
    try:
        import petsc4py

        petsc4py.init([program, *options])
    except (ImportError, OSError) as error:
        if required:
            raise FemgpuError(f"petsc4py does not load ({error}); run `femgpu doctor`") from error


def _first_rank() -> bool:
    """Whether this process prints; also where MPI does not load."""
    try:
        from mpi4py import MPI
    except (ImportError, OSError):
        return True
    return bool(MPI.COMM_WORLD.rank == 0)
