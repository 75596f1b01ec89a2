"""Runs the kernels of tiny cases under the simulator oclgrind, which says on stderr which access is out of bounds, races with
another or reads what nobody has written; the name of each case stands there before.

Run by test_oclgrind.py in a process that finds no other OpenCL platform; arguments name some of them.
"""

import contextlib
import dataclasses
import sys
from dataclasses import dataclass, field, replace
from typing import ClassVar
from unittest import mock

import numpy as np
import ufl
from petsc4py import PETSc
from random_meshes import MIXED, random_cells, random_mixed
from ufl import ds, dx, grad, inner

import femgpu
from femgpu import Constant, Function, FunctionSpace, MixedSpace, coordinates
from femgpu.errors import SolverError
from femgpu.forms import lower_form
from femgpu.krylov import vectors
from femgpu.operators import FormOperator, planner
from femgpu.options import Settings
from femgpu.runtime import Runtime, current
from femgpu.runtime.selftest import self_test

TARGETS = ("residual", "action", "diagonal", "matrix")


@dataclass(frozen=True)
class Case:
    """A form on a few cells, and how it is computed.

    Attributes:
        form: name of a function below.
        cell: type of the cells, or one of `MIXED`.
        num_cells: how many; of mixed meshes pairs.
        degree: of the unknown.
        num_comp: of the unknown.
        quadrature: degree of the rule.
        masked: whether every third entry is prescribed.
        gpu: what the simulator is taken for: a GPU, as it says, gets unrolled loops and blocks of 32 cells, a CPU does not.
        targets: what is computed; an action that stores something has a kernel for that, too.
        options: the settings.
    """

    form: str
    cell: str
    num_cells: int
    degree: int = 1
    num_comp: int = 1
    quadrature: int = 2
    masked: bool = False
    gpu: bool = True
    targets: tuple[str, ...] = TARGETS
    options: dict = field(default_factory=dict)


def make(form, cell, num_cells, **values):
    """A case; what it has no name for is an option."""
    own = {name: values.pop(name) for name in [field.name for field in dataclasses.fields(Case)] if name in values}
    return Case(form, cell, num_cells, **own, options={"qdata": "recompute", "schedule": "cell", **values})


