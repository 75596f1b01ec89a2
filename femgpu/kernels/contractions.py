"""Sum factorisation as a list of steps: each contracts one direction of a tensor product with a 1D matrix.

A field's coefficients become its values and derivatives at the points direction by direction, the last first; what shares its first
steps is computed once. Where the points determine the 1D polynomials (q1d >= p1d) values can be interpolated first and then
differentiated at the points (`collocates`): 6 contractions in place of 9 for a gradient in 3D. The rows of a test function take
the same steps the other way.

Numbers of a field at the points stand in slots of q1d^dim: num_comp values, then num_comp x dim first and num_comp x dim x dim
second derivatives; of the latter those along k <= l only.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass, replace

Order = tuple[int, ...]


@dataclass(frozen=True)
class Sizes:
    """A field on the lattice.

    Attributes:
        dim: directions.
        p1d: basis functions per direction.
        q1d: points per direction.
        num_comp: components.
        table: number of the tabulation.
        collocated: whether the points are the nodes, so that coefficients are values.
        squared: of a diagonal, whose 1D matrices are products of values and derivatives (phi^2, phi phi', phi'^2), the orders that
            occur of both together, which have slots without gaps; else empty.
    """

    dim: int
    p1d: int
    q1d: int
    num_comp: int
    table: int
    collocated: bool
    squared: tuple[Order, ...] = ()

    def slot(self, order: Order, comp: int) -> int:
        """The slot of a derivative of a component."""
        if self.squared:
            return self.squared.index(order) * self.num_comp + comp
        axes = [axis for axis, times in enumerate(order) for _ in range(times)]
        first = (0, self.num_comp, self.num_comp * (1 + self.dim))[len(axes)]
        return first + comp * self.dim ** len(axes) + sum(axis * self.dim**i for i, axis in enumerate(reversed(axes)))

    def words(self, orders: Collection[Order]) -> int:
        """Numbers at the points: room for all slots up to the highest derivatives."""
        if self.squared:
            return self.num_comp * len(self.squared) * self.q1d**self.dim
        most = max(map(sum, orders), default=0)
        return self.num_comp * sum(self.dim**i for i in range(most + 1)) * self.q1d**self.dim


@dataclass(frozen=True)
class Contraction:
    """target[a, r, b] (+)= sum_c matrix[r, c] source[a, c, b].

    Attributes:
        matrix: macro of the 1D matrix.
        rows: outputs per line.
        columns: inputs per line.
        row_step: between rows in the matrix.
        column_step: between columns in the matrix.
        above: lines are counted by a ...
        below: ... and b.
        source: where the inputs begin: an array's name and a position.
        target: where the outputs begin.
        adds: whether outputs are added to what is there.
    """

    matrix: str
    rows: int
    columns: int
    row_step: int
    column_step: int
    above: int
    below: int
    source: tuple[str, int]
    target: tuple[str, int]
    adds: bool = False

    @property
    def flops(self) -> int:
        """Operations for one cell."""
        return 2 * self.rows * self.columns * self.above * self.below

    @property
    def transposed(self) -> Contraction:
        """The same with the matrix transposed, from the target to the source."""
        return replace(
            self,
            rows=self.columns,
            columns=self.rows,
            row_step=self.column_step,
            column_step=self.row_step,
            source=self.target,
            target=self.source,
        )


def evaluation(sizes: Sizes, orders: Collection[Order], collocates: bool, abreast: bool = False) -> list[Contraction]:
    """From coefficients ("c") through scratch arrays ("1", "2") to the points ("q"), all components.

    Args:
        sizes: the field.
        orders: which derivatives: how often along each direction.
        collocates: whether derivatives are those of the polynomial through the values at the points.
        abreast: components take each step together, each with scratch of its own, in place of one after the other.
    """
    walk = _collocated if collocates else _direct
    found = [list(walk(sizes, comp, set(orders))) for comp in range(sizes.num_comp)] if orders else []
    if not abreast:
        return [step for steps in found for step in steps]
    return [_apart(sizes, step, comp) for steps in zip(*found, strict=True) for comp, step in enumerate(steps)]


def integration(sizes: Sizes, orders: Collection[Order], collocates: bool, abreast: bool = False) -> list[Contraction]:
    """The transpose: from what multiplies values and derivatives at the points to the rows of the test function."""
    steps, written = [], {("q", _start(sizes, order, comp)) for order in orders for comp in range(sizes.num_comp)}
    for step in reversed(evaluation(sizes, orders, collocates, abreast)):
        back = step.transposed
        steps.append(replace(back, adds=back.target in written))
        # A scratch array that has been read is begun anew.
        written = (written - {back.source}) | {back.target}
    return steps


def collocates(sizes: Sizes, orders: Collection[Order]) -> bool:
    """Whether to differentiate at the points takes fewer operations, where it is possible (q1d >= p1d)."""
    flops = [sum(step.flops for step in evaluation(sizes, orders, at_points)) for at_points in (False, True)]
    return sizes.collocated or flops[1] < flops[0]


def phases(steps: Iterable[Contraction]) -> list[list[Contraction]]:
    """Steps that may be taken together, between barriers: none reads or writes what another one writes."""
    found: list[list[Contraction]] = [[]]
    read: set[tuple[str, int]] = set()
    written: set[tuple[str, int]] = set()
    for step in steps:
        if step.target in read | written or step.source in written:
            found.append([])
            read, written = set(), set()
        found[-1].append(step)
        read.add(step.source)
        written.add(step.target)
    return [phase for phase in found if phase]


def _apart(sizes: Sizes, step: Contraction, comp: int) -> Contraction:
    """The step with scratch of its component's own."""
    size = comp * max(sizes.p1d, sizes.q1d) ** sizes.dim
    ends = [end if end[0] in "cq" else (end[0], size) for end in (step.source, step.target)]
    return replace(step, source=ends[0], target=ends[1])


