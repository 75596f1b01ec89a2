"""Operators of whole forms: several terms, sums over E-vectors, prescribed entries, dirty buffers, what is kept at the points."""

from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest
import ufl
from conformance.bounds import Arithmetic, Bounds, diagonal, local_vector
from conformance.guarded import Guarded, poison
from conformance.mutant import OPERATOR
from conformance.plan_count import tried
from conformance.samples import FORMS, LOW, draw, make_problem, make_settings
from conformance.table import MUST, limits_of
from petsc4py import PETSc
from random_meshes import random_cells

from femgpu import FunctionSpace, MixedSpace, options
from femgpu.bench.bakeoff import weak_form
from femgpu.bench.grid import Grid, GridSpace
from femgpu.forms import bilinear_form
from femgpu.kernels.schedules import sumfact_pencils
from femgpu.model.bakeoff import PROBLEMS
from femgpu.operators import FormOperator, splits
from femgpu.operators.planner import STATES
from femgpu.runtime import for_comm

AXES = dict(
    element=[element for element in LOW if element[1] <= 2],
    schedule=("auto", *MUST, "sumfact:pencils=3", "sumfact:planes=3", "sumfact:slices=3"),
    num_comp=(1, 2, 3),
    form=FORMS,
    precision=("double", "single", "mixed"),
    geometry=("stored", "recomputed"),
    scatter=("gather", "atomic"),
    qdata=("store", "recompute", "store"),
    shape=("affine", "distorted", "both"),
    points=("few", "many", "petsc"),
    limits=("device", "blocks"),
    masked=(True, True, False),
    matrix=(False, True, False),
)
NUM_SAMPLES = 12
# Plans of bake-off problems: lines of even and of odd length by their parts, axes in another order; as a GPU has them, where items
# that are neighbours belong to other cells; with lines that items keep, by even and odd parts of lines, and with factors
# stored at the points.
GRIDS = [
    ("bp3", 2, "sumfact:pencils=3"),
    ("bp5", 2, "sumfact:pencils=3"),
    ("bp2", 2, "sumfact:pencils=3", "unrolled"),
    ("bp5", 3, "sumfact:pencils=2", "unrolled"),
    ("bp1", 2, "sumfact:pencils=3", "unrolled", "store"),
    ("bp1", 3, "sumfact:pencils=2", "unrolled", "store"),
    ("bp3", 2, "sumfact:pencils=3", "unrolled", "store"),
    ("bp3", 3, "sumfact:pencils=2", "unrolled", "store"),
    ("bp6", 3, "sumfact:pencils=2", "unrolled", "store"),
    ("bp35", 3, "sumfact:pencils=2", "unrolled"),
    ("bp35", 4, "sumfact:pencils=2", "unrolled", "store"),
    ("bp5", 3, "sumfact:planes=2", "unrolled", "store"),
    ("bp2", 2, "sumfact:planes=3"),
    ("bp3", 2, "sumfact:planes=3"),
    ("bp3 skew", 3, "sumfact:planes=2"),
    ("bp3 skew", 3, "sumfact:slices=2"),
    ("bp5", 2, "sumfact:planes=3"),
    ("bp2", 3, "sumfact:slices=3"),
    ("bp2", 5, "sumfact:pencils=3"),
    ("bp2", 5, "sumfact:pencils=4", "unrolled", "store"),
    ("bp4", 2, "sumfact:planes=4", "unrolled"),
    ("bp4", 2, "sumfact:slices=7", "unrolled"),
    ("bp6", 3, "sumfact:planes=3"),
    ("bp3", 4, "sumfact:slices=3"),
    ("bp5", 3, "sumfact:slices=3"),
    ("bp5", 4, "sumfact:slices=2"),
    ("bp5", 2, "sumfact:slices=8", "unrolled"),
    ("bp2", 2, "gemm:cells=3,items=5,tile=2"),
    ("bp3", 3, "gemm", "unrolled"),
    ("bp4", 2, "gemm:cells=4,items=8,mma=1", "unrolled"),
    ("bp5", 7, "gemm:cells=2,items=16,mma=1", "unrolled"),
    ("bp2", 5, "gemm:cells=1,items=64,mma=1", "unrolled", "store"),
    ("bp3", 7, "gemm:cells=1,items=32,mma=1", "unrolled"),
    ("bp5", 8, "gemm:cells=1,items=96,mma=1", "unrolled"),
    ("bp1", 9, "gemm:cells=1,items=64,mma=1", "unrolled", "store"),
    ("bp4", 2, "sumfact:pencils=2,shared=1"),
    ("bp4", 3, "sumfact:pencils=1,shared=1", "unrolled"),
    ("bp6", 4, "sumfact:pencils=2,shared=1", "unrolled"),
    ("bp4", 4, "sumfact:pencils=1", "unrolled", "store"),
    ("bp6", 5, "sumfact:pencils=3", "unrolled", "store"),
]
# What takes the place of forms with integrals over facets.
WITHOUT_FACETS = {
    "boundary": "all",
    "facets": "stiffness",
    "fields": "gradients",
    "second": "mass",
    "test second": "mass",
    "between": "mass",
}
# What stands in rows that must be left alone: a sum with NaN would not show.
_ALONE = 7.0