STORE = {"qdata": "store"}
ADDS = {"scatter": "atomic"}
TRANSPOSED = {"schedule": "transposed", "targets": ("residual", "action")}
# Batches of three cells where there are three basis functions, and one or three points: two in a chunk.
BATCHES = {**TRANSPOSED, "num_blocks": 1, "num_batches": 2}
MATRIX = {"targets": ("matrix",), "quadrature": 4}
SUMFACT = {"targets": ("residual", "action"), "quadrature": 4}
TILED = {"targets": ("residual", "action"), "quadrature": 4, "scatter": "atomic"}
REBUILT = {"geometry": "recomputed", "precision": "mixed"}
REBUILT_SUMS = {"geometry": "recomputed", **ADDS}
PENCILS = {**SUMFACT, "schedule": "sumfact:pencils=2"}
PLANES = {**SUMFACT, "schedule": "sumfact:planes=2"}
SLICES = {**SUMFACT, "schedule": "sumfact:slices=2"}
CASES = {
    # One item more than a block has cells.
    "cell": make("nonlinear", "triangle", 3, schedule="cell:group_size=33"),
    "cell, atomic": make("nonlinear", "tetrahedron", 3, degree=2, scatter="atomic", geometry="recomputed"),
    "cell, mixed precision": make("nonlinear", "quadrilateral", 5, num_comp=2, precision="mixed", scatter="atomic"),
    "cell, single precision": make("nonlinear", "hexahedron", 2, precision="single", geometry="stored", scatter="atomic"),
    "cell, small groups": make("nonlinear", "interval", 5, degree=2, schedule="cell:group_size=3", **STORE),
    "cell, CPU": make("nonlinear", "triangle", 5, degree=2, num_comp=2, gpu=False, schedule="cell:group_size=3"),
    "cell, CPU, atomic": make("inputs", "prism", 3, gpu=False, scatter="atomic", **STORE),
    "cell, masked": make("nonlinear", "triangle", 5, masked=True, scatter="gather"),
    "cell, masked, atomic": make("inputs", "quadrilateral", 4, degree=2, num_comp=2, masked=True, scatter="atomic", **STORE),
    # Two groups, the second one not full; coordinates at the same nodes.
    "cell, sums": make("nonlinear", "triangle", 5, degree=2, masked=True, schedule="cell:sums=3", **ADDS),
    "cell, sums, rebuilt": make("inputs", "tetrahedron", 5, num_comp=2, masked=True, schedule="cell:sums=4", **REBUILT_SUMS),
    # Two cells of an item, the second one of the last group missing.
    "cell, sums, turns": make("inputs", "triangle", 5, masked=True, schedule="cell:sums=2,turns=2", **REBUILT_SUMS),
    # Rows of as many places for all nodes, which are one number; items keep their nodes.
    "cell, sums, rows": make("inputs", "triangle", 5, masked=True, schedule="cell:sums=4,turns=2,slots=32", **REBUILT_SUMS),
    # A node's numbers in vectors of four and two.
    "cell, sums, vectors": make(
        "inputs", "triangle", 5, num_comp=2, masked=True, schedule="cell:sums=4", precision="single", **REBUILT_SUMS
    ),
    "cell, sums, fields": make("fields", "triangle", 3, schedule="cell:sums=2", precision="single", gpu=False, **ADDS),
    "state": make("nonlinear", "triangle", 5, degree=2, targets=("action",), **STORE),
    "state, geometry only": make("stiffness", "hexahedron", 3, targets=("action",), **STORE),
    "state, transposed": make("nonlinear", "quadrilateral", 5, num_comp=2, precision="mixed", **TRANSPOSED, **STORE),
    "transposed": make("nonlinear", "triangle", 4, degree=2, **TRANSPOSED),
    "transposed, atomic": make("inputs", "hexahedron", 3, num_comp=3, precision="mixed", scatter="atomic", **TRANSPOSED),
    "transposed, stored": make("nonlinear", "tetrahedron", 3, degree=2, geometry="stored", precision="single", **TRANSPOSED),
    "transposed, masked": make("nonlinear", "triangle", 5, num_comp=2, masked=True, scatter="atomic", **TRANSPOSED),
    "transposed, CPU": make("inputs", "tetrahedron", 5, gpu=False, masked=True, **TRANSPOSED),
    "transposed, batches": make("nonlinear", "interval", 5, degree=2, quadrature=4, **BATCHES),
    "transposed, one point": make("stiffness", "triangle", 5, quadrature=0, **BATCHES),
    "transposed, full batch": make("stiffness", "triangle", 3, quadrature=0, scatter="atomic", **BATCHES),
    "matrix": make("nonlinear", "triangle", 5, num_comp=2, **MATRIX, schedule="matrix:rows=2,columns=2,cells=3,points=2"),
    "matrix, CPU": make("nonlinear", "quadrilateral", 3, gpu=False, **MATRIX, schedule="matrix:rows=3,cells=2,points=5"),
    "matrix, parts": make("stiffness", "triangle", 2, degree=3, num_comp=2, **MATRIX, schedule="matrix:rows=1,columns=1,points=4"),
    # Two passes; points in the place of coefficients, four words of tables at a time; eight parts of four items together.
    "tiled": make("nonlinear", "triangle", 5, num_comp=2, masked=True, **TILED, schedule="tiled:cells=4,width=2,parts=2,points=2"),
    "tiled, one pass": make("inputs", "tetrahedron", 3, **REBUILT, **TILED, schedule="tiled:cells=2,parts=4,points=4"),
    "tiled, diagonal": make(
        "nonlinear", "triangle", 5, num_comp=2, targets=("diagonal",), scatter="atomic", schedule="tiled:cells=2,parts=3,points=2"
    ),
    "tiled, mma": make("nonlinear", "triangle", 9, degree=2, **TILED, schedule="tiled:cells=8,parts=1,mma=1", **STORE),
    "sumfact": make("nonlinear", "quadrilateral", 3, degree=2, gpu=False, **SUMFACT, schedule="sumfact:lanes=2,group_size=2"),
    "sumfact, groups": make("nonlinear", "hexahedron", 3, **SUMFACT, schedule="sumfact:items=4,cells=2"),
    "sumfact, pencils": make("inputs", "hexahedron", 3, geometry="recomputed", **PENCILS),
    "sumfact, planes": make("nonlinear", "hexahedron", 3, geometry="recomputed", **PLANES),
    "sumfact, planes, stored": make("stiffness", "hexahedron", 3, gpu=False, masked=True, **PLANES, **STORE, **ADDS),
    "sumfact, slices": make("inputs", "hexahedron", 3, geometry="recomputed", **SLICES, **ADDS),
    "sumfact, masked": make("nonlinear", "quadrilateral", 2, num_comp=2, precision="mixed", masked=True, **PENCILS, **ADDS),
    "sumfact, pencils, stored": make("stiffness", "quadrilateral", 3, degree=3, gpu=False, **PENCILS, **STORE),
    # A GPU's: nonlinear ones load the next point's numbers, a mass all of a line, which it keeps; some items have no points.
    "sumfact, pencils, next": make("nonlinear", "hexahedron", 3, degree=2, masked=True, **PENCILS, **STORE, **ADDS),
    "sumfact, pencils, ahead": make("mass", "quadrilateral", 3, degree=2, num_comp=2, **PENCILS | STORE | {"quadrature": 2}),
    "sumfact, pencils, shared": make(
        "nonlinear", "hexahedron", 3, num_comp=2, masked=True, **SUMFACT, **ADDS, schedule="sumfact:pencils=2,shared=1"
    ),
    "sumfact, pencils, shared, stored": make(
        "nonlinear", "quadrilateral", 3, num_comp=3, **SUMFACT, **STORE, schedule="sumfact:pencils=2,shared=1"
    ),
    "gemm": make("inputs", "hexahedron", 3, geometry="recomputed", **SUMFACT, schedule="gemm:cells=2,items=3,tile=2"),
    "gemm, mma": make("nonlinear", "quadrilateral", 5, degree=2, masked=True, **SUMFACT, **ADDS, schedule="gemm:cells=4,mma=1"),
    "facets": make("facets", "triangle", 3, degree=2),
    "facets, tiled": make("facets", "triangle", 3, degree=2, **TILED, schedule="tiled:cells=2,parts=2,points=2"),
    "facets, atomic": make("facets", "hexahedron", 2, num_comp=3, precision="mixed", masked=True, scatter="atomic"),
    "second derivatives": make("second", "quadrilateral", 3, degree=2),
    "fields": make("fields", "triangle", 3),
    "fields, transposed": make("fields", "quadrilateral", 3, **TRANSPOSED),
    "two types of cells": make("nonlinear", MIXED[0], 2, scatter="gather"),
}  # fmt: skip


