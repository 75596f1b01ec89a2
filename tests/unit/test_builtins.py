"""The declarations of OpenCL C's functions that PoCL gets in place of its own header."""

import re
from pathlib import Path

import numpy as np
import pytest
import ufl
from ufl import ds, dx, grad, inner

import femgpu
from femgpu import runtime
from femgpu.runtime import program

_HEADER = Path("/usr/share/pocl/include/opencl-c.h")
pytestmark = pytest.mark.skipif(not runtime.current().device.caches_programs, reason="not PoCL")


def run(text, calls):
    chosen = runtime.current()
    y = chosen.upload(np.full(4, np.nan))
    runtime.Kernel(chosen, text, calls, [y], 4, 4)()
    return chosen.read(y, np.empty(4))


def test_they_agree_with_pocls():
    """Both in one program, where a function must not differ in its result alone."""
    fill = "__kernel void fill(__global double *y) { y[get_global_id(0)] = exp10(2.0) + max(3, 4); }"
    context = runtime.current().context
    both = program.cl._cl._Program(context, program._builtins() + fill)
    both._build(" ".join(program.OPTIONS).encode())


@pytest.mark.skipif(not _HEADER.exists(), reason="PoCL's header is elsewhere")
@pytest.mark.parametrize("kind", ["float", "double"])
def test_no_function_of_real_numbers_is_missing(kind):
    declared = re.findall(
        rf"^{kind} __ovld __cnfn (\w+)\({kind}(?: \w+)?(?:, {kind}(?: \w+)?)*\);", _HEADER.read_text(), re.MULTILINE
    )
    ours = set(re.findall(r"\w+", program._BUILTINS.read_text()))
    assert len(declared) > 70
    # A body that calls these gets PoCL's header.
    assert {name for name in declared if name not in ours and not name.startswith(("half_", "fast_", "convert_"))} == set()


def test_bodies_may_call_what_is_not_declared(capfd):
    text = "__kernel void fill(__global double *y) { y[get_global_id(0)] = fmax((double2)(1, 2), (double2)(3, 4)).y; }"
    np.testing.assert_array_equal(run(text, "fill"), 4.0)
    with pytest.raises(femgpu.errors.BuildError, match="nothing_like_it"):
        run("__kernel void fill(__global double *y) { y[0] = nothing_like_it(1.0); }", "fill")


def test_femgpus_own_kernels_call_nothing_else(monkeypatch):
    def fail(*arguments):
        raise AssertionError(f"program {arguments[3]} took PoCL's header")

    monkeypatch.setattr(program, "_compile_here", fail)
    V = femgpu.FunctionSpace(femgpu.mesh.box((2, 2, 2), cell="hexahedron"), "Lagrange", 2)
    u, v, x = femgpu.Function(V), ufl.TestFunction(V), femgpu.coordinates(V.dm)[0]
    F = inner((1 + abs(u) ** 1.5) * grad(u), grad(v)) * dx + ufl.atan2(u - 1, x + 2) * ufl.bessel_J(1, x) * v * ds - v * dx
    options = {"ksp_type": "python", "ksp_python_type": "femgpu.CG", "pc_type": "jacobi"}
    femgpu.NonlinearProblem(F, u, femgpu.DirichletBC(V, 0.0), petsc_options=options).solve()
    assert femgpu.norm(u) > 0