@pytest.mark.parametrize("number", range(NUM_SAMPLES))
def test_operators_are_right(seed, rng, number):
    check_operator(draw(np.random.default_rng([seed, 4]), NUM_SAMPLES, **AXES)[number], rng)


def check_operator(sample, rng):
    """All targets of a sample's form, twice in a row with other data; returns the operator."""
    name = sample.schedule.partition(":")[0]
    if name != "auto" and sample.element[0] not in MUST[name].cells:
        # What is asked for by name and refused is an error.
        sample.element = MUST[name].cells[-1], sample.element[1]
    if name != "auto" and not MUST[name].second and "second" in sample.form:
        sample.form = "gradients"
    if sample.schedule == "transposed":
        sample.form = WITHOUT_FACETS.get(sample.form, sample.form)
    print(sample)
    problem = make_problem(sample, rng)
    case = Case(sample, problem, rng)
    for attempt in range(2):
        for target in ("residual", "action", "diagonal"):
            case.check(target)
        if sample.matrix:
            case.check_matrices()
        case.runtime.check_guards(keep=attempt == 0)
        case.change()
    for target, applications in case.operator.applications.items():
        for application in applications:
            tried(application.plan, sample, f"{target} of an operator")
    return case.operator


@pytest.mark.parametrize("masked", [False, True])
@pytest.mark.parametrize("precision", ["double", "single"])
@pytest.mark.parametrize(("element", "sums"), [(("tetrahedron", 1), 3), (("quadrilateral", 2), 40), (("quadrilateral", 2), 1)])
def test_launches_zero_what_they_add_to(element, sums, precision, masked, rng):
    given = dict(schedule=f"cell:sums={sums}", limits="unrolled", scatter="atomic", form="stiffness", num_comp=2)
    sample = SimpleNamespace(**OPERATOR | given | dict(element=element, precision=precision, masked=masked))
    operator = check_operator(sample, rng)
    zeroing = [operator.prepare(target)[0].zeroes for target in ("residual", "action", "diagonal")]
    assert zeroing == [True, not masked, True]


@pytest.mark.parametrize("grid", GRIDS, ids=lambda grid: "-".join(map(str, grid)))
def test_cells_of_a_group_share_nodes(grid, rng):
    given = dict(zip(("name", "degree", "schedule", "limits", "qdata"), grid, strict=False))
    check_grid(SimpleNamespace(**{"limits": "device", "qdata": "recompute"} | given), rng)


def check_grid(sample, rng):
    """The action of a bake-off problem on a bent box; one that is called skew, too, is not isotropic."""
    name, *skew = sample.name.split()
    space = GridSpace(Grid((4, 2, 2)), sample.degree, PROBLEMS[name].num_comp)
    form = weak_form(PROBLEMS[name], space)
    if skew:
        (rule,) = {str(integral.metadata()): integral.metadata() for integral in form.integrals()}.values()
        form += ufl.inner(ufl.TrialFunction(space).dx(0), ufl.TestFunction(space).dx(1)) * ufl.dx(metadata=rule)
    check_action(bilinear_form(form), sample.schedule, sample.limits, rng, sample.qdata)


