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

from femgpu.forms import Expression, Form, Pointwise
from femgpu.spaces import SubFunction

CELLS = {1: "interval", 2: "triangle", 3: "tetrahedron"}
SHAPES = {
    "f0": lambda n, d: (n,),
    "f1": lambda n, d: (n, d),
    "f2": lambda n, d: (n, d, d),
    "g0": lambda n, d: (n, n),
    "g1": lambda n, d: (n, n, d),
    "g2": lambda n, d: (n, n, d),
    "g3": lambda n, d: (n, n, d, d),
    "g4": lambda n, d: (n, n, d, d),
    "g5": lambda n, d: (n, n, d, d, d),
    "g6": lambda n, d: (n, n, d, d),
    "g7": lambda n, d: (n, n, d, d, d),
    "g8": lambda n, d: (n, n, d, d, d, d),
}
_numbers = itertools.count()


class Space(ufl.FunctionSpace):
    def __init__(self, mesh, degree=1, shape=(), family="Lagrange"):
        super().__init__(mesh, basix.ufl.element(family, mesh.ufl_cell().cellname, degree, shape=shape))


class _MixedElement(basix.ufl._MixedElement):
    """basix calls the pullback of several Lagrange elements the identity; femgpu.MixedSpace tells fields by their pullback."""

    @property
    def pullback(self):
        return ufl.pullback.MixedPullback(self)


class Mixed(ufl.FunctionSpace):
    """Several named fields, each (family, degree, shape)."""

    def __init__(self, mesh, **fields):
        cell = mesh.ufl_cell().cellname
        elements = [basix.ufl.element(family, cell, degree, shape=shape) for family, degree, shape in fields.values()]
        super().__init__(mesh, _MixedElement(elements))
        sizes = [prod(element.reference_value_shape) for element in elements]
        firsts = itertools.accumulate(sizes, initial=0)
        self.fields = tuple(
            SimpleNamespace(name=name, offset=first, num_comp=size)
            for name, first, size in zip(fields, firsts, sizes, strict=False)
        )


class Part(SubFunction):
    """One field of a Function in a Mixed space, as `w.sub(name)` is."""

    field = None
    __str__ = ufl.Coefficient.__str__

    def __init__(self, parent, index):
        space = parent.ufl_function_space()
        ufl.Coefficient.__init__(self, ufl.FunctionSpace(space.ufl_domain(), space.ufl_element().sub_elements[index]))
        self.parent = parent
        self.field = space.fields[index]


def part(function, name):
    """One field of a Function in a Mixed space, as `w.sub(name)` is."""
    return Part(function, [field.name for field in function.ufl_function_space().fields].index(name))


class Function(ufl.Coefficient):
    pass


class Constant(ufl.Constant):
    pass


def make_mesh(dim=2, cell=None):
    return ufl.Mesh(basix.ufl.element("Lagrange", cell or CELLS[dim], 1, shape=(dim,)))


def num_components(form):
    """Components of the unknown, or the values of a functional or expression."""
    if isinstance(form, Expression):
        return form.num_values
    return 1 if form.space is None else prod(form.space.value_shape)


def random_data(form: Form | Expression, dim: int, num_points=7, seed=0):
    """Random inputs of a form, the gradient small enough for det(I + grad u) > 0."""
    rng = np.random.default_rng(seed)
    num_comp = num_components(form)
    num_aux = form.coefficient_offsets[-1]
    data = {
        "u": rng.uniform(0.2, 0.8, (num_points, num_comp)),
        "u_x": rng.uniform(-0.25, 0.25, (num_points, num_comp, dim)),
        "w": rng.normal(size=(num_points, num_comp)),
        "w_x": rng.normal(size=(num_points, num_comp, dim)),
        "a": rng.uniform(0.5, 1.5, (num_points, num_aux)),
        "a_x": rng.normal(size=(num_points, num_aux, dim)),
        "x": rng.uniform(0.1, 0.9, (num_points, dim)),
        "constants": rng.uniform(0.5, 1.5, form.constant_offsets[-1]),
    }
    n = rng.normal(size=(num_points, dim))
    data["n"] = n / np.linalg.norm(n, axis=1, keepdims=True)
    for name, size in (("u", num_comp), ("w", num_comp), ("a", num_aux)):
        hessian = rng.normal(size=(num_points, size, dim, dim))
        data[f"{name}_xx"] = hessian + hessian.transpose(0, 1, 3, 2)
    return data


