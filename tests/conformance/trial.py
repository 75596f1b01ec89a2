"""One plan on some entries of a term: buffers for all of its arguments, launches over ranges of cells, and what must be in them."""

from dataclasses import dataclass, field

import numpy as np
from conformance.bounds import Arithmetic, Bounds, diagonal, local_vector
from conformance.guarded import POISON

from femgpu.forms import pull_back, split_states
from femgpu.operators.application import Application
from femgpu.operators.arrays import CellArrays
from femgpu.operators.modes import modal_transform
from femgpu.operators.splits import on_cells
from femgpu.operators.sums import segment_cells
from femgpu.operators.work import make_work

_NUMPY = {"double": np.float64, "float": np.float32}


@dataclass(frozen=True)
class Task:
    """A pointwise function of a term, and what a kernel of it must write.

    Attributes:
        target: as `Work` has it.
        term: the term, of few cells.
        pointwise: the pointwise function.
        vectors: L-vectors by name.
        constants: values of the constants.
        expected: Result (num_cells, words) of each array over cells that is written, by role; of those that are summed under
            ("rows",) the rows of all fields.
        prescribed: (num_local,) uint8, prescribed entries of the L-vectors of the test space; None: none.
        stored: (num_cells, words) by role, what is stored at points and in cells, where the function reads such.
        source: as `Work` has it.
        rounded: as `Work` has it.
        shift: as `Work` has it.
        modes: as `make_work` has it.
    """

    target: str
    term: object
    pointwise: object
    vectors: dict
    constants: np.ndarray
    expected: dict
    prescribed: np.ndarray | None = None
    stored: dict = field(default_factory=dict)
    source: str = "lvector"
    rounded: bool = False
    shift: int = 0
    modes: bool = False


def make_task(kind, term, problem, arithmetic, prescribed=None, source="lvector", shift=0, modes=False):
    """The task of one target.

    Args:
        kind: "residual", "action", "diagonal", "matrix", "functional"; "pulled", the action in reference coordinates where
            there is one.
        term: the term.
        problem: form and data.
        arithmetic: the kernel's.
        prescribed: entries that are prescribed, see `Task`; the direction is zero there.
        source: as `Work` has it.
        shift: of a diagonal, as `Work` has it.
        modes: as `make_work` has it, of actions.
    """
    bounds, integral = Bounds(term, arithmetic), term.integral
    vectors = zeroed(problem.vectors, prescribed)
    if kind == "functional":
        expected = {("out",): bounds.cell_values(integral.functional, vectors, problem.constants).reshape(term.num_cells, 1)}
        return Task(kind, term, integral.functional, problem.vectors, problem.constants, expected, prescribed, source=source)
    if kind in ("diagonal", "matrix"):
        matrices = bounds.element_matrices(integral.jacobian, vectors, problem.constants)
        given = kind, term, integral.jacobian, problem.vectors, problem.constants
        if kind == "matrix":
            return Task(*given, {("out",): matrices.reshape(term.num_cells, -1)}, source=source)
        return Task(*given, {("rows",): diagonal(matrices, term, shift)}, prescribed, source=source, shift=shift)
    target = "residual" if kind == "residual" else "action"
    exact = getattr(integral, target)
    pulled = pull_back(exact, term.dim, term.affine) if kind == "pulled" and term.other is None else None
    pointwise = exact if pulled is None else pulled
    if modes:
        bounds = Bounds(term, arithmetic, transform_of(term, pointwise, make_work(term, target, pointwise, modes=True)))
    rows = bounds.element_vectors(pointwise, vectors, problem.constants, exact=None if pulled is None else exact)
    given = problem.vectors, problem.constants, {("rows",): rows}, prescribed
    return Task(target, term, pointwise, *given, source=source, modes=modes)


def transform_of(term, pointwise, work):
    """What makes coefficients of values at the points."""
    assert work.modes >= 0, "this work takes points"
    element = term.elements(term.fields(pointwise))[work.fields[0].table][1]
    return modal_transform(term.quadrature, work, element.tabulate(term.quadrature.points)[0])


