"""Stand-ins for femgpu.spaces, random data, and compiled bodies, for the tests of femgpu.forms."""

from __future__ import annotations

import ctypes
import itertools
import subprocess
from math import prod
from types import SimpleNamespace

import basix.ufl
import numpy as np
import ufl

from femgpu.forms import Form, Pointwise

CELLS = {1: "interval", 2: "triangle", 3: "tetrahedron"}
SHAPES = {
    "f0": lambda n, d: (n,),
    "f1": lambda n, d: (n, d),
    "g0": lambda n, d: (n, n),
    "g1": lambda n, d: (n, n, d),
    "g2": lambda n, d: (n, n, d),
    "g3": lambda n, d: (n, n, d, d),
}
_numbers = itertools.count()


class Space(ufl.FunctionSpace):
    def __init__(self, mesh, degree=1, shape=(), family="Lagrange"):
        super().__init__(mesh, basix.ufl.element(family, mesh.ufl_cell().cellname, degree, shape=shape))
        self.element = SimpleNamespace(degree=degree)
        self.num_comp = prod(shape)


class Function(ufl.Coefficient):
    pass


class Constant(ufl.Constant):
    pass


def make_mesh(dim=2, cell=None):
    return ufl.Mesh(basix.ufl.element("Lagrange", cell or CELLS[dim], 1, shape=(dim,)))


def random_data(form: Form, dim: int, num_points=7, seed=0):
    """Random inputs of a form, the gradient small enough for det(I + grad u) > 0."""
    rng = np.random.default_rng(seed)
    num_comp = 1 if form.space is None else prod(form.space.value_shape)
    num_aux = form.coefficient_offsets[-1]
    return {
        "u": rng.uniform(0.2, 0.8, (num_points, num_comp)),
        "u_x": rng.uniform(-0.25, 0.25, (num_points, num_comp, dim)),
        "w": rng.normal(size=(num_points, num_comp)),
        "w_x": rng.normal(size=(num_points, num_comp, dim)),
        "a": rng.uniform(0.5, 1.5, (num_points, num_aux)),
        "a_x": rng.normal(size=(num_points, num_aux, dim)),
        "x": rng.uniform(0.1, 0.9, (num_points, dim)),
        "constants": rng.uniform(0.5, 1.5, form.constant_offsets[-1]),
    }


def compiled(pointwise: Pointwise, form: Form, dim: int, folder, real="double"):
    """Compiles a body with gcc; the result maps data to outputs as Pointwise.evaluate does."""
    num_comp = 1 if form.space is None else prod(form.space.value_shape)
    sizes = {
        "u": num_comp, "u_x": num_comp * dim, "w": num_comp, "w_x": num_comp * dim, "x": dim,
        "a": form.coefficient_offsets[-1], "a_x": form.coefficient_offsets[-1] * dim,
    }  # fmt: skip
    outputs = {name: SHAPES[name](num_comp, dim) for name in pointwise.writes}
    path = folder / f"body{next(_numbers)}"
    path.with_suffix(".c").write_text(_source(pointwise.body, sizes, outputs, dim, real))
    flags = ["-std=c99", "-Wall", "-Wextra", "-Werror", "-Wno-unused", "-ffp-contract=off", "-shared", "-fPIC"]
    subprocess.run(["gcc", *flags, "-o", path.with_suffix(".so"), path.with_suffix(".c"), "-lm"], check=True)
    function = ctypes.CDLL(path.with_suffix(".so")).evaluate
    dtype = np.dtype({"double": np.float64, "float": np.float32}[real])

    def call(data):
        num_points = len(data["x"])
        arrays = [np.ascontiguousarray(data[name], dtype) for name in (*sizes, "constants")]
        results = {name: np.full((num_points, *shape), np.nan, dtype) for name, shape in outputs.items()}
        pointers = [array.ctypes.data_as(ctypes.c_void_p) for array in (*arrays, *results.values())]
        function(ctypes.c_int(num_points), *pointers)
        return results

    return call


def _source(body, sizes, outputs, dim, real):
    arguments = [f"const real *p_{name}" for name in sizes] + ["const real *constants"]
    arguments += [f"real *p_{name}" for name in outputs]
    lines = [f"#include <math.h>\ntypedef {real} real;\n#define R(x) ((real)(x))"]
    lines.append(f"void evaluate(int n, {', '.join(arguments)}) {{\nconst int dim = {dim};\nfor (int p = 0; p < n; ++p) {{")
    lines += [f"const real *{name} = p_{name} + p*{size};" for name, size in sizes.items()]
    for name, shape in outputs.items():
        size = prod(shape)
        lines.append(f"real *{name} = p_{name} + p*{size};\nfor (int i = 0; i < {size}; ++i) {name}[i] = 0;")
    return "\n".join([*lines, "{", body, "}", "}\n}\n"])


def total(form: Form, kind: str, data):
    """The sum of one operator over a form's integrals, zero-filled: f0, f1 or g0 to g3."""
    num_points, num_comp, dim = data["u_x"].shape
    result: dict[str, np.ndarray] = {}
    for integral in form.integrals:
        entry = getattr(integral, kind)
        for name, values in (entry.evaluate(data) if entry else {}).items():
            result[name] = result.get(name, 0) + values
    names = ("g0", "g1", "g2", "g3") if kind == "jacobian" else ("f0", "f1")
    return {name: result.get(name, np.zeros((num_points, *SHAPES[name](num_comp, dim)))) for name in names}


def times_direction(g, data):
    """The Jacobian blocks times the direction."""
    w, w_x = data["w"], data["w_x"]
    f0 = np.einsum("pfg,pg->pf", g["g0"], w) + np.einsum("pfgd,pgd->pf", g["g1"], w_x)
    f1 = np.einsum("pfgd,pg->pfd", g["g2"], w) + np.einsum("pfgde,pge->pfd", g["g3"], w_x)
    return {"f0": f0, "f1": f1}