def nonlinear(u, v, measure):
    return (1 + inner(u, u)) * inner(grad(u), grad(v)) * measure - inner(u, v) * measure


def stiffness(u, v, measure):
    return inner(grad(u), grad(v)) * measure


def mass(u, v, measure):
    return (1 + u[0]) * inner(u, v) * measure


def inputs(u, v, measure):
    """Coefficients, a constant and coordinates."""
    dm = u.space.dm
    x, c = coordinates(dm), Constant(dm, 2.0)
    a, b = (Function(FunctionSpace(dm, *element)) for element in (("DG", 0), ("Lagrange", 1, x.ufl_shape)))
    for function in (a, b):
        function.vec.setArray(np.linspace(0.5, 1.5, function.vec.getLocalSize()))
    return a * inner(grad(u), grad(v)) * measure + (c + ufl.dot(b, x)) * inner(u + inner(u, u) * u, v) * measure


def facets(u, v, measure):
    domain = u.ufl_domain()
    flow = ufl.dot(ufl.SpatialCoordinate(domain), ufl.FacetNormal(domain))
    return stiffness(u, v, measure) + (inner(u, u) + flow) * inner(u, v) * ds(domain, degree=2)


def second(u, v, measure):
    return (ufl.div(grad(u)) * (v + ufl.div(grad(v))) + inner(grad(u), grad(v))) * measure