@pytest.mark.parametrize("qdata", ["store", "recompute"])
@pytest.mark.parametrize("num_comp", [2, 3])
@pytest.mark.parametrize(
    ("schedule", "limits"), [("planes=4", "device"), ("slices=5", "device"), ("pencils=2", "device"), ("pencils=2", "unrolled")]
)
def test_components_that_stand_as_cells(schedule, limits, num_comp, qdata, rng, monkeypatch):
    """Some components of a node prescribed, cells that share nodes, groups that begin and end within a cell's components."""
    monkeypatch.setattr(sumfact_pencils, "_APART_WIDTHS", ((0, 0, 0),) * 2)
    given = dict(element=("hexahedron", 2), form="uncoupled", num_comp=num_comp, schedule=f"sumfact:{schedule}", scatter="atomic")
    given |= dict(qdata=qdata, geometry="recomputed", points="many", limits=limits)
    operator = check_operator(SimpleNamespace(**OPERATOR | given), rng)
    (action,) = operator.applications["action"]
    plan = action.plan
    assert plan.work.parts == num_comp and plan.num_barriers


@pytest.mark.parametrize("precision", ["double", "mixed"])
@pytest.mark.parametrize("qdata", ["store", "recompute"])
@pytest.mark.parametrize(("element", "num_comp"), [(("hexahedron", 2), 3), (("hexahedron", 1), 2), (("quadrilateral", 3), 2)])
@pytest.mark.parametrize("limits", ["device", "unrolled"])
def test_components_that_share_points(limits, element, num_comp, qdata, precision, rng):
    """Components that mix, some of a node's prescribed, in groups of two cells, the last one not full."""
    given = dict(element=element, form="simple", num_comp=num_comp, schedule="sumfact:pencils=2,shared=1", scatter="atomic")
    given |= dict(qdata=qdata, geometry="recomputed", points="many", limits=limits, precision=precision, masked=True)
    operator = check_operator(SimpleNamespace(**OPERATOR | given), rng)
    (action,) = operator.applications["action"]
    assert action.plan.sharers == num_comp and action.plan.items % num_comp == 0


@pytest.mark.parametrize("form", ["all", "fields"])
@pytest.mark.parametrize(("element", "num_comp"), [(("hexahedron", 2), 3), (("quadrilateral", 3), 2), (("hexahedron", 2), 1)])
@pytest.mark.parametrize("limits", ["device", "unrolled"])
def test_components_of_some_fields_share_points(limits, element, num_comp, form, rng):
    """Coefficients of one component and of several, fields of other numbers of components than the test function's."""
    given = dict(element=element, form=form, num_comp=num_comp, schedule="sumfact:pencils=2,shared=1", scatter="atomic")
    given |= dict(qdata="recompute", geometry="recomputed", points="many", limits=limits, masked=True)
    operator = check_operator(SimpleNamespace(**OPERATOR | given), rng)
    assert max(getattr(application.plan, "sharers", 1) for application in operator.applications["action"]) > 1


@pytest.mark.parametrize("schedule", ["tiled", "cell"])
def test_terms_of_one_of_two_fields(schedule, rng):
    """Each term, with a rule of its own, has no rows of the other field."""
    dm = random_cells("tetrahedron", 5, rng, "affine")
    W = MixedSpace({name: FunctionSpace(dm, "Lagrange", 2) for name in "ab"})
    (a, b), (v, q) = ufl.split(ufl.TrialFunction(W)), ufl.split(ufl.TestFunction(W))
    check_action(bilinear_form(a * v * ufl.dx(degree=5) + b * q * ufl.dx(degree=4)), schedule, "unrolled", rng)


@pytest.mark.parametrize("schedule", ["sumfact:planes=2", "sumfact:slices=2", "sumfact:pencils=2", "gemm"])
def test_terms_that_test_one_of_two_fields(schedule, rng):
    """The other one's results are what they were."""
    dm = random_cells("hexahedron", 2, rng, "distorted")
    W = MixedSpace({"a": FunctionSpace(dm, "Lagrange", 2), "b": FunctionSpace(dm, "Lagrange", 3)})
    (a, _), (v, _) = ufl.split(ufl.TrialFunction(W)), ufl.split(ufl.TestFunction(W))
    check_action(bilinear_form(ufl.inner(ufl.grad(a), ufl.grad(v)) * ufl.dx(degree=7)), schedule, "device", rng)