def stored_tasks(pulled, term, problem, arithmetic, price, prescribed=None):
    """The task that stores what an action reads, and that action, which still lacks it; none where nothing is stored.

    Args:
        pulled: whether the action is in reference coordinates.
        term: the term.
        problem: form and data.
        arithmetic: the kernels'.
        price: of a stored number, by which the action is cut.
        prescribed: entries that are prescribed.
    """
    exact, count = term.integral.action, term.num_cells
    action = pull_back(exact, term.dim, term.affine) if pulled and term.other is None else exact
    if action is None:
        return None
    (split,) = split_states(action, (price,), lambda _: 20.0, num_qpts=term.quadrature.num_qpts, on_cells=on_cells(term))
    if split.state is None:
        return None
    bounds = Bounds(term, arithmetic)
    states = bounds.states(split.state, problem.vectors, problem.constants)
    roles = {"s": ("state",), "c": ("cell_state",)}
    results = {roles[name]: result.reshape(count, -1) for name, result in bounds.state_results(states).items()}
    vectors = zeroed(problem.vectors, prescribed)
    rows = bounds.element_vectors(split.action, vectors, problem.constants, states, exact)
    given = problem.vectors, problem.constants
    return (
        Task("state", term, split.state, *given, results, rounded=arithmetic.rounded),
        Task("action", term, split.action, *given, {("rows",): rows}, prescribed, rounded=arithmetic.rounded),
    )


def zeroed(vectors, prescribed):
    """The vectors with a direction that is zero where it is prescribed."""
    if prescribed is None or "w" not in vectors:
        return vectors
    return vectors | {"w": np.where(prescribed, 0.0, vectors["w"])}