def fields(w, tests, measure):
    """Flow between Taylor's and Hood's elements."""
    (u, p), (v, q) = (w.sub("u"), w.sub("p")), ufl.split(tests)
    return (inner(ufl.dot(grad(u), u), v) - p * ufl.div(v) + q * ufl.div(u)) * measure


def make_form(case, rng):
    """The lowered form on a mesh of its own."""
    if case.cell in MIXED:
        dm = random_mixed(case.cell, (case.num_cells, 1), comm=PETSc.COMM_SELF)
    else:
        dm = random_cells(case.cell, case.num_cells, rng)
    if case.form == "fields":
        space = MixedSpace({"u": FunctionSpace(dm, "Lagrange", 2, (dm.getDimension(),)), "p": FunctionSpace(dm, "Lagrange", 1)})
    else:
        space = FunctionSpace(dm, "Lagrange", case.degree, () if case.num_comp == 1 else (case.num_comp,))
    u = Function(space)
    write = {function.__name__: function for function in (nonlinear, stiffness, mass, inputs, facets, second, fields)}[case.form]
    return lower_form(write(u, ufl.TestFunction(space), dx(space.ufl_domain(), degree=case.quadrature)), u)


def compute(case):
    """Runs all kernels of a case once."""
    rng, runtime = np.random.default_rng(0), current()
    runtime.device = replace(runtime.device, is_gpu=case.gpu)
    form = make_form(case, rng)
    size = form.space.num_local
    prescribed = (np.arange(size) % 3 == 1).astype(np.uint8) if case.masked else None
    operator = FormOperator(form, Settings(**case.options), runtime, prescribed)
    operator.update()
    for name in ("u", "base", "w"):
        runtime.write(getattr(operator, name), rng.uniform(-1, 1, size).astype(operator.scalar))
    for target in case.targets:
        getattr(operator, "matrices" if target == "matrix" else target)()
        schedule = "matrix" if target == "matrix" else case.options["schedule"].partition(":")[0]
        assert {made.plan.schedule for made in operator.prepare(target)} == {schedule}


def solve():
    """A problem with boundary values from beginning to end: kernels between vectors, and a functional."""
    # A choice by measurement would launch kernels before their data are there.
    PETSc.Options().setValue("femgpu_qdata", "store")
    V = FunctionSpace(femgpu.mesh.box((2, 1), cell="quadrilateral"), "Lagrange", 1, (2,))
    u, v = Function(V), ufl.TestFunction(V)
    F = (inner(grad(u), grad(v)) - v[0]) * dx + inner(u, v) * ds
    femgpu.NonlinearProblem(F, u, [femgpu.DirichletBC(V, lambda x: (x[0], x[1]), 1)]).solve()
    assert femgpu.assemble(inner(u, u) * dx) > 0