def _start(sizes: Sizes, order: Order, comp: int) -> int:
    return sizes.slot(order, comp) * sizes.q1d**sizes.dim


def _along(sizes: Sizes, axis: int, times: int) -> Contraction:
    """Coefficients along a direction to values or derivatives at the points; directions after it are at the points already."""
    p1d, q1d = sizes.p1d, sizes.q1d
    letters = ("BB", "BD", "DD") if sizes.squared else ("B", "D", "H")
    matrix, nowhere = f"LINE_{letters[times]}{sizes.table}", ("", 0)
    return Contraction(matrix, q1d, p1d, p1d, 1, q1d ** (sizes.dim - 1 - axis), p1d**axis, nowhere, nowhere)


def _direct(sizes: Sizes, comp: int, orders: set[Order]) -> Iterator[Contraction]:
    """A tree: its branches differ in the derivatives along one direction, its leaves are the slots."""

    def branches(axis: int, source: tuple[str, int], chosen: set[Order]) -> Iterator[Contraction]:
        for times in sorted({order[axis] for order in chosen}):
            branch = {order for order in chosen if order[axis] == times}
            target = (str(axis), 0) if axis else ("q", _start(sizes, next(iter(branch)), comp))
            yield replace(_along(sizes, axis, times), source=source, target=target)
            if axis:
                yield from branches(axis - 1, target, branch)

    yield from branches(sizes.dim - 1, ("c", comp * sizes.p1d**sizes.dim), orders)


def _collocated(sizes: Sizes, comp: int, orders: set[Order]) -> Iterator[Contraction]:
    """Values, then each derivative from one of lower order, by the square matrix of derivatives at the points."""
    dim, q1d, zero = sizes.dim, sizes.q1d, (0,) * sizes.dim
    if not sizes.collocated:
        yield from _direct(sizes, comp, {zero})
    known = {zero}
    for order in sorted(orders, key=lambda order: (sum(order), order)):
        while order not in known:
            # The next derivative on the way there, along the last direction that it still lacks.
            lower, axis = _step_before(order, known)
            upper = tuple(times + (i == axis) for i, times in enumerate(lower))
            source, target = (("q", _start(sizes, entry, comp)) for entry in (lower, upper))
            yield Contraction("LINE_D", q1d, q1d, q1d, 1, q1d ** (dim - 1 - axis), q1d**axis, source, target)
            known.add(upper)


def _step_before(order: Order, known: set[Order]) -> tuple[Order, int]:
    """The known derivative that an order begins with, and the direction of the next one."""
    lower = max((entry for entry in known if all(a <= b for a, b in zip(entry, order, strict=True))), key=sum)
    return lower, next(axis for axis, (a, b) in enumerate(zip(lower, order, strict=True)) if a < b)