@pytest.mark.parametrize("element", [("hexahedron", 2), ("quadrilateral", 4)])
def test_numbers_that_are_stored_in_physical_coordinates(element, rng, monkeypatch):
    """Pencils find them beside a map that they rebuild."""
    monkeypatch.setattr(splits, "pull_back", lambda *_: None)
    given = dict(schedule="sumfact:pencils=2", limits="unrolled", qdata="store", geometry="recomputed", masked=False)
    check_operator(SimpleNamespace(**OPERATOR | given | dict(element=element, form="all", scatter="atomic")), rng)


@pytest.mark.parametrize("qdata", ["recompute", "store"])
@pytest.mark.parametrize("degrees", [(3,), (3, 1)])
def test_points_that_are_nodes(degrees, qdata, rng):
    """Masses by pencils that keep lines; of two fields one has its nodes there."""
    rule = ufl.dx(degree=2 * max(degrees) - 1, metadata={"quadrature_rule": "GLL"})
    dm = random_cells("hexahedron", 3, rng, "distorted")
    W = MixedSpace({f"u{degree}": FunctionSpace(dm, "Lagrange", degree) for degree in degrees})
    trials, tests = ufl.split(ufl.TrialFunction(W)), ufl.split(ufl.TestFunction(W))
    form = sum(trials[0] * test for test in tests) * rule + trials[-1] * tests[0] * rule
    check_action(bilinear_form(form), "sumfact:pencils=2", "unrolled", rng, qdata)


def check_action(form, schedule, limits, rng, qdata="recompute"):
    """The action of a form, over NaN and then added once more, is that of schedule cell as the device has it."""
    direction, results = rng.uniform(-1, 1, form.space.num_local), []
    plain = for_comm("", PETSc.COMM_SELF.tompi4py())
    for name, kind, stored in (("cell", "device", "recompute"), (schedule, limits, qdata)):
        settings = replace(options.read(), schedule=name, geometry="recomputed", qdata=stored, scatter="atomic")
        operator = FormOperator(form, settings, Guarded(plain, limits_of(plain, kind)))
        operator.update()
        operator.runtime.write(operator.w, direction)
        operator.runtime.write(operator.out, np.full_like(direction, np.nan))
        operator.action()
        # Once more, added to what is there now.
        for launch in operator.bind("action", operator.w, operator.out):
            launch()
        results.append(operator.runtime.read(operator.out, np.empty_like(direction)))
    np.testing.assert_allclose(results[1], results[0], rtol=0, atol=1e-13 * np.abs(results[0]).max())