def iterate(method, preconditioner, **more):
    """A few iterations of one of femgpu's Krylov methods on 15 dofs, more than a turn of the ring of conjugate gradients."""
    PETSc.Options().setValue("femgpu_qdata", "store")
    V = FunctionSpace(femgpu.mesh.box((2, 1), cell="quadrilateral"), "Lagrange", 2)
    u, v, x = Function(V), ufl.TestFunction(V), coordinates(V.dm)
    F = (inner((1 + x[0]) * grad(u), grad(v)) + u * v - ufl.exp(x[0] * x[1]) * v) * dx
    options = {"snes_type": "ksponly", "ksp_type": "python", "ksp_python_type": f"femgpu.{method}", "pc_type": preconditioner}
    bcs = [femgpu.DirichletBC(V, 0.0, 1)]
    problem = femgpu.NonlinearProblem(F, u, bcs, petsc_options={**options, "ksp_rtol": 1e-12, "ksp_max_it": 9, **more})
    with mock.patch.object(vectors, "_GROUP", 64), contextlib.suppress(SolverError):
        problem.solve()
    assert problem.snes.ksp.its > 3


def multigrid(precision):
    """The same with a cycle of levels of degree 2 and 1, the latter by its inverse; eigenvalues by few steps, but not too few."""
    more = {"pc_python_type": "femgpu.PMG", "pc_femgpu_pmg_precision": precision, "pc_femgpu_pmg_esteig_steps": 5}
    iterate("CG", "python", **more, pmg_coarse_pc_gamg_coarse_eq_limit=2)


def assemble():
    """Matrices of two fields, one of them prescribed in part: their rows, places and both sums."""
    dm = femgpu.mesh.box((2, 1), cell="triangle")
    W = MixedSpace({"u": FunctionSpace(dm, "Lagrange", 2, (2,)), "p": FunctionSpace(dm, "Lagrange", 1)})
    (u, p), (v, q) = ufl.split(ufl.TrialFunction(W)), ufl.split(ufl.TestFunction(W))
    for scatter in ("gather", "atomic"):
        PETSc.Options().setValue("femgpu_scatter", scatter)
        femgpu.assemble((inner(u, v) + ufl.div(u) * q) * dx + p * q * ds(1), femgpu.DirichletBC(W.sub("u"), 0.0, 1, component=0))


@dataclass(frozen=True)
class Fault:
    """A residual whose kernel is wrong in one place.

    Attributes:
        case: the name of the case.
        text: what stands in the kernel.
        wrong: what stands there instead.
        report: what oclgrind must say.
    """

    case: str
    text: str
    wrong: str
    report: str


BARRIER, GUARD, MASK = (
    "barrier(CLK_LOCAL_MEM_FENCE);",
    "if (cell >= first + count) return;",
    "clamp(count - past, 0, CELLS)",
)
ADD = "#define atomic_add_scalar(p, x) *(p) += (x)\n"
RACE, OUT_OF_BOUNDS = "data race at local memory", "Invalid read of size 4 at global memory"
UNALIGNED = "not aligned to the pointed type"
FAULTS = {
    "no barrier between directions": Fault("sumfact, pencils", f"{BARRIER}\n  if (g < 3 && h < 2)", "if (g < 3 && h < 2)", RACE),
    "no barrier before the rows of pencils": Fault("sumfact, pencils", f"{BARRIER}\n  if (inside) {{", "if (inside) {", RACE),
    "no barrier before points that are shared": Fault(
        "sumfact, pencils, shared", f"{BARRIER}\n\n  const int turn", "const int turn", RACE
    ),
    "no barrier between planes": Fault("sumfact, planes", f"{BARRIER}\n\n  // tabulate", "\n  // tabulate", RACE),
    "no barrier between slices": Fault("sumfact, slices", f"{BARRIER}\n  if (item < 3)\n", "if (item < 3)\n", RACE),
    "no barrier between products": Fault("gemm", f"{BARRIER}\n\n  // tabulate along", "\n  // tabulate along", RACE),
    "no barrier before the last products": Fault("gemm", f"{BARRIER}\n\n  // integrate along the first", "// integrate", RACE),
    "no barrier before the points": Fault("transposed", f"{BARRIER}\n\n    // evaluation", "// evaluation", RACE),
    "no barrier before the rows": Fault("transposed", f"{BARRIER}\n\n    // integration", "// integration", RACE),
    "no barrier before the tiles": Fault("matrix", f"{BARRIER}\n\n    // integration", "// integration", RACE),
    "no barrier after the tiles": Fault("matrix", f"{BARRIER}\n  }}\n\n  // scatter", "}\n", RACE),
    "no barrier before the cells": Fault("cell, sums", f"{BARRIER}\n  real r_u_e", "real r_u_e", RACE),
    "no barrier before the results": Fault("cell, sums", f"{BARRIER}\n\n  UNROLL", "UNROLL", RACE),
    "no barrier before the sums": Fault("cell, sums", f"{BARRIER}\n\n  // scatter", "// scatter", RACE),
    "no barrier with one point": Fault("transposed, one point", BARRIER, "", RACE),
    "one buffer for all batches": Fault("transposed, one point", "(batch % 2 * CHUNKS + chunk)", "chunk", RACE),
    "no guard": Fault("cell", GUARD, "", OUT_OF_BOUNDS),
    "no guard, CPU": Fault("cell, CPU", "min(begin + lane, last)", "begin + lane", OUT_OF_BOUNDS),
    "no mask": Fault("transposed, batches", MASK, "CELLS", OUT_OF_BOUNDS),
    "tables out of step": Fault("tiled", "(d_tables + TILE_", "(d_tables + 1 + TILE_", UNALIGNED),
    "sum that starts anywhere": Fault("cell", "r_f0_e[i] = 0;", ";", "Uninitialized value written to global memory"),
    "adds that are not atomic": Fault("cell, atomic", "__kernel", ADD + "__kernel", "Write-write data race at global memory"),
}