def compiled(pointwise: Pointwise, form: Form | Expression, dim: int, folder, real="double"):
    """Compiles a body with gcc; the result maps data to outputs as Pointwise.evaluate does."""
    num_comp = num_components(form)
    sizes = {"x": dim, "n": dim, "K": dim * dim, "det": 1, "weight": 1}
    for name, size in (("u", num_comp), ("w", num_comp), ("a", form.coefficient_offsets[-1])):
        sizes |= {f"{name}{suffix}": size * dim**order for order, suffix in enumerate(("", "_x", "_xx"))}
    outputs = {name: SHAPES[name](num_comp, dim) for name in sorted(names(pointwise.writes))}
    path = folder / f"body{next(_numbers)}"
    path.with_suffix(".c").write_text(_source(pointwise.body, sizes, outputs, dim, real))
    flags = ["-std=c99", "-Wall", "-Wextra", "-Werror", "-Wno-unused", "-ffp-contract=off", "-shared", "-fPIC"]
    subprocess.run(["gcc", *flags, "-o", path.with_suffix(".so"), path.with_suffix(".c"), "-lm"], check=True)
    function = ctypes.CDLL(path.with_suffix(".so")).evaluate
    dtype = np.dtype({"double": np.float64, "float": np.float32}[real])

    def call(data):
        num_points = len(data["x"])
        zeros = {name: np.zeros((num_points, size)) for name, size in sizes.items()}
        arrays = [np.ascontiguousarray((zeros | data)[name], dtype) for name in (*sizes, "constants")]
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


def names(entries):
    """The arrays of `reads` or `writes`."""
    return {array for array, _ in entries}


def total(form: Form, kind: str, data, integrals=None):
    """The sum of one operator over a form's integrals, zero-filled: f0 to f2 or g0 to g8."""
    num_points, num_comp, dim = data["u_x"].shape
    result: dict[str, np.ndarray] = {}
    for integral in form.integrals if integrals is None else integrals:
        entry = getattr(integral, kind)
        for name, values in (entry.evaluate(data) if entry else {}).items():
            result[name] = result.get(name, 0) + values
    outputs = [name for name in SHAPES if name.startswith("g" if kind == "jacobian" else "f")]
    return {name: result.get(name, np.zeros((num_points, *SHAPES[name](num_comp, dim)))) for name in outputs}


def times_direction(g, data):
    """The Jacobian blocks times the direction; blocks that are absent are zero."""
    num_points, num_comp, dim = data["w_x"].shape
    result = {name: np.zeros((num_points, *SHAPES[name](num_comp, dim))) for name in ("f0", "f1", "f2")}
    formulas = {
        "g0": ("f0", "pfg,pg->pf", "w"),
        "g1": ("f0", "pfgd,pgd->pf", "w_x"),
        "g2": ("f1", "pfgd,pg->pfd", "w"),
        "g3": ("f1", "pfgde,pge->pfd", "w_x"),
        "g4": ("f0", "pfgde,pgde->pf", "w_xx"),
        "g5": ("f1", "pfgcde,pgde->pfc", "w_xx"),
        "g6": ("f2", "pfgst,pg->pfst", "w"),
        "g7": ("f2", "pfgstd,pgd->pfst", "w_x"),
        "g8": ("f2", "pfgstde,pgde->pfst", "w_xx"),
    }
    for name, block in g.items():
        output, formula, direction = formulas[name]
        result[output] += np.einsum(formula, block, data[direction])
    return result