class Trial:
    """A task by one plan.

    Args:
        runtime: with guarded buffers.
        task: the task.
        plan: how.
        entries: (count,) which of the task's cells, in any order and any number of times.

    Attributes:
        term: the term of these cells.
    """

    def __init__(self, runtime, task, plan, entries):
        self.runtime, self.task, self.plan = runtime, task, plan
        self.entries = np.asarray(entries, np.int32)
        self.term = task.term.part(self.entries)
        self.arrays = {array.role: array for step in plan.steps() for array in step.arrays}
        self._cells = CellArrays(runtime, task.prescribed)
        self._before, self._buffers = {}, {}
        for role, array in self.arrays.items():
            contents = self._contents(role, array)
            if contents is not None:
                self._buffers[role] = runtime.upload(contents)
                if array.written:
                    self._before[role] = contents

    def launch(self, first=0, count=None):
        """Launches the plan over a range of the cells; returns how many kernels ran."""
        self._first = first
        for role, contents in self._before.items():
            if self.arrays[role].chunk:
                self.runtime.write(self._buffers[role], contents)
        given, before = self.application(first, count), self.runtime.num_launches
        self._last = given
        given()
        return self.runtime.num_launches - before

    def application(self, first=0, count=None):
        """The plan's launches over a range of the cells."""
        return Application(self.term, self.plan, self.task.pointwise, self._buffers, self._cells, first, count)

    def check(self, begin=0, end=None):
        """Asserts that the cells of a range are done, that all else is as it was, and that every guard word is in place."""
        done = np.arange(len(self.entries))[begin:end]
        for role in self._before:
            got = self.runtime.read(self._buffers[role], np.empty_like(self._before[role]))
            if role in self._grouped:
                continue
            if self.arrays[role].layout is None:
                self._check_vector(got, self._before[role], done)
            else:
                self._check_cells(role, got, done)
        if self._grouped:
            self._check_groups(done[done >= self._first])
        self.runtime.check_guards()

    def results(self):
        """The arrays over cells that are written, (count, words) by role."""
        return {
            role: self.arrays[role].layout.unpack(self.runtime.read(self._buffers[role], np.empty_like(before)), *self._shape(role))
            for role, before in self._before.items()
        }

    @property
    def _grouped(self):
        """Roles of the sums of work-groups that are not added to a vector."""
        return [role for role, array in self.arrays.items() if role[0] == "out" and len(role) == 2 and array.layout is None]

    def _room(self, role):
        """Numbers that an E-vector has for these."""
        return segment_cells(self.term, self.plan.layout.block) * self.plan.work.rows[role[1]].size

    def _shape(self, role):
        return len(self.entries), self.arrays[role].words

    def _contents(self, role, array):
        """What the buffer of a role holds before the first launch; None for those that are made by their role."""
        kind, task, count = role[0], self.task, len(self.entries)
        if kind == "vector":
            vector = task.vectors[role[1]]
            if role[1] == "w" and task.prescribed is not None:
                vector = np.where(task.prescribed, np.nan, vector)
            return vector.astype(self._dtype(array))
        if kind == "entries":
            data = next(data for data in self.term.fields(task.pointwise) if data.name == role[1])
            dofs = self.term.offsets(data.field)[:, :, None] + np.arange(data.field.num_comp)
            values = task.vectors[data.vector][dofs].reshape(count, array.words)
            return array.layout.pack(values, self._lattice(data.field)).astype(self._dtype(array))
        if kind == "constants":
            return np.concatenate([task.constants, np.full(1, np.nan)]).astype(self._dtype(array))
        if role == ("out",) and array.layout is None:
            alone = np.zeros(len(task.vectors["u"])) if task.prescribed is None else task.prescribed
            # A sum with NaN would not show.
            return (7.0 * alone).astype(self._dtype(array))
        if array.written and kind not in ("work", "dots", "zeros"):
            size = self._room(role) if role in self._grouped else array.layout.size(*self._shape(role))
            return np.full(size * np.dtype(self._dtype(array)).itemsize, POISON, np.uint8).view(self._dtype(array))
        if kind in ("state", "cell_state"):
            return array.layout.pack(task.stored[role][self.entries]).astype(self._dtype(array))
        return None

    def _dtype(self, array):
        return _NUMPY[self.plan.ctype(array.ctype)]

    def _check_vector(self, got, before, done):
        """Sums over the cells; prescribed entries are left alone."""
        task = self.task
        free = before == 0
        assert (got[~free] == before[~free]).all(), "prescribed rows are written"
        rows = task.expected["rows",][self.entries[done]]
        wanted = local_vector(self.term.form.space, [(task.term.part(self.entries[done]), rows)], self.arithmetic)
        _assert_near(wanted[free], got[free], self.plan)

    def _check_groups(self, done):
        """Sums of the last launch's work-groups, a number for each of their nodes; behind them nothing is written."""
        vector = np.zeros(len(self.task.vectors["u"]))
        for role in self._grouped:
            got = self.runtime.read(self._buffers[role], np.empty_like(self._before[role]))
            nodes, comps = self._last.listed_nodes(role[1]), self.plan.work.rows[role[1]].num_comp
            sums, rest = got[: len(nodes) * comps].reshape(-1, comps), got[len(nodes) * comps :]
            np.add.at(vector, nodes[nodes >= 0][:, None] + np.arange(comps), sums[nodes >= 0])
            assert (rest.view(np.uint8) == POISON).all(), f"{role}: numbers behind the last group's are written by {self.plan}"
        before = np.zeros(len(vector)) if self.task.prescribed is None else self.task.prescribed.astype(float)
        self._check_vector(np.where(before == 0, vector, before), before, done)

    def _check_cells(self, role, got, done):
        """Words of cells; all other words are left alone. Arrays with room for a launch hold the cells of the last one."""
        first = self._first if self.arrays[role].chunk else 0
        done = done[done >= first]
        places = self.arrays[role].layout.positions(*self._shape(role))[done - first]
        _assert_near(self._wanted(role)[self.entries[done]], got[places].astype(np.float64), self.plan)
        rest = np.delete(got, places.ravel())
        assert (rest.view(np.uint8) == POISON).all(), f"{role}: words of other cells are written by {self.plan}"

    def _wanted(self, role):
        expected = self.task.expected
        if role in expected:
            return expected[role]
        row = self.plan.work.rows[role[1]]
        columns = np.arange(row.first_row, row.first_row + row.size).reshape(row.num_basis, row.num_comp)
        lattice = self._lattice(self.term.rows[role[1]]) if self.arrays[role].layout.lattice else None
        return expected["rows",][:, (columns if lattice is None else columns[lattice]).ravel()]

    def _lattice(self, field):
        """The number of the node at each place of the tensor product; None on other cells."""
        product = self.term.element(field).product
        return None if product is None else product[1]

    @property
    def arithmetic(self):
        return Arithmetic(self.plan.precision, self.plan.geometry, self.plan.lines)


def _assert_near(wanted, got, plan):
    worst = wanted.worst(got)
    assert worst <= 1, f"an entry is wrong by {worst} times its bound by {plan}"