def compute_wrong(fault):
    """Runs the case of a fault with that in its kernel."""
    render = planner.render

    def render_wrong(*arguments):
        text = render(*arguments)
        assert fault.text in text, f"the kernel does not have {fault.text!r}"
        return text.replace(fault.text, fault.wrong)

    with mock.patch.object(planner, "render", render_wrong):
        case = CASES[fault.case]
        compute(replace(case, targets=case.targets[:1]))


class AccountedRuntime(Runtime):
    """Goes such ways that oclgrind's account of what is written stays right."""

    kept: ClassVar[list] = []

    def empty(self, num_bytes):
        """A buffer that is never released: the account would take it for the one that gets its place."""
        self.kept.append(super().empty(num_bytes))
        return self.kept[-1]

    def build(self, source, name):
        """A program that is never released either: its constants stand among the buffers."""
        self.kept.append(super().build(source, name))
        return self.kept[-1]

    def zero(self, buffer, num_bytes, first=0):
        """From the host: fills do not count as written."""
        self.write(buffer, np.zeros(num_bytes, np.uint8))


METHODS = (("CG", "none"), ("CG", "jacobi"), ("GMRES", "none"), ("BiCGStab", "jacobi"), ("MINRES", "none"))
RUNS = {
    **{name: (compute, case) for name, case in CASES.items()},
    "self-test": (lambda size: self_test(current(), size), 100),
    "problem": (solve,),
    **{" ".join(given): (iterate, *given) for given in METHODS},
    "multigrid": (multigrid, "single"),
    "matrices": (assemble,),
    **{name: (compute_wrong, fault) for name, fault in FAULTS.items()},
}


def main():
    runtime = current()
    assert runtime.device.platform == "Oclgrind", runtime.device
    runtime.__class__ = AccountedRuntime
    runtime.programs.threads = 0  # the simulator ends where two programs are built at once
    for name, (run, *arguments) in ((name, RUNS[name]) for name in sys.argv[1:] or RUNS):
        print(f"== {name}", file=sys.stderr, flush=True)
        launches = runtime.num_launches
        run(*arguments)
        runtime.finish()
        assert runtime.num_launches > launches or run is not compute
    print("== end", file=sys.stderr, flush=True)


if __name__ == "__main__":
    main()