class Case:
    """An operator in buffers that are poisoned and guarded, and the twin of its results."""

    def __init__(self, sample, problem, rng):
        self.problem, self.rng = problem, rng
        plain = for_comm("", PETSc.COMM_SELF.tompi4py())
        self.runtime = Guarded(plain, limits_of(plain, sample.limits))
        settings = make_settings(
            sample,
            schedule=sample.schedule,
            precision=sample.precision,
            scatter=sample.scatter,
            geometry=sample.geometry,
            qdata=sample.qdata,
        )
        self.arithmetic = Arithmetic(sample.precision, sample.geometry)
        self.space = problem.form.space
        self.prescribed = (rng.random(self.space.num_local) < 0.3).astype(np.uint8) if sample.masked else None
        self.operator = FormOperator(problem.form, settings, self.runtime, self.prescribed)
        self.operator.update()
        self.direction = problem.vectors["w"]

    @property
    def left_alone(self):
        """(num_local,) which entries of results are prescribed."""
        return np.zeros(self.space.num_local, bool) if self.prescribed is None else self.prescribed != 0

    def write(self, target):
        """Gives the operator what a target reads; all else is not a number, the direction also where it is prescribed."""
        vectors, nothing = self.problem.vectors, np.full(self.space.num_local, np.nan)
        direction = np.where(self.left_alone, np.nan, vectors["w"])
        given = {"u": vectors["u"], "base": nothing, "w": nothing}
        if target != "residual":
            given = {"u": nothing, "base": vectors["u"], "w": direction if target == "action" else nothing}
        for name, values in given.items():
            self.runtime.write(getattr(self.operator, name), values.astype(self.operator.scalar))
        self.operator.base_changed()

    def check(self, target):
        """The target alone, and added to something."""
        operator, size = self.operator, self.operator.vector_bytes
        wanted, free = self.expected(target), ~self.left_alone
        self.write(target)
        poison(self.runtime, operator.out, size)
        getattr(operator, target)()
        got = self.read(operator.out)
        assert (got[~free] == 0).all(), "prescribed rows are written"
        assert wanted[free].worst(got[free]) <= 1, (target, wanted[free].worst(got[free]), self.plans(target))
        start = np.where(free, 1.0, _ALONE)
        out = self.runtime.upload(start.astype(operator.scalar))
        if target == "action":
            operator.store()
        for launch in operator.bind(target, operator.u if target == "residual" else operator.w, out):
            launch()
        got = self.read(out)
        assert (got[~free] == _ALONE).all(), "prescribed rows are written"
        # A one that is added to rounds once more for every cell that adds to it, with sums that the one makes larger.
        error = self.arithmetic.both * self.arithmetic.sum_unit * 64 * (1 + np.abs(wanted.value))
        added = replace(wanted, value=wanted.value + 1, error=wanted.error + error)
        assert added[free].worst(got[free]) <= 1, (target, added[free].worst(got[free]), self.plans(target))

    def check_matrices(self):
        self.write("matrix")
        terms = [term for term in self.operator.terms if term.pointwise("matrix")]
        for term, got in zip(terms, self.operator.matrices(), strict=True):
            wanted = self.bounds(term, "matrix").element_matrices(
                term.integral.jacobian, self.problem.vectors, self.problem.constants
            )
            assert wanted.worst(got) <= 1, (wanted.worst(got), self.plans("matrix"))

    def change(self):
        """Other vectors, coefficients and constants; the operator and its buffers stay."""
        form, rng = self.problem.form, self.rng
        for constant in form.constants:
            constant.value = np.asarray(constant.value) * rng.uniform(1.1, 1.5)
        for function in form.coefficients:
            function.vec.setArray(function.vec.getArray(readonly=True) * rng.uniform(1.1, 1.5))
        vectors = {name: rng.uniform(-1, 1, self.space.num_local) for name in "uw"}
        vectors |= {f"a{i}": function.local_array() for i, function in enumerate(form.coefficients)}
        self.problem = replace(self.problem, vectors=vectors, constants=form.constant_values())
        self.operator.update()

    def expected(self, target):
        """The L-vector of a target; a Result."""
        vectors, constants = self.problem.vectors, self.problem.constants
        still = vectors | {"w": np.where(self.left_alone, 0.0, vectors["w"])}
        parts = []
        for term in self.operator.terms:
            pointwise = term.pointwise(target)
            if pointwise is None:
                continue
            if target == "diagonal":
                parts.append((term, diagonal(self.bounds(term, target).element_matrices(pointwise, vectors, constants), term)))
            else:
                parts.append((term, self.rows(target, term, pointwise, still)))
        return local_vector(self.space, parts, self.arithmetic)

    def rows(self, target, term, pointwise, vectors):
        """Rows of cells; of an action the bounds are those of the way that the operator takes."""
        bounds, constants = self.bounds(term, target), self.problem.constants
        if target == "residual":
            return bounds.element_vectors(pointwise, vectors, constants)
        self.operator.prepare("action")
        (split,) = (split for application, split in self.operator.splits.items() if application.term is term)
        states = None if split.state is None else bounds.states(split.state, vectors, constants)
        return bounds.element_vectors(split.action, vectors, constants, states, exact=pointwise)

    def bounds(self, term, target):
        """Those of the arithmetic of the plan that the operator has for a term, and for what is stored for it."""
        stored = self.operator.applications.get(STATES.get(target), [])
        used = [entry for entry in (*self.operator.prepare(target), *stored) if entry.term is term] if target != "matrix" else []
        return Bounds(term, replace(self.arithmetic, lines=any(entry.plan.lines for entry in used)))

    def read(self, buffer):
        return self.runtime.read(buffer, np.empty(self.space.num_local, self.operator.scalar)).astype(np.float64)

    def plans(self, target):
        return [str(application.plan) for application in self.operator.prepare(target)]
